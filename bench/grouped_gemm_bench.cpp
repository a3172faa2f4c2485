// A mixture of experts' products: our rungs beside ATen's grouped matmul, a loop of matmuls and one padded batch. Each
// begins with the tokens in their own order, and each reads the routing from the device if it needs it on the host.
#include "ladder.h"

#include "kernels/grouped_gemm/grouped_gemm_case.h"
#include "kernels/rungs_here.h"

namespace {
using namespace tenfold::bench;

/// Blocks that run at a time: of the current GPU, or what is assumed without one.
int64_t wave_of(const Place& place, torch::ScalarType type) {
  if (!place.device.is_cuda() || kernels::grouped_gemm_rungs_here() == 0) return kernels::kGroupedWaveAssumed;
  return type == torch::kHalf ? kernels::grouped_gemm_wave<__half>(true)
                              : kernels::grouped_gemm_wave<__nv_bfloat16>(true);
}

/// What the host knows of a routing once it has waited for it: (experts + 1).
std::vector<int> on_host(const Tensor& offsets) {
  const Tensor copy = offsets.cpu();
  return {copy.data_ptr<int>(), copy.data_ptr<int>() + copy.numel()};
}

/// Each expert's rows (T, d) by its weight, one matmul for each.
Tensor loop_of_matmuls(const Tensor& rows, const Tensor& weights, const Tensor& offsets) {
  const std::vector<int> begins = on_host(offsets);
  std::vector<Tensor> products;
  for (size_t e = 0; e + 1 < begins.size(); ++e) {
    if (begins[e] < begins[e + 1])
      products.push_back(at::mm(rows.slice(0, begins[e], begins[e + 1]), weights[static_cast<int64_t>(e)]));
  }
  return at::cat(products);
}

/// The same as a batch of buffers, all as large as the largest expert needs. `expert_of` (T): whose each row is.
Tensor padded_batch(const Tensor& rows, const Tensor& weights, const Tensor& offsets, const Tensor& expert_of) {
  const int64_t experts = weights.size(0), largest = kernels::largest_expert(on_host(offsets));
  const Tensor places =
      torch::arange(rows.size(0), expert_of.options()) - offsets.index_select(0, expert_of) + expert_of * largest;
  Tensor buffers = torch::zeros({experts * largest, rows.size(1)}, rows.options());
  buffers.index_copy_(0, places, rows);
  return at::bmm(buffers.view({experts, largest, -1}), weights).view({experts * largest, -1}).index_select(0, places);
}

Ladder products(const Place& place, torch::ScalarType type, const simt::Sizes& sizes) {
  simt::Pass pass = kernels::grouped_gemm_pass();
  if (!sizes.empty()) pass.shape = sizes;
  const simt::Shape shape =
      place.pick(pass, {{"rows", 200}, {"experts", 5}, {"largest", 130}, {"depth", 72}, {"columns", 136}, {"wave", 3}});
  const kernels::GroupedShape s = kernels::grouped_shape(shape);
  const std::vector<int> routing = kernels::uneven_routing(s.rows, s.experts, shape.at("largest"));
  const int64_t wave = place.timed ? wave_of(place, type) : shape.at("wave");
  const auto ints = [&](const std::vector<int>& values) {
    return torch::tensor(values, torch::dtype(torch::kInt)).to(place.device);
  };
  const Tensor x = place.normal({s.rows / kernels::kGroupedActive, s.depth}, type),
               weights = place.normal({s.experts, s.depth, s.columns}, type),
               out = place.normal({s.rows, s.columns}, type);
  const Tensor row_of = ints(kernels::far_apart_rows(s.rows)), offsets = ints(routing), ends = offsets.slice(0, 1);
  const Tensor counts = ends - offsets.slice(0, 0, -1),
               expert_of = torch::arange(s.experts, counts.options().dtype(torch::kLong)).repeat_interleave(counts);
  int64_t elements = 1;
  for (int rung = 0; rung < kernels::kGroupedGemmRungs; ++rung) {
    elements = std::max(elements,
                        kernels::grouped_gemm_workspace(s, kernels::largest_expert(routing), /*gathered=*/true, rung));
  }
  const Tensor workspace = place.normal({elements}, type);
  const auto rows = [=] { return x.index_select(0, row_of); };
  Ladder ladder{
      .name = ladder_name("grouped GEMM", type, {s.rows, s.experts, shape.at("largest"), s.depth, s.columns}),
      .flops = flops_of(pass, shape, type),
      .expected = {loop_of_matmuls(rows().to(torch::kDouble), weights.to(torch::kDouble), offsets)},
      .tolerance = type == torch::kHalf ? 1e-2 : 3e-2,
      .contestants = {
          {"torch::_grouped_mm", [=] { return std::vector{at::_grouped_mm(rows(), weights, ends)}; }},
          {"torch::mm, loop", [=] { return std::vector{loop_of_matmuls(rows(), weights, offsets)}; }},
          {"torch::bmm, padded", [=] { return std::vector{padded_batch(rows(), weights, offsets, expert_of)}; }}}};
  const int all = kernels::kGroupedGemmRungs,
            runnable = place.device.is_cuda() ? kernels::grouped_gemm_rungs_here() : all;
  skip_rungs(ladder, runnable, all, kernels::reason_not_here());
  add_rungs(ladder, runnable, [=](int rung) {
    const std::vector<int> known = rung < kernels::kGroupedDeviceRung ? on_host(offsets) : std::vector<int>();
    launch_where_they_are({{"out", out},
                           {"workspace", workspace},
                           {"x", x},
                           {"row_of", row_of},
                           {"weights", weights},
                           {"offsets", offsets}},
                          [&](auto stream, auto value) {
                            using T = decltype(value);
                            if constexpr (sizeof(T) == 2) {
                              kernels::grouped_gemm(stream, data_of<T>(out), data_of<T>(workspace), data_of<T>(x),
                                                    data_of<int>(row_of), data_of<T>(weights), data_of<int>(offsets),
                                                    known.data(), s, wave, rung);
                            }
                          });
    return std::vector{out};
  });
  return ladder;
}
/// The gradient of the weights. ATen gathers the rows before.
Ladder gradient(const Place& place, torch::ScalarType type) {
  const simt::Pass pass = kernels::grouped_gemm_backward_pass();
  const simt::Shape shape =
      place.pick(pass, {{"rows", 200}, {"experts", 5}, {"largest", 130}, {"depth", 72}, {"columns", 136}});
  const kernels::GroupedShape s = kernels::grouped_shape(shape);
  const auto ints = [&](const std::vector<int>& values) {
    return torch::tensor(values, torch::dtype(torch::kInt)).to(place.device);
  };
  const Tensor x = place.normal({s.rows / kernels::kGroupedActive, s.depth}, type),
               dout = place.normal({s.rows, s.columns}, type),
               dweights = place.normal({s.experts, s.depth, s.columns}, type);
  const Tensor row_of = ints(kernels::far_apart_rows(s.rows)),
               offsets = ints(kernels::uneven_routing(s.rows, s.experts, shape.at("largest")));
  const auto rows = [=] { return x.index_select(0, row_of); };
  const auto loop = [=](const Tensor& of_rows, const Tensor& of_out) {
    const std::vector<int> begins = on_host(offsets);
    std::vector<Tensor> products;
    for (size_t e = 0; e + 1 < begins.size(); ++e) {
      products.push_back(
          at::mm(of_rows.slice(0, begins[e], begins[e + 1]).t(), of_out.slice(0, begins[e], begins[e + 1])));
    }
    return at::stack(products);
  };
  Ladder ladder{.name = ladder_name("grouped GEMM, weights' gradient", type,
                                    {s.rows, s.experts, shape.at("largest"), s.depth, s.columns}),
                .flops = flops_of(pass, shape, type),
                .expected = {loop(rows().to(torch::kDouble), dout.to(torch::kDouble))},
                .tolerance = 3e-2,
                .contestants = {{"torch::_grouped_mm",
                                 [=] { return std::vector{at::_grouped_mm(rows().t(), dout, offsets.slice(0, 1))}; }},
                                {"torch::mm, loop", [=] { return std::vector{loop(rows(), dout)}; }}}};
  const int runnable = !place.device.is_cuda() || kernels::grouped_gemm_rungs_here() > 0 ? 1 : 0;
  skip_rungs(ladder, runnable, 1, kernels::reason_not_here());
  add_rungs(ladder, runnable, [=](int) {
    launch_where_they_are({{"dweights", dweights}, {"x", x}, {"row_of", row_of}, {"dout", dout}, {"offsets", offsets}},
                          [&](auto stream, auto value) {
                            using T = decltype(value);
                            if constexpr (sizeof(T) == 2) {
                              kernels::grouped_gemm_weights(stream, data_of<T>(dweights), data_of<T>(x),
                                                            data_of<int>(row_of), data_of<T>(dout),
                                                            data_of<int>(offsets), s);
                            }
                          });
    return std::vector{dweights};
  });
  return ladder;
}
}  // namespace

int main(int argc, char** argv) {
  // 8192 tokens to 8 large experts and to 64 smaller ones, two each, the largest with three and four times the mean;
  // and a decoder's 1024 to 128 experts: 16 rows each, and a tile has 128.
  const auto layer = [](int64_t rows, int64_t experts, int64_t largest, int64_t depth, int64_t columns) {
    return simt::Sizes{{"rows", rows},   {"experts", experts}, {"largest", largest},
                       {"depth", depth}, {"columns", columns}, {"wave", kernels::kGroupedWaveAssumed}};
  };
  const simt::Sizes few = layer(16384, 8, 6144, 2048, 4096), many = layer(16384, 64, 1024, 2048, 1024),
                    decode = layer(2048, 128, 64, 2048, 1024);
  return run(argc, argv,
             {[](const Place& place) { return products(place, torch::kBFloat16, {}); },
              [=](const Place& place) { return products(place, torch::kBFloat16, few); },
              [=](const Place& place) { return products(place, torch::kBFloat16, many); },
              [=](const Place& place) { return products(place, torch::kBFloat16, decode); },
              [=](const Place& place) { return products(place, torch::kHalf, many); },
              [](const Place& place) { return gradient(place, torch::kBFloat16); }});
}
