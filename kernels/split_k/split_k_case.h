#pragma once
// Work decomposition of a GEMM: its rungs and shapes, what it needs, and its launches under the microscope.

#include <cuda_bf16.h>

#include <algorithm>

#include "common/kernel_page/kernel_case.h"
#include "kernels/split_k/split_k.h"

namespace tenfold::kernels {

/// Blocks at a time where no GPU is: two on each SM of an H100.
inline constexpr int64_t kSplitKWaveAssumed = 264;

/// Its buffers: a and b of a type of 16 bits, and what the rung needs for so many parts.
template <class T>
struct SplitKBuffers {
  simt::Stream device;
  int64_t m, n, k, parts;
  int rung;
  int64_t of_a = m * k, of_b = k * n, of_c = m * n, of_workspace = split_k_workspace_bytes(m, n, k, parts, rung) / 4,
          of_counters = split_k_counters(m, n, parts, rung);
  simt::Buffer<T> a = device->buffer<T>("a", of_a), b = device->buffer<T>("b", of_b);
  simt::Buffer<float> c = device->buffer<float>("c", of_c),
                      workspace = device->buffer<float>("workspace", std::max<int64_t>(1, of_workspace));
  simt::Buffer<unsigned> counters = device->buffer<unsigned>("counters", std::max<int64_t>(1, of_counters));

  void launch() const {
    std::ranges::fill(counters, 0U);
    split_k(device, c.data(), workspace.data(), counters.data(), a.data(), b.data(), m, n, k, parts, rung);
  }
};

/// For a shape with a wave: parts as split_k_parts() has them.
template <class T>
SplitKBuffers<T> split_k_buffers(simt::Device& device, const simt::Shape& shape, int rung) {
  const int64_t m = shape.at("m"), n = shape.at("n"), k = shape.at("k");
  return {&device, m, n, k, split_k_parts(m, n, k, shape.at("wave"), rung), rung};
}

inline std::vector<simt::Rung> split_k_rungs() {
  return {{"data parallel", "A block for each tile of C: fewer tiles than SMs leave SMs idle, and the last wave most."},
          {"workspace", "Several blocks compute a tile, a piece of k each; a second kernel adds their sums."},
          {"atomics", "Pieces are added to C where it lies, in whatever order blocks end."},
          {"last block", "The last block of a tile to be done adds its pieces, always in the same order."},
          {"stream-K", "All iterations of all tiles are one line, of which each block has an equal share."},
          {"two tile", "Stream-K for what does not fill a wave of tiles and one wave more; whole tiles for the rest."}};
}

inline simt::Pass split_k_pass() {
  return {.name = "split_k",
          .rungs = names_of(split_k_rungs()),
          // The gradient of a weight of GPT-2, 768 x 768, for 4096 tokens.
          .shape = {{"m", 768}, {"n", 768}, {"k", 4096}, {"wave", kSplitKWaveAssumed}},
          .peak = simt::Peak::tensor_cores,
          .work =
              [](const simt::Shape& shape, int64_t value_bytes) {
                const int64_t m = shape.at("m"), n = shape.at("n"), k = shape.at("k");
                return simt::Work{
                    .flops = 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k),
                    .least_bytes = (m * k + k * n) * value_bytes + m * n * int64_t{sizeof(float)}};
              },
          .sampled_blocks = 0,  // the last block of a tile adds, and blocks wait for each other
          .launch =
              [](simt::Device& device, const simt::Shape& shape, int rung) {
                const auto buffers = split_k_buffers<__nv_bfloat16>(device, shape, rung);
                simt::fill_repeating({buffers.a, buffers.b});
                buffers.launch();
              }};
}

inline simt::KernelCase split_k_case() {
  return {.name = "split_k",
          .title = "Matrix product of few tiles, bfloat16 with sums in float32",
          .shape = {{"m", 128}, {"n", 384}, {"k", 768}, {"wave", 8}},
          .rungs = split_k_rungs(),
          .passes = {split_k_pass()}};
}

}  // namespace tenfold::kernels
