// The product of two 16-bit matrices: our rungs beside cuBLAS.
#include "ladder.h"

#include "kernels/hgemm/hgemm_case.h"
#include "kernels/rungs_here.h"

namespace {
using namespace tenfold::bench;

Ladder product(const Place& place, torch::ScalarType type, const simt::Pass& pass) {
  const simt::Shape shape = place.pick(pass, {{"m", 65}, {"n", 72}, {"k", 40}});
  const int64_t m = shape.at("m"), n = shape.at("n"), k = shape.at("k");
  const Tensor a = place.normal({m, k}, type), b = place.normal({k, n}, type), c = torch::empty({m, n}, a.options());
  Ladder ladder{.name = ladder_name("HGEMM", type, {m, n, k}),
                .flops = flops_of(pass, shape, type),
                .expected = {at::mm(a.to(torch::kDouble), b.to(torch::kDouble))},
                .tolerance = 1e-2,  // the result's type
                .contestants = {{"torch::mm", [=] { return std::vector{at::mm(a, b)}; }}}};
  // The microscope, which checks them without a GPU, runs them all.
  const int on_gpu =
      type == torch::kHalf ? kernels::hgemm_rungs_here<__half>() : kernels::hgemm_rungs_here<__nv_bfloat16>();
  const int all = kernels::kHgemmAllRungs, here = place.device.is_cuda() ? on_gpu : all;
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
  const simt::Pass pass = kernels::hgemm_pass();
  simt::Pass large = pass;
  large.shape = {{"m", 8192}, {"n", 8192}, {"k", 8192}};
  return run(argc, argv,
             {[=](const Place& place) { return product(place, torch::kBFloat16, pass); },
              [=](const Place& place) { return product(place, torch::kBFloat16, large); },
              [=](const Place& place) { return product(place, torch::kHalf, large); }});
}
