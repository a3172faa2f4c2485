// installs as <tenfold/eight_bit_rows.h>
#pragma once
// A weight in 8 bits with one scale for each row, which is an output channel of a linear layer, and the product that
// reads it: weight-only quantization.
//
//   const EightBitRows rows = int8_rows(layer->weight);
//   y = weight_only_linear(x, rows, layer->bias);   // on any device, in any type
//   y = one_kernel_linear(x, rows, layer->bias);    // for a few tokens on a CPU: no weight in 16 or 32 bits at all

#include <torch/torch.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "lessons/21_mixed_precision/autocast.h"

namespace tenfold {

/// A weight is about codes * scales: a quarter of the bytes of 32 bits, and 4 for each row.
struct EightBitRows {
  torch::Tensor codes;   ///< (out, in), int8 or float8_e4m3fn
  torch::Tensor scales;  ///< (out), float
};

/// Scales of a weight (out, in) by which the largest magnitude of each row becomes `largest_code`. A row of zeros gets
/// the smallest scale.
inline torch::Tensor row_scales(const torch::Tensor& weight, double largest_code) {
  const torch::Tensor largest = weight.detach().abs().amax(1).to(torch::kFloat);
  return largest.div_(largest_code).clamp_min_(std::numeric_limits<float>::epsilon());
}

/// To the nearest of 256 equal steps, zero exactly zero. The same codes as PyTorch's per-channel symmetric observer:
/// half of 255 steps on each side, so that the largest of a row rounds to 128 half of the time and is clamped to 127.
inline EightBitRows int8_rows(const torch::Tensor& weight) {
  const torch::Tensor scales = row_scales(weight, 127.5);
  torch::Tensor steps = weight.detach().to(torch::kFloat).mul(scales.reciprocal().unsqueeze(1)).round_();
  return {steps.clamp_(-128, 127).to(torch::kChar), scales};
}

/// To the nearest float of 8 bits with 4 exponent bits and 3 of the mantissa, which ends at 448: the error of a small
/// weight is smaller than with equal steps, that of a large one larger.
inline EightBitRows fp8_rows(const torch::Tensor& weight) {
  constexpr double kLargest = 448;  // beyond it float8_e4m3fn is not a number
  const torch::Tensor scales = row_scales(weight, kLargest);
  torch::Tensor values = weight.detach().to(torch::kFloat).div(scales.unsqueeze(1));
  return {values.clamp_(-kLargest, kLargest).to(torch::kFloat8_e4m3fn), scales};
}

/// x (..., in) by the rows, and a bias (out) where there is one: (..., out), of x's type, under autocast of autocast's.
/// 16 bits hold every code. Only so many rows of the weight are in that type at a time: with all of them the peak would
/// be that of the weight before, as it is where x needs a gradient, since autograd keeps them all.
inline torch::Tensor weight_only_linear(const torch::Tensor& x, const EightBitRows& rows, const torch::Tensor& bias,
                                        int64_t rows_at_a_time = 256) {
  const torch::Tensor input = autocast_input(x);
  const bool half = input.scalar_type() == torch::kHalf;  // sums of codes may be above its largest number, 65504
  const int64_t outputs = rows.codes.size(0);
  std::vector<int64_t> shape = input.sizes().vec();
  shape.back() = outputs;
  torch::Tensor y = torch::empty(shape, input.options());
  for (int64_t begin = 0; begin < outputs; begin += rows_at_a_time) {
    const int64_t count = std::min(rows_at_a_time, outputs - begin);
    torch::Tensor part = rows.codes.narrow(0, begin, count).to(input.scalar_type());  // (count, in)
    if (half) part.mul_(rows.scales.narrow(0, begin, count).unsqueeze(1));
    y.narrow(-1, begin, count).copy_(torch::nn::functional::linear(input, part));
  }
  if (!half) y.mul_(rows.scales);  // once for each output, not once for each weight
  if (bias.defined()) y.add_(bias);
  return y;
}

/// The same by a kernel of LibTorch that reads codes of int8 and multiplies, for inference: autograd has no derivative
/// of it. A CPU's is fast in bfloat16 only, to which x, the scales and the sums are rounded. That of CUDA (2.11) takes
/// 32 bits only and gives each thread a result, so that the lanes of a warp read 32 rows: right, and slow. Throws where
/// 16 does not divide x's last size: a CPU's reads 16 codes at a time and past the end of a row, unchecked.
inline torch::Tensor one_kernel_linear(const torch::Tensor& x, const EightBitRows& rows, const torch::Tensor& bias) {
  TORCH_CHECK(rows.codes.scalar_type() == torch::kChar, "one_kernel_linear: takes codes of int8, not ",
              rows.codes.scalar_type());
  TORCH_CHECK(x.size(-1) % 16 == 0, "one_kernel_linear: needs inputs that 16 divides, not ", x.size(-1));
  const torch::Tensor input = autocast_input(x);
  const at::ScalarType type = input.is_cuda() ? torch::kFloat : torch::kBFloat16;
  std::vector<int64_t> shape = input.sizes().vec();
  shape.back() = rows.codes.size(0);
  torch::Tensor y = at::_weight_int8pack_mm(input.reshape({-1, input.size(-1)}).to(type).contiguous(), rows.codes,
                                            rows.scales.to(type))
                        .to(input.scalar_type())
                        .view(shape);
  if (bias.defined()) y.add_(bias);
  return y;
}

}  // namespace tenfold
