#include "common/dry_gpu/arithmetic/cuda_only.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include <cmath>
#include <limits>
#include <map>

namespace tenfold::dry {
namespace {

using at::Tensor;
using Values = std::vector<c10::IValue>;

Tensor tensor_of(const c10::IValue& value) { return value.isTensor() ? value.toTensor() : Tensor(); }
std::optional<Tensor> optional_of(const c10::IValue& value) {
  const Tensor tensor = tensor_of(value);
  return tensor.defined() ? std::optional(tensor) : std::nullopt;
}
/// In 32 bits, unless it has more.
Tensor wide(const Tensor& tensor) {
  return tensor.defined() && tensor.scalar_type() != at::kDouble ? tensor.to(at::kFloat) : tensor;
}
Tensor wide(const c10::IValue& value) { return wide(tensor_of(value)); }

/// Attention in 32 bits, and its backward, of (B, H, T, D): the scores are made, as the kernels do not.
struct Attention {
  Tensor q, k, v, bias;
  int64_t causal = 0;  ///< 1: a row sees the keys up to its own number; 2: the last row sees all keys
  double scale = 0;
  Tensor kept = {};  ///< with dropout: 0, or 1 / (1 - p), for each share
  int64_t groups;    ///< heads of the keys and values that the program has

  Attention(const c10::IValue& query, const c10::IValue& key, const c10::IValue& value, const Tensor& with_bias,
            int64_t is_causal, const c10::IValue& with_scale)
      : q(wide(query)), k(wide(key)), v(wide(value)), bias(wide(with_bias)), causal(is_causal), groups(k.size(1)) {
    scale = with_scale.isNone() ? 1 / std::sqrt(static_cast<double>(q.size(-1))) : with_scale.toDouble();
    // Grouped queries: several heads share a key and a value.
    if (k.size(1) != q.size(1)) {
      k = k.repeat_interleave(q.size(1) / k.size(1), 1);
      v = v.repeat_interleave(q.size(1) / v.size(1), 1);
    }
  }

  Tensor scores() const {
    Tensor all = at::matmul(q, k.transpose(-2, -1)) * scale;
    if (causal != 0) {
      const int64_t diagonal = causal == 2 ? all.size(-1) - all.size(-2) : 0;
      const Tensor seen = at::ones({all.size(-2), all.size(-1)}, at::kBool).tril(diagonal);
      all = all.masked_fill(seen.logical_not(), -std::numeric_limits<float>::infinity());
    }
    return bias.defined() ? all + bias : all;
  }

  std::pair<Tensor, Tensor> forward() const {
    const Tensor all = scores(), shares = at::softmax(all, -1);
    return {at::matmul(kept.defined() ? shares * kept : shares, v), at::logsumexp(all, -1)};
  }

  /// Gradients of query, key, value and the scores, before these are scaled. As in the kernels, from the result and the
  /// logarithm of the sum of exponentials that the program hands back: in ring attention those of more keys than these.
  std::array<Tensor, 4> backward(const Tensor& gradient, const Tensor& out, const Tensor& lse) const {
    const Tensor shares = at::exp(scores() - lse.unsqueeze(-1));
    Tensor of_shares = at::matmul(gradient, v.transpose(-2, -1));
    if (kept.defined()) of_shares = of_shares * kept;
    const Tensor of_scores = shares * (of_shares - (gradient * out).sum(-1, true));
    return {at::matmul(of_scores, k) * scale, of_groups(at::matmul(of_scores.transpose(-2, -1), q) * scale),
            of_groups(at::matmul((kept.defined() ? shares * kept : shares).transpose(-2, -1), gradient)), of_scores};
  }
  /// A gradient of keys or values: the sum over the heads that share them.
  Tensor of_groups(const Tensor& all) const {
    return all.unflatten(1, at::IntArrayRef{groups, all.size(1) / groups}).sum(2);
  }
  /// From these keys alone.
  std::array<Tensor, 4> backward(const Tensor& gradient) const {
    const auto [out, lse] = forward();
    return backward(gradient, out, lse);
  }
  /// Of rows that a kernel may have padded: (B, H, rows) or (B, H, rows, 1) to (B, H, T).
  Tensor of_queries(const c10::IValue& lse) const {
    return wide(lse).reshape({q.size(0), q.size(1), -1}).narrow(2, 0, q.size(2));
  }

  /// Dropout of the shares. Its mask is not kept: backward draws it again from two numbers that forward hands on.
  void drop(double probability, int64_t seed, int64_t offset) {
    if (probability == 0) return;
    at::Generator generator = at::detail::createCPUGenerator(static_cast<uint64_t>(seed) * 0x9E3779B97F4A7C15U ^
                                                             static_cast<uint64_t>(offset + 1));
    const Tensor shape = at::empty({q.size(0), q.size(1), q.size(2), k.size(2)}, q.options());
    kept = at::bernoulli(shape, 1 - probability, generator) / (1 - probability);
  }
};

int64_t number_in(const c10::IValue& value, int64_t place = 0) {
  const Tensor tensor = tensor_of(value);
  return tensor.defined() && tensor.numel() > place ? tensor.reshape({-1})[place].to(at::kLong).item<int64_t>() : 0;
}

void without_dropout(const c10::IValue& probability) {
  TORCH_CHECK(probability.toDouble() == 0, "attention with dropout draws from the card's generator inside its kernel");
}

/// What a kernel would take from the card's generator.
int64_t drawn(double dropout) {
  if (dropout == 0) return 0;
  return at::randint(std::numeric_limits<int64_t>::max(), {1}, at::kLong).item<int64_t>();
}

// Its kernel writes both numbers into one tensor on the card.
Values flash(const Values& in, const Values&) {
  Attention attention(in[0], in[1], in[2], Tensor(), in[4].toBool(), in[6]);
  const int64_t seed = drawn(in[3].toDouble());
  attention.drop(in[3].toDouble(), seed, 0);
  const auto [out, lse] = attention.forward();
  Values results(9);
  results[0] = out;
  results[1] = lse;
  if (in[3].toDouble() > 0) results[6] = at::tensor({seed, int64_t{0}}, at::kLong);
  return results;
}

Values flash_backward(const Values& in, const Values&) {
  Attention attention(in[1], in[2], in[3], Tensor(), in[11].toBool(), in[14]);
  attention.drop(in[10].toDouble(), number_in(in[12]), number_in(in[12], 1));
  const auto of = attention.backward(wide(in[0]), wide(in[4]), attention.of_queries(in[5]));
  return {of[0], of[1], of[2]};
}

Values efficient(const Values& in, const Values& made) {
  Attention attention(in[0], in[1], in[2], tensor_of(in[3]), in[6].toBool(), in[7]);
  attention.drop(in[5].toDouble(), number_in(made[2]), number_in(made[3]));
  const auto [out, lse] = attention.forward();
  Values results(4);
  results[0] = out;
  // The kernel's rows are padded to a multiple of 32; none are kept where nobody will go backwards.
  if (in[4].toBool()) results[1] = at::constant_pad_nd(lse, {0, (32 - lse.size(-1) % 32) % 32}, 0);
  return results;
}

Values efficient_backward(const Values& in, const Values&) {
  Attention attention(in[1], in[2], in[3], tensor_of(in[4]), in[11].toBool(), in[12]);
  attention.drop(in[9].toDouble(), number_in(in[7]), number_in(in[8]));
  const auto of = attention.backward(wide(in[0]), wide(in[5]), attention.of_queries(in[6]));
  Values results = {of[0], of[1], of[2], c10::IValue()};
  if (const Tensor bias = tensor_of(in[4]); bias.defined()) results[3] = of[3].sum_to_size(bias.sizes());
  return results;
}

Values cudnn_attention(const Values& in, const Values&) {
  Attention attention(in[0], in[1], in[2], tensor_of(in[3]), in[6].toBool(), in[8]);
  const int64_t seed = drawn(in[5].toDouble());
  attention.drop(in[5].toDouble(), seed, 0);
  const auto [out, lse] = attention.forward();
  Values results(9);
  results[0] = out;
  if (in[4].toBool()) results[1] = lse.unsqueeze(-1);
  results[6] = at::scalar_tensor(seed, at::kLong);
  results[7] = at::scalar_tensor(0, at::kLong);
  return results;
}

Values cudnn_attention_backward(const Values& in, const Values&) {
  Attention attention(in[1], in[2], in[3], tensor_of(in[8]), in[14].toBool(), in[15]);
  attention.drop(in[13].toDouble(), number_in(in[6]), number_in(in[7]));
  const auto of = attention.backward(wide(in[0]), wide(in[4]), attention.of_queries(in[5]));
  return {of[0], of[1], of[2]};
}

// Variable lengths: rows of all sequences one behind the other, of (1, T, H, D), from cu_seqlens[i] to cu_seqlens[i +
// 1].
std::vector<int64_t> starts_of(const c10::IValue& cumulative, int64_t rows) {
  const Tensor given = tensor_of(cumulative);
  if (!given.defined()) return {0, rows};
  const Tensor starts = given.to(at::kLong).contiguous();
  return {starts.const_data_ptr<int64_t>(), starts.const_data_ptr<int64_t>() + starts.numel()};
}

template <class Each>
void for_each_sequence(const Values& in, size_t query, size_t cumulative_q, const Each& each) {
  const Tensor q = tensor_of(in[query]), k = tensor_of(in[query + 1]);
  const std::vector<int64_t> of_q = starts_of(in[cumulative_q], q.size(1)),
                             of_k = starts_of(in[cumulative_q + 1], k.size(1));
  for (size_t i = 0; i + 1 < of_q.size(); ++i) each(of_q[i], of_q[i + 1], of_k[i], of_k[i + 1]);
}

Tensor part(const c10::IValue& of, int64_t begin, int64_t end) {
  return tensor_of(of).slice(1, begin, end).transpose(1, 2);  // (B, H, T, D)
}

/// A sequence's rows to where they lie among all. `longest` is what the program says that a sequence has at most, by
/// which the kernel is launched: nobody writes the rows behind it.
void copy_launched(const Tensor& all, const Tensor& rows, int64_t begin, int64_t end, const c10::IValue& longest) {
  const int64_t count = longest.isInt() ? std::min(end - begin, longest.toInt()) : end - begin;
  all.slice(1, begin, begin + count).copy_(rows.transpose(1, 2).slice(1, 0, count));
}

constexpr const char* kOnlyLengths = "variable lengths with a bias, with a window, or with lengths of the keys alone";

Values efficient_variable(const Values& in, const Values&) {
  without_dropout(in[8]);
  TORCH_CHECK(!tensor_of(in[3]).defined() && !tensor_of(in[12]).defined() && in[13].isNone(), kOnlyLengths);
  const Tensor q = wide(in[0]);
  Tensor out = at::full({q.size(0), q.size(1), q.size(2), tensor_of(in[2]).size(3)}, NAN);
  for_each_sequence(in, 0, 4, [&](int64_t a, int64_t b, int64_t c, int64_t d) {
    const auto [rows, lse] =
        Attention(part(in[0], a, b), part(in[1], c, d), part(in[2], c, d), Tensor(), in[9].toInt(), in[11]).forward();
    copy_launched(out, rows, a, b, in[6]);
  });
  Values results(6);
  results[0] = out;
  return results;
}

Values efficient_variable_backward(const Values& in, const Values&) {
  without_dropout(in[11]);
  TORCH_CHECK(!tensor_of(in[4]).defined() && in[18].isNone(), kOnlyLengths);
  Tensor of[3];
  for (size_t i = 0; i < 3; ++i) of[i] = at::full_like(wide(in[1 + i]), NAN);
  for_each_sequence(in, 1, 6, [&](int64_t a, int64_t b, int64_t c, int64_t d) {
    const auto parts =
        Attention(part(in[1], a, b), part(in[2], c, d), part(in[3], c, d), Tensor(), in[14].toInt(), in[16])
            .backward(wide(part(in[0], a, b)));
    copy_launched(of[0], parts[0], a, b, in[8]);
    copy_launched(of[1], parts[1], c, d, in[9]);
    copy_launched(of[2], parts[2], c, d, in[9]);
  });
  return {of[0], of[1], of[2], c10::IValue()};
}

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
      {"aten::_scaled_dot_product_flash_attention", flash},
      {"aten::_scaled_dot_product_flash_attention_backward", flash_backward},
      {"aten::_scaled_dot_product_efficient_attention", efficient},
      {"aten::_scaled_dot_product_efficient_attention_backward", efficient_backward},
      {"aten::_scaled_dot_product_cudnn_attention", cudnn_attention},
      {"aten::_scaled_dot_product_cudnn_attention_backward", cudnn_attention_backward},
      {"aten::_efficient_attention_forward", efficient_variable},
      {"aten::_efficient_attention_backward", efficient_variable_backward},
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
  const auto found = all.find(name);
  return found == all.end() ? nullptr : &found->second;
}

}  // namespace tenfold::dry
