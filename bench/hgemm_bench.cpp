// The product of two 16-bit matrices: our rungs beside cuBLAS.
#include "ladder.h"

#include "kernels/hgemm/hgemm.h"
#include "kernels/rungs_here.h"

namespace {
using namespace tenfold::bench;

Ladder product(const Place& place, torch::ScalarType type, int64_t side) {
  const int64_t m = place.pick(side, 65), n = place.pick(side, 72), k = place.pick(side, 40);
  const Tensor a = place.normal({m, k}, type), b = place.normal({k, n}, type), c = torch::empty({m, n}, a.options());
  Ladder ladder{.name = ladder_name("HGEMM", type, {m, n, k}),
                .flops = 2 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k),
                .expected = {at::mm(a.to(torch::kDouble), b.to(torch::kDouble))},
                .tolerance = 1e-2,  // the result's type
                .contestants = {{"torch::mm", [=] { return std::vector{at::mm(a, b)}; }}}};
  // The microscope, which checks them without a GPU, runs all but Hopper's.
  const int on_gpu =
      type == torch::kHalf ? kernels::hgemm_rungs_here<__half>() : kernels::hgemm_rungs_here<__nv_bfloat16>();
  const int all = kernels::kHgemmAllRungs, here = place.device.is_cuda() ? on_gpu : kernels::kHgemmRungs;
  skip_rungs(ladder, here, all, kernels::reason_not_here());
  add_rungs(ladder, here, [=](int rung) {
    launch_where_they_are({{"c", c}, {"a", a}, {"b", b}}, [&](auto stream, auto value) {
      using T = decltype(value);
      if constexpr (sizeof(T) == 2) kernels::hgemm(stream, data_of<T>(c), data_of<T>(a), data_of<T>(b), m, n, k, rung);
    });
    return std::vector{c};
  });
  return ladder;
}
}  // namespace

int main(int argc, char** argv) {
  return run(argc, argv,
             {[](const Place& place) { return product(place, torch::kBFloat16, 4096); },
              [](const Place& place) { return product(place, torch::kBFloat16, 8192); },
              [](const Place& place) { return product(place, torch::kHalf, 8192); }});
}
