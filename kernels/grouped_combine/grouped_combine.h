#pragma once
// The second product of a mixture of experts, whose rows go back to their tokens, and its gradients.

#include <cstdint>

namespace tenfold::kernels {

inline constexpr int kGroupedCombineRungs = 3;
/// The rung that adds in a fixed order, and those that add by atomics: in float32, and in pairs of 16 bits.
inline constexpr int kCombineTwoPassRung = 0, kCombineFloatsRung = 1, kCombinePairsRung = 2;

/// `tokens` tokens, each with at most `active` rows: one for each expert that it goes to. A row has `depth` values, a
/// result `columns`.
struct CombineShape {
  int64_t tokens, active, experts, depth, columns;
  constexpr int64_t rows() const { return tokens * active; }
};

/// Which row is whose, on the device. Rows are sorted by expert: `offsets` (experts + 1) begins with 0, does not fall,
/// and ends with tokens * active or less. `token_of` (rows) is the token that a row is of. `rows_of` (tokens, active)
/// is its inverse: the token's rows in the order in which they are added, -1 where it has fewer. `scales` (rows) are
/// what the router weights rows with; null: 1.
struct CombineRouting {
  const int *offsets, *token_of, *rows_of;
  const float* scales;
};

/// Bytes of `workspace`. Rung 0: every row's result, of 16 bits. Rung 1: every token's, of float32. Rung 2: none.
constexpr int64_t grouped_combine_workspace_bytes(const CombineShape& shape, int rung) {
  if (rung == kCombineTwoPassRung) return shape.rows() * shape.columns * 2;
  return rung == kCombineFloatsRung ? shape.tokens * shape.columns * int64_t{sizeof(float)} : 0;
}

/// out[t] = the sum of scales[r] * (rows[r] * weights[expert of r]) over token t's rows r; 0 for a token without any.
/// `out` is (tokens, columns), `rows` (tokens * active, depth), sorted by expert, `weights` (experts, depth, columns),
/// or, `transposed`, (experts, columns, depth), of which the transpose is meant: then this is the input's gradient of
/// an expert's first product, with `rows` the gradient of its results. Row-major without gaps, all __half or all
/// __nv_bfloat16. Rows behind the last offset are neither read nor written.
/// Rungs: 0 two passes, the rows' results in `workspace` and a sum for each token, in the order of rows_of: the same
/// bits each time; 1 floats, atomics in float32 in `workspace`, rounded at the end; 2 pairs, atomics on two neighbours
/// of 16 bits in `out`, where every addition rounds. Rungs 1 and 2 do not look at rows_of; for three rows or more of a
/// token their order is that in which blocks end, and the last bits differ from run to run. Every shape and alignment
/// is taken, but for rung 2, whose columns are even and whose `out` begins at a multiple of 4 bytes; copies are of 16
/// bytes where depth and columns are divisible by 8 and all arrays begin at a multiple of 16. `blocks` blocks walk over
/// the list of tiles; any number is right. No two arrays may overlap. Throws std::invalid_argument, before any launch,
/// for a size below 1 (tokens: below 0) or above 2^30, active above 32, more than 2^30 rows or tiles, blocks outside
/// 1 .. 2^30, an unknown rung, a workspace that is missing, and what rung 2 does not take; std::runtime_error on a GPU
/// before compute capability 8.0.
/// Sources: NVIDIA, TensorRT-LLM, pull request 3294, "CUTLASS MoE FC2+Finalize fusion", whose epilogue adds by atomics,
/// and its option disable_finalize_fusion; FlashInfer, pull request 3976, which brings the two passes back for their
/// order.
template <class T, class Stream>
void grouped_combine(Stream stream, T* out, void* workspace, const T* rows, const T* weights,
                     const CombineRouting& routing, const CombineShape& shape, bool transposed, int64_t blocks,
                     int rung = kCombineTwoPassRung);

/// Elements of grouped_combine_backward()'s `workspace`: a part of the router's gradient for each row and 32 values.
constexpr int64_t grouped_combine_backward_workspace(const CombineShape& shape) {
  return shape.rows() * ((shape.depth + 127) / 128 * 4);
}

/// The gradients of grouped_combine(), not transposed, in `rows` and `scales`, for `dout` (tokens, columns), the
/// gradient in its result: drows[r] = scales[r] * (dout[token of r] * transpose(weights[expert of r])), and dscales[r]
/// = the same product without the scale, times rows[r]: the product of dout and the expert's result, which nobody keeps
/// or computes again. `drows` is (tokens * active, depth), `dscales` (tokens * active) float32. Always the same bits.
/// `rows_of` is not looked at. Types, arrays and errors as those of grouped_combine().
/// Source of the order of the router's gradient: W. Guo et al., "SonicMoE: Accelerating MoE with IO and Tile-aware
/// Optimizations", 2025 (https://arxiv.org/abs/2512.14080).
template <class T, class Stream>
void grouped_combine_backward(Stream stream, T* drows, float* dscales, float* workspace, const T* dout, const T* rows,
                              const T* weights, const CombineRouting& routing, const CombineShape& shape,
                              int64_t blocks);

}  // namespace tenfold::kernels
