#include "tile_copy.h"

#include <limits>
#include <stdexcept>
#include <string>

#include "tile_copy.cuh"

namespace tenfold::kernels {

template <class Stream>
void tile_copy(Stream stream, float* out, const float* in, int64_t count, int rung) {
  if (count < 1 || count > static_cast<int64_t>(std::numeric_limits<int32_t>::max()) * kTileCopyThreads)
    throw std::invalid_argument("tile_copy: cannot copy " + std::to_string(count) + " floats");
  if (rung < 0 || rung >= kTileCopyRungs) {
    throw std::invalid_argument("tile_copy: there is no rung " + std::to_string(rung) + ", only 0 to " +
                                std::to_string(kTileCopyRungs - 1));
  }
  const dim3 grid(static_cast<unsigned>((count + kTileCopyThreads - 1) / kTileCopyThreads)), block(kTileCopyThreads);
  launch(stream, grid, block, 0, rung == 0 ? copy_straight : copy_through_tile, out, in, count);
}

template void tile_copy(Stream, float*, const float*, int64_t, int);

}  // namespace tenfold::kernels
