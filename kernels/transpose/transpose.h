#pragma once
// The transpose ladder: the same copy five times, to see what the order of memory accesses alone costs.

#include <cstdint>

namespace tenfold::kernels {

inline constexpr int kTransposeRungs = 5;

/// out (columns, rows) = in (rows, columns) transposed, both row-major and not overlapping. Rungs: 0 naive, reads
/// coalesced; 1 naive, writes coalesced; 2 through a tile in shared memory; 3 the tile padded; 4 the tile padded, 16
/// bytes per access (a side whose rows do not begin at multiples of 16 bytes is moved in 4-byte accesses instead).
/// Throws std::invalid_argument for a size below 1, for a matrix of more tiles than a grid has blocks, and for an
/// unknown rung. After Ruetsch and Micikevicius, "Optimizing Matrix Transpose in CUDA", 2009.
template <class Stream>
void transpose(Stream stream, float* out, const float* in, int64_t rows, int64_t columns,
               int rung = kTransposeRungs - 1);

}  // namespace tenfold::kernels
