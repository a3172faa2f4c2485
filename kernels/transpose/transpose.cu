// The launcher of the transpose ladder: checks the arguments and picks grid and block.
#include "transpose.h"

#include <limits>
#include <stdexcept>
#include <string>

#include "transpose.cuh"

namespace tenfold::kernels {
namespace {

/// A grid with one block per tile of `tile_rows` x `tile_columns` elements of the input.
dim3 one_block_per_tile(int64_t rows, int64_t columns, int64_t tile_rows, int64_t tile_columns) {
  const int64_t down = (rows + tile_rows - 1) / tile_rows, across = (columns + tile_columns - 1) / tile_columns;
  if (down > std::numeric_limits<int32_t>::max() / across) {
    throw std::invalid_argument("transpose: " + std::to_string(rows) + " x " + std::to_string(columns) +
                                " is more than one grid covers");
  }
  return dim3(static_cast<unsigned>(down * across));
}

}  // namespace

template <class Stream>
void transpose(Stream stream, float* out, const float* in, int64_t rows, int64_t columns, int rung) {
  if (rows < 1 || columns < 1) {
    throw std::invalid_argument("transpose: rows and columns must be at least 1, not " + std::to_string(rows) + " x " +
                                std::to_string(columns));
  }
  const dim3 block(kTile, kThreadRows);
  switch (rung) {
    case 0:
      return launch(stream, one_block_per_tile(rows, columns, kThreadRows, kTile), block, 0, transpose_read_coalesced,
                    out, in, rows, columns);
    case 1:
      return launch(stream, one_block_per_tile(rows, columns, kTile, kThreadRows), block, 0, transpose_write_coalesced,
                    out, in, rows, columns);
    case 2:
      return launch(stream, one_block_per_tile(rows, columns, kTile, kTile), block, 0, transpose_tiled, out, in, rows,
                    columns);
    case 3:
      return launch(stream, one_block_per_tile(rows, columns, kTile, kTile), block, 0, transpose_padded, out, in, rows,
                    columns);
    case 4:
      return launch(stream, one_block_per_tile(rows, columns, kWideTile, kWideTile), dim3(kWideTile / 8, kWideTile / 2),
                    0, transpose_vectorised, out, in, rows, columns);
    default:
      throw std::invalid_argument("transpose: there is no rung " + std::to_string(rung) + ", only 0 to " +
                                  std::to_string(kTransposeRungs - 1));
  }
}

template void transpose(Stream, float*, const float*, int64_t, int64_t, int);

}  // namespace tenfold::kernels
