// Rungs 6 to 8 of attention's forward pass, for compute capability 9.0a alone: a file of its own because nvcc compiles
// it for nothing else. The microscope compiles it as well. Source of the ideas: Shah, Bikshandi, Zhang, Thakkar, Ramani
// and Dao, "FlashAttention-3", 2024 (arXiv:2407.08608).

#include "flash_attention_sm90.h"

#include "attention_wgmma.cuh"

#include <stdexcept>
#include <string>

namespace tenfold::kernels {

/// How the products and the softmax of a block follow each other: rungs 6, 7 and 8.
enum class AttentionOrder { one_after_the_other, in_turns, overlapped };

/// A ring of tiles in shared memory: of k in places 0 and 2, of v in 1 and 3. `full`: TMA has brought the tile;
/// `empty`: all that multiply are done with it.
inline constexpr int kKeysPart = 0, kValuesPart = 1;
struct AttentionRing {
  uint64_t full[2 * kAttentionStages], empty[2 * kAttentionStages];
};
/// The place of tile `tile`, and the parity of its use of that place.
__device__ __forceinline__ int ring_place(int tile, int part) { return tile % kAttentionStages * 2 + part; }
__device__ __forceinline__ uint32_t ring_parity(int tile) { return static_cast<uint32_t>(tile / kAttentionStages % 2); }

/// One thread starts the copies of rows first to first + 127 of a head, of which `full` is told.
template <int D>
__device__ inline void start_tile(unsigned char* tile, uint64_t* full, const CUtensorMap* map, int first, int head) {
  mbarrier_arrive_expect(full, kAttentionTileBytes<D>);
#pragma unroll
  for (int box = 0; box < D / kAttentionBoxWidth; ++box)
    tma_load(tile + box * kAttentionBoxBytes, map, full, box * kAttentionBoxWidth, first, head);
}

/// Whose turn it is to start products: barrier 1 + group, at which the group waits and the other one arrives.
__device__ __forceinline__ void take_turn(int group) { named_barrier_sync(1 + group, 256); }
__device__ __forceinline__ void pass_turn(int group) { named_barrier_arrive(2 - group, 256); }
/// Barrier 3 + group, of the group alone: all of its products have read what they read.
__device__ __forceinline__ void meet_group(int group) { named_barrier_sync(3 + group, 128); }

/// Rung 6: what Hopper has for this. A warpgroup that only starts copies fills a ring of tiles by TMA, two of k and two
/// of v, and gives its registers to two others of 64 queries each. These multiply by wgmma, q k^T from shared memory
/// and weights from registers with v from shared memory: nothing is loaded into fragments. Within a warpgroup the two
/// products and the softmax wait for each other.
///
/// Rung 7, `in_turns`: the warpgroups start their products in turns, so that the softmax of the one falls into the
/// products of the other, and tensor cores are not left alone with two softmaxes at a time.
///
/// Rung 8, `overlapped`: a warpgroup starts the scores of the next tile before it multiplies the weights of this one by
/// v, and makes the next tile's softmax while that product runs.
template <class T, int D, AttentionOrder kOrder>
static __global__ void __launch_bounds__(384, 1)
    attention_wgmma(T* out, float* logsumexp, const __grid_constant__ CUtensorMap q_map,
                    const __grid_constant__ CUtensorMap k_map, const __grid_constant__ CUtensorMap v_map,
                    AttentionInput<T> in) {
  __shared__ uint64_t q_full;
  __shared__ AttentionRing ring;
  unsigned char* const begin = dynamic_shared<unsigned char>();
  unsigned char* const q_tile = begin + (1024 - shared_address(begin) % 1024) % 1024;  // the swizzle looks at addresses
  unsigned char* const places = q_tile + kAttentionTileBytes<D>;
  const int row_tiles = (in.queries + kAttentionQueries - 1) / kAttentionQueries;
  const int head = static_cast<int>(blockIdx.x) / row_tiles;
  // Under a causal mask the last queries see most keys: the longest work of each head first.
  const int first_query = (row_tiles - 1 - static_cast<int>(blockIdx.x) % row_tiles) * kAttentionQueries;
  const int tiles = (keys_seen(in, first_query + kAttentionQueries) + kAttentionKeys - 1) / kAttentionKeys;
  if (threadIdx.x == 0) {
    tma_prefetch(&q_map);
    tma_prefetch(&k_map);
    tma_prefetch(&v_map);
    mbarrier_init(&q_full, 1);
    for (int place = 0; place < 2 * kAttentionStages; ++place) {
      mbarrier_init(&ring.full[place], 1);
      mbarrier_init(&ring.empty[place], 8);  // the warps that multiply
    }
    mbarrier_init_fence();
  }
  __syncthreads();

  const int warpgroup = static_cast<int>(threadIdx.x) / 128;
  if (warpgroup == 0) {
    give_registers<24>();
    if (threadIdx.x != 0) return;
    start_tile<D>(q_tile, &q_full, &q_map, first_query, head);
    for (int tile = 0; tile < tiles; ++tile) {
      for (const int part : {kKeysPart, kValuesPart}) {
        const int place = ring_place(tile, part);
        const uint32_t parity = ring_parity(tile) ^ 1;  // of the use before
        mbarrier_wait(&ring.empty[place], parity);
        start_tile<D>(places + place * kAttentionTileBytes<D>, &ring.full[place], part == kKeysPart ? &k_map : &v_map,
                      tile * kAttentionKeys, head);
      }
    }
    return;
  }

  take_registers<240>();
  const int group = warpgroup - 1, warp_row = (static_cast<int>(threadIdx.x) / 32 - 4) * 16;
  const int query = first_query + warp_row + static_cast<int>(threadIdx.x % 32) / 4;  // and the eighth from there
  const float scale = in.scale * kLog2E;
  const uint32_t q = shared_address(q_tile);
  const auto address_of = [&](int tile, int part) {
    return shared_address(places) + static_cast<uint32_t>(ring_place(tile, part)) * kAttentionTileBytes<D>;
  };
  const auto wait_for = [&](int tile, int part) {
    const int place = ring_place(tile, part);
    const uint32_t parity = ring_parity(tile);
    mbarrier_wait(&ring.full[place], parity);
  };
  const auto release = [&](int tile, int part) {
    const int place = ring_place(tile, part);
    if (threadIdx.x % 32 == 0) mbarrier_arrive(&ring.empty[place]);
  };
  float scores[kAttentionKeys / 8][4], sums[D / 8][4] = {}, shrink[2];
  uint32_t weights[kAttentionKeys / 16][4];
  RunningSoftmax rows;
  const auto weigh = [&](int tile) {
    hide_scores(scores, in, query, tile * kAttentionKeys, first_query + 64 * group);
    weigh_scores(scores, rows, shrink, scale);
  };

  mbarrier_wait(&q_full, 0);
  if constexpr (kOrder == AttentionOrder::one_after_the_other) {
    for (int tile = 0; tile < tiles; ++tile) {
      wait_for(tile, kKeysPart);
      start_scores<T, D>(scores, q, address_of(tile, kKeysPart), group);
      wgmma_wait<0>();
      wgmma_settle(scores);
      release(tile, kKeysPart);
      weigh(tile);
      if (have_grown(shrink)) shrink_sums(sums, shrink);
      pack_weights<T>(weights, scores);
      wait_for(tile, kValuesPart);
      start_results<T, D>(sums, weights, address_of(tile, kValuesPart));
      wgmma_wait<0>();
      wgmma_settle(sums);
      wgmma_settle(weights);
      release(tile, kValuesPart);
    }
  }
  if constexpr (kOrder == AttentionOrder::in_turns) {
    if (group == 1) pass_turn(group);  // the other one begins
    wait_for(0, kKeysPart);
    take_turn(group);
    start_scores<T, D>(scores, q, address_of(0, kKeysPart), group);
    pass_turn(group);
    wgmma_wait<0>();
    wgmma_settle(scores);
    release(0, kKeysPart);
    for (int tile = 0; tile < tiles; ++tile) {
      weigh(tile);
      if (have_grown(shrink)) shrink_sums(sums, shrink);
      pack_weights<T>(weights, scores);
      const bool more = tile + 1 < tiles;
      wait_for(tile, kValuesPart);  // nobody keeps a turn while a copy is awaited
      if (more) wait_for(tile + 1, kKeysPart);
      take_turn(group);
      start_results<T, D>(sums, weights, address_of(tile, kValuesPart));
      if (more) start_scores<T, D>(scores, q, address_of(tile + 1, kKeysPart), group);
      if (more || group == 0) pass_turn(group);  // after the last turn nobody waits
      wgmma_wait<0>();
      wgmma_settle(sums);
      wgmma_settle(weights);
      wgmma_settle(scores);
      release(tile, kValuesPart);
      if (more) release(tile + 1, kKeysPart);
    }
  }
  if constexpr (kOrder == AttentionOrder::overlapped) {
    if (group == 1) pass_turn(group);
    wait_for(0, kKeysPart);
    take_turn(group);
    start_scores<T, D>(scores, q, address_of(0, kKeysPart), group);
    pass_turn(group);
    wgmma_wait<0>();
    wgmma_settle(scores);
    release(0, kKeysPart);
    weigh(0);
    pack_weights<T>(weights, scores);
    for (int tile = 1; tile < tiles; ++tile) {
      wait_for(tile, kKeysPart);
      wait_for(tile - 1, kValuesPart);
      take_turn(group);
      start_scores<T, D>(scores, q, address_of(tile, kKeysPart), group);
      start_results<T, D>(sums, weights, address_of(tile - 1, kValuesPart));
      pass_turn(group);
      wgmma_wait<1>();  // the scores are there, the product with v runs on
      wgmma_settle(scores);
      release(tile, kKeysPart);
      weigh(tile);
      // With this branch behind the softmax ptxas leaves the waits behind it, too; without one nvcc 13.0 moves the wait
      // up to the first of its maxima, and nothing is overlapped.
      if (have_grown(shrink)) {
        wgmma_wait<0>();
        wgmma_settle(sums);
        shrink_sums(sums, shrink);
      }
      wgmma_wait<0>();
      wgmma_settle(weights);
      release(tile - 1, kValuesPart);
      pack_weights<T>(weights, scores);
    }
    wait_for(tiles - 1, kValuesPart);
    take_turn(group);
    start_results<T, D>(sums, weights, address_of(tiles - 1, kValuesPart));
    if (group == 0) pass_turn(group);
    wgmma_wait<0>();
    wgmma_settle(sums);
  }

  float factors[2];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const float total = combine_quad(rows.total[half], Add());
    const int row = query + 8 * half;
    if (threadIdx.x % 4 == 0 && row < in.queries) {
      logsumexp[static_cast<int64_t>(head) * in.queries + row] = (rows.largest[half] * scale + log2f(total)) * kLn2;
    }
    factors[half] = 1 / total;
  }
  // A warp has waited for its own part of the products only. PTX says which rows of the result a warp holds, not which
  // rows of q in shared memory are read for it: the others' parts may read those that this warp overwrites.
  meet_group(group);
  store_results<D>(of_head<D>(out, head, in.queries), reinterpret_cast<T*>(q_tile), sums, factors, first_query,
                   warp_row, in.queries);
}

/// The map of q, k or v, for TMA.
template <class T>
static CUtensorMap attention_map(const T* data, const AttentionTensor& tensor) {
  constexpr CUtensorMapDataType kType =
      std::is_same_v<T, __half> ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16 : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
  const cuuint64_t size[] = {tensor.size[0], tensor.size[1], tensor.size[2]};
  const cuuint64_t strides[] = {tensor.strides[0], tensor.strides[1]};
  const cuuint32_t box[] = {tensor.box[0], tensor.box[1], tensor.box[2]}, steps[] = {1, 1, 1};
  CUtensorMap map;
  const CUresult result = tensor_map_encoder()(&map, kType, 3, const_cast<T*>(data), size, strides, box, steps,
                                               CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                                               CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (result != CUDA_SUCCESS)
    throw std::runtime_error("flash_attention: the driver refuses a tensor map, error " + std::to_string(result));
  return map;
}

template <class T, class AnyStream>
void flash_attention_hopper(AnyStream stream, T* out, float* logsumexp, const AttentionInput<T>& in,
                            const AttentionShape& s, int rung) {
  const int64_t heads = s.batch * s.heads, tiles = (s.queries + kAttentionQueries - 1) / kAttentionQueries;
  if (tiles > 0x7fffffff / heads) throw std::invalid_argument("flash_attention: more tiles than a grid has blocks");
  const auto start = [&](auto* kernel, uint32_t shared_bytes) {
    launch(stream, dim3(static_cast<unsigned>(heads * tiles)), dim3(384), shared_bytes, kernel, out, logsumexp,
           attention_map(in.q, attention_tensor(heads, s.queries, s.head_dim)),
           attention_map(in.k, attention_tensor(heads, s.keys, s.head_dim)),
           attention_map(in.v, attention_tensor(heads, s.keys, s.head_dim)), in);
  };
  const auto start_order = [&](auto head_dim) {
    constexpr int kD = decltype(head_dim)::value;
    using enum AttentionOrder;
    if (rung == 6) start(attention_wgmma<T, kD, one_after_the_other>, kAttentionSharedBytes<kD>);
    if (rung == 7) start(attention_wgmma<T, kD, in_turns>, kAttentionSharedBytes<kD>);
    if (rung == 8) start(attention_wgmma<T, kD, overlapped>, kAttentionSharedBytes<kD>);
  };
  if (s.head_dim == 64) start_order(std::integral_constant<int, 64>());
  if (s.head_dim == 128) start_order(std::integral_constant<int, 128>());
}

template void flash_attention_hopper(Stream, __half*, float*, const AttentionInput<__half>&, const AttentionShape&,
                                     int);
template void flash_attention_hopper(Stream, __nv_bfloat16*, float*, const AttentionInput<__nv_bfloat16>&,
                                     const AttentionShape&, int);

}  // namespace tenfold::kernels
