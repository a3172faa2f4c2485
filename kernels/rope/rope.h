#pragma once
// Rotary position embedding of queries or keys, in place, forward and backward.

#include <cstdint>

namespace tenfold::kernels {

inline constexpr int kRopeRungs = 3;

/// forward turns by the tables' angle, backward by the negative angle: the gradient of forward, and its inverse.
enum class Rotation { forward, backward };

/// Rotates, in place, each head of `values` (tokens, heads, head_dim), row-major. With half = head_dim / 2, elements i
/// and i + half of a head are a pair (a, b), which becomes (a cos - b sin, b cos + a sin): the half-split order of
/// GPT-NeoX and Llama, not the interleaved one of GPT-J. `cosines` and `sines` (positions, half), always float, are the
/// caller's; token t uses their row t % positions, so that a batch of sequences of `positions` tokens needs one table.
/// T is float, __half or __nv_bfloat16; the arithmetic is float's. Rungs: 0 a thread per element, 1 a thread per pair
/// and token, for all heads, 2 the same with 16-byte accesses where half and the addresses allow them. With few tokens
/// the last two have few threads, at most half * tokens. The tables must not overlap `values`. Throws
/// std::invalid_argument for a size below 1, an odd head_dim, more than 2^31 - 1 heads in all tokens together or an
/// unknown rung. Source: Su et al., "RoFormer: Enhanced Transformer with Rotary Position Embedding", 2021
/// (arXiv:2104.09864).
template <class T, class Stream>
void rope(Stream stream, T* values, const float* cosines, const float* sines, int64_t tokens, int64_t heads,
          int64_t head_dim, int64_t positions, Rotation rotation = Rotation::forward, int rung = kRopeRungs - 1);

}  // namespace tenfold::kernels
