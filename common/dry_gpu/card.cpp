#include "common/dry_gpu/card.h"

#include <algorithm>
#include <cctype>
#include <stdexcept>

namespace tenfold::dry {
namespace {

/// A card whose chip stands in the table of ceilings.
Card of_ceilings(const std::string& ceilings, Card card) {
  const simt::GpuCeilings& gpu = simt::gpu_named(ceilings);
  card.major = gpu.capability[0] - '0';
  card.minor = gpu.capability[2] - '0';
  card.sms = gpu.sms;
  card.most_threads = gpu.most_threads;
  card.most_blocks = gpu.most_blocks;
  card.shared_bytes = gpu.shared_bytes;
  card.l2_bytes = gpu.l2_bytes;
  card.clock_khz = static_cast<int>(gpu.clock_hz / 1e3);
  return card;
}

constexpr int64_t kMiB = int64_t{1} << 20;

}  // namespace

const std::vector<Card>& cards() {
  // Memory is what cards told their owners, which differs by some MiB with the driver's version and its error
  // correction. Clocks are the highest that nvidia-smi -q says (Max Clocks, SM and Memory); twice the memory's times
  // its bus is the bandwidth of the card's data sheet. Never destroyed: programs give memory back while their globals
  // go.
  static const auto& all = *new std::vector<Card>{
      // NVIDIA's deviceQuery, CUDA 11.2: "15110 MBytes (15843721216 bytes)", bus of 256 bits, 3 copy engines.
      of_ceilings("T4", {.key = "T4",
                         .name = "Tesla T4",
                         .memory_bytes = 15'843'721'216,
                         .bus_bits = 256,
                         .memory_clock_khz = 5'001'000,
                         .copy_engines = 3}),
      // torch.cuda.get_device_properties: 25393692672 bytes, 8.9. "NVIDIA Ada GPU Architecture" whitepaper: 128 SMs, L2
      // of
      // 72 MB, 384 bits; threads, blocks and shared memory: "CUDA C++ Programming Guide", 8.9.
      {.key = "RTX-4090",
       .name = "NVIDIA GeForce RTX 4090",
       .major = 8,
       .minor = 9,
       .sms = 128,
       .most_threads = 1536,
       .most_blocks = 24,
       .shared_bytes = 100 << 10,
       .l2_bytes = 72 << 20,
       .memory_bytes = 25'393'692'672,
       .bus_bits = 384,
       .clock_khz = 2'520'000,
       .memory_clock_khz = 10'501'000,
       .copy_engines = 2},
      // deviceQuery, driver 12.2 (github.com/bottlerocket-os/bottlerocket, pull request 3873): 42298834944 bytes, 3
      // engines.
      of_ceilings("A100", {.key = "A100-40",
                           .name = "NVIDIA A100-SXM4-40GB",
                           .memory_bytes = 42'298'834'944,
                           .bus_bits = 5120,
                           .memory_clock_khz = 1'215'000,
                           .copy_engines = 3}),
      // deviceQuery, driver 12.5: "81158 MBytes (85100068864 bytes)"; another one, driver 12.2, said 84987740160.
      of_ceilings("A100", {.key = "A100",
                           .name = "NVIDIA A100-SXM4-80GB",
                           .memory_bytes = 85'100'068'864,
                           .bus_bits = 5120,
                           .memory_clock_khz = 1'593'000,
                           .copy_engines = 3}),
      // torch.cuda.get_device_properties, torch 2.7: total_memory=81089MB; "NVIDIA H100" whitepaper: 5120 bits.
      of_ceilings("H100", {.key = "H100",
                           .name = "NVIDIA H100 80GB HBM3",
                           .memory_bytes = 81'089 * kMiB,
                           .bus_bits = 5120,
                           .memory_clock_khz = 2'619'000,
                           .copy_engines = 3}),
      // torch.cuda.get_device_properties: total_memory=143156MB.
      of_ceilings("H200", {.key = "H200",
                           .name = "NVIDIA H200",
                           .memory_bytes = 143'156 * kMiB,
                           .bus_bits = 6144,
                           .memory_clock_khz = 3'201'000,
                           .copy_engines = 3}),
      // github.com/pytorch/ao, pull request 4002: 178.35 GB, 7680 bits, L2 126.50 MB, 148 SMs, 228 KB an SM.
      {.key = "B200",
       .name = "NVIDIA B200",
       .major = 10,
       .minor = 0,
       .sms = 148,
       .most_threads = 2048,
       .most_blocks = 32,
       .shared_bytes = 228 << 10,
       .l2_bytes = (253 << 20) / 2,
       .memory_bytes = static_cast<int64_t>(178.35 * 1024) * kMiB,
       .bus_bits = 7680,
       .clock_khz = 1'965'000,
       .memory_clock_khz = 3'996'000,
       .copy_engines = 3},
  };
  return all;
}

const Card& card_named(const std::string& key) {
  std::string known;
  for (const Card& card : cards()) {
    if (std::ranges::equal(card.key, key,
                           [](unsigned char a, unsigned char b) { return std::toupper(a) == std::toupper(b); }))
      return card;
    known += (known.empty() ? "" : ", ") + card.key;
  }
  throw std::invalid_argument("'" + key + "' is no dry GPU; known: " + known);
}

}  // namespace tenfold::dry
