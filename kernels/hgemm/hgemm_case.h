#pragma once
// HGEMM: its rungs and shapes, what it needs, and its launch under the microscope.

#include <cuda_bf16.h>

#include "common/kernel_page/kernel_case.h"
#include "kernels/hgemm/hgemm.h"

namespace tenfold::kernels {

/// Its buffers, of a type of 16 bits.
template <class T>
struct HgemmBuffers {
  simt::Stream device;
  int64_t m, n, k, of_a = m * k, of_b = k * n, of_c = m * n;
  simt::Buffer<T> a = device->buffer<T>("a", of_a), b = device->buffer<T>("b", of_b), c = device->buffer<T>("c", of_c);

  void launch(int rung) const { hgemm(device, c.data(), a.data(), b.data(), m, n, k, rung); }
};

inline std::vector<simt::Rung> hgemm_rungs() {
  return {
      {"CUDA cores", "As the last rung of sgemm: elements are widened to float on their way to shared memory."},
      {"mma", "One instruction of a warp multiplies 16 x 16 by 16 x 8; its fragments are loaded element by element."},
      {"ldmatrix",
       "One instruction loads four 8 x 8 matrices as mma wants them; a swizzle keeps their rows out of each "
       "other's banks."},
      {"cp.async", "Copies go past the registers and run three steps ahead; one barrier a step."},
      {"large tile",
       "A warp computes 64 x 64: fewer loads for each mma; fragments one step ahead, an order of blocks for "
       "L2."},
      {"wgmma",
       "Hopper: TMA copies boxes at the word of one thread, and four warps multiply 64 x 16 by 16 x 256 straight from "
       "shared memory; all wait for all."},
      {"producer", "A third warpgroup starts copies up to three tiles ahead; the other two only multiply."},
      {"persistent", "As many blocks as multiprocessors, which walk over tiles of C without a pause between them."},
      {"cluster", "Two blocks share their tile of B: each copies one half of it to both."},
      {"TMA store", "A warp leaves its results in shared memory, and TMA takes them to C while it multiplies on."}};
}

inline simt::Pass hgemm_pass() {
  return {.name = "hgemm",
          .rungs = names_of(hgemm_rungs()),
          .shape = {{"m", 4096}, {"n", 4096}, {"k", 4096}},
          .peak = simt::Peak::tensor_cores,
          .work =
              [](const simt::Shape& shape, int64_t value_bytes) {
                const int64_t m = shape.at("m"), n = shape.at("n"), k = shape.at("k");
                return simt::Work{
                    .flops = 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k),
                    .least_bytes = (m * k + k * n + m * n) * value_bytes};
              },
          .launch =
              [](simt::Device& device, const simt::Shape& shape, int rung) {
                const HgemmBuffers<__nv_bfloat16> buffers{&device, shape.at("m"), shape.at("n"), shape.at("k")};
                simt::fill_repeating({buffers.a, buffers.b});
                buffers.launch(rung);
              }};
}

inline simt::KernelCase hgemm_case() {
  return {.name = "hgemm",
          .title = "Matrix product of bfloat16 matrices, sums in float32",
          .shape = {{"m", 128}, {"n", 256}, {"k", 128}},
          .rungs = hgemm_rungs(),
          .passes = {hgemm_pass()}};
}

}  // namespace tenfold::kernels
