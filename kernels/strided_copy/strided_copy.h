#pragma once
// The smallest kernel that shows what a warp's addresses cost: a copy whose lanes stand apart.

#include <cstdint>

namespace tenfold::kernels {

/// out[i] = in[offset + i * stride] for i < count. The warp writes neighbours and reads `stride` floats apart.
/// Throws std::invalid_argument for a count or stride below 1 and a negative offset.
template <class Stream>
void strided_copy(Stream stream, float* out, const float* in, int64_t count, int64_t stride, int64_t offset = 0);

}  // namespace tenfold::kernels
