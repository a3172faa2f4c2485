// The sum of an array: our rungs beside ATen's sum.
#include "ladder.h"

#include "kernels/reduction/reduction_case.h"

namespace {
using namespace tenfold::bench;

/// Rung 0 adds one value after the other to a float, whose steps grow with it: of 2^28 values of mean 1 the sum of 2^26
/// is about as far as it gets (kernels/reduction/README.md). At 2^22 it is still right.
constexpr int64_t kFew = int64_t{1} << 22;

Ladder sum(const Place& place, const simt::Pass& pass) {
  const simt::Shape shape = place.pick(pass, {{"count", 4099}});
  const int64_t count = shape.at("count");
  const Tensor in = place.normal({count}) + 1,
               out = torch::empty({1}, in.options());  // of the size of n, not of its root
  const Tensor workspace =
      torch::zeros({static_cast<int64_t>(sizeof(kernels::ReductionWorkspace))}, in.options().dtype(torch::kByte));
  Ladder ladder{.name = ladder_name("sum", torch::kFloat, {count}),
                .bytes = least_bytes_of(pass, shape, torch::kFloat),
                .expected = {in.sum({0}, /*keepdim=*/true, torch::kDouble)},
                .tolerance = 1e-3,  // rung 0 at 2^22: some 1e-4
                .contestants = {{"ATen", [=] { return std::vector{in.sum({0}, /*keepdim=*/true)}; }}}};
  const int first = count > kFew ? 1 : 0;
  if (first > 0) skip_rungs(ladder, 0, first, "a float is too short for so many additions, one after the other");
  const auto work = [=](int rung) {
    launch_where_they_are({{"out", out}, {"in", in}, {"workspace", workspace}}, [&](auto stream, auto) {
      kernels::reduce_sum(stream, data_of<float>(out), data_of<float>(in), count,
                          data_of<kernels::ReductionWorkspace>(workspace), rung);
    });
    return std::vector{out};
  };
  add_rungs(ladder, kernels::kReductionRungs, work, first);
  return ladder;
}
}  // namespace

int main(int argc, char** argv) {
  const simt::Pass many = kernels::reduction_pass();
  simt::Pass few = many;
  few.shape = {{"count", kFew}};
  return run(
      argc, argv,
      {[=](const Place& place) { return sum(place, many); }, [=](const Place& place) { return sum(place, few); }});
}
