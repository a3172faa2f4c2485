#pragma once
// An expert's second product, whose rows go back to their tokens: its rungs and shapes, what it needs, and its launches
// under the microscope.

#include <cuda_bf16.h>

#include <algorithm>
#include <vector>

#include "common/kernel_page/kernel_case.h"
#include "kernels/grouped_combine/grouped_combine.h"
#include "kernels/grouped_combine/grouped_combine_routing.h"
#include "kernels/grouped_gemm/grouped_gemm_case.h"

namespace tenfold::kernels {

/// A routing and its scales, on the device: what all passes need.
struct CombineRoutingBuffers {
  simt::Stream device;
  CombineShape shape;
  std::vector<int> routing;
  simt::Buffer<int> offsets = device->buffer<int>("offsets", shape.experts + 1),
                    token_of = device->buffer<int>("token_of", shape.rows()),
                    rows_of = device->buffer<int>("rows_of", shape.rows());
  simt::Buffer<float> scales = device->buffer<float>("scales", shape.rows());

  CombineRouting fill() const {
    const std::vector<int> tokens = far_apart_tokens(shape.rows(), shape.tokens);
    std::ranges::copy(routing, offsets.begin());
    std::ranges::copy(tokens, token_of.begin());
    std::ranges::copy(rows_of_tokens(tokens, shape.tokens, shape.active), rows_of.begin());
    for (int64_t row = 0; row < shape.rows(); ++row) scales[row] = scale_of_row(row);
    return {.offsets = offsets.data(), .token_of = token_of.data(), .rows_of = rows_of.data(), .scales = scales.data()};
  }
};

/// Buffers of a rung, of a type of 16 bits.
template <class T>
struct CombineBuffers {
  CombineRoutingBuffers routing;
  int64_t blocks;
  bool transposed;
  int rung;
  simt::Stream device = routing.device;
  CombineShape shape = routing.shape;
  int64_t of_workspace = grouped_combine_workspace_bytes(shape, rung);
  simt::Buffer<T> rows = device->buffer<T>("rows", shape.rows() * shape.depth),
                  weights = device->buffer<T>("weights", shape.experts* shape.depth* shape.columns),
                  out = device->buffer<T>("out", shape.tokens* shape.columns);
  simt::Buffer<float> workspace = device->buffer<float>("workspace", std::max<int64_t>(1, of_workspace / 4));

  /// A gradient's rows have no scale.
  void launch() const {
    CombineRouting to = routing.fill();
    if (transposed) to.scales = nullptr;
    grouped_combine(device, out.data(), workspace.data(), rows.data(), weights.data(), to, shape, transposed, blocks,
                    rung);
  }
};

/// Those of the gradients in rows and scales.
template <class T>
struct CombineBackwardBuffers {
  CombineRoutingBuffers routing;
  int64_t blocks;
  simt::Stream device = routing.device;
  CombineShape shape = routing.shape;
  simt::Buffer<T> dout = device->buffer<T>("dout", shape.tokens* shape.columns),
                  rows = device->buffer<T>("rows", shape.rows() * shape.depth),
                  weights = device->buffer<T>("weights", shape.experts* shape.depth* shape.columns),
                  drows = device->buffer<T>("drows", shape.rows() * shape.depth);
  simt::Buffer<float> dscales = device->buffer<float>("dscales", shape.rows()),
                      workspace = device->buffer<float>("workspace", grouped_combine_backward_workspace(shape));

  void launch() const {
    grouped_combine_backward(device, drows.data(), dscales.data(), workspace.data(), dout.data(), rows.data(),
                             weights.data(), routing.fill(), shape, blocks);
  }
};

inline CombineShape combine_shape(const simt::Shape& shape) {
  return {.tokens = shape.at("tokens"),
          .active = shape.at("active"),
          .experts = shape.at("experts"),
          .depth = shape.at("depth"),
          .columns = shape.at("columns")};
}

inline CombineRoutingBuffers combine_routing(simt::Device& device, const simt::Shape& shape) {
  const CombineShape s = combine_shape(shape);
  return {&device, s, uneven_routing(s.rows(), s.experts, shape.at("largest"))};
}

inline std::vector<simt::Rung> grouped_combine_rungs() {
  return {{"two passes", "Rows of results are written, and a second kernel adds those of a token in a fixed order."},
          {"floats", "Each tile adds its rows to their tokens by atomics of float32: no rows are written."},
          {"pairs", "Atomics of two neighbours of 16 bits: half the bytes, and every addition rounds."}};
}

/// 2048 tokens that go to two of 16 experts each; the first gets three times the mean. Back from 1024 inner values to
/// 512, the inverse of what grouped_gemm is timed at.
inline simt::Pass grouped_combine_pass() {
  return {.name = "grouped_combine",
          .rungs = names_of(grouped_combine_rungs()),
          .shape = {{"tokens", 2048},
                    {"active", kGroupedActive},
                    {"experts", 16},
                    {"largest", 768},
                    {"depth", 1024},
                    {"columns", 512},
                    {"wave", kGroupedWaveAssumed}},
          .peak = simt::Peak::tensor_cores,
          .work =
              [](const simt::Shape& shape, int64_t value_bytes) {
                const CombineShape s = combine_shape(shape);
                return simt::Work{
                    .flops = 2.0 * static_cast<double>(s.rows()) * static_cast<double>(s.depth * s.columns),
                    .least_bytes =
                        (s.rows() * s.depth + s.experts * s.depth * s.columns + s.tokens * s.columns) * value_bytes};
              },
          .sampled_blocks = 0,  // experts differ
          .launch =
              [](simt::Device& device, const simt::Shape& shape, int rung) {
                const CombineBuffers<__nv_bfloat16> buffers{combine_routing(device, shape), shape.at("wave"), false,
                                                            rung};
                simt::fill_repeating({buffers.rows, buffers.weights});
                buffers.launch();
              }};
}

/// The gradient in the input of an expert's first product: the same rungs, with the weight transposed and no scale.
inline simt::Pass grouped_combine_input_pass() {
  simt::Pass pass = grouped_combine_pass();
  pass.name = "grouped_combine_input";
  pass.launch = [](simt::Device& device, const simt::Shape& shape, int rung) {
    const CombineBuffers<__nv_bfloat16> buffers{combine_routing(device, shape), shape.at("wave"), true, rung};
    simt::fill_repeating({buffers.rows, buffers.weights});
    buffers.launch();
  };
  return pass;
}

inline simt::Pass grouped_combine_backward_pass() {
  simt::Pass pass = grouped_combine_pass();
  pass.name = "grouped_combine_backward";
  pass.rungs = {"rows and scales"};
  pass.work = [](const simt::Shape& shape, int64_t value_bytes) {
    const CombineShape s = combine_shape(shape);
    return simt::Work{
        .flops =
            2.0 * static_cast<double>(s.rows()) * static_cast<double>(s.depth) * static_cast<double>(s.columns + 1),
        .least_bytes = (2 * s.rows() * s.depth + s.experts * s.depth * s.columns + s.tokens * s.columns) * value_bytes +
                       s.rows() * int64_t{sizeof(float)}};
  };
  pass.launch = [](simt::Device& device, const simt::Shape& shape, int) {
    const CombineBackwardBuffers<__nv_bfloat16> buffers{combine_routing(device, shape), shape.at("wave")};
    simt::fill_repeating({buffers.dout, buffers.rows, buffers.weights});
    buffers.launch();
  };
  return pass;
}

inline simt::KernelCase grouped_combine_case() {
  return {.name = "grouped_combine",
          .title = "An expert's results back to their tokens, bfloat16 with sums in float32",
          .shape = {{"tokens", 256},
                    {"active", 2},
                    {"experts", 6},
                    {"largest", 300},
                    {"depth", 96},
                    {"columns", 256},
                    {"wave", 8}},
          .rungs = grouped_combine_rungs(),
          .passes = {grouped_combine_pass(), grouped_combine_input_pass(), grouped_combine_backward_pass()}};
}

}  // namespace tenfold::kernels
