#include "common/dry_gpu/arithmetic/cuda_only.h"

#include <ATen/ATen.h>

#include <cmath>
#include <limits>
#include <map>

#include "common/dry_gpu/arithmetic/values.h"

namespace tenfold::dry {
namespace {

using at::Tensor;

Values batch_norm(const Values& in, const Values&) {
  const bool training = in[5].toBool();
  const auto [out, mean, inverse] =
      at::native_batch_norm(wide(in[0]), optional_of(in[1]), optional_of(in[2]), optional_of(in[3]), optional_of(in[4]),
                            training, in[6].toDouble(), in[7].toDouble());
  if (!training) return {out, c10::IValue(), c10::IValue(), c10::IValue()};
  return {out, mean, inverse, c10::IValue()};
}

Values batch_norm_backward(const Values& in, const Values&) {
  const auto [input, weight, bias] = at::native_batch_norm_backward(
      wide(in[1]), wide(in[0]), wide(in[2]), optional_of(in[3]), optional_of(in[4]), wide(in[5]), wide(in[6]),
      /*train=*/true, in[7].toDouble(), {true, true, true});
  return {input, weight, bias};
}

// A CPU's normalisations want one type for everything; a GPU's keep weights and statistics in 32 bits beside 16-bit
// inputs.
Values layer_norm_backward(const Values& in, const Values&) {
  const auto mask = in[7].toBoolList();
  const auto weight = optional_of(in[5]), bias = optional_of(in[6]);
  const auto [input, of_weight, of_bias] =
      at::native_layer_norm_backward(wide(in[0]), wide(in[1]), in[2].toIntVector(), wide(in[3]), wide(in[4]),
                                     weight ? std::optional(wide(*weight)) : std::nullopt,
                                     bias ? std::optional(wide(*bias)) : std::nullopt, {mask[0], mask[1], mask[2]});
  return {input, of_weight, of_bias};
}

Values layer_norm(const Values& in, const Values&) {
  const auto weight = optional_of(in[2]), bias = optional_of(in[3]);
  const auto [out, mean, rstd] =
      at::native_layer_norm(wide(in[0]), in[1].toIntVector(), weight ? std::optional(wide(*weight)) : std::nullopt,
                            bias ? std::optional(wide(*bias)) : std::nullopt, in[4].toDouble());
  return {out, mean, rstd};
}

Values rms_norm(const Values& in, const Values&) {
  const Tensor x = wide(in[0]);
  std::vector<int64_t> over;
  for (size_t i = 1; i <= in[1].toIntVector().size(); ++i) over.push_back(-static_cast<int64_t>(i));
  const double epsilon = in[3].isNone() ? std::numeric_limits<float>::epsilon() : in[3].toDouble();
  const Tensor rstd = at::rsqrt(x.square().mean(over, true) + epsilon);
  const auto weight = optional_of(in[2]);
  return {weight ? x * rstd * wide(*weight) : x * rstd, rstd};
}

Values rms_norm_backward(const Values& in, const Values&) {
  const Tensor gradient = wide(in[0]), x = wide(in[1]), rstd = wide(in[3]);
  const auto shape = in[2].toIntVector();
  std::vector<int64_t> over, rows;
  for (int64_t i = 0; i < x.dim(); ++i) (i < x.dim() - static_cast<int64_t>(shape.size()) ? rows : over).push_back(i);
  const auto weight = optional_of(in[4]);
  const Tensor normed = x * rstd, weighted = weight ? gradient * wide(*weight) : gradient;
  const Tensor input = rstd * (weighted - normed * (weighted * normed).mean(over, true));
  return {input,
          weight ? c10::IValue((rows.empty() ? gradient * normed : (gradient * normed).sum(rows))) : c10::IValue()};
}

// half_to_float: a GPU reads 16 bits and writes 32.
Values softmax(const Values& in, const Values&) {
  const Tensor x = tensor_of(in[0]);
  return {at::_softmax(in[2].toBool() ? x.to(at::kFloat) : x, in[1].toInt(), false)};
}

Values log_softmax(const Values& in, const Values&) {
  const Tensor x = tensor_of(in[0]);
  return {at::_log_softmax(in[2].toBool() ? x.to(at::kFloat) : x, in[1].toInt(), false)};
}

// The gradient comes in 32 bits, and goes out in the input's type.
Values softmax_backward(const Values& in, const Values&) {
  const Tensor gradient = wide(in[0]);
  return {at::_softmax_backward_data(gradient, wide(in[1]), in[2].toInt(), gradient.scalar_type())};
}

Values log_softmax_backward(const Values& in, const Values&) {
  const Tensor gradient = wide(in[0]);
  return {at::_log_softmax_backward_data(gradient, wide(in[1]), in[2].toInt(), gradient.scalar_type())};
}

// Products of 16 bits whose result has 32: a CPU has no such overload. With `out` the last argument is written.
Values wide_mm(const Values& in, const Values&) {
  const Tensor product = at::mm(wide(in[0]), wide(in[1]));
  if (in.size() == 3) return {product};
  return {tensor_of(in.back()).copy_(product)};
}

Values wide_addmm(const Values& in, const Values&) {
  const Tensor sum = at::addmm(wide(in[0]), wide(in[1]), wide(in[2]), in[4].toScalar(), in[5].toScalar());
  if (in.size() == 6) return {sum};
  return {tensor_of(in.back()).copy_(sum)};
}

// The CPU's counts no integers. A GPU computes their bins in 64 bits.
Values histc(const Values& in, const Values&) {
  const Tensor x = tensor_of(in[0]);
  const int64_t bins = in[1].toInt();
  if (x.is_floating_point()) return {at::histc(x, bins, in[2].toScalar(), in[3].toScalar())};
  int64_t low = in[2].toScalar().toLong(), high = in[3].toScalar().toLong();
  if (low == high && x.numel() > 0) low = x.min().item().toLong(), high = x.max().item().toLong();
  if (low == high) --low, ++high;
  TORCH_CHECK(bins > 0 && low < high, "histc: expected bins > 0 and max >= min");
  const Tensor all = x.flatten().to(at::kLong), inside = all.masked_select(all.ge(low).logical_and(all.le(high)));
  const Tensor bin = ((inside - low) * bins).div(high - low, "trunc").clamp_max(bins - 1);
  return {at::bincount(bin, {}, bins).to(x.scalar_type())};
}

// cuDNN makes the gradient together with the loss, for a gradient of the loss of 1.
Values cudnn_ctc_loss(const Values& in, const Values&) {
  const auto lengths = [](const c10::IValue& value) {
    if (!value.isTensor()) return value.toIntVector();
    const Tensor numbers = value.toTensor().to(at::kLong).contiguous();
    return std::vector<int64_t>(numbers.const_data_ptr<int64_t>(), numbers.const_data_ptr<int64_t>() + numbers.numel());
  };
  const Tensor log_probs = tensor_of(in[0]), targets = tensor_of(in[1]).to(at::kLong);
  const std::vector<int64_t> of_inputs = lengths(in[2]), of_targets = lengths(in[3]);
  const int64_t blank = in[4].toInt();
  const auto [loss, alpha] = at::_ctc_loss(log_probs, targets, of_inputs, of_targets, blank);
  return {loss,
          at::_ctc_loss_backward(at::ones_like(loss), log_probs, targets, of_inputs, of_targets, loss, alpha, blank)};
}

}  // namespace

const OnCpu* on_cpu(const std::string& name) {
  static const auto& all = *new std::map<std::string, OnCpu>{
      {"aten::cudnn_batch_norm", batch_norm},
      {"aten::cudnn_batch_norm_backward", batch_norm_backward},
      {"aten::native_layer_norm", layer_norm},
      {"aten::native_layer_norm_backward", layer_norm_backward},
      {"aten::_fused_rms_norm", rms_norm},
      {"aten::_fused_rms_norm_backward", rms_norm_backward},
      {"aten::_softmax", softmax},
      {"aten::_log_softmax", log_softmax},
      {"aten::_softmax_backward_data", softmax_backward},
      {"aten::_log_softmax_backward_data", log_softmax_backward},
      {"aten::mm.dtype", wide_mm},
      {"aten::mm.dtype_out", wide_mm},
      {"aten::addmm.dtype", wide_addmm},
      {"aten::addmm.dtype_out", wide_addmm},
      {"aten::histc", histc},
      {"aten::_cudnn_ctc_loss", cudnn_ctc_loss},
  };
  for (const auto* table : {&all, &attention_on_cpu()}) {
    if (const auto known = table->find(name); known != table->end()) return &known->second;
  }
  return nullptr;
}

}  // namespace tenfold::dry
