// Transpose: our rungs beside ATen's strided copy.
#include "ladder.h"

#include "kernels/transpose/transpose.h"

namespace {
using namespace tenfold::bench;

Ladder transpose(const Place& place) {
  const int64_t rows = place.pick(8192, 33), columns = place.pick(8192, 70);
  const Tensor in = place.normal({rows, columns}), out = torch::empty({columns, rows}, in.options());
  Ladder ladder{.name = ladder_name("transpose", torch::kFloat, {rows, columns}),
                .bytes = 2.0 * static_cast<double>(in.nbytes()),
                .expected = {in.t().contiguous()},
                .contestants = {{"ATen", [=] { return std::vector{in.t().contiguous()}; }}}};
  add_rungs(ladder, kernels::kTransposeRungs, [=](int rung) {
    launch_where_they_are({{"out", out}, {"in", in}}, [&](auto stream, auto) {
      kernels::transpose(stream, data_of<float>(out), data_of<float>(in), rows, columns, rung);
    });
    return std::vector{out};
  });
  return ladder;
}
}  // namespace

int main(int argc, char** argv) { return run(argc, argv, {transpose}); }
