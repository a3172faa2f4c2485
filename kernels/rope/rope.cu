#include "rope.h"

#include "rope.cuh"

namespace tenfold::kernels {
namespace {

constexpr unsigned kThreads = 128;  // rungs 1 and 2

void check(int64_t tokens, int64_t heads, int64_t head_dim, int64_t positions) {
  const std::string shape = "rope: the shape (" + std::to_string(tokens) + ", " + std::to_string(heads) + ", " +
                            std::to_string(head_dim) + ")";
  if (tokens < 1 || heads < 1 || head_dim < 1) throw std::invalid_argument(shape + " has a size below 1");
  if (head_dim % 2 != 0) throw std::invalid_argument(shape + " has an odd head_dim; pairs need an even one");
  if (positions < 1)
    throw std::invalid_argument("rope: tables of " + std::to_string(positions) + " positions; at least 1 is needed");
  constexpr int64_t kMost = 0x7fffffff;
  if (tokens > kMost / heads)
    throw std::invalid_argument(shape + " has more than 2147483647 heads in all tokens together");
}

}  // namespace

template <class T, class Stream>
void rope(Stream stream, T* values, const float* cosines, const float* sines, int64_t tokens, int64_t heads,
          int64_t head_dim, int64_t positions, Rotation rotation, int rung) {
  check(tokens, heads, head_dim, positions);
  if (rung < 0 || rung >= kRopeRungs) throw no_such_rung("rope", rung, kRopeRungs);
  const int64_t half = head_dim / 2;
  const float turn = rotation == Rotation::forward ? 1.0F : -1.0F;
  if (rung == 0) {
    const auto blocks = static_cast<unsigned>(tokens * heads);
    launch(stream, blocks, 2 * kRopePairs, 0, rope_element<T>, values, cosines, sines, heads, half, positions, turn);
  } else if (rung == 1) {
    const unsigned blocks = blocks_for(tokens * half, kThreads);
    launch(stream, blocks, kThreads, 0, rope_pair<T>, values, cosines, sines, tokens, heads, half, positions, turn);
  } else if (packets_fit<T>(half, {values}) && packets_fit<float>(half, {cosines, sines})) {
    const unsigned blocks = blocks_for(tokens * half / kPacket<T>, kThreads);
    launch(stream, blocks, kThreads, 0, rope_packets<T, kPacket<T>>, values, cosines, sines, tokens, heads, half,
           positions, turn);
  } else {
    const unsigned blocks = blocks_for(tokens * half, kThreads);
    launch(stream, blocks, kThreads, 0, rope_packets<T, 1>, values, cosines, sines, tokens, heads, half, positions,
           turn);
  }
}

template void rope(Stream, float*, const float*, const float*, int64_t, int64_t, int64_t, int64_t, Rotation, int);
template void rope(Stream, __half*, const float*, const float*, int64_t, int64_t, int64_t, int64_t, Rotation, int);
template void rope(Stream, __nv_bfloat16*, const float*, const float*, int64_t, int64_t, int64_t, int64_t, Rotation,
                   int);

}  // namespace tenfold::kernels
