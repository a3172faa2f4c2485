#pragma once
// A thread for each element, which does as much arithmetic for its 8 bytes of traffic as it is told: the kernel behind
// a GPU's roofline.

#include <cstdint>

namespace tenfold::kernels {

/// out[i] = in[i] after `updates` fused multiply-adds w = factor * w + summand, for i < count: 2 x updates FLOP for 8
/// bytes. `out` and `in` may be the same array. Throws std::invalid_argument for a count or updates below 1.
template <class Stream>
void repeated_fma(Stream stream, float* out, const float* in, int64_t count, int64_t updates, float factor,
                  float summand);

}  // namespace tenfold::kernels
