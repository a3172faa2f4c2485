// A matrix product whose result has few tiles: our decompositions beside cuBLAS, which chooses its own.
#include "ladder.h"

#include "kernels/rungs_here.h"
#include "kernels/split_k/split_k_case.h"

namespace {
using namespace tenfold::bench;

/// Blocks that run at a time: of the current GPU, or what is assumed without one.
int64_t wave_of(const Place& place, torch::ScalarType type) {
  if (!place.device.is_cuda() || kernels::split_k_rungs_here() == 0) return kernels::kSplitKWaveAssumed;
  return type == torch::kHalf ? kernels::split_k_wave<__half>(true) : kernels::split_k_wave<__nv_bfloat16>(true);
}

/// `sizes` beside the pass's own. C is float32 for our rungs; at::mm rounds it to the inputs' type.
Ladder product(const Place& place, torch::ScalarType type, const simt::Sizes& sizes) {
  simt::Pass pass = kernels::split_k_pass();
  if (!sizes.empty()) pass.shape = sizes;
  const simt::Shape shape = place.pick(pass, {{"m", 65}, {"n", 136}, {"k", 520}, {"wave", 5}});
  const int64_t m = shape.at("m"), n = shape.at("n"), k = shape.at("k");
  const int64_t wave = place.timed ? wave_of(place, type) : shape.at("wave");
  const Tensor a = place.normal({m, k}, type), b = place.normal({k, n}, type);
  int64_t bytes = 4, words = 1;
  for (int rung = 0; rung < kernels::kSplitKRungs; ++rung) {
    const int64_t parts = kernels::split_k_parts(m, n, k, wave, rung);
    bytes = std::max(bytes, kernels::split_k_workspace_bytes(m, n, k, parts, rung));
    words = std::max(words, kernels::split_k_counters(m, n, parts, rung));
  }
  const Tensor c = place.normal({m, n}), workspace = place.normal({bytes / 4});
  const Tensor counters = torch::zeros({words}, torch::dtype(torch::kInt).device(place.device));
  Ladder ladder{.name = ladder_name("split-K", type, {m, n, k}),
                .flops = flops_of(pass, shape, type),
                .expected = {at::mm(a.to(torch::kDouble), b.to(torch::kDouble))},
                .tolerance = 1e-2,  // the type of cuBLAS's result
                .contestants = {{"torch::mm", [=] { return std::vector{at::mm(a, b)}; }}}};
  const int all = kernels::kSplitKRungs, here = place.device.is_cuda() ? kernels::split_k_rungs_here() : all;
  skip_rungs(ladder, here, all, kernels::reason_not_here());
  add_rungs(ladder, here, [=](int rung) {
    const int64_t parts = kernels::split_k_parts(m, n, k, wave, rung);
    launch_where_they_are({{"a", a}, {"b", b}, {"c", c}, {"workspace", workspace}, {"counters", counters}},
                          [&](auto stream, auto value) {
                            using T = decltype(value);
                            if constexpr (sizeof(T) == 2) {
                              kernels::split_k(stream, data_of<float>(c), data_of<float>(workspace),
                                               reinterpret_cast<unsigned*>(data_of<int>(counters)), data_of<T>(a),
                                               data_of<T>(b), m, n, k, parts, rung);
                            }
                          });
    return std::vector{c};
  });
  return ladder;
}
}  // namespace

int main(int argc, char** argv) {
  // Few tiles for a decoder's 64 rows; tiles that fill one wave of an H100 and a part of the next; many tiles of a
  // short k.
  const simt::Sizes rows = {{"m", 64}, {"n", 4096}, {"k", 4096}, {"wave", kernels::kSplitKWaveAssumed}},
                    second_wave = {{"m", 2304}, {"n", 2304}, {"k", 2304}, {"wave", kernels::kSplitKWaveAssumed}},
                    short_k = {{"m", 4096}, {"n", 4096}, {"k", 256}, {"wave", kernels::kSplitKWaveAssumed}};
  return run(argc, argv,
             {[](const Place& place) { return product(place, torch::kBFloat16, {}); },
              [=](const Place& place) { return product(place, torch::kBFloat16, rows); },
              [=](const Place& place) { return product(place, torch::kBFloat16, second_wave); },
              [=](const Place& place) { return product(place, torch::kHalf, short_k); }});
}
