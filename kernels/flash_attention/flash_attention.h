#pragma once
// Scaled dot-product attention, forward and backward, without the matrix of scores.

#include <cstdint>

namespace tenfold::kernels {

/// q and out are (batch, heads, queries, head_dim); k and v are (batch, heads, keys, head_dim); all contiguous:
/// head_dim is the fastest index, then the row. With `causal`, query i sees keys 0 to i (the mask begins top left, as
/// PyTorch's does), whatever the two lengths are, so every query sees at least one key.
struct AttentionShape {
  int64_t batch = 1, heads = 1, queries = 1, keys = 1, head_dim = 64;
  bool causal = false;
};

/// Pairs of a query and a key that it sees, of one head: with `causal`, the sum over queries i of min(keys, i + 1).
constexpr double attention_pairs(const AttentionShape& shape) {
  const auto queries = static_cast<double>(shape.queries), keys = static_cast<double>(shape.keys);
  if (!shape.causal) return queries * keys;
  if (queries <= keys) return queries * (queries + 1) / 2;
  return keys * (keys + 1) / 2 + (queries - keys) * keys;
}

/// Of so many products of queries and keys, or of others of that size, with a multiply-add for each pair that is seen
/// and each value of a row.
constexpr double attention_flops(const AttentionShape& shape, int products) {
  return products * 2 * static_cast<double>(shape.batch * shape.heads * shape.head_dim) * attention_pairs(shape);
}

/// The head dimensions that are compiled.
constexpr bool flash_attention_takes(int64_t head_dim) { return head_dim == 32 || head_dim == 64 || head_dim == 128; }

/// Rungs of the forward pass and of the backward pass for T = float, __half or __nv_bfloat16; those for tensor cores
/// take no float: the last three of forward, the last one of backward.
template <class T>
inline constexpr int kFlashAttentionRungs = sizeof(T) == 2 ? 6 : 3;
/// With those of the forward pass that are for GPUs of compute capability 9.0 alone. The microscope runs them all.
template <class T>
inline constexpr int kFlashAttentionAllRungs = sizeof(T) == 2 ? 9 : 3;
template <class T>
inline constexpr int kFlashAttentionBackwardRungs = sizeof(T) == 2 ? 2 : 1;

/// out = softmax(q k^T / sqrt(head_dim)) v for each head, the softmax over the keys that a query sees; and logsumexp
/// (batch, heads, queries): the logarithm of the sum of exp(score) of each query, natural, which backward needs. T is
/// float, __half or __nv_bfloat16; sums are float's. head_dim is 32, 64 or 128.
/// Rungs: 0 materialised: scores to memory, softmax, product (three kernels); 1 online softmax, keys and values in
/// tiles of shared memory; 2 tiles in registers, warps split by queries, causal tiles skipped; 3 tensor cores, 4
/// the next tile copied meanwhile, 5 32 queries a warp (these three not float, and compute capability 8.0; for up to 64
/// queries the last is as the one before); compiled for 9.0a alone, 6 wgmma and TMA, 7 warpgroups that multiply in
/// turns, 8 the softmax overlapped with products of its own warpgroup, too (these three for head_dim 64 and 128 and
/// arrays that begin at multiples of 16 bytes; else they leave the work to rung 5). `workspace` has
/// flash_attention_workspace_bytes() and may be null where that is 0. No two arrays may overlap. Throws
/// std::invalid_argument, before any launch, for a size below 1 or too large for a grid, another head_dim, a workspace
/// that is missing, or an unknown rung; std::runtime_error on a GPU that a rung does not run on, and for rungs of 9.0a
/// where they were not built. The default is the last one that a GPU has run. Sources: Milakov and
/// Gimelshein, "Online normalizer calculation for softmax", 2018 (arXiv:1805.02867); Dao, Fu, Ermon, Rudra and Re,
/// "FlashAttention", 2022 (arXiv:2205.14135); Dao, "FlashAttention-2", 2023 (arXiv:2307.08691); Shah, Bikshandi, Zhang,
/// Thakkar, Ramani and Dao, "FlashAttention-3", 2024 (arXiv:2407.08608).
template <class T, class Stream>
void flash_attention(Stream stream, T* out, float* logsumexp, float* workspace, const T* q, const T* k, const T* v,
                     const AttentionShape& shape, int rung = kFlashAttentionRungs<T> - 1);

/// The rung of the forward pass to take on a GPU of so many SMs: the last one, or rung 4, whose blocks have half as
/// many queries, where the last one's would be fewer than two for each SM. Expected, not yet measured. Never one of
/// those for 9.0a: no GPU has run them yet.
template <class T>
int flash_attention_rung(const AttentionShape& s, int sms) {
  constexpr int kLast = kFlashAttentionRungs<T> - 1;
  const int64_t blocks = s.batch * s.heads * ((s.queries + 127) / 128);
  return sizeof(T) == 2 && blocks < 2 * int64_t{sms} ? kLast - 1 : kLast;
}

/// Rung 0 keeps all scores: batch * heads * queries * keys floats. The others need nothing.
inline int64_t flash_attention_workspace_bytes(const AttentionShape& s, int rung) {
  return rung == 0 ? s.batch * s.heads * s.queries * s.keys * int64_t{4} : 0;
}

/// The gradients for `grad_out`, of q's shape, from what the forward pass read and wrote. Scores are computed again,
/// tile by tile, in two kernels: one for grad_k and grad_v, one for grad_q. Nothing is added by atomics, so the same
/// inputs give the same bits. Rungs: 0 CUDA cores, 1 tensor cores (not float; needs compute capability 8.0).
/// `workspace` has flash_attention_backward_workspace_bytes(). Throws as flash_attention() does.
template <class T, class Stream>
void flash_attention_backward(Stream stream, T* grad_q, T* grad_k, T* grad_v, float* workspace, const T* grad_out,
                              const T* q, const T* k, const T* v, const T* out, const float* logsumexp,
                              const AttentionShape& shape, int rung = kFlashAttentionBackwardRungs<T> - 1);

/// A float for each query: the sum of grad_out * out.
inline int64_t flash_attention_backward_workspace_bytes(const AttentionShape& s) {
  return s.batch * s.heads * s.queries * int64_t{4};
}

}  // namespace tenfold::kernels
