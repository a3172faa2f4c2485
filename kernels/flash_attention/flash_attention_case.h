#pragma once
// Attention: its rungs and shapes, what it needs, and its launches under the microscope.

#include <cuda_bf16.h>

#include <algorithm>

#include "common/kernel_page/kernel_case.h"
#include "kernels/flash_attention/flash_attention.h"

namespace tenfold::kernels {

inline AttentionShape attention_shape(const simt::Shape& shape) {
  return {.batch = shape.at("batch"),
          .heads = shape.at("heads"),
          .queries = shape.at("queries"),
          .keys = shape.at("keys"),
          .head_dim = shape.at("head_dim"),
          .causal = shape.at("causal") != 0};
}

/// Of so many products; and of `tensors` of the queries' size, as many of the keys', and logsumexp.
inline simt::Work attention_work(const AttentionShape& s, int products, int64_t tensors, int64_t value_bytes) {
  const int64_t all = s.batch * s.heads;
  return {.flops = attention_flops(s, products),
          .least_bytes = tensors * all * (s.queries + s.keys) * s.head_dim * value_bytes +
                         all * s.queries * static_cast<int64_t>(sizeof(float))};
}

/// Buffers of the forward pass, of type T. Rung 0 keeps the scores.
template <class T>
struct AttentionBuffers {
  simt::Stream device;
  AttentionShape shape;
  int rung;
  int64_t query_rows = shape.batch * shape.heads * shape.queries, of_queries = query_rows * shape.head_dim;
  int64_t of_keys = shape.batch * shape.heads * shape.keys * shape.head_dim;
  simt::Buffer<T> q = device->buffer<T>("q", of_queries), k = device->buffer<T>("k", of_keys),
                  v = device->buffer<T>("v", of_keys), out = device->buffer<T>("out", of_queries);
  simt::Buffer<float> logsumexp = device->buffer<float>("logsumexp", query_rows);
  simt::Buffer<float> scores =
      device->buffer<float>("scores", std::max<int64_t>(1, flash_attention_workspace_bytes(shape, rung) / 4));

  void launch() const {
    flash_attention(device, out.data(), logsumexp.data(), scores.data(), q.data(), k.data(), v.data(), shape, rung);
  }
};

inline std::vector<simt::Rung> flash_attention_rungs() {
  return {
      {"materialised", "Scores go to memory, and come back for the softmax and for the product with v."},
      {"online",
       "Keys come by in tiles, and what was summed is scaled down when a larger score comes: no score is "
       "written."},
      {"registers", "A lane keeps a tile of scores and of results in registers, and scales once for a tile of keys."},
      {"tensor cores", "Products by mma.sync on operands from ldmatrix, in 16 bits."},
      {"copies ahead", "The next tile is on its way by cp.async while this one is worked on."},
      {"wide warps", "A warp has 32 queries: what ldmatrix brings of keys and values serves twice as many products."},
      {"wgmma",
       "Hopper: one warp brings tiles by TMA; two warpgroups of 64 queries multiply by wgmma, straight from shared "
       "memory and with the weights in registers."},
      {"in turns", "The warpgroups start products in turns: the softmax of one falls into the products of the other."},
      {"overlapped",
       "A warpgroup makes the softmax of a tile while its own product of the tile before with the values runs."}};
}

inline simt::Pass flash_attention_forward() {
  return {.name = "flash_attention",
          .rungs = names_of(flash_attention_rungs()),
          .shape = {{"batch", 8}, {"heads", 16}, {"queries", 2048}, {"keys", 2048}, {"head_dim", 128}, {"causal", 1}},
          .peak = simt::Peak::tensor_cores,
          .work =
              [](const simt::Shape& shape, int64_t value_bytes) {
                return attention_work(attention_shape(shape), /*products=*/2, /*tensors=*/2, value_bytes);
              },
          .sampled_blocks = 64,  // they differ under a causal mask
          .launch =
              [](simt::Device& device, const simt::Shape& shape, int rung) {
                const AttentionBuffers<__nv_bfloat16> buffers{&device, attention_shape(shape), rung};
                simt::fill_repeating({buffers.q, buffers.k, buffers.v});
                buffers.launch();
              }};
}

inline void launch_flash_attention_backward(simt::Device& device, const simt::Shape& shape, int rung) {
  using T = __nv_bfloat16;
  const AttentionShape s = attention_shape(shape);
  const int64_t all = s.batch * s.heads, of_queries = all * s.queries * s.head_dim, of_keys = all * s.keys * s.head_dim;
  const auto q = device.buffer<T>("q", of_queries), k = device.buffer<T>("k", of_keys),
             v = device.buffer<T>("v", of_keys), out = device.buffer<T>("out", of_queries),
             grad_out = device.buffer<T>("grad_out", of_queries);
  const auto logsumexp = device.buffer<float>("logsumexp", all * s.queries);
  const auto grad_q = device.buffer<T>("grad_q", of_queries), grad_k = device.buffer<T>("grad_k", of_keys),
             grad_v = device.buffer<T>("grad_v", of_keys);
  const auto workspace = device.buffer<float>("workspace", flash_attention_backward_workspace_bytes(s) / 4);
  simt::fill_repeating({q, k, v, out, grad_out});
  simt::fill_repeating({logsumexp});
  flash_attention_backward(&device, grad_q.data(), grad_k.data(), grad_v.data(), workspace.data(), grad_out.data(),
                           q.data(), k.data(), v.data(), out.data(), logsumexp.data(), s, rung);
}

inline simt::Pass flash_attention_backward_pass() {
  return {.name = "flash_attention_backward",
          .rungs = {"CUDA cores", "tensor cores"},
          .shape = flash_attention_forward().shape,
          .peak = simt::Peak::tensor_cores,
          .work =
              [](const simt::Shape& shape, int64_t value_bytes) {
                // The scores once more, and two products for each of two gradients of products.
                return attention_work(attention_shape(shape), /*products=*/5, /*tensors=*/4, value_bytes);
              },
          .sampled_blocks = flash_attention_forward().sampled_blocks,
          .launch = launch_flash_attention_backward};
}

inline simt::KernelCase flash_attention_case() {
  return {.name = "flash_attention",
          .title = "Attention of one head of 64 in bfloat16",
          .shape = {{"queries", 128}, {"keys", 128}},
          .rungs = flash_attention_rungs(),
          .passes = {flash_attention_forward(), flash_attention_backward_pass()}};
}

}  // namespace tenfold::kernels
