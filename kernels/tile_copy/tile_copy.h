#pragma once
// A copy, straight and through shared memory: what a tile costs where nobody shares it.

#include <cstdint>

namespace tenfold::kernels {

inline constexpr int kTileCopyRungs = 2;

/// out (count) = in (count), not overlapping. Rungs: 0 straight; 1 through a tile in shared memory, with a barrier.
/// Rung 1 is no improvement and is not meant to be one. Throws std::invalid_argument for a count below 1 or more than a
/// grid covers, and for an unknown rung.
template <class Stream>
void tile_copy(Stream stream, float* out, const float* in, int64_t count, int rung = 0);

}  // namespace tenfold::kernels
