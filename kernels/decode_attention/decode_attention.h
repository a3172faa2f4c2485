#pragma once
// Attention of one query for each sequence over its cache of keys and values: a step of generating text.

#include <algorithm>
#include <cstdint>

namespace tenfold::kernels {

/// q and out are (batch, heads, head_dim). Query head h reads key/value head h / (heads / kv_heads): as many query
/// heads as there are for each key/value head are a *group* (grouped-query attention; all of them with kv_heads 1, one
/// with kv_heads = heads). `capacity` is the most keys that a sequence has room for.
struct DecodeShape {
  int64_t batch = 1, heads = 1, kv_heads = 1, capacity = 1, head_dim = 64;
  constexpr int64_t group() const { return heads / kv_heads; }
};

/// Keys in a page of a paged cache.
inline constexpr int kDecodePageKeys = 16;

/// Pages of a sequence: columns of the page table.
constexpr int64_t decode_pages(int64_t capacity) { return (capacity + kDecodePageKeys - 1) / kDecodePageKeys; }

/// The head dimensions that are compiled.
constexpr bool decode_attention_takes(int64_t head_dim) { return head_dim == 64 || head_dim == 128; }

/// Rungs from these on split the keys of a sequence over blocks, read a paged cache, and use tensor cores.
inline constexpr int kDecodeSplitRung = 5, kDecodePagedRung = 6, kDecodeTensorCoreRung = 7;
inline constexpr int kDecodeAttentionRungs = 8;

/// Query heads that one block works on, at most; all of one group.
constexpr int64_t decode_heads_of_block(int rung) {
  if (rung < 4) return 1;
  return rung < kDecodeTensorCoreRung ? 8 : 16;
}

/// Blocks that work on a batch whose keys are not split.
constexpr int64_t decode_blocks(const DecodeShape& s, int rung) {
  const int64_t heads = decode_heads_of_block(rung);
  return s.batch * s.kv_heads * ((s.group() + heads - 1) / heads);
}

/// Pieces to cut every sequence into on a GPU of so many SMs: as many as leave two blocks for each SM at most, which
/// run at the same time; but a piece of a full cache keeps 256 keys, and 64 pieces are the most. 1 for a rung that does
/// not split. Expected, not yet measured.
constexpr int decode_splits(const DecodeShape& s, int sms, int rung = kDecodeAttentionRungs - 1) {
  constexpr int64_t kLeastKeys = 256, kMost = 64;
  if (rung < kDecodeSplitRung) return 1;
  const int64_t at_once = 2 * int64_t{sms} / decode_blocks(s, rung);
  return static_cast<int>(std::clamp(std::min(at_once, s.capacity / kLeastKeys), int64_t{1}, kMost));
}

/// For each query head q, out = softmax(q k^T / sqrt(head_dim)) v over the first lengths[i] keys of its sequence i. T
/// is __half or __nv_bfloat16; sums are float's. head_dim is 64 or 128, and kv_heads divides heads.
/// `lengths` (batch) is on the device. A length of 0 gives zeros, not NaN: a batch that was captured in a CUDA graph
/// has rows without a sequence. A length below 0 counts as 0, one above the capacity as the capacity: nobody can refuse
/// it on the host without waiting for the device.
/// The cache is contiguous for rungs 0 to 5: k and v (batch, kv_heads, capacity, head_dim), and `pages` is null. For
/// rungs 6 and 7 it is paged: k and v (any number of pages, kv_heads, kDecodePageKeys, head_dim), and pages (batch,
/// decode_pages(capacity)) says where in the first dimension a sequence's keys lie, 16 to a page. What lies beyond a
/// sequence's length, in its last page or in its row of the table, is not used.
/// Rungs: 0 thread keys: a block for each query head, scores to memory, a thread reads a whole key; 1 warp keys: a warp
/// reads a key; 2 online: one pass, no scores in memory; 3 packets: 16 bytes a load; 4 group: a block for the query
/// heads of a key/value head; 5 split: several blocks for a sequence, and a second kernel that joins their parts; 6
/// paged; 7 tensor cores, with copies ahead (compute capability 8.0). From rung 3 on an array of q, k and v that does
/// not begin at a multiple of 16 bytes is read as by rung 2.
/// `splits` (1 to 64; decode_splits() has a rule) matters from rung 5 on. `workspace` has decode_workspace_bytes(),
/// begins at a multiple of 8 bytes, and may be null where that is 0. No two arrays may overlap. Throws
/// std::invalid_argument, before any launch, for a size below 1 or too large for a grid, heads that kv_heads does not
/// divide, another head_dim, splits that cannot be, a workspace that is missing or not aligned, pages that the rung
/// does not read or lacks, or an unknown rung; std::runtime_error on a GPU that a rung does not run on.
/// Sources: Shazeer, "Fast Transformer Decoding: One Write-Head is All You Need", 2019 (arXiv:1911.02150); Ainslie et
/// al., "GQA", 2023 (arXiv:2305.13245); Dao, Haziza, Massa and Sizov, "Flash-Decoding for long-context inference", 2023
/// (https://crfm.stanford.edu/2023/10/12/flashdecoding.html); Kwon et al., "Efficient Memory Management for Large
/// Language Model Serving with PagedAttention", 2023 (arXiv:2309.06180).
template <class T, class Stream>
void decode_attention(Stream stream, T* out, float* workspace, const T* q, const T* k, const T* v, const int* lengths,
                      const int* pages, const DecodeShape& shape, int splits, int rung = kDecodeAttentionRungs - 1);

/// Rungs 0 and 1 keep a float for each key of each query head; rungs that split keep, of each query head and piece,
/// head_dim sums, their largest score and the sum of its exponentials.
constexpr int64_t decode_workspace_bytes(const DecodeShape& s, int splits, int rung) {
  constexpr int64_t kFloat = 4;
  if (rung < 2) return s.batch * s.heads * s.capacity * kFloat;
  if (rung < kDecodeSplitRung || splits == 1) return 0;
  return s.batch * s.heads * splits * (s.head_dim + 2) * kFloat;
}

}  // namespace tenfold::kernels
