#pragma once
// Attention of one query a sequence: its rungs and shapes, what it needs, and its launches under the microscope.

#include <cuda_bf16.h>

#include <algorithm>

#include "common/kernel_page/kernel_case.h"
#include "kernels/decode_attention/decode_attention.h"
#include "kernels/decode_attention/decode_attention_reference.h"

namespace tenfold::kernels {

/// SMs that decode_splits() is asked for where no GPU is: an H100's.
inline constexpr int kDecodeSmsAssumed = 132;

inline DecodeShape decode_shape(const simt::Shape& shape) {
  return {.batch = shape.at("batch"),
          .heads = shape.at("heads"),
          .kv_heads = shape.at("kv_heads"),
          .capacity = shape.at("keys"),
          .head_dim = shape.at("head_dim")};
}

/// Buffers of type T; k and v are contiguous or pools of pages, as the rung reads them. Every sequence is as long as
/// its cache, unless `lengths` are given other values.
template <class T>
struct DecodeBuffers {
  simt::Stream device;
  DecodeShape shape;
  int rung;
  bool paged = rung >= kDecodePagedRung;
  int splits = decode_splits(shape, kDecodeSmsAssumed, rung);
  int64_t pages_count = shape.batch * decode_pages(shape.capacity);
  int64_t cache_keys = paged ? pages_count * kDecodePageKeys : shape.batch * shape.capacity;
  int64_t of_heads = shape.batch * shape.heads * shape.head_dim,
          of_cache = cache_keys * shape.kv_heads * shape.head_dim;
  simt::Buffer<T> q = device->buffer<T>("q", of_heads), k = device->buffer<T>("k", of_cache),
                  v = device->buffer<T>("v", of_cache), out = device->buffer<T>("out", of_heads);
  simt::Buffer<int> lengths = device->buffer<int>("lengths", shape.batch),
                    pages = device->buffer<int>("pages", pages_count);
  simt::Buffer<float> workspace =
      device->buffer<float>("workspace", std::max<int64_t>(1, decode_workspace_bytes(shape, splits, rung) / 4));

  void launch() const {
    std::ranges::copy(scattered_pages(shape), pages.begin());
    decode_attention(device, out.data(), workspace.data(), q.data(), k.data(), v.data(), lengths.data(),
                     paged ? pages.data() : nullptr, shape, splits, rung);
  }
};

inline std::vector<simt::Rung> decode_attention_rungs() {
  return {{"thread keys",
           "One thread multiplies with one key, so that each load of a warp touches 32 keys; scores go to "
           "memory."},
          {"warp keys", "A warp has a key: its lanes read neighbours and join their products with shuffles."},
          {"online", "Score, exponential and v of a key in one pass: no score goes to memory."},
          {"packets", "A lane reads 16 bytes, and several keys are on their way together."},
          {"group", "A block has all query heads of a key/value head, and reads its cache once for them."},
          {"split",
           "Several blocks share a sequence's keys, and a second kernel joins their parts: few sequences fill "
           "the GPU."},
          {"paged", "Keys and values lie in pages of 16, found by a table."},
          {"tensor cores", "The group's heads are the rows of mma.sync, and the next page is copied meanwhile."}};
}

inline simt::Pass decode_attention_pass() {
  return {.name = "decode_attention",
          .rungs = names_of(decode_attention_rungs()),
          // Eight query heads for a key/value head, as in models of 64 heads; few sequences, and long ones.
          .shape = {{"batch", 4}, {"heads", 64}, {"kv_heads", 8}, {"keys", 8192}, {"head_dim", 128}},
          .work =
              [](const simt::Shape& shape, int64_t value_bytes) {
                const DecodeShape s = decode_shape(shape);
                const int64_t queries = s.batch * s.heads * s.head_dim,
                              cache = s.batch * s.kv_heads * s.capacity * s.head_dim;
                // Two products. q, k, v and out.
                return simt::Work{.flops = 4.0 * static_cast<double>(queries) * static_cast<double>(s.capacity),
                                  .least_bytes = 2 * (queries + cache) * value_bytes};
              },
          .launch =
              [](simt::Device& device, const simt::Shape& shape, int rung) {
                const DecodeBuffers<__nv_bfloat16> buffers{&device, decode_shape(shape), rung};
                simt::fill_repeating({buffers.q, buffers.k, buffers.v});
                std::ranges::fill(buffers.lengths, static_cast<int>(buffers.shape.capacity));
                buffers.launch();
              }};
}

inline simt::KernelCase decode_attention_case() {
  return {.name = "decode_attention",
          .title = "Attention of one query a sequence over its cache, in bfloat16",
          .shape = {{"batch", 2}, {"heads", 8}, {"kv_heads", 2}, {"keys", 600}, {"head_dim", 128}},
          .rungs = decode_attention_rungs(),
          .passes = {decode_attention_pass()}};
}

}  // namespace tenfold::kernels
