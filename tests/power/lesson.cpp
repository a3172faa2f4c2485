// A lesson whose answers are known: identical code, and code that is 2 % and 5 % slower. power.py runs it many times.
#include "workloads.h"

namespace {

template <int kPerMille>
tenfold::Step build(const tenfold::Trial& trial) {
  tenfold::Step step = power::train(trial, trial.get("workload", 1));
  return kPerMille == 0 ? step : power::slower(std::move(step), kPerMille / 1000.0);
}

}  // namespace

int main(int argc, char** argv) {
  using namespace tenfold::expect;
  const std::vector<tenfold::Expectation> expected = {
      {"identical", {SAME, SAME}}, {"2 % slower", {ANY, SAME}}, {"5 % slower", {SLOWER, SAME}}};
  return tenfold::run(argc, argv,
                      {.title = "Power",
                       .question = "How often is identical code called the same, and code that is 5 % slower found?",
                       .workload = "R2",
                       .baseline = {"plain", build<0>},
                       .techniques = {{"identical", build<0>}, {"2 % slower", build<20>}, {"5 % slower", build<50>}},
                       .cases = {{"gpt", {{"workload", power::gpt}}, expected},
                                 {"mlp", {{"workload", power::mlp}}, expected},
                                 {"convnet", {{"workload", power::convnet}}, expected}}});
}
