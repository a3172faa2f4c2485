#pragma once
// The products of a mixture of experts: their rungs and shapes, what they need, and their launches under the
// microscope.

#include <cuda_bf16.h>

#include <algorithm>
#include <string>

#include "common/kernel_page/kernel_case.h"
#include "kernels/grouped_gemm/grouped_gemm.h"
#include "kernels/grouped_gemm/grouped_gemm_makespan.h"

namespace tenfold::kernels {

/// Blocks at a time where no GPU is: two on each SM of an H100.
inline constexpr int64_t kGroupedWaveAssumed = 264;
/// Experts that each token goes to, in what is shown, timed and modelled.
inline constexpr int64_t kGroupedActive = 2;

/// Which token each row is: neighbours among an expert's rows are tokens far apart. Every token is there twice.
inline std::vector<int> far_apart_rows(int64_t rows) {
  const int64_t tokens = std::max<int64_t>(1, rows / kGroupedActive);
  std::vector<int> row_of;
  for (int64_t row = 0; row < rows; ++row) row_of.push_back(static_cast<int>(row * 7919 % tokens));
  return row_of;
}

/// Its buffers for a routing, of a type of 16 bits.
template <class T>
struct GroupedBuffers {
  simt::Stream device;
  GroupedShape shape;
  std::vector<int> routing;
  int64_t blocks;
  int rung;
  int64_t tokens = std::max<int64_t>(1, shape.rows / kGroupedActive);
  int64_t of_workspace = grouped_gemm_workspace(shape, largest_expert(routing), true, rung);
  simt::Buffer<T> x = device->buffer<T>("x", tokens* shape.depth),
                  weights = device->buffer<T>("weights", shape.experts* shape.depth* shape.columns),
                  out = device->buffer<T>("out", shape.rows* shape.columns),
                  workspace = device->buffer<T>("workspace", std::max<int64_t>(1, of_workspace));
  simt::Buffer<int> row_of = device->buffer<int>("row_of", shape.rows),
                    offsets = device->buffer<int>("offsets", shape.experts + 1);

  void launch() const {
    std::ranges::copy(far_apart_rows(shape.rows), row_of.begin());
    std::ranges::copy(routing, offsets.begin());
    grouped_gemm(device, out.data(), workspace.data(), x.data(), row_of.data(), weights.data(), offsets.data(),
                 routing.data(), shape, blocks, rung);
  }
};

inline GroupedShape grouped_shape(const simt::Shape& shape) {
  return {.rows = shape.at("rows"),
          .experts = shape.at("experts"),
          .depth = shape.at("depth"),
          .columns = shape.at("columns")};
}

template <class T>
GroupedBuffers<T> grouped_buffers(simt::Device& device, const simt::Shape& shape, int rung) {
  return {&device, grouped_shape(shape), uneven_routing(shape.at("rows"), shape.at("experts"), shape.at("largest")),
          shape.at("wave"), rung};
}

/// Those of the weights' gradient.
template <class T>
struct GroupedGradientBuffers {
  simt::Stream device;
  GroupedShape shape;
  std::vector<int> routing;
  int64_t tokens = std::max<int64_t>(1, shape.rows / kGroupedActive);
  simt::Buffer<T> x = device->buffer<T>("x", tokens* shape.depth),
                  dout = device->buffer<T>("dout", shape.rows* shape.columns),
                  dweights = device->buffer<T>("dweights", shape.experts* shape.depth* shape.columns);
  simt::Buffer<int> row_of = device->buffer<int>("row_of", shape.rows),
                    offsets = device->buffer<int>("offsets", shape.experts + 1);

  void launch() const {
    std::ranges::copy(far_apart_rows(shape.rows), row_of.begin());
    std::ranges::copy(routing, offsets.begin());
    grouped_gemm_weights(device, dweights.data(), x.data(), row_of.data(), dout.data(), offsets.data(), shape);
  }
};

inline std::vector<simt::Rung> grouped_gemm_rungs() {
  return {{"padded", "A batched product: every expert has a buffer as large as the largest one needs."},
          {"launches", "A launch for each expert with rows, one after the other; the host reads how many there are."},
          {"one grid", "One launch for all tiles of all experts; each block finds its own in the offsets."},
          {"persistent", "As many blocks as run at a time walk over the list of tiles and search on as they go."},
          {"gathered", "Rows are read where they lie, without a copy in the experts' order."},
          {"tails", "Warps behind the last row of an expert leave the tensor cores to the others."}};
}

inline simt::Pass grouped_gemm_pass() {
  return {
      .name = "grouped_gemm",
      .rungs = names_of(grouped_gemm_rungs()),
      // 2048 tokens that go to two of 16 experts each; the first gets three times the mean.
      .shape = {{"rows", 4096},
                {"experts", 16},
                {"largest", 768},
                {"depth", 512},
                {"columns", 1024},
                {"wave", kGroupedWaveAssumed}},
      .peak = simt::Peak::tensor_cores,
      .work =
          [](const simt::Shape& shape, int64_t value_bytes) {
            const GroupedShape s = grouped_shape(shape);
            const int64_t tokens = std::max<int64_t>(1, s.rows / kGroupedActive);
            return simt::Work{
                .flops = 2.0 * static_cast<double>(s.rows) * static_cast<double>(s.depth * s.columns),
                .least_bytes = (tokens * s.depth + s.experts * s.depth * s.columns + s.rows * s.columns) * value_bytes};
          },
      .sampled_blocks = 0,  // experts differ
      .launch =
          [](simt::Device& device, const simt::Shape& shape, int rung) {
            const auto buffers = grouped_buffers<__nv_bfloat16>(device, shape, rung);
            simt::fill_repeating({buffers.x, buffers.weights});
            buffers.launch();
          }};
}

inline simt::Pass grouped_gemm_backward_pass() {
  const simt::Pass forward = grouped_gemm_pass();
  return {.name = "grouped_gemm_backward",
          .rungs = {"weights"},
          .shape = {{"rows", 4096}, {"experts", 16}, {"largest", 768}, {"depth", 512}, {"columns", 1024}},
          .peak = simt::Peak::tensor_cores,
          .work = forward.work,  // the same arrays, read and written the other way round
          .sampled_blocks = 0,
          .launch = [](simt::Device& device, const simt::Shape& shape, int) {
            const GroupedGradientBuffers<__nv_bfloat16> buffers{
                &device, grouped_shape(shape),
                uneven_routing(shape.at("rows"), shape.at("experts"), shape.at("largest"))};
            simt::fill_repeating({buffers.x, buffers.dout});
            buffers.launch();
          }};
}

inline simt::KernelCase grouped_gemm_case() {
  return {.name = "grouped_gemm",
          .title = "Products of a mixture of experts, bfloat16 with sums in float32",
          .shape = {{"rows", 512}, {"experts", 6}, {"largest", 300}, {"depth", 96}, {"columns", 256}, {"wave", 8}},
          .rungs = grouped_gemm_rungs(),
          .passes = {grouped_gemm_pass(), grouped_gemm_backward_pass()}};
}

}  // namespace tenfold::kernels
