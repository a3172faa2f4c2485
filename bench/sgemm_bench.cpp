// The product of two float matrices: our rungs beside cuBLAS without TF32.
#include "ladder.h"

#include "kernels/sgemm/sgemm.h"

namespace {
using namespace tenfold::bench;

constexpr int64_t kLargestForAll = 4096;
constexpr int kFirstWithRegisterTile = 3;

Ladder product(const Place& place, int64_t side) {
  const int64_t m = place.pick(side, 65), n = place.pick(side, 68), k = place.pick(side, 36);
  const Tensor a = place.normal({m, k}), b = place.normal({k, n}), c = torch::empty({m, n}, a.options());
  Ladder ladder{.name = ladder_name("SGEMM", torch::kFloat, {m, n, k}),
                .flops = 2 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k),
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
  return run(argc, argv,
             {[](const Place& place) { return product(place, 4096); },
              [](const Place& place) { return product(place, 8192); }});
}
