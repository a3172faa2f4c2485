#include "flash_attention.h"

#include "attention_tensor_cores.cuh"
#include "flash_attention.cuh"
#include "flash_attention_backward.cuh"

#if defined(TENFOLD_HOPPER) || !defined(__CUDACC__)
#include "flash_attention_sm90.h"
#endif

#include <algorithm>

namespace tenfold::kernels {
namespace {

constexpr unsigned kThreads = 128;  // of the kernels with a warp per row

std::string text_of(const AttentionShape& s) {
  return "batch " + std::to_string(s.batch) + ", heads " + std::to_string(s.heads) + ", queries " +
         std::to_string(s.queries) + ", keys " + std::to_string(s.keys) + ", head_dim " + std::to_string(s.head_dim);
}

void check(const std::string& name, const AttentionShape& s, int rung, int rungs, bool workspace_missing) {
  if (rung < 0 || rung >= rungs) throw no_such_rung(name, rung, rungs);
  if (s.batch < 1 || s.heads < 1 || s.queries < 1 || s.keys < 1)
    throw std::invalid_argument(name + ": a size below 1: " + text_of(s));
  if (!flash_attention_takes(s.head_dim)) {
    throw std::invalid_argument(name + ": head_dim " + std::to_string(s.head_dim) + "; it must be 32, 64 or 128");
  }
  constexpr int64_t kLargest = int64_t{1} << 30;  // an index plus a tile still fits in an int
  if (s.queries > kLargest || s.keys > kLargest || s.batch > kLargest || s.heads > kLargest / s.batch) {
    throw std::invalid_argument(name + ": queries, keys and batch * heads may be 2^30 at most: " + text_of(s));
  }
  if (workspace_missing) throw std::invalid_argument(name + ": rung " + std::to_string(rung) + " needs a workspace");
}

/// Blocks of a grid: `of_head` for each head.
unsigned grid(const std::string& name, const AttentionShape& s, int64_t of_head) {
  constexpr int64_t kMost = 0x7fffffff;
  if (of_head > kMost / (s.batch * s.heads))
    throw std::invalid_argument(name + ": more tiles than a grid has blocks: " + text_of(s));
  return static_cast<unsigned>(s.batch * s.heads * of_head);
}

int64_t tiles_of(int64_t count, int64_t size) { return (count + size - 1) / size; }

template <class T>
AttentionInput<T> input(const T* q, const T* k, const T* v, const AttentionShape& s,
                        std::initializer_list<const void*> others) {
  bool packets = packets_fit<T>(s.head_dim, {q, k, v}) && packets_fit<T>(s.head_dim, others);
  return {q,
          k,
          v,
          static_cast<int>(s.queries),
          static_cast<int>(s.keys),
          1 / std::sqrt(static_cast<float>(s.head_dim)),
          s.causal,
          packets};
}

/// Throws std::runtime_error, one line, where a rung of 9.0a cannot run.
void require_hopper([[maybe_unused]] int rung) {
#ifdef __CUDACC__
  const std::string text = "flash_attention: rung " + std::to_string(rung);
#ifndef TENFOLD_HOPPER
  throw std::runtime_error(text + " was not built: TENFOLD_CUDA_ARCHS had no 9.0");
#endif
  int device = 0, major = 0, minor = 0;
  check_launch(cudaGetDevice(&device));
  check_launch(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device));
  check_launch(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device));
  if (major != 9 || minor != 0) throw std::runtime_error(text + " needs a GPU of compute capability 9.0 (Hopper)");
#endif
}

/// Calls function(std::integral_constant<int, D>()) for the head_dim, which check() has seen.
template <class Function>
void with_head_dim(int64_t head_dim, const Function& function) {
  if (head_dim == 32) function(std::integral_constant<int, 32>());
  if (head_dim == 64) function(std::integral_constant<int, 64>());
  if (head_dim == 128) function(std::integral_constant<int, 128>());
}

template <class T, class Stream>
void materialised(Stream stream, T* out, float* logsumexp, float* scores, const AttentionInput<T>& in,
                  const AttentionShape& s) {
  const char* name = "flash_attention";
  const dim3 block(kScoreTile, kScoreTile);
  const int64_t row_tiles = tiles_of(s.queries, kScoreTile), rows = s.batch * s.heads * s.queries;
  const unsigned score_blocks = grid(name, s, row_tiles * tiles_of(s.keys, kScoreTile));
  const unsigned product_blocks = grid(name, s, row_tiles * (s.head_dim / kScoreTile));
  launch(stream, score_blocks, block, 0, attention_scores<T>, scores, in, static_cast<int>(s.head_dim));
  launch(stream, blocks_for(rows, kThreads / 32), kThreads, 0, attention_softmax<T>, scores, logsumexp, rows, in);
  launch(stream, product_blocks, block, 0, attention_product<T>, out, scores, in, static_cast<int>(s.head_dim));
}

}  // namespace

template <class T, class Stream>
void flash_attention(Stream stream, T* out, float* logsumexp, float* workspace, const T* q, const T* k, const T* v,
                     const AttentionShape& s, int rung) {
  const char* name = "flash_attention";
  check(name, s, rung, kFlashAttentionAllRungs<T>, rung == 0 && workspace == nullptr);
  if (rung >= kFlashAttentionRungs<T>) require_hopper(rung);
  const AttentionInput<T> in = input(q, k, v, s, {out});
  if (rung == 0) return materialised(stream, out, logsumexp, workspace, in, s);
#if defined(TENFOLD_HOPPER) || !defined(__CUDACC__)
  if constexpr (sizeof(T) == 2) {
    if (rung >= kFlashAttentionRungs<T> && in.packets && s.head_dim >= 64)
      return flash_attention_hopper(stream, out, logsumexp, in, s, rung);
  }
#endif
  rung = std::min(rung, kFlashAttentionRungs<T> - 1);
  with_head_dim(s.head_dim, [&](auto head_dim) {
    constexpr int kD = decltype(head_dim)::value;
    if (rung == 1) {
      launch(stream, grid(name, s, tiles_of(s.queries, kOnlineRows)), kOnlineRows * kOnlineLanes, 0,
             attention_online<T, kD>, out, logsumexp, in);
    }
    if (rung == 2) {
      launch(stream, grid(name, s, tiles_of(s.queries, kQueryRows)), 2 * kQueryRows, kForwardFloats<kD> * sizeof(float),
             attention_registers<T, kD>, out, logsumexp, in);
    }
    if constexpr (sizeof(T) == 2) {
      if (rung >= 3) {
        require_ampere(name);
        const auto start = [&](auto ahead, auto groups) {
          constexpr bool kAhead = decltype(ahead)::value;
          constexpr int kGroups = decltype(groups)::value;
          launch(stream, grid(name, s, tiles_of(s.queries, kGroups * kMmaRows)), kMmaThreads,
                 kMmaForwardValues<kD, kAhead, kGroups> * sizeof(T), attention_tensor_cores<T, kD, kAhead, kGroups>,
                 out, logsumexp, in);
        };
        using One = std::integral_constant<int, 1>;
        if (rung == 3) start(std::false_type(), One());
        if (rung == 4 || (rung == 5 && s.queries <= kMmaRows)) start(std::true_type(), One());
        if (rung == 5 && s.queries > kMmaRows) start(std::true_type(), std::integral_constant<int, 2>());
      }
    }
  });
}

template <class T, class Stream>
void flash_attention_backward(Stream stream, T* grad_q, T* grad_k, T* grad_v, float* workspace, const T* grad_out,
                              const T* q, const T* k, const T* v, const T* out, const float* logsumexp,
                              const AttentionShape& s, int rung) {
  const char* name = "flash_attention_backward";
  check(name, s, rung, kFlashAttentionBackwardRungs<T>, workspace == nullptr);
  const AttentionInput<T> in = input(q, k, v, s, {grad_q, grad_k, grad_v, grad_out});
  const AttentionGradient<T> from{grad_out, logsumexp, workspace};
  const int64_t rows = s.batch * s.heads * s.queries;
  const int block_rows = rung == 0 ? kGradientRows : kMmaRows;
  const unsigned key_blocks = grid(name, s, tiles_of(s.keys, block_rows)),
                 query_blocks = grid(name, s, tiles_of(s.queries, block_rows));
  if (rung == 1) require_ampere(name);
  launch(stream, blocks_for(rows, kThreads / 32), kThreads, 0, attention_dots<T>, workspace, grad_out, out, rows,
         static_cast<int>(s.head_dim));
  with_head_dim(s.head_dim, [&](auto head_dim) {
    constexpr int kD = decltype(head_dim)::value;
    if constexpr (sizeof(T) == 2) {
      if (rung == 1) {
        constexpr size_t kShared = kMmaGradientValues<kD> * sizeof(T);
        launch(stream, key_blocks, kMmaThreads, kShared + 4 * kMmaStep * sizeof(float),
               attention_gradient_keys_tensor_cores<T, kD>, grad_k, grad_v, in, from);
        launch(stream, query_blocks, kMmaThreads, kShared, attention_gradient_queries_tensor_cores<T, kD>, grad_q, in,
               from);
        return;
      }
    }
    launch(stream, key_blocks, 2 * kGradientRows, gradient_floats<kD>(2) * sizeof(float),
           attention_gradient_keys<T, kD>, grad_k, grad_v, in, from);
    launch(stream, query_blocks, 2 * kGradientRows, gradient_floats<kD>(1) * sizeof(float),
           attention_gradient_queries<T, kD>, grad_q, in, from);
  });
}

template void flash_attention(Stream, float*, float*, float*, const float*, const float*, const float*,
                              const AttentionShape&, int);
template void flash_attention(Stream, __half*, float*, float*, const __half*, const __half*, const __half*,
                              const AttentionShape&, int);
template void flash_attention(Stream, __nv_bfloat16*, float*, float*, const __nv_bfloat16*, const __nv_bfloat16*,
                              const __nv_bfloat16*, const AttentionShape&, int);
template void flash_attention_backward(Stream, float*, float*, float*, float*, const float*, const float*, const float*,
                                       const float*, const float*, const float*, const AttentionShape&, int);
template void flash_attention_backward(Stream, __half*, __half*, __half*, float*, const __half*, const __half*,
                                       const __half*, const __half*, const __half*, const float*, const AttentionShape&,
                                       int);
template void flash_attention_backward(Stream, __nv_bfloat16*, __nv_bfloat16*, __nv_bfloat16*, float*,
                                       const __nv_bfloat16*, const __nv_bfloat16*, const __nv_bfloat16*,
                                       const __nv_bfloat16*, const __nv_bfloat16*, const float*, const AttentionShape&,
                                       int);

}  // namespace tenfold::kernels
