#pragma once
// RMSNorm: its rungs and shapes, what it needs, and its launches under the microscope.

#include <cuda_bf16.h>

#include "common/kernel_page/kernel_case.h"
#include "kernels/rms_norm/rms_norm.h"

namespace tenfold::kernels {

/// Buffers of the forward pass, of type T.
template <class T>
struct RmsNormBuffers {
  simt::Stream device;
  int64_t rows, columns, count = rows * columns;
  simt::Buffer<T> in = device->buffer<T>("in", count), out = device->buffer<T>("out", count);
  simt::Buffer<T> weight = device->buffer<T>("weight", columns);
  simt::Buffer<float> rstd = device->buffer<float>("rstd", rows);

  void launch(float epsilon, int rung) const {
    rms_norm(device, out.data(), rstd.data(), in.data(), weight.data(), rows, columns, epsilon, rung);
  }
};

inline std::vector<simt::Rung> rms_norm_rungs() {
  return {{"thread rows", "One thread does one row in two passes, so each load of a warp touches 32 rows."},
          {"warp rows", "A warp does one row: lanes read neighbours, and shuffles join the sums without a barrier."},
          {"vectorised", "A block does one row, 16 bytes per access, with up to sixteen warps on a long row."}};
}

inline simt::Pass rms_norm_forward() {
  return {.name = "rms_norm",
          .rungs = names_of(rms_norm_rungs()),
          .shape = {{"rows", 8192}, {"columns", 8192}},
          .work =
              [](const simt::Shape& shape, int64_t value_bytes) {
                const int64_t rows = shape.at("rows"), columns = shape.at("columns"), count = rows * columns;
                // A square and its sum 2; two products 2.
                return simt::Work{
                    .flops = 4.0 * static_cast<double>(count),
                    .least_bytes = (2 * count + columns) * value_bytes + rows * static_cast<int64_t>(sizeof(float))};
              },
          .launch =
              [](simt::Device& device, const simt::Shape& shape, int rung) {
                const RmsNormBuffers<__nv_bfloat16> buffers{&device, shape.at("rows"), shape.at("columns")};
                simt::fill_repeating({buffers.in, buffers.weight});
                buffers.launch(1e-5F, rung);
              }};
}

inline void launch_rms_norm_backward(simt::Device& device, const simt::Shape& shape, int rung) {
  using T = __nv_bfloat16;
  const int64_t rows = shape.at("rows"), columns = shape.at("columns"), count = rows * columns;
  const auto in = device.buffer<T>("in", count), grad_out = device.buffer<T>("grad_out", count),
             grad_in = device.buffer<T>("grad_in", count);
  const auto weight = device.buffer<T>("weight", columns), grad_weight = device.buffer<T>("grad_weight", columns);
  const auto rstd = device.buffer<float>("rstd", rows);
  const auto workspace = device.buffer<float>("workspace", rms_norm_workspace_bytes(rows, columns) / 4);
  simt::fill_repeating({in, grad_out, weight});
  simt::fill_repeating({rstd});
  rms_norm_backward(&device, grad_in.data(), grad_weight.data(), workspace.data(), grad_out.data(), in.data(),
                    rstd.data(), weight.data(), rows, columns, rung);
}

inline simt::Pass rms_norm_backward_pass() {
  return {.name = "rms_norm_backward",
          .rungs = {"two kernels", "one kernel"},
          .shape = rms_norm_forward().shape,
          .work =
              [](const simt::Shape& shape, int64_t value_bytes) {
                const int64_t rows = shape.at("rows"), columns = shape.at("columns");
                return simt::Work{.least_bytes = (3 * rows * columns + 2 * columns) * value_bytes +
                                                 rows * static_cast<int64_t>(sizeof(float))};
              },
          .launch = launch_rms_norm_backward};
}

inline simt::KernelCase rms_norm_case() {
  return {.name = "rms_norm",
          .title = "Root-mean-square normalisation of the rows of a float matrix",
          .shape = {{"rows", 64}, {"columns", 1024}},
          .rungs = rms_norm_rungs(),
          .passes = {rms_norm_forward(), rms_norm_backward_pass()}};
}

}  // namespace tenfold::kernels
