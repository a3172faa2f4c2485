// Experts' results back to their tokens: our rungs beside ATen's grouped matmul with index_add_ (atomics) and with a
// gather and a sum (a fixed order), and the gradients beside the same of ATen's parts.
#include "ladder.h"

#include "kernels/grouped_combine/grouped_combine_case.h"
#include "kernels/rungs_here.h"

namespace {
using namespace tenfold::bench;

/// Whether the rungs run on the place's device: the tile is grouped_gemm's.
bool runs_here(const Place& place) { return !place.device.is_cuda() || kernels::grouped_gemm_rungs_here() > 0; }

/// Blocks that run at a time: of the current GPU, or what is assumed without one. As many as of grouped_gemm's last
/// rung, whose tile this is.
int64_t wave_of(const Place& place, torch::ScalarType type) {
  if (!place.device.is_cuda() || !runs_here(place)) return kernels::kGroupedWaveAssumed;
  return type == torch::kHalf ? kernels::grouped_gemm_wave<__half>(true)
                              : kernels::grouped_gemm_wave<__nv_bfloat16>(true);
}

/// The shape of a pass and its routing on the place's device, and what ATen wants of it.
struct Routed {
  Routed(const Place& place, const simt::Pass& pass, torch::ScalarType type)
      : shape(place.pick(pass, {{"tokens", 100},
                                {"active", 2},
                                {"experts", 5},
                                {"largest", 130},
                                {"depth", 72},
                                {"columns", 136},
                                {"wave", 3}})),
        s(kernels::combine_shape(shape)),
        wave(place.timed ? wave_of(place, type) : shape.at("wave")) {
    const auto ints = [&](const std::vector<int>& values) {
      return torch::tensor(values, torch::dtype(torch::kInt)).to(place.device);
    };
    routing = kernels::uneven_routing(s.rows(), s.experts, shape.at("largest"));
    const std::vector<int> tokens = kernels::far_apart_tokens(s.rows(), s.tokens);
    offsets = ints(routing), token_of = ints(tokens);
    rows_of = ints(kernels::rows_of_tokens(tokens, s.tokens, s.active));
    std::vector<float> weights;
    for (int64_t row = 0; row < s.rows(); ++row) weights.push_back(kernels::scale_of_row(row));
    scales = torch::tensor(weights).to(place.device);
    ends = offsets.slice(0, 1), tokens_long = token_of.to(torch::kLong), rows_long = rows_of.to(torch::kLong);
  }
  kernels::CombineRouting pointers(bool scaled) const {
    return {.offsets = data_of<int>(offsets),
            .token_of = data_of<int>(token_of),
            .rows_of = data_of<int>(rows_of),
            .scales = scaled ? data_of<float>(scales) : nullptr};
  }
  std::vector<int64_t> sizes() const {
    return {s.tokens, s.active, s.experts, shape.at("largest"), s.depth, s.columns};
  }

  simt::Shape shape;
  kernels::CombineShape s;
  int64_t wave;
  std::vector<int> routing;
  Tensor offsets, token_of, rows_of, scales, ends, tokens_long, rows_long;
};

/// Each expert's rows by its weight, in float64.
Tensor products_of(const Tensor& rows, const Tensor& weights, const std::vector<int>& routing) {
  std::vector<Tensor> products;
  for (size_t e = 0; e + 1 < routing.size(); ++e) {
    products.push_back(at::mm(rows.slice(0, routing[e], routing[e + 1]).to(torch::kDouble),
                              weights[static_cast<int64_t>(e)].to(torch::kDouble)));
  }
  return at::cat(products);
}

/// `transposed`: the gradient in the input of an expert's first product, whose rows have no scale.
Ladder results(const Place& place, torch::ScalarType type, bool transposed, const simt::Sizes& sizes) {
  simt::Pass pass = transposed ? kernels::grouped_combine_input_pass() : kernels::grouped_combine_pass();
  if (!sizes.empty()) pass.shape = sizes;
  const Routed to(place, pass, type);
  const kernels::CombineShape s = to.s;
  const Tensor rows = place.normal({s.rows(), s.depth}, type),
               stored = place.normal(
                   transposed ? std::vector{s.experts, s.columns, s.depth} : std::vector{s.experts, s.depth, s.columns},
                   type),
               weights = transposed ? stored.transpose(1, 2) : stored, out = place.normal({s.tokens, s.columns}, type);
  int64_t bytes = 4;
  for (int rung = 0; rung < kernels::kGroupedCombineRungs; ++rung)
    bytes = std::max(bytes, kernels::grouped_combine_workspace_bytes(s, rung));
  const Tensor workspace = place.normal({(bytes + 3) / 4});
  const auto weighted = [=](const Tensor& products) {
    return transposed ? products : products * to.scales.to(products.scalar_type()).unsqueeze(1);
  };
  const auto added = [=](const Tensor& products) {
    return torch::zeros({s.tokens, s.columns}, products.options()).index_add_(0, to.tokens_long, weighted(products));
  };
  const auto summed = [=](const Tensor& products) {
    return weighted(products).index_select(0, to.rows_long).view({s.tokens, s.active, -1}).sum(1);
  };
  Ladder ladder{
      .name = ladder_name(transposed ? "grouped combine, input's gradient" : "grouped combine", type, to.sizes()),
      .flops = flops_of(pass, to.shape, type),
      .expected = {added(products_of(rows, weights, to.routing))},
      .tolerance = type == torch::kHalf ? 1e-2 : 6e-2,  // rung 2 rounds every sum
      .contestants = {{"torch::_grouped_mm, index_add_",
                       [=] { return std::vector{added(at::_grouped_mm(rows, weights, to.ends))}; }},
                      {"torch::_grouped_mm, gather and sum",
                       [=] { return std::vector{summed(at::_grouped_mm(rows, weights, to.ends))}; }}}};
  constexpr int kAll = kernels::kGroupedCombineRungs;
  const int runnable = runs_here(place) ? kAll : 0;
  skip_rungs(ladder, runnable, kAll, kernels::reason_not_here());
  add_rungs(ladder, runnable, [=](int rung) {
    launch_where_they_are({{"out", out},
                           {"workspace", workspace},
                           {"rows", rows},
                           {"weights", stored},
                           {"offsets", to.offsets},
                           {"token_of", to.token_of},
                           {"rows_of", to.rows_of},
                           {"scales", to.scales}},
                          [&](auto stream, auto value) {
                            using T = decltype(value);
                            if constexpr (sizeof(T) == 2) {
                              kernels::grouped_combine(stream, data_of<T>(out), data_of<float>(workspace),
                                                       data_of<T>(rows), data_of<T>(stored), to.pointers(!transposed),
                                                       s, transposed, to.wave, rung);
                            }
                          });
    return std::vector{out};
  });
  return ladder;
}

/// The gradients in rows and scales. ATen gathers before, and multiplies with the rows after.
Ladder gradients_of_rows(const Place& place, torch::ScalarType type) {
  const simt::Pass pass = kernels::grouped_combine_backward_pass();
  const Routed to(place, pass, type);
  const kernels::CombineShape s = to.s;
  const Tensor dout = place.normal({s.tokens, s.columns}, type), rows = place.normal({s.rows(), s.depth}, type),
               weights = place.normal({s.experts, s.depth, s.columns}, type),
               drows = place.normal({s.rows(), s.depth}, type), dscales = place.normal({s.rows()}),
               workspace = place.normal({kernels::grouped_combine_backward_workspace(s)});
  const auto both = [=](const Tensor& products) {
    const auto wide = products.scalar_type() == torch::kDouble ? torch::kDouble : torch::kFloat;
    return std::vector{products * to.scales.to(products.scalar_type()).unsqueeze(1),
                       (products.to(wide) * rows.to(wide)).sum(1)};
  };
  const auto gathered = [=] { return dout.index_select(0, to.tokens_long); };
  Ladder ladder{.name = ladder_name("grouped combine, gradients of rows and scales", type, to.sizes()),
                .flops = flops_of(pass, to.shape, type),
                .expected = both(products_of(gathered(), weights.transpose(1, 2), to.routing)),
                .tolerance = 6e-2,
                .contestants = {{"torch::_grouped_mm",
                                 [=] { return both(at::_grouped_mm(gathered(), weights.transpose(1, 2), to.ends)); }}}};
  const int runnable = runs_here(place) ? 1 : 0;
  skip_rungs(ladder, runnable, 1, kernels::reason_not_here());
  add_rungs(ladder, runnable, [=](int) {
    launch_where_they_are({{"drows", drows},
                           {"dscales", dscales},
                           {"workspace", workspace},
                           {"dout", dout},
                           {"rows", rows},
                           {"weights", weights},
                           {"offsets", to.offsets},
                           {"token_of", to.token_of},
                           {"scales", to.scales}},
                          [&](auto stream, auto value) {
                            using T = decltype(value);
                            if constexpr (sizeof(T) == 2) {
                              kernels::grouped_combine_backward(stream, data_of<T>(drows), data_of<float>(dscales),
                                                                data_of<float>(workspace), data_of<T>(dout),
                                                                data_of<T>(rows), data_of<T>(weights),
                                                                to.pointers(true), s, to.wave);
                            }
                          });
    return std::vector{drows, dscales};
  });
  return ladder;
}
}  // namespace

int main(int argc, char** argv) {
  // 8192 tokens to 2 of 8 large experts, and to 8 of 64 small ones, the largest with three and four times the mean.
  const auto layer = [](int64_t active, int64_t experts, int64_t largest, int64_t depth, int64_t columns) {
    return simt::Sizes{{"tokens", 8192},
                       {"active", active},
                       {"experts", experts},
                       {"largest", largest},
                       {"depth", depth},
                       {"columns", columns},
                       {"wave", kernels::kGroupedWaveAssumed}};
  };
  const simt::Sizes few = layer(2, 8, 6144, 4096, 2048), many = layer(8, 64, 4096, 1024, 2048);
  return run(argc, argv,
             {[](const Place& place) { return results(place, torch::kBFloat16, false, {}); },
              [=](const Place& place) { return results(place, torch::kBFloat16, false, few); },
              [=](const Place& place) { return results(place, torch::kBFloat16, false, many); },
              [=](const Place& place) { return results(place, torch::kHalf, false, many); },
              [](const Place& place) { return results(place, torch::kBFloat16, true, {}); },
              [](const Place& place) { return gradients_of_rows(place, torch::kBFloat16); }});
}
