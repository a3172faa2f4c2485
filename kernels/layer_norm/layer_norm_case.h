#pragma once
// LayerNorm: its rungs and shapes, what it needs, and its launches under the microscope.

#include <cuda_bf16.h>

#include "common/kernel_page/kernel_case.h"
#include "kernels/layer_norm/layer_norm.h"

namespace tenfold::kernels {

/// Buffers of the forward pass, of type T.
template <class T>
struct LayerNormBuffers {
  simt::Stream device;
  int64_t rows, columns, count = rows * columns;
  simt::Buffer<T> in = device->buffer<T>("in", count), out = device->buffer<T>("out", count);
  simt::Buffer<T> weight = device->buffer<T>("weight", columns), bias = device->buffer<T>("bias", columns);
  simt::Buffer<float> mean = device->buffer<float>("mean", rows), rstd = device->buffer<float>("rstd", rows);

  void launch(float epsilon, int rung) const {
    layer_norm(device, out.data(), mean.data(), rstd.data(), in.data(), weight.data(), bias.data(), rows, columns,
               epsilon, rung);
  }
};

inline std::vector<simt::Rung> layer_norm_rungs() {
  return {{"thread rows", "One thread does one row in three passes, so each load of a warp touches 32 rows."},
          {"shared sums", "A block does one row: lanes read neighbours, and the sums meet in a tree in shared memory."},
          {"one pass",
           "Welford's update and shuffles find mean and variance in one pass with two barriers instead of twenty."},
          {"vectorised", "A thread moves 16 bytes per access and divides once for four values."},
          {"held", "The row stays in registers: one read, and two plain sums in place of mean and variance together."}};
}

inline simt::Pass layer_norm_forward() {
  return {.name = "layer_norm",
          .rungs = names_of(layer_norm_rungs()),
          .shape = {{"rows", 8192}, {"columns", 8192}},
          .work =
              [](const simt::Shape& shape, int64_t value_bytes) {
                const int64_t rows = shape.at("rows"), columns = shape.at("columns"), count = rows * columns;
                // The mean 1; the variance 3; subtract, two products and the bias 4.
                return simt::Work{.flops = 8.0 * static_cast<double>(count),
                                  .least_bytes = 2 * (count + columns) * value_bytes +
                                                 2 * rows * static_cast<int64_t>(sizeof(float))};
              },
          .launch =
              [](simt::Device& device, const simt::Shape& shape, int rung) {
                const LayerNormBuffers<__nv_bfloat16> buffers{&device, shape.at("rows"), shape.at("columns")};
                simt::fill_repeating({buffers.in, buffers.weight, buffers.bias});
                buffers.launch(1e-5F, rung);
              }};
}

inline void launch_layer_norm_backward(simt::Device& device, const simt::Shape& shape, int rung) {
  using T = __nv_bfloat16;
  const int64_t rows = shape.at("rows"), columns = shape.at("columns"), count = rows * columns;
  const auto in = device.buffer<T>("in", count), grad_out = device.buffer<T>("grad_out", count),
             grad_in = device.buffer<T>("grad_in", count);
  const auto weight = device.buffer<T>("weight", columns), grad_weight = device.buffer<T>("grad_weight", columns),
             grad_bias = device.buffer<T>("grad_bias", columns);
  const auto mean = device.buffer<float>("mean", rows), rstd = device.buffer<float>("rstd", rows);
  const auto workspace = device.buffer<float>("workspace", layer_norm_workspace_bytes(rows, columns) / 4);
  simt::fill_repeating({in, grad_out, weight});
  simt::fill_repeating({mean, rstd});
  layer_norm_backward(&device, grad_in.data(), grad_weight.data(), grad_bias.data(), workspace.data(), grad_out.data(),
                      in.data(), mean.data(), rstd.data(), weight.data(), rows, columns, rung);
}

inline simt::Pass layer_norm_backward_pass() {
  return {.name = "layer_norm_backward",
          .rungs = {"two kernels", "one kernel"},
          .shape = layer_norm_forward().shape,
          .work =
              [](const simt::Shape& shape, int64_t value_bytes) {
                const int64_t rows = shape.at("rows"), columns = shape.at("columns");
                return simt::Work{.least_bytes = 3 * (rows * columns + columns) * value_bytes +
                                                 2 * rows * static_cast<int64_t>(sizeof(float))};
              },
          .launch = launch_layer_norm_backward};
}

inline simt::KernelCase layer_norm_case() {
  return {.name = "layer_norm",
          .title = "Layer normalisation of the rows of a float matrix",
          .shape = {{"rows", 64}, {"columns", 1024}},
          .rungs = layer_norm_rungs(),
          .passes = {layer_norm_forward(), layer_norm_backward_pass()}};
}

}  // namespace tenfold::kernels
