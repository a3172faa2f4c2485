#pragma once
// GEMM of 8 bits: its rungs and shapes, what it needs, and its launches under the microscope.

#include <cuda_fp8.h>

#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "common/kernel_page/kernel_case.h"
#include "kernels/scaled_gemm/scaled_gemm.h"

namespace tenfold::kernels {

/// Its buffers, of int8_t or __nv_fp8_e4m3.
template <class T>
struct ScaledGemmBuffers {
  simt::Stream device;
  int64_t m, n, k;
  ScaledGemmScales scales;
  bool in_blocks = scales == ScaledGemmScales::blocks;
  int64_t blocks = (k + kScaleBlock - 1) / kScaleBlock, of_a = m * k, of_b = n * k, of_c = m * n,
          of_a_scales = in_blocks ? blocks * m : 1,
          of_b_scales = in_blocks ? (n + kScaleBlock - 1) / kScaleBlock * blocks : 1;
  simt::Buffer<T> a = device->buffer<T>("a", of_a), b = device->buffer<T>("b", of_b);
  simt::Buffer<float> a_scales = device->buffer<float>("a_scales", of_a_scales),
                      b_scales = device->buffer<float>("b_scales", of_b_scales), c = device->buffer<float>("c", of_c);

  void launch(int rung) const {
    scaled_gemm(device, c.data(), a.data(), b.data(), a_scales.data(), b_scales.data(), m, n, k, scales, rung);
  }
};

inline std::vector<simt::Rung> scaled_gemm_rungs() {
  return {
      {"dequantise", "A thread for each result; every value is widened and scaled before it is multiplied."},
      {"packed dot", "128 of k share a scale, so that sums are scaled and not values; four products to a word."},
      {"mma", "Tensor cores sum 128 of k in their own registers; CUDA cores scale and add in float32."},
      {"ldmatrix", "Loads 16 bytes of a row for each lane; k is innermost on both sides, so nothing is transposed."},
      {"cp.async", "Copies run three steps ahead; scales are loaded a block of k before they are used."},
      {"wgmma",
       "Hopper: one thread brings tiles by TMA; two warpgroups multiply by wgmma, straight from shared memory, and "
       "promote after each 128 of k."},
      {"overlapped", "A warpgroup promotes the sums of a block of k while its own product of the next one runs."},
      {"cluster", "Two blocks one above the other in C need the same tile of B: each copies one half of it to both."}};
}

/// With scales of blocks. T: int8_t or __nv_fp8_e4m3.
template <class T>
simt::Pass scaled_gemm_pass() {
  constexpr bool kInt8 = std::is_same_v<T, int8_t>;
  std::vector<std::string> names = names_of(scaled_gemm_rungs());
  names.resize(kScaledGemmAllRungs<T>);
  return {.name = kInt8 ? "scaled_gemm_int8" : "scaled_gemm",
          .rungs = std::move(names),
          .shape = {{"m", 4096}, {"n", 4096}, {"k", 4096}},
          .type = kInt8 ? simt::ValueType::int8 : simt::ValueType::e4m3,
          .peak = kInt8 ? simt::Peak::tensor_cores_int8 : simt::Peak::tensor_cores_fp8,
          .work =
              [](const simt::Shape& shape, int64_t value_bytes) {
                const int64_t m = shape.at("m"), n = shape.at("n"), k = shape.at("k");
                const int64_t blocks = (k + kScaleBlock - 1) / kScaleBlock;
                const int64_t floats = m * n + blocks * (m + (n + kScaleBlock - 1) / kScaleBlock);
                return simt::Work{
                    .flops = 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k),
                    .least_bytes = (m + n) * k * value_bytes + floats * int64_t{sizeof(float)}};
              },
          .launch =
              [](simt::Device& device, const simt::Shape& shape, int rung) {
                const ScaledGemmBuffers<T> buffers{&device, shape.at("m"), shape.at("n"), shape.at("k"),
                                                   ScaledGemmScales::blocks};
                simt::fill_repeating({buffers.a, buffers.b});
                simt::fill_repeating({buffers.a_scales, buffers.b_scales});
                buffers.launch(rung);
              }};
}

inline simt::KernelCase scaled_gemm_case() {
  return {.name = "scaled_gemm",
          .title = "Matrix product of e4m3 matrices with block scales, C in float32",
          .shape = {{"m", 128}, {"n", 256}, {"k", 384}},
          .rungs = scaled_gemm_rungs(),
          .passes = {scaled_gemm_pass<__nv_fp8_e4m3>(), scaled_gemm_pass<int8_t>()}};
}

}  // namespace tenfold::kernels
