#pragma once
// The matrix products of a mixture of experts: rows sorted by expert, each expert's multiplied with its own weight.

#include <cstdint>

namespace tenfold::kernels {

inline constexpr int kGroupedGemmRungs = 6;
/// The rungs from which on the host reads no routing, blocks are as many as asked for, and no row is copied before.
inline constexpr int kGroupedDeviceRung = 2, kGroupedPersistentRung = 3, kGroupedGatherRung = 4;

/// `rows` sorted by expert, all experts' together; weights of `depth` x `columns` values.
struct GroupedShape {
  int64_t rows, experts, depth, columns;
};

/// Elements of `workspace`. Rung 0: inputs and results of `experts` buffers of `largest` rows, the largest expert's.
/// Rungs 1 to 3, where there is a `row_of`: the rows in their order.
constexpr int64_t grouped_gemm_workspace(const GroupedShape& shape, int64_t largest, bool gathered, int rung) {
  if (rung == 0) return shape.experts * largest * (shape.depth + shape.columns);
  return gathered && rung < kGroupedGatherRung ? shape.rows * shape.depth : 0;
}

/// out[t] = x[row_of[t]] * weights[e] for the rows t of expert e, offsets[e] to offsets[e + 1] - 1. `out` is (rows,
/// columns), `x` (any number of rows, depth), `weights` (experts, depth, columns), row-major without gaps, all __half
/// or all __nv_bfloat16; sums are float32 and rounded once. `offsets` (experts + 1) begins with 0, does not fall, and
/// ends with `rows` or less: rows behind its end are neither read nor written, so that `rows` may be a bound. An expert
/// may have no row, or all. `row_of` (rows) may repeat rows of x, as a token that goes to two experts does; it may be
/// null, for x whose rows lie in their order already. Both are on the device. `host_offsets` are the same numbers on
/// the host, for rungs 0 and 1 alone, which must wait for them; the others do not look at it.
/// Rungs: 0 padded, a batched product of buffers of the largest expert's size; 1 launches, one for each expert with
/// rows; 2 one grid, whose blocks search their expert in the offsets; 3 persistent, `blocks` blocks walk over the list
/// of tiles; 4 gathered: rows are read where they lie; 5 tails: the warps that have no row of an expert's last tile do
/// not multiply. `blocks` is looked at from rung 3 on; any number is right, grouped_gemm_wave() fills the GPU.
/// `workspace` has grouped_gemm_workspace() elements, and may be null where these are none. Results of all rungs are
/// the same bits. No two arrays may overlap. Every shape and alignment is taken; copies are of 16 bytes where depth and
/// columns are divisible by 8 and x, weights, out and workspace begin at a multiple of 16 bytes, else of single
/// elements. Throws std::invalid_argument, before any launch, for a size below 1 (rows: below 0) or above 2^30, a
/// routing that may need more than 2^30 tiles, an unknown rung, blocks outside 1 .. 2^30 where they count, a workspace
/// that is missing, and host offsets that are missing, fall, or do not lie in 0 .. rows; std::runtime_error on a GPU
/// before compute capability 8.0.
/// Sources: T. Gale et al., "MegaBlocks: Efficient Sparse Training with Mixture-of-Experts", MLSys 2023
/// (https://arxiv.org/abs/2211.15841), which neither pads to a capacity nor drops; NVIDIA, CUTLASS documentation,
/// "CUTLASS Grouped Kernel Schedulers", whose blocks walk over tiles of many problems; Triton, tutorial "Group GEMM"
/// (https://triton-lang.org/main/getting-started/tutorials/08-grouped-gemm.html), the same in a page of code.
template <class T, class Stream>
void grouped_gemm(Stream stream, T* out, T* workspace, const T* x, const int* row_of, const T* weights,
                  const int* offsets, const int* host_offsets, const GroupedShape& shape, int64_t blocks,
                  int rung = kGroupedGemmRungs - 1);

/// The gradient of the weights: dweights[e] = X^T * D for the rows X of x, as row_of has them, and D of `dout` (rows,
/// columns) that are expert e's; (depth, columns) each, zeros for an expert without rows. All experts' in one launch, a
/// block for each tile of 128 x 128, and the host reads no offset. Types, arrays and errors as those of grouped_gemm().
template <class T, class Stream>
void grouped_gemm_weights(Stream stream, T* dweights, const T* x, const int* row_of, const T* dout, const int* offsets,
                          const GroupedShape& shape);

/// Blocks of the last rung that the current GPU runs at a time. Not under the microscope.
template <class T>
int64_t grouped_gemm_wave(bool packets);

}  // namespace tenfold::kernels
