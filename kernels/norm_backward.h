#pragma once
// Sizes of the norms' backward pass (norm_backward.cuh), plain C++.

#include <algorithm>
#include <cstdint>

namespace tenfold::kernels {

inline constexpr int kNormBackwardRungs = 2;

/// Into how many parts the backward pass cuts the rows for its column sums: about 8 rows each, at most 256 parts,
/// which is two for each SM of a large GPU, as many as its registers hold of rows of 4096 values. With
/// fewer rows to a part the parts' own sums would be most of what is written.
inline int64_t norm_parts(int64_t rows) { return std::min<int64_t>((rows + 7) / 8, 256); }

}  // namespace tenfold::kernels
