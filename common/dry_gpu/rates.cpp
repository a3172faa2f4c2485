#include "common/dry_gpu/rates.h"

#include <algorithm>
#include <array>

namespace tenfold::dry {
namespace {

/// What the table of ceilings does not have.
struct Extra {
  const char* card;
  const char* ceilings;    ///< its key there
  double tf32;             ///< FLOP/s, dense; 0: none
  double dram;             ///< bytes/s where they are not those of the ceilings; else 0
  double link;             ///< bytes/s each way: PCIe x16 of the card's generation
  double of_tensor_cores;  ///< share of their ceiling that cuBLAS reached
  double peers;            ///< bytes/s each way that NCCL reached between cards of a host
};

// Products in tensor cores, bfloat16: 271.2 TFLOP/s of 312 on an A100 SXM, 794.5 of 989 on an H100 SXM, the best of
// many shapes ("Maximum Achievable Matmul FLOPS", github.com/stas00/ml-engineering, compute/accelerator/README at
// 744d01e). fp16 on a T4: 24 TFLOP/s of 65 at 4096 x 4096 x 4096, since its clocks fall until it needs 70 W
// (forums.developer.nvidia.com/t/264462). TF32 and fp8 are taken to reach the same share.
constexpr double kOfT4 = 24.0 / 65, kOfA100 = 271.2 / 312, kOfH100 = 794.5 / 989;

// TF32: "NVIDIA A100 Tensor Core GPU" data sheet, 156 TFLOPS; "NVIDIA H100 Tensor Core GPU" and "NVIDIA H200 Tensor
// Core GPU" data sheets, 989 TFLOPS with sparsity. 40 GB: "NVIDIA A100 Tensor Core GPU" data sheet, 1555 GB/s. PCIe: 16
// lanes of 8, 16 and 32 GT/s, 128 of 130 bits ("PCI Express Base Specification"), and of each packet of 256 bytes,
// CUDA's largest payload, 24 bytes of header, sequence number, checksums and frame.
constexpr double kPackets = 256.0 / (256 + 24);
constexpr double pcie(double giga_transfers) { return 16 * giga_transfers * 1e9 / 8 * 128 / 130 * kPackets; }

// Between cards: 370 GB/s of NVLink 4's 450 on H100s by rings (an author of NCCL,
// github.com/NVIDIA/nccl-tests/issues/212, 2024; all-reduces of eight that the switches sum reach more, which is left
// out), 208 GB/s of NVLink 3's 300 on A100s (github.com/NVIDIA/nccl-tests/issues/178, 2023). T4s have PCIe. The
// smallest all-reduce took 10.14 us on two A100s (github.com/NVIDIA/nccl/issues/583, 2021); others are taken to take as
// long.
constexpr double kNvlink3 = 208e9, kNvlink4 = 370e9, kPeerLatency = 10.14e-6;

constexpr std::array<Extra, 5> kExtras = {{{"T4", "T4", 0, 0, pcie(8), kOfT4, pcie(8)},
                                           {"A100-40", "A100", 156e12, 1555e9, pcie(16), kOfA100, kNvlink3},
                                           {"A100", "A100", 156e12, 0, pcie(16), kOfA100, kNvlink3},
                                           {"H100", "H100", 494.7e12, 0, pcie(32), kOfH100, kNvlink4},
                                           {"H200", "H200", 494.7e12, 0, pcie(32), kOfH100, kNvlink4}}};

// Shares of the other ceilings. Products in fp32: as cuBLAS's in bf16 on an H100, 797.8 TFLOP/s of 989.4 (8192 x 8192 x
// 8192, github.com/pranjalssh/fast.cu, README at a1bb7b2). Memory: 3.01 TB/s of 3.35 on an H100 (softmax,
// github.com/Dao-AILab/quack, media/2025-07-10-membound-sol.md). Other cards are taken to reach the same.
constexpr double kOfProducts = 797.8 / 989.4, kOfMemory = 3.01 / 3.35;

// A stream's kernels of 2.9 us followed each other every 3.8 us, in a graph every 3.4 us, on a V100 (Alan Gray,
// "Getting Started with CUDA Graphs", developer.nvidia.com/blog/cuda-graphs, 2019).
constexpr double kGap = 0.9e-6, kGraphGap = 0.5e-6;

// What little work lasts: the shortest of 249,810 additions and of 422,859 memsets of networks in 16 bits at batch 2 on
// a GeForce RTX 2080 Ti, by nvprof (github.com/ryujaehun/pytorch-gpu-benchmark/issues/8, 2020; their means are 3.08 and
// 1.71 us). Other cards and other kernels are taken to take as long: most of it is the way to the SMs and back.
constexpr double kLeast = 1.92e-6, kLeastMemset = 0.671e-6;

// What a copy of a few bytes takes over the link, taken to be what passes between two kernels.
constexpr double kLinkLatency = kGap;

const Extra* extra_of(const Card& card) {
  const auto found = std::ranges::find(kExtras, card.key, &Extra::card);
  return found == kExtras.end() ? nullptr : &*found;
}

}  // namespace

std::optional<Ceilings> ceilings_of(const Card& card) {
  const Extra* const extra = extra_of(card);
  if (extra == nullptr) return std::nullopt;
  const simt::GpuCeilings& gpu = simt::gpu_named(extra->ceilings);
  Ceilings ceilings;
  ceilings.clock_hz = gpu.clock_hz;
  ceilings.bytes_per_s = extra->dram > 0 ? extra->dram : gpu.dram_bytes_per_s;
  ceilings.fp32 = gpu.flops_per_s;
  ceilings.tf32 = extra->tf32;
  ceilings.half = gpu.tensor_flops_per_s;
  ceilings.bfloat16 = card.major >= 8 ? ceilings.half : 0;  // Turing's tensor cores take no bfloat16
  return ceilings;
}

std::optional<Rates> rates_of(const Card& card) {
  const std::optional<Ceilings> ceilings = ceilings_of(card);
  if (!ceilings) return std::nullopt;
  const Extra& extra = *extra_of(card);
  Rates rates;
  rates.bytes_per_s = kOfMemory * ceilings->bytes_per_s;
  rates.l2_bytes = static_cast<double>(card.l2_bytes);
  rates.fp32 = kOfProducts * ceilings->fp32;
  rates.tf32 = extra.of_tensor_cores * ceilings->tf32;
  rates.half = extra.of_tensor_cores * ceilings->half;
  rates.bfloat16 = ceilings->bfloat16 > 0 ? extra.of_tensor_cores * ceilings->bfloat16 : rates.fp32;
  rates.link_bytes_per_s = extra.link;
  rates.link_latency = kLinkLatency;
  rates.peer_bytes_per_s = extra.peers;
  rates.peer_latency = kPeerLatency;
  rates.gap = kGap;
  rates.graph_gap = kGraphGap;
  rates.least = kLeast;
  rates.least_memset = kLeastMemset;
  rates.first_byte = simt::gpu_named(extra.ceilings).dram_latency / ceilings->clock_hz;
  return rates;
}

}  // namespace tenfold::dry
