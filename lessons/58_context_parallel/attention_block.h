// installs as <tenfold/attention_block.h>
#pragma once
// Attention of some queries to a part of their keys, by ATen's fused operators, and how such parts become one result.
//
// Each part comes with the log-sum-exp of its scores. With that of all parts the fused backward gives a part's share of
// the gradients: it computes probabilities as exp(score - log-sum-exp). On CUDA in 32 and 16 bits, on the CPU as well.
// Which kernel decides the time: on CUDA in 16 bits FlashAttention, which has none for 32 bits. That is
// FlashAttention-2, also on an H100 or a B200, where scaled_dot_product_attention() may take cuDNN's kernel (2.11). It
// gives away up to half of the speed there: J. Shah et al., FlashAttention-3, 2024, measure both on an H100. cuDNN's
// returns a log-sum-exp, too, and PyTorch's context_parallel takes it; here it waits for a card to be tried on.

#include <torch/torch.h>

#include <ATen/SDPBackend.h>

#include <cstdint>
#include <limits>
#include <tuple>
#include <utility>

namespace tenfold {

/// Whether FlashAttention takes these on their GPU: where ATen itself would choose it, or cuDNN, which asks for no
/// less. Asked as for a training: on 8.6, 8.9 and 12.x it has no backward for a d of 193 to 224, and a Function, which
/// runs without gradients, would not hear of it before.
inline bool flash_takes(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v, bool causal) {
  if (!q.is_cuda() || (q.scalar_type() != torch::kHalf && q.scalar_type() != torch::kBFloat16)) return false;
  const torch::AutoGradMode with_gradients(true);
  const auto chosen = static_cast<at::SDPBackend>(
      at::_fused_sdp_choice(q.detach().requires_grad_(), k.detach(), v.detach(), /*attn_mask=*/{}, 0, causal,
                            /*scale=*/{}, /*enable_gqa=*/k.size(1) != q.size(1)));
  return chosen == at::SDPBackend::flash_attention || chosen == at::SDPBackend::cudnn_attention;
}

/// Keys or values (B, G, m, d) for `heads` query heads, (B, heads, m, d), a copy unless G is that: each is there for
/// heads / G query heads that follow each other, as scaled_dot_product_attention(enable_gqa) has them.
inline torch::Tensor expand_heads(const torch::Tensor& few, int64_t heads) {
  return few.size(1) == heads ? few : few.repeat_interleave(heads / few.size(1), /*dim=*/1);
}
/// The way back: gradients (B, heads, m, d) to the sums of groups, (B, G, m, d), in the type `sum` if there are groups.
inline torch::Tensor sum_groups(const torch::Tensor& all, int64_t groups, torch::ScalarType sum) {
  return all.size(1) == groups ? all : all.unflatten(1, {groups, all.size(1) / groups}).sum(2, false, sum);
}

/// Queries (B, H, n, d) and keys and values (B, G, m, d) to the result (B, H, n, d), laid out as (B, n, H, d), and the
/// log-sum-exp of each query's scores, (B, H, n), in 32 bits. G divides H; where it is less, heads are grouped, and
/// only FlashAttention on CUDA needs no copies of keys and values for all H. Causal: n is m. On CUDA d is a multiple of
/// 16 bytes.
inline std::pair<torch::Tensor, torch::Tensor> attention_block(const torch::Tensor& q, const torch::Tensor& k,
                                                               const torch::Tensor& v, bool causal) {
  const auto all_heads = [&](const torch::Tensor& few) { return expand_heads(few, q.size(1)); };
  if (q.is_cpu()) {
    auto [out, lse] =
        at::_scaled_dot_product_flash_attention_for_cpu(q, all_heads(k), all_heads(v), /*dropout_p=*/0, causal);
    return {out, lse};
  }
  if (flash_takes(q, k, v, causal)) {
    const auto results = at::_scaled_dot_product_flash_attention(q, k, v, /*dropout_p=*/0, causal);
    return {std::get<0>(results), std::get<1>(results)};
  }
  const auto results = at::_scaled_dot_product_efficient_attention(q, all_heads(k), all_heads(v), /*attn_bias=*/{},
                                                                   /*compute_log_sumexp=*/true,
                                                                   /*dropout_p=*/0, causal);
  return {std::get<0>(results), std::get<1>(results).narrow(2, 0, q.size(2))};  // its rows are padded
}

struct QkvGradients {
  torch::Tensor q, k, v;
};

/// Shares of these keys in the gradients, from the result and the log-sum-exp of ALL keys. Shapes are those of q, k and
/// v. Sums over the heads of a group are in 32 bits, but for FlashAttention's.
inline QkvGradients attention_block_backward(const torch::Tensor& gradient, const torch::Tensor& q,
                                             const torch::Tensor& k, const torch::Tensor& v, const torch::Tensor& out,
                                             const torch::Tensor& lse, bool causal) {
  const auto all_heads = [&](const torch::Tensor& few) { return expand_heads(few, q.size(1)); };
  const auto of_groups = [&](const torch::Tensor& all) { return sum_groups(all, k.size(1), lse.scalar_type()); };
  if (q.is_cpu()) {
    auto [of_q, of_k, of_v] = at::_scaled_dot_product_flash_attention_for_cpu_backward(
        gradient, q, all_heads(k), all_heads(v), out, lse, /*dropout_p=*/0, causal);
    return {of_q, of_groups(of_k), of_groups(of_v)};
  }
  if (flash_takes(q, k, v, causal)) {
    const torch::Tensor even, no_seed = at::empty({2}, q.options().dtype(at::kUInt64));  // all sequences are full
    auto [of_q, of_k, of_v] = at::_scaled_dot_product_flash_attention_backward(
        gradient, q, k, v, out, lse.contiguous(), even, even, q.size(2), k.size(2), /*dropout_p=*/0, causal, no_seed,
        no_seed);
    return {of_q, of_k, of_v};
  }
  constexpr int64_t kAlignment = 32;  // that the kernel wants its rows of log-sum-exps padded to
  const int64_t padding = (kAlignment - lse.size(2) % kAlignment) % kAlignment;
  const torch::Tensor padded = at::constant_pad_nd(lse, {0, padding}, std::numeric_limits<float>::infinity());
  const torch::Tensor no_seed = at::empty({}, at::kLong), no_bias;
  const auto gradients = at::_scaled_dot_product_efficient_attention_backward(
      gradient, q, all_heads(k), all_heads(v), no_bias, out, padded.contiguous(), no_seed, no_seed, /*dropout_p=*/0,
      {true, true, true, false}, causal);
  return {std::get<0>(gradients), of_groups(std::get<1>(gradients)), of_groups(std::get<2>(gradients))};
}

/// Takes another part's result into `out` (B, H, n, d) and `lse` (B, H, n), in place: both are weighted by their shares
/// of the sum of exponentials, e^part_lse / (e^lse + e^part_lse) and the rest. That is a sigmoid, which cannot
/// overflow. Source: M. Milakov and N. Gimelshein, Online normalizer calculation for softmax, 2018; as a sigmoid
/// zhuzilin/ring-flash-attention, pull request 34.
struct RescaleParts {
  static void merge(const torch::Tensor& out, const torch::Tensor& lse, const torch::Tensor& part,
                    const torch::Tensor& part_lse) {
    out.lerp_(part.to(out.scalar_type()), torch::sigmoid(part_lse - lse).unsqueeze(-1));
    lse.copy_(torch::logaddexp(lse, part_lse));
  }
};

}  // namespace tenfold
