// A lesson whose answers are known: identical code, and code that is 2 % and 5 % slower. power.py runs it many times.
#include "workloads.h"

namespace {

template <int kPerMille>
tenfold::Step build(const tenfold::Trial& trial) {
  tenfold::Step step = power::train(trial.workload.make(trial));
  return kPerMille == 0 ? step : power::slower(std::move(step), kPerMille / 1000.0);
}

}  // namespace

int main(int argc, char** argv) {
  using namespace tenfold::expect;
  const std::vector<tenfold::Expectation> expected = {
      {"identical", {SAME_SPEED, SAME_MEMORY}}, {"2 % slower", SAME_MEMORY}, {"5 % slower", {SLOWER, SAME_MEMORY}}};
  return tenfold::run(argc, argv,
                      {.title = "Power",
                       .question = "How often is identical code called the same, and code that is 5 % slower found?",
                       .version = 3,
                       .baseline = {"plain", build<0>},
                       .techniques = {{"identical", build<0>}, {"2 % slower", build<20>}, {"5 % slower", build<50>}},
                       .cases = {{"gpt", {}, expected, tenfold::gpt_workload},
                                 {"mlp", {}, expected, tenfold::mlp_workload},
                                 {"convnet", {}, expected, tenfold::convnet_workload}},
                       .headline = tenfold::Headline{"gpt", "5 % slower"}});
}
