#pragma once
// Softmax: its rungs and shapes, what it needs, and its launches under the microscope.

#include <cuda_bf16.h>

#include "common/kernel_page/kernel_case.h"
#include "kernels/softmax/softmax.h"

namespace tenfold::kernels {

/// Buffers of the forward pass, of type T.
template <class T>
struct SoftmaxBuffers {
  simt::Stream device;
  int64_t rows, columns, count = rows * columns;
  simt::Buffer<T> in = device->buffer<T>("in", count), out = device->buffer<T>("out", count);

  void launch(int rung) const { softmax(device, out.data(), in.data(), rows, columns, rung); }
};

inline std::vector<simt::Rung> softmax_rungs() {
  return {{"thread rows", "One thread does one row in three passes, so each load of a warp touches 32 rows."},
          {"warp rows", "A warp does one row: its lanes read neighbours and join their results with shuffles."},
          {"online", "One pass finds the largest value and the sum together: two reads of the row instead of three."},
          {"block rows", "A block does one row with 16-byte accesses: a quarter of the requests."},
          {"held", "The row stays in registers: one read, and nothing is online."}};
}

inline simt::Pass softmax_forward() {
  return {.name = "softmax",
          .rungs = names_of(softmax_rungs()),
          .shape = {{"rows", 8192}, {"columns", 8192}},
          .work =
              [](const simt::Shape& shape, int64_t value_bytes) {
                const int64_t count = shape.at("rows") * shape.at("columns");
                // Compare, subtract, exp, add, multiply.
                return simt::Work{.flops = 5.0 * static_cast<double>(count), .least_bytes = 2 * count * value_bytes};
              },
          .launch =
              [](simt::Device& device, const simt::Shape& shape, int rung) {
                const SoftmaxBuffers<__nv_bfloat16> buffers{&device, shape.at("rows"), shape.at("columns")};
                simt::fill_repeating({buffers.in});
                buffers.launch(rung);
              }};
}

inline simt::Pass softmax_backward_pass() {
  return {.name = "softmax_backward",
          .rungs = {"vectorised"},
          .shape = softmax_forward().shape,
          .work =
              [](const simt::Shape& shape, int64_t value_bytes) {
                return simt::Work{.least_bytes = 3 * shape.at("rows") * shape.at("columns") * value_bytes};
              },
          .launch =
              [](simt::Device& device, const simt::Shape& shape, int) {
                const int64_t rows = shape.at("rows"), columns = shape.at("columns"), count = rows * columns;
                const auto buffer = [&](const char* name) { return device.buffer<__nv_bfloat16>(name, count); };
                const auto grad_in = buffer("grad_in"), grad_out = buffer("grad_out"), out = buffer("out");
                simt::fill_repeating({grad_out, out});
                softmax_backward(&device, grad_in.data(), grad_out.data(), out.data(), rows, columns);
              }};
}

inline simt::KernelCase softmax_case() {
  return {.name = "softmax",
          .title = "Softmax over the rows of a float matrix",
          .shape = {{"rows", 64}, {"columns", 1024}},
          .rungs = softmax_rungs(),
          .passes = {softmax_forward(), softmax_backward_pass()}};
}

}  // namespace tenfold::kernels
