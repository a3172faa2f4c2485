// Transpose: our rungs beside ATen's strided copy.
#include "ladder.h"

#include "kernels/transpose/transpose_case.h"

namespace {
using namespace tenfold::bench;

Ladder transpose(const Place& place) {
  const simt::Pass pass = kernels::transpose_pass();
  const simt::Shape shape = place.pick(pass, {{"rows", 33}, {"columns", 70}});
  const int64_t rows = shape.at("rows"), columns = shape.at("columns");
  const Tensor in = place.normal({rows, columns}), out = torch::empty({columns, rows}, in.options());
  Ladder ladder{.name = ladder_name("transpose", torch::kFloat, {rows, columns}),
                .bytes = least_bytes_of(pass, shape, torch::kFloat),
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
