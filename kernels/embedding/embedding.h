#pragma once
// Embedding: rows of a table picked by token ids, and the gradient of the table.

#include <cstdint>

namespace tenfold::kernels {

inline constexpr int kEmbeddingRungs = 3;

/// out (tokens, width) = row ids[t] of weight (vocabulary, width) for each token t; all row-major. T is float, __half
/// or __nv_bfloat16 and values are copied as they are. An id below 0 or not below `vocabulary` reads nothing: its row
/// of `out` becomes NaN, which no loss survives unseen. Rungs: 0 a thread per token, 1 a block per token, 2 with
/// 16-byte accesses where the rows allow them. `out` must not overlap `weight`. Throws std::invalid_argument for a size
/// below 1, more than 2^31 - 1 tokens or an unknown rung.
template <class T, class Stream>
void embedding(Stream stream, T* out, const T* weight, const int64_t* ids, int64_t tokens, int64_t width,
               int64_t vocabulary, int rung = kEmbeddingRungs - 1);

inline constexpr int kEmbeddingBackwardRungs = 4;

/// Places of the ids that a block of embedding_backward()'s last rung adds up.
inline constexpr int64_t kEmbeddingChunk = 32;

/// Size of embedding_backward()'s workspace: two rows of float sums for each chunk.
inline int64_t embedding_workspace_bytes(int64_t tokens, int64_t width) {
  return (tokens + kEmbeddingChunk - 1) / kEmbeddingChunk * 2 * width * static_cast<int64_t>(sizeof(float));
}

/// The gradient, added to what `grad_weight` (vocabulary, width) holds, zeros or an earlier gradient (of a tied output
/// layer, or of the last microbatch). Place p of `ids` (tokens) is the id of token order[p]: grad_weight[ids[p]] +=
/// grad_out[order[p]] for rows of grad_out (tokens, width); without an `order` (nullptr) place p is token p. All rungs
/// but 0 need `ids` ascending: what torch::sort(ids, /*stable=*/true, ...) returns, values and indices. That is the
/// caller's duty: with equal ids apart sums are lost. Rows that no id names are neither read nor written; an id below 0
/// or not below `vocabulary` adds nothing. `workspace` has embedding_workspace_bytes() for rung 3, which alone uses it;
/// what it holds before does not matter. Rungs: 0 an atomic addition per element, float only, in any order, so that on
/// a GPU the last bits differ from run to run; 1 a block per run of equal ids, whose rows it adds up one after the
/// other; 2 the same with eight rows at once, and with 16-byte accesses where the rows allow them; 3 a block per 32
/// places, whatever their ids, and a second kernel for runs that go on from one block to the next. Rungs 1 to 3 add in
/// float, round once and, for the same inputs, give the same bits every time. Inputs must not overlap `grad_weight`.
/// Throws as embedding() does, and for rung 0 of another type than float.
template <class T, class Stream>
void embedding_backward(Stream stream, T* grad_weight, float* workspace, const T* grad_out, const int64_t* ids,
                        const int64_t* order, int64_t tokens, int64_t width, int64_t vocabulary,
                        int rung = kEmbeddingBackwardRungs - 1);

}  // namespace tenfold::kernels
