#include "decode_attention.h"

#include "decode_attention.cuh"
#include "decode_packets.cuh"
#include "decode_tensor_cores.cuh"

namespace tenfold::kernels {
namespace {

constexpr const char* kName = "decode_attention";

std::string text_of(const DecodeShape& s) {
  return "batch " + std::to_string(s.batch) + ", heads " + std::to_string(s.heads) + ", kv_heads " +
         std::to_string(s.kv_heads) + ", capacity " + std::to_string(s.capacity) + ", head_dim " +
         std::to_string(s.head_dim);
}

[[noreturn]] void refuse(const std::string& reason) { throw std::invalid_argument(std::string(kName) + ": " + reason); }

void check(const DecodeShape& s, int splits, int rung, const float* workspace, bool has_pages) {
  if (rung < 0 || rung >= kDecodeAttentionRungs) throw no_such_rung(kName, rung, kDecodeAttentionRungs);
  if (s.batch < 1 || s.heads < 1 || s.kv_heads < 1 || s.capacity < 1) refuse("a size below 1: " + text_of(s));
  if (!decode_attention_takes(s.head_dim)) refuse("head_dim " + std::to_string(s.head_dim) + "; it must be 64 or 128");
  if (s.heads % s.kv_heads != 0) refuse("kv_heads must divide heads: " + text_of(s));
  constexpr int64_t kLargest = int64_t{1} << 30;  // an index plus a step still fits in an int
  if (s.capacity > kLargest || s.batch > kLargest || s.heads > kLargest / s.batch)
    refuse("capacity and batch * heads may be 2^30 at most: " + text_of(s));
  if (splits < 1 || splits > 64) refuse("splits " + std::to_string(splits) + "; there may be 1 to 64");
  if (splits * s.batch * s.heads > 0x7fffffff) refuse("more blocks than a grid has: " + text_of(s));
  const std::string name = "rung " + std::to_string(rung);
  if (has_pages != (rung >= kDecodePagedRung))
    refuse(name + (has_pages ? " reads a contiguous cache; pages must be null" : " needs the table of pages"));
  if (decode_workspace_bytes(s, splits, rung) > 0) {
    if (workspace == nullptr) refuse(name + " needs a workspace");
    if (reinterpret_cast<uintptr_t>(workspace) % 8 != 0) refuse("the workspace must begin at a multiple of 8 bytes");
  }
}

/// The number of query heads that a block of rungs 4 to 6 is compiled for: as few as hold the group, 8 at most. Calls
/// function(std::integral_constant<int, kHeads>()).
template <class Function>
void with_heads(int64_t group, const Function& function) {
  if (group == 1) return function(std::integral_constant<int, 1>());
  if (group == 2) return function(std::integral_constant<int, 2>());
  if (group <= 4) return function(std::integral_constant<int, 4>());
  function(std::integral_constant<int, 8>());
}

template <int D, class T, class Stream>
void launch_rung(Stream stream, const DecodeResult<T>& to, float* scores, const DecodeInput<T>& in,
                 const DecodeShape& s, int rung, bool aligned) {
  const auto each_head = static_cast<unsigned>(s.batch * s.heads);
  if (rung == 0) return launch(stream, each_head, D, 0, decode_thread_keys<T, D>, to.out, scores, in);
  if (rung == 1) return launch(stream, each_head, D, 0, decode_warp_keys<T, D>, to.out, scores, in);
  if (rung == 2 || !aligned) {
    if (in.pages == nullptr)
      return launch(stream, each_head, kDecodeThreads, 0, decode_online<T, D, false>, to.out, in);
    return launch(stream, each_head, kDecodeThreads, 0, decode_online<T, D, true>, to.out, in);
  }
  if (rung == 3) return launch(stream, each_head, kDecodeThreads, 0, decode_packets<T, D>, to, in);
  const auto blocks = static_cast<unsigned>(decode_blocks(s, rung) * to.splits);
  if (rung == kDecodeTensorCoreRung) {
    require_ampere(kName);
    constexpr size_t kShared = kDecodeWarps * kWarpStages<D> * sizeof(T);
    launch(stream, blocks, kDecodeThreads, kShared, decode_tensor_cores<T, D>, to, in);
  } else {
    with_heads(s.group(), [&](auto heads) {
      constexpr int kHeads = decltype(heads)::value;
      const auto kernel = rung == 4                  ? decode_group<T, D, kHeads>
                          : rung == kDecodeSplitRung ? decode_split<T, D, kHeads>
                                                     : decode_paged<T, D, kHeads>;
      launch(stream, blocks, kDecodeThreads, 0, kernel, to, in);
    });
  }
  if (to.splits > 1) launch(stream, each_head, D, 0, decode_join<T, D>, to);
}

}  // namespace

template <class T, class Stream>
void decode_attention(Stream stream, T* out, float* workspace, const T* q, const T* k, const T* v, const int* lengths,
                      const int* pages, const DecodeShape& s, int splits, int rung) {
  check(s, splits, rung, workspace, pages != nullptr);
  const DecodeInput<T> in{q,
                          k,
                          v,
                          lengths,
                          pages,
                          static_cast<int>(s.heads),
                          static_cast<int>(s.kv_heads),
                          static_cast<int>(s.capacity),
                          static_cast<int>(decode_pages(s.capacity)),
                          1 / std::sqrt(static_cast<float>(s.head_dim))};
  DecodeResult<T> to{out, nullptr, nullptr, rung < kDecodeSplitRung ? 1 : splits};
  if (to.splits > 1) {
    to.sums = workspace;
    to.states = reinterpret_cast<LargestAndSum*>(workspace + s.batch * s.heads * splits * s.head_dim);
  }
  const bool aligned = packets_fit<T>(s.head_dim, {q, k, v});
  if (s.head_dim == 64) return launch_rung<64>(stream, to, workspace, in, s, rung, aligned);
  launch_rung<128>(stream, to, workspace, in, s, rung, aligned);
}

template void decode_attention(Stream, __half*, float*, const __half*, const __half*, const __half*, const int*,
                               const int*, const DecodeShape&, int, int);
template void decode_attention(Stream, __nv_bfloat16*, float*, const __nv_bfloat16*, const __nv_bfloat16*,
                               const __nv_bfloat16*, const int*, const int*, const DecodeShape&, int, int);

}  // namespace tenfold::kernels
