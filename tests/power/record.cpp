// Records block times of identical code over many builds, for replay_test.cpp and for the spread between builds.
// usage: record_steps WORKLOAD(convnet|gpt|mlp) BUILDS ROUNDS > FILE.csv
#include "common/base/seconds_since.h"
#include "common/harness/passes.h"
#include "common/harness/timed_block.h"
#include "common/measure/memory.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>

#include "workloads.h"

int main(int argc, char** argv) {
  const std::vector<tenfold::Workload> workloads = {tenfold::convnet_workload, tenfold::gpt_workload,
                                                    tenfold::mlp_workload};
  const auto workload =
      argc > 3 ? std::ranges::find(workloads, std::string(argv[1]), &tenfold::Workload::name) : workloads.end();
  if (workload == workloads.end()) {
    std::fprintf(stderr, "usage: record_steps convnet|gpt|mlp BUILDS ROUNDS\n");
    return 2;
  }
  tenfold::fix_malloc_thresholds();
  at::set_num_threads(1);
  const tenfold::World alone;
  std::mt19937_64 random(1);
  std::printf(
      "# build seconds, then for three builds of the same code microseconds of wall time and of processor time\n");
  std::printf("build,build_s,wall0,wall1,wall2,processor0,processor1,processor2\n");
  int64_t steps = 0;
  for (int build = 0; build < std::atoi(argv[2]); ++build) {
    const auto begin = std::chrono::steady_clock::now();
    std::vector<tenfold::Step> lives;
    for (int i = 0; i < 3; ++i) {
      tenfold::Trial trial(std::make_shared<tenfold::TrialRecord>());
      trial.seed = 1234;
      torch::manual_seed(1234);
      lives.push_back(power::train(workload->make(trial)));
      tenfold::timed_block(alone, torch::kCPU, lives.back(), 2);
    }
    const double build_s = tenfold::seconds_since(begin) / 3;
    if (steps == 0)
      steps = tenfold::block_steps({{tenfold::timed_block(alone, torch::kCPU, lives[0], 5).wall / 5}}, 0.01, false)[0];
    std::vector<size_t> order = {0, 1, 2};
    for (int round = 0; round < std::atoi(argv[3]); ++round) {
      if (round % 2 == 0) std::shuffle(order.begin(), order.end(), random);
      if (round % 2 == 1) std::reverse(order.begin(), order.end());
      tenfold::Times times[3];
      for (const size_t i : order) times[i] = tenfold::timed_block(alone, torch::kCPU, lives[i], steps);
      std::printf("%d,%.4f,%.0f,%.0f,%.0f,%.0f,%.0f,%.0f\n", build, build_s, 1e6 * times[0].wall, 1e6 * times[1].wall,
                  1e6 * times[2].wall, 1e6 * times[0].processor, 1e6 * times[1].processor, 1e6 * times[2].processor);
    }
  }
  return 0;
}
