#pragma once
// SGEMM: its rungs and shapes, what it needs, and its launch under the microscope.

#include "common/kernel_page/kernel_case.h"
#include "kernels/sgemm/sgemm.h"

namespace tenfold::kernels {

struct SgemmBuffers {
  simt::Stream device;
  int64_t m, n, k, of_a = m * k, of_b = k * n, of_c = m * n;
  simt::Buffer<float> a = device->buffer<float>("a", of_a), b = device->buffer<float>("b", of_b),
                      c = device->buffer<float>("c", of_c);

  void launch(int rung) const { sgemm(device, c.data(), a.data(), b.data(), m, n, k, 1, 0, rung); }
};

inline std::vector<simt::Rung> sgemm_rungs() {
  return {{"naive", "One thread computes one element; the lanes of a warp walk down the rows of C."},
          {"coalesced", "The lanes of a warp walk along the columns, so that B and C are coalesced."},
          {"shared tile", "A block copies 32 x 32 tiles to shared memory and uses each value 32 times."},
          {"1-D registers", "A thread computes 8 results of a column and keeps one value of B for all of them."},
          {"2-D registers", "A thread computes 8 x 8 results: 16 shared loads for 64 multiply-adds."},
          {"vector loads", "Global and shared memory are read 16 bytes at a time, A transposed on the way."},
          {"double buffer", "The next tile is loaded while the block multiplies this one; one barrier a step."},
          {"warp tile", "A warp computes 64 x 32 results, which reads fewer words of shared memory than 16 x 128."}};
}

inline simt::Pass sgemm_pass() {
  return {.name = "sgemm",
          .rungs = names_of(sgemm_rungs()),
          .shape = {{"m", 4096}, {"n", 4096}, {"k", 4096}},
          .type = simt::ValueType::float32,
          .peak = simt::Peak::cuda_cores,
          .work =
              [](const simt::Shape& shape, int64_t value_bytes) {
                const int64_t m = shape.at("m"), n = shape.at("n"), k = shape.at("k");
                return simt::Work{
                    .flops = 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k),
                    .least_bytes = (m * k + k * n + m * n) * value_bytes};
              },
          .launch =
              [](simt::Device& device, const simt::Shape& shape, int rung) {
                const SgemmBuffers buffers{&device, shape.at("m"), shape.at("n"), shape.at("k")};
                simt::fill_repeating({buffers.a, buffers.b});
                buffers.launch(rung);
              }};
}

inline simt::KernelCase sgemm_case() {
  return {.name = "sgemm",
          .title = "Matrix product in fp32 on CUDA cores",
          .shape = {{"m", 128}, {"n", 128}, {"k", 64}},
          .rungs = sgemm_rungs(),
          .passes = {sgemm_pass()}};
}

}  // namespace tenfold::kernels
