// Attention, each of its kernels' operators: what a GPU of that kind would return.
#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>

#include "common/dry_gpu/arithmetic/cuda_only.h"
#include "common/dry_gpu/arithmetic/values.h"

namespace tenfold::dry {
namespace {

using at::Tensor;

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

// FlashAttention's of variable lengths: the same, in the order of other arguments, of (T, H, D). Its causal mask ends
// in the last corner.
bool has_window(const c10::IValue& left, const c10::IValue& right) {
  const auto limits = [](const c10::IValue& value) { return !value.isNone() && value.toInt() >= 0; };
  return limits(left) || limits(right);
}

Values as_one_batch(const Values& in, size_t from, size_t count) {
  Values rows(in.begin() + static_cast<int64_t>(from), in.begin() + static_cast<int64_t>(from + count));
  for (c10::IValue& value : rows) value = tensor_of(value).unsqueeze(0);
  return rows;
}

Values flash_variable(const Values& in, const Values&) {
  TORCH_CHECK(tensor_of(in[3]).defined() && !has_window(in[11], in[12]) && !tensor_of(in[13]).defined() &&
                  !tensor_of(in[14]).defined(),
              kOnlyLengths);
  Values same = as_one_batch(in, 0, 3);
  const int64_t mask = in[8].toBool() ? 2 : 0;
  same.insert(same.end(), {{}, in[3], in[4], in[5], in[6], in[7], mask, true, in[10], {}, {}});
  Values results(5);
  results[0] = tensor_of(efficient_variable(same, {})[0]).squeeze(0);
  return results;
}

Values flash_variable_backward(const Values& in, const Values&) {
  TORCH_CHECK(tensor_of(in[6]).defined() && !has_window(in[15], in[16]), kOnlyLengths);
  Values same = as_one_batch(in, 0, 4);
  const int64_t mask = in[11].toBool() ? 2 : 0;
  same.insert(same.end(), {{}, in[4], in[6], in[7], in[8], in[9], in[5], in[10], {}, {}, mask, false, in[14], {}, {}});
  Values of = efficient_variable_backward(same, {});
  of.pop_back();  // a bias has none
  for (c10::IValue& gradient : of) gradient = tensor_of(gradient).squeeze(0);
  return of;
}

}  // namespace

const std::map<std::string, OnCpu>& attention_on_cpu() {
  static const auto& all = *new std::map<std::string, OnCpu>{
      {"aten::_scaled_dot_product_flash_attention", flash},
      {"aten::_scaled_dot_product_flash_attention_backward", flash_backward},
      {"aten::_scaled_dot_product_efficient_attention", efficient},
      {"aten::_scaled_dot_product_efficient_attention_backward", efficient_backward},
      {"aten::_scaled_dot_product_cudnn_attention", cudnn_attention},
      {"aten::_scaled_dot_product_cudnn_attention_backward", cudnn_attention_backward},
      {"aten::_efficient_attention_forward", efficient_variable},
      {"aten::_efficient_attention_backward", efficient_variable_backward},
      {"aten::_flash_attention_forward", flash_variable},
      {"aten::_flash_attention_backward", flash_variable_backward},
  };
  return all;
}

}  // namespace tenfold::dry
