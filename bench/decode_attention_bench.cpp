// One query a sequence over its cache: our rungs beside LibTorch's scaled_dot_product_attention, which is told that
// heads share keys and values, or is given them once for each query head.
#include "ladder.h"

#include "kernels/decode_attention/decode_attention_case.h"
#include "kernels/rungs_here.h"

namespace {
using namespace tenfold::bench;

/// The cache (batch, kv_heads, keys, head_dim) in pages: (pages, kv_heads, kDecodePageKeys, head_dim), in the places
/// that `table` names.
Tensor in_pages(const Tensor& cache, const Tensor& table) {
  const auto page = static_cast<int64_t>(kernels::kDecodePageKeys);
  const int64_t batch = cache.size(0), heads = cache.size(1), width = cache.size(3);
  const int64_t pages = (cache.size(2) + page - 1) / page;
  const Tensor whole = at::constant_pad_nd(cache, {0, 0, 0, pages * page - cache.size(2)});
  const Tensor rows =
      whole.reshape({batch, heads, pages, page, width}).transpose(1, 2).reshape({-1, heads, page, width});
  Tensor pool = torch::empty_like(rows);
  pool.index_copy_(0, table.to(torch::kLong), rows);
  return pool;
}

int sms_of(const Place& place) {
  int sms = kernels::kDecodeSmsAssumed;
  if (place.device.is_cuda()) cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, 0);
  return sms;
}

Ladder decode(const Place& place, torch::ScalarType type, const simt::Sizes& sizes) {
  simt::Pass pass = kernels::decode_attention_pass();
  if (!sizes.empty()) pass.shape = sizes;
  const simt::Shape shape =
      place.pick(pass, {{"batch", 2}, {"heads", 4}, {"kv_heads", 2}, {"keys", 600}, {"head_dim", 64}});
  const kernels::DecodeShape s = kernels::decode_shape(shape);
  const Tensor q = place.normal({s.batch, s.heads, 1, s.head_dim}, type), out = torch::empty_like(q);
  const Tensor k = place.normal({s.batch, s.kv_heads, s.capacity, s.head_dim}, type),
               v = place.normal({s.batch, s.kv_heads, s.capacity, s.head_dim}, type);
  const Tensor k_of_heads = k.repeat_interleave(s.group(), 1), v_of_heads = v.repeat_interleave(s.group(), 1);
  const auto of_ints = torch::dtype(torch::kInt).device(place.device);
  const Tensor lengths = torch::full({s.batch}, s.capacity, of_ints);
  const Tensor table = torch::tensor(kernels::scattered_pages(s), torch::dtype(torch::kInt)).to(place.device);
  const Tensor k_pages = in_pages(k, table), v_pages = in_pages(v, table);
  const int sms = sms_of(place);
  int64_t bytes = 4;
  for (int rung = 0; rung < kernels::kDecodeAttentionRungs; ++rung)
    bytes = std::max(bytes, kernels::decode_workspace_bytes(s, kernels::decode_splits(s, sms, rung), rung));
  const Tensor workspace = place.normal({bytes / 4});
  const auto wide = [](const Tensor& tensor) { return tensor.to(torch::kFloat); };
  Ladder ladder{.name = ladder_name("decode attention", type, {s.batch, s.heads, s.kv_heads, s.capacity, s.head_dim}),
                .bytes = least_bytes_of(pass, shape, type),
                .expected = {at::scaled_dot_product_attention(wide(q), wide(k_of_heads), wide(v_of_heads))},
                // Rounding a result costs 2^-11 of it in fp16 and 2^-9 in bfloat16, and on tensor cores the weights are
                // rounded as well. This is some 15 to 20 times as much.
                .tolerance = type == torch::kHalf ? 1e-2 : 3e-2,
                .contestants = {
                    {"SDPA, enable_gqa",
                     [=] {
                       return std::vector{at::scaled_dot_product_attention(q, k, v, /*attn_mask=*/{}, /*dropout_p=*/0.0,
                                                                           /*is_causal=*/false, /*scale=*/std::nullopt,
                                                                           /*enable_gqa=*/true)};
                     }},
                    {"SDPA, keys repeated",
                     [=] { return std::vector{at::scaled_dot_product_attention(q, k_of_heads, v_of_heads)}; }}}};
  const int all = kernels::kDecodeAttentionRungs,
            runnable = place.device.is_cuda() ? kernels::decode_attention_rungs_here() : all;
  skip_rungs(ladder, runnable, all, kernels::reason_not_here());
  add_rungs(ladder, runnable, [=](int rung) {
    const bool paged = rung >= kernels::kDecodePagedRung;
    const Tensor keys = paged ? k_pages : k, values = paged ? v_pages : v;
    launch_where_they_are({{"out", out},
                           {"workspace", workspace},
                           {"q", q},
                           {"k", keys},
                           {"v", values},
                           {"lengths", lengths},
                           {"pages", table}},
                          [&](auto stream, auto value) {
                            using T = decltype(value);
                            if constexpr (sizeof(T) == 2) {
                              kernels::decode_attention(stream, data_of<T>(out), data_of<float>(workspace),
                                                        data_of<T>(q), data_of<T>(keys), data_of<T>(values),
                                                        data_of<int>(lengths), paged ? data_of<int>(table) : nullptr, s,
                                                        kernels::decode_splits(s, sms, rung), rung);
                            }
                          });
    return std::vector{out};
  });
  return ladder;
}
}  // namespace

int main(int argc, char** argv) {
  // The case's shape, where few sequences have to fill the GPU; as many that they do so without being split; and heads
  // that share nothing.
  const simt::Sizes many = {{"batch", 32}, {"heads", 64}, {"kv_heads", 8}, {"keys", 4096}, {"head_dim", 128}},
                    shared_by_none = {{"batch", 8}, {"heads", 32}, {"kv_heads", 32}, {"keys", 2048}, {"head_dim", 128}};
  return run(argc, argv,
             {[](const Place& place) { return decode(place, torch::kBFloat16, {}); },
              [=](const Place& place) { return decode(place, torch::kBFloat16, many); },
              [=](const Place& place) { return decode(place, torch::kHalf, shared_by_none); }});
}
