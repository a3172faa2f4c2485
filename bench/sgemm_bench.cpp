// The product of two float matrices: our rungs beside cuBLAS without TF32.
#include "ladder.h"

#include "kernels/sgemm/sgemm_case.h"

namespace {
using namespace tenfold::bench;

constexpr int64_t kLargestForAll = 4096;
constexpr int kFirstWithRegisterTile = 3;

Ladder product(const Place& place, const simt::Pass& pass) {
  const simt::Shape shape = place.pick(pass, {{"m", 65}, {"n", 68}, {"k", 36}});
  const int64_t m = shape.at("m"), n = shape.at("n"), k = shape.at("k");
  const Tensor a = place.normal({m, k}), b = place.normal({k, n}), c = torch::empty({m, n}, a.options());
  Ladder ladder{.name = ladder_name("SGEMM", torch::kFloat, {m, n, k}),
                .flops = flops_of(pass, shape, torch::kFloat),
                .expected = {at::mm(a.to(torch::kDouble), b.to(torch::kDouble))},
                .tolerance = 1e-4,  // TF32 would err by 1e-3
                .contestants = {{"torch::mm", [=] { return std::vector{at::mm(a, b)}; }}}};
  const int first = m > kLargestForAll ? kFirstWithRegisterTile : 0;
  skip_rungs(ladder, 0, first, "seconds for a launch at this size; see the smaller one");
  const auto work = [=](int rung) {
    launch_where_they_are({{"c", c}, {"a", a}, {"b", b}}, [&](auto stream, auto) {
      kernels::sgemm(stream, data_of<float>(c), data_of<float>(a), data_of<float>(b), m, n, k, 1.0F, 0.0F, rung);
    });
    return std::vector{c};
  };
  add_rungs(ladder, kernels::kSgemmRungs, work, first);
  return ladder;
}
}  // namespace

int main(int argc, char** argv) {
  const simt::Pass pass = kernels::sgemm_pass();
  simt::Pass large = pass;
  large.shape = {{"m", 8192}, {"n", 8192}, {"k", 8192}};
  return run(argc, argv,
             {[=](const Place& place) { return product(place, pass); },
              [=](const Place& place) { return product(place, large); }});
}
