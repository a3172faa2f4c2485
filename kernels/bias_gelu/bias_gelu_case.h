#pragma once
// Bias and GELU: its rungs and shapes, what it needs, and its launches under the microscope.

#include <cuda_bf16.h>

#include "common/kernel_page/kernel_case.h"
#include "kernels/bias_gelu/bias_gelu.h"

namespace tenfold::kernels {

/// Buffers of the forward pass, of type T.
template <class T>
struct BiasGeluBuffers {
  simt::Stream device;
  int64_t rows, columns, count = rows * columns;
  simt::Buffer<T> in = device->buffer<T>("in", count), out = device->buffer<T>("out", count);
  simt::Buffer<T> bias = device->buffer<T>("bias", columns);

  void launch(int rung) const {
    bias_gelu(device, out.data(), in.data(), bias.data(), rows, columns, Gelu::tanh, rung);
  }
};

inline std::vector<simt::Rung> bias_gelu_rungs() {
  return {{"unfused", "Two kernels, one for the sum and one for GELU: the matrix goes through memory twice."},
          {"fused", "The sum stays in a register, so the matrix is read once and written once."},
          {"vectorised", "A thread moves 16 bytes per access: the same sectors in a quarter of the requests."},
          {"short formula", "tanh is one power of two and one division: half the instructions for each value."}};
}

inline simt::Pass bias_gelu_forward() {
  return {.name = "bias_gelu",
          .rungs = names_of(bias_gelu_rungs()),
          .shape = {{"rows", 8192}, {"columns", 8192}},
          .work =
              [](const simt::Shape& shape, int64_t value_bytes) {
                const int64_t columns = shape.at("columns"), count = shape.at("rows") * columns;
                // The bias 1; the cubic 4, with the scale; tanh 1; one more, half of x, times it.
                return simt::Work{.flops = 9.0 * static_cast<double>(count),
                                  .least_bytes = (2 * count + columns) * value_bytes};
              },
          .launch =
              [](simt::Device& device, const simt::Shape& shape, int rung) {
                const BiasGeluBuffers<__nv_bfloat16> buffers{&device, shape.at("rows"), shape.at("columns")};
                simt::fill_repeating({buffers.in, buffers.bias});
                buffers.launch(rung);
              }};
}

inline void launch_bias_gelu_backward(simt::Device& device, const simt::Shape& shape, int /*rung*/) {
  using T = __nv_bfloat16;
  const int64_t rows = shape.at("rows"), columns = shape.at("columns"), count = rows * columns;
  const auto in = device.buffer<T>("in", count), grad_out = device.buffer<T>("grad_out", count),
             grad_in = device.buffer<T>("grad_in", count);
  const auto bias = device.buffer<T>("bias", columns), grad_bias = device.buffer<T>("grad_bias", columns);
  const auto workspace = device.buffer<float>("workspace", bias_gelu_workspace_bytes(rows, columns) / 4);
  simt::fill_repeating({in, grad_out, bias});
  bias_gelu_backward(&device, grad_in.data(), grad_bias.data(), workspace.data(), grad_out.data(), in.data(),
                     bias.data(), rows, columns, Gelu::tanh);
}

inline simt::Pass bias_gelu_backward_pass() {
  return {.name = "bias_gelu_backward",
          .rungs = {"vectorised"},
          .shape = bias_gelu_forward().shape,
          .work =
              [](const simt::Shape& shape, int64_t value_bytes) {
                const int64_t columns = shape.at("columns"), count = shape.at("rows") * columns;
                return simt::Work{.least_bytes = (3 * count + 2 * columns) * value_bytes};
              },
          .launch = launch_bias_gelu_backward};
}

inline simt::KernelCase bias_gelu_case() {
  return {.name = "bias_gelu",
          .title = "GELU (tanh) of a float matrix plus a bias",
          .shape = {{"rows", 64}, {"columns", 1024}},
          .rungs = bias_gelu_rungs(),
          .passes = {bias_gelu_forward(), bias_gelu_backward_pass()}};
}

}  // namespace tenfold::kernels
