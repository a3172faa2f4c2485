// A product of 8-bit matrices with scales: our rungs beside cuBLAS in 8 bits, where the GPU has it, and in 16.
#include "ladder.h"

#include <cuda_fp8.h>

#include "kernels/hgemm/hgemm_case.h"
#include "kernels/rungs_here.h"
#include "kernels/scaled_gemm/scaled_gemm_case.h"

namespace {
using namespace tenfold::bench;
using kernels::kScaleBlock;
using kernels::ScaledGemmScales;

/// A matrix (rows, k) in 8 bits: codes, a scale for each `high` x `wide` of them, and what they stand for.
struct EightBits {
  Tensor codes, scales, values;
};

/// The largest of each block becomes the largest code.
EightBits quantised(const Tensor& values, torch::ScalarType type, int64_t high, int64_t wide) {
  const int64_t rows = values.size(0), k = values.size(1);
  const int64_t down = (rows + high - 1) / high, across = (k + wide - 1) / wide;
  const Tensor whole = at::constant_pad_nd(values, {0, across * wide - k, 0, down * high - rows});
  const Tensor scales = whole.view({down, high, across, wide}).abs().amax({1, 3}) / (type == torch::kChar ? 127 : 448);
  const Tensor each = scales.repeat_interleave(high, 0).repeat_interleave(wide, 1).slice(0, 0, rows).slice(1, 0, k);
  const Tensor scaled = values / each;
  const Tensor codes = type == torch::kChar ? scaled.round().to(type) : scaled.clamp(-448, 448).to(type);
  return {codes, scales, codes.to(torch::kFloat).to(torch::kDouble) * each.to(torch::kDouble)};
}

template <class T>
Ladder product(const Place& place, ScaledGemmScales scales) {
  constexpr bool kInt8 = std::is_same_v<T, int8_t>;
  const auto type = kInt8 ? torch::kChar : torch::kFloat8_e4m3fn;
  const bool blocks = scales == ScaledGemmScales::blocks;
  const simt::Pass pass = kernels::scaled_gemm_pass<T>();
  const simt::Shape shape = place.pick(pass, {{"m", 65}, {"n", 136}, {"k", 272}});
  const int64_t m = shape.at("m"), n = shape.at("n"), k = shape.at("k");
  const EightBits a = quantised(place.normal({m, k}), type, blocks ? 1 : m, blocks ? kScaleBlock : k);
  const EightBits b = quantised(place.normal({n, k}), type, blocks ? kScaleBlock : n, blocks ? kScaleBlock : k);
  const Tensor a_scales = a.scales.t().contiguous(), b_scales = b.scales, c = place.normal({m, n});

  const Tensor a16 = a.values.to(torch::kBFloat16), b16 = b.values.t().contiguous().to(torch::kBFloat16);
  Ladder ladder{
      .name = ladder_name(blocks ? "scaled GEMM, scales of blocks" : "scaled GEMM, a scale each", type, {m, n, k}),
      .flops = flops_of(pass, shape, type),
      .expected = {at::mm(a.values, b.values.t())},
      .tolerance = 2e-2,  // operands and result of those in bfloat16
      .contestants = {{"torch::mm, bfloat16", [=] { return std::vector{at::mm(a16, b16)}; }}}};
  const Tensor c16 = torch::empty({m, n}, a16.options());
  if (!place.device.is_cuda() || kernels::hgemm_rungs_here<__nv_bfloat16>() > 1) {
    ladder.contestants.push_back(
        {"hgemm, bfloat16", [=] {
           launch_where_they_are({{"c", c16}, {"a", a16}, {"b", b16}}, [&](auto stream, auto value) {
             using T16 = decltype(value);
             if constexpr (sizeof(T16) == 2)
               kernels::hgemm(stream, data_of<T16>(c16), data_of<T16>(a16), data_of<T16>(b16), m, n, k);
           });
           return std::vector{c16};
         }});
  }
  // cuBLAS in 8 bits: fp8 from 8.9 on, its scales of blocks on 9.0 alone. _int_mm knows no scales: they cost a kernel.
  const int capability = place.device.is_cuda() ? kernels::compute_capability() : 0;
  if (!kInt8 && (blocks ? capability == 90 : capability >= 89)) {
    const Tensor a_scale = blocks ? a_scales.t() : a_scales.view({}),
                 b_scale = blocks ? b_scales.t() : b_scales.view({});
    ladder.contestants.push_back(
        {"torch::_scaled_mm", [=] {
           return std::vector{at::_scaled_mm(a.codes, b.codes.t(), a_scale, b_scale, {}, {}, torch::kBFloat16)};
         }});
  }
  if (kInt8 && !blocks && capability >= 75) {
    const Tensor scale = (a_scales * b_scales).view({});
    ladder.contestants.push_back(
        {"torch::_int_mm, scaled", [=] { return std::vector{at::_int_mm(a.codes, b.codes.t()) * scale}; }});
  }

  const int all = kernels::kScaledGemmAllRungs<T>,
            here = place.device.is_cuda() ? kernels::scaled_gemm_rungs_here<T>() : all;
  skip_rungs(ladder, here, all, kernels::reason_not_here());
  add_rungs(ladder, here, [=](int rung) {
    launch_where_they_are({{"c", c}, {"a", a.codes}, {"b", b.codes}, {"a_scales", a_scales}, {"b_scales", b_scales}},
                          [&](auto stream, auto value) {
                            if constexpr (std::is_same_v<decltype(value), float>) {  // C's type
                              kernels::scaled_gemm(stream, data_of<float>(c), data_of<T>(a.codes), data_of<T>(b.codes),
                                                   data_of<float>(a_scales), data_of<float>(b_scales), m, n, k, scales,
                                                   rung);
                            }
                          });
    return std::vector{c};
  });
  return ladder;
}
}  // namespace

int main(int argc, char** argv) {
  return run(argc, argv,
             {[](const Place& place) { return product<__nv_fp8_e4m3>(place, ScaledGemmScales::blocks); },
              [](const Place& place) { return product<__nv_fp8_e4m3>(place, ScaledGemmScales::tensor); },
              [](const Place& place) { return product<int8_t>(place, ScaledGemmScales::blocks); },
              [](const Place& place) { return product<int8_t>(place, ScaledGemmScales::tensor); }});
}
