// The sum of an array: our rungs beside ATen's sum.
#include "ladder.h"

#include <tenfold/reduction.h>

namespace {
using namespace tenfold::bench;

Ladder sum(const Place& place) {
  const int64_t count = place.pick(int64_t{1} << 28, 4099);
  const Tensor in = place.normal({count}) + 1, out = torch::empty({1}, in.options());  // of the size of n, not of its root
  const Tensor workspace = torch::zeros({static_cast<int64_t>(sizeof(kernels::ReductionWorkspace))}, in.options().dtype(torch::kByte));
  Ladder ladder{.name = ladder_name("sum", torch::kFloat, {count}),
                .bytes = static_cast<double>(in.nbytes()),
                .expected = {in.sum({0}, /*keepdim=*/true, torch::kDouble)},
                .tolerance = 1e-3,  // rung 0 adds one after the other
                .contestants = {{"ATen", [=] { return std::vector{in.sum({0}, /*keepdim=*/true)}; }}}};
  add_rungs(ladder, kernels::kReductionRungs, [=](int rung) {
    launch_where_they_are({{"out", out}, {"in", in}, {"workspace", workspace}}, [&](auto stream, auto) {
      kernels::reduce_sum(stream, data_of<float>(out), data_of<float>(in), count, data_of<kernels::ReductionWorkspace>(workspace), rung);
    });
    return std::vector{out};
  });
  return ladder;
}
}  // namespace

int main(int argc, char** argv) { return run(argc, argv, {sum}); }
