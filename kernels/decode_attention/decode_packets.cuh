#pragma once
// The rungs on CUDA cores that read packets of 16 bytes. They share one body, attend(): what differs is which query
// heads and which keys a block has, and where the keys lie.

#include "decode_attention.cuh"

namespace tenfold::kernels {

/// Keys first to end - 1: a block's. A sequence is cut into pieces of the same whole number of 64 keys, so that each of
/// a block's warps has whole pages; the last piece with a key has fewer, and those after it have none.
struct Piece {
  int first, end;
};
__device__ inline Piece piece_of(int keys, int splits, int split) {
  constexpr int kUnit = kDecodeWarps * kDecodePageKeys;
  const int units = (keys + kUnit - 1) / kUnit, size = (units + splits - 1) / splits * kUnit;
  const int first = min(keys, split * size);
  return {first, min(keys, first + size)};
}

/// What a block works on: up to kHeads query heads of a group, and a piece of their sequence's keys. Blocks of one
/// key/value head follow one another, those of its pieces first.
template <int kHeads>
struct BlockWork {
  int64_t sequence, first_head;  ///< first_head: of all batch * heads
  int kv_head, heads, split;
  Piece piece;
  template <class T>
  __device__ BlockWork(const DecodeInput<T>& in, int splits) {
    const int group = in.heads / in.kv_heads, chunks = (group + kHeads - 1) / kHeads;
    const unsigned block = blockIdx.x / splits;
    const int chunk = static_cast<int>(block % chunks), kv = static_cast<int>(block / chunks % in.kv_heads);
    split = static_cast<int>(blockIdx.x % splits);
    sequence = block / chunks / in.kv_heads;
    kv_head = kv;
    heads = min(kHeads, group - chunk * kHeads);
    first_head = sequence * in.heads + kv * group + chunk * kHeads;
    piece = piece_of(keys_of(in, sequence), splits, split);
  }
  /// Of a piece without a key a state is all that is left. True where the block has nothing else to do.
  template <class T>
  __device__ bool wrote_empty(const DecodeResult<T>& to) const {
    if (to.splits == 1 || piece.first < piece.end) return false;
    const int row = static_cast<int>(threadIdx.x);
    const LargestAndSum none{-INFINITY, 0};
    if (row < heads) to.states[(first_head + row) * to.splits + split] = none;
    return true;
  }
};

/// Keys that a warp reads at once: a packet of 8 values a lane, D / 8 lanes a key, so many keys a lane. A warp's step
/// lies in one page. Eight query heads leave no registers for more than two keys a lane.
template <int D, int kHeads>
inline constexpr int kKeysOfLane = kHeads == 8 ? 2 : 4;
template <int D, int kHeads>
inline constexpr int kStepKeys = 32 / (D / 8) * kKeysOfLane<D, kHeads>;

/// Blocks that an SM is to hold: a bound of the registers, with which the compiler need not guess and spill.
template <int kHeads>
inline constexpr int kBlocksOfSm = kHeads == 1   ? 5
                                   : kHeads == 2 ? 3
                                                 : 2;

/// Eight neighbours that one load brings, as floats: once for all query heads.
template <class T>
__device__ inline void load_eight(float (&values)[8], const T* from, int64_t packet, bool inside) {
  const Packet<T, 8> eight = inside ? packets_of<8>(from)[packet] : Packet<T, 8>{};
#pragma unroll
  for (int i = 0; i < 8; ++i) values[i] = to_float(eight.values[i]);
}

/// Scores of a lane's keys for one query head: the products of 8 values, joined over the D / 8 lanes of a key;
/// -infinity for a key that is beyond `end`.
template <int D, int kKeys>
__device__ inline void scores_of(float (&scores)[kKeys], const float (&q)[8], const float (&k)[kKeys][8], int key,
                                 int end) {
#pragma unroll
  for (int n = 0; n < kKeys; ++n) {
    float dot = 0;
#pragma unroll
    for (int i = 0; i < 8; ++i) dot += q[i] * k[n][i];
#pragma unroll
    for (int lanes = D / 16; lanes > 0; lanes /= 2) dot += shuffle_xor(dot, lanes);
    scores[n] = key + n * (32 / (D / 8)) < end ? dot : -INFINITY;
  }
}

/// A block's query heads over its keys. D / 8 lanes read a key in packets of 16 bytes, 32 / (D / 8) keys a request and
/// several requests one after the other, of k and of v, before anybody waits. Each of those groups of lanes has a
/// largest score and sums of its own; they meet at the end, first in the warp, then in the block. What was read serves
/// all kHeads query heads, from registers.
template <int D, int kHeads, bool kPaged, class T>
__device__ inline void attend(const DecodeResult<T>& to, const DecodeInput<T>& in, const BlockWork<kHeads>& work) {
  constexpr int kLanes = D / 8, kKeysAtOnce = 32 / kLanes, kKeys = kKeysOfLane<D, kHeads>;
  static_assert(kDecodePageKeys % kStepKeys<D, kHeads> == 0);
  alignas(16) __shared__ float of_warps[kDecodeWarps * kHeads * D];
  __shared__ LargestAndSum states[kDecodeWarps * kHeads];
  if (work.wrote_empty(to)) return;
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int packet = lane % kLanes, offset = lane / kLanes;
  const CacheRows<kPaged> rows = cache_rows<kPaged>(in, work.sequence, work.kv_head);
  float q[kHeads][8], sums[kHeads][8] = {}, largest[kHeads], total[kHeads] = {};
#pragma unroll
  for (int h = 0; h < kHeads; ++h) {
    largest[h] = -INFINITY;
    load_eight(q[h], in.q, (work.first_head + h) * kLanes + packet, h < work.heads);
#pragma unroll
    for (int i = 0; i < 8; ++i) q[h][i] *= in.scale;
  }
  for (int first = work.piece.first + warp * kStepKeys<D, kHeads>; first < work.piece.end;
       first += kDecodeWarps * kStepKeys<D, kHeads>) {
    const int key = first + offset;
    const int64_t begin = (rows.row(first) + offset) * kLanes + packet;
    float k[kKeys][8], v[kKeys][8];
#pragma unroll
    for (int n = 0; n < kKeys; ++n) {
      const bool inside = key + n * kKeysAtOnce < work.piece.end;
      load_eight(k[n], in.k, begin + n * 32, inside);
      load_eight(v[n], in.v, begin + n * 32, inside);
    }
#pragma unroll
    for (int h = 0; h < kHeads; ++h) {
      float scores[kKeys], now = largest[h];
      scores_of<D>(scores, q[h], k, key, work.piece.end);
#pragma unroll
      for (int n = 0; n < kKeys; ++n) now = fmaxf(now, scores[n]);
      const float base = base_of(now);
      if (now > largest[h]) {  // else the factor is 1, as it mostly is after the first keys
        const float shrink = exp_below(largest[h], base);
        largest[h] = now;
        total[h] *= shrink;
#pragma unroll
        for (int i = 0; i < 8; ++i) sums[h][i] *= shrink;
      }
#pragma unroll
      for (int n = 0; n < kKeys; ++n) {
        const float weight = exp_below(scores[n], base);
        total[h] += weight;
#pragma unroll
        for (int i = 0; i < 8; ++i) sums[h][i] += weight * v[n][i];
      }
    }
  }
#pragma unroll
  for (int h = 0; h < kHeads; ++h) {
    LargestAndSum state{largest[h], total[h]};
#pragma unroll
    for (int lanes = kLanes; lanes < 32; lanes *= 2) state = JoinLargestAndSum()(state, shuffle_xor(state, lanes));
    const float shrink = exp_below(largest[h], base_of(state.largest));
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      sums[h][i] *= shrink;
#pragma unroll
      for (int lanes = kLanes; lanes < 32; lanes *= 2) sums[h][i] += shuffle_xor(sums[h][i], lanes);
    }
    if (lane < kLanes) {
      Packet<float, 4>* place = packets_of<4>(of_warps) + ((warp * kHeads + h) * D + 8 * lane) / 4;
      const Packet<float, 4> low{{sums[h][0], sums[h][1], sums[h][2], sums[h][3]}},
          high{{sums[h][4], sums[h][5], sums[h][6], sums[h][7]}};
      const int second = lane / 4 % 2;  // half of the lanes begin with their second four: else half the banks idle
#pragma unroll
      for (int i = 0; i < 2; ++i) place[i ^ second] = i == second ? low : high;
    }
    if (lane == 0) states[warp * kHeads + h] = state;
  }
  __syncthreads();
  write_result<D, kHeads, D, kHeads * D>(to, of_warps, states, work.first_head, work.heads, work.split);
}

/// Rung 3: a lane reads 16 bytes, so that D / 8 lanes have a key: an eighth of the requests of rung 2, and for D = 128
/// two keys are joined in four shuffles, where one took five. Scores are rescaled once for several keys, and those
/// keys' loads are under way together. Every query head still reads k and v by itself.
template <class T, int D>
static __global__ void __launch_bounds__(kDecodeThreads, kBlocksOfSm<1>)
    decode_packets(DecodeResult<T> to, DecodeInput<T> in) {
  attend<D, 1, false>(to, in, BlockWork<1>(in, 1));
}

/// Rung 4: a block has up to kHeads query heads that share a key/value head, and what it reads of k and v serves all of
/// them: for a group of 8 an eighth of the bytes, and an eighth of the blocks. The arithmetic stays, so that with a
/// large group the instructions for it, and no longer the bytes, take most of the time.
template <class T, int D, int kHeads>
static __global__ void __launch_bounds__(kDecodeThreads, kBlocksOfSm<kHeads>)
    decode_group(DecodeResult<T> to, DecodeInput<T> in) {
  attend<D, kHeads, false>(to, in, BlockWork<kHeads>(in, 1));
}

/// Rung 5: to.splits blocks have a piece each of a sequence's keys. They leave their largest score, the sum of its
/// exponentials and D sums in the workspace, and decode_join() joins them. Memory moves the same keys and values, and
/// for each piece and query head D + 2 floats out and back, which L2 holds. With few sequences it is what fills the
/// GPU.
template <class T, int D, int kHeads>
static __global__ void __launch_bounds__(kDecodeThreads, kBlocksOfSm<kHeads>)
    decode_split(DecodeResult<T> to, DecodeInput<T> in) {
  attend<D, kHeads, false>(to, in, BlockWork<kHeads>(in, to.splits));
}

/// Rung 6: keys and values lie in pages of 16 keys, wherever there was room. A warp's step lies in one page: before it
/// reads its 4 to 16 keys it reads 4 bytes of the page table, one sector, and waits for them before it knows where k
/// and v are. A page holds 16 * D neighbouring values for each key/value head, so that no request touches more sectors
/// than before.
template <class T, int D, int kHeads>
static __global__ void __launch_bounds__(kDecodeThreads, kBlocksOfSm<kHeads>)
    decode_paged(DecodeResult<T> to, DecodeInput<T> in) {
  attend<D, kHeads, true>(to, in, BlockWork<kHeads>(in, to.splits));
}

/// The second kernel of rungs that split: a block of D threads joins the parts of one query head. A part without a key
/// is left out: its sums were never written, and 0 times NaN is NaN.
template <class T, int D>
static __global__ void __launch_bounds__(D) decode_join(DecodeResult<T> to) {
  const int64_t first = static_cast<int64_t>(blockIdx.x) * to.splits;
  const int column = static_cast<int>(threadIdx.x);
  float largest = -INFINITY, total = 0, sum = 0;
  for (int split = 0; split < to.splits; ++split) largest = fmaxf(largest, to.states[first + split].largest);
  const float base = base_of(largest);
  for (int split = 0; split < to.splits; ++split) {
    const LargestAndSum state = to.states[first + split];
    if (state.sum == 0) continue;
    const float shrink = exp_below(state.largest, base);
    total += state.sum * shrink;
    sum += to.sums[(first + split) * D + column] * shrink;
  }
  to.out[static_cast<int64_t>(blockIdx.x) * D + column] = from_float<T>(total == 0 ? 0 : sum / total);
}

}  // namespace tenfold::kernels
