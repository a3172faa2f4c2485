// A training step from C++, on one core: the suite's three workloads, a GPT with the weights of GPT-2 small, and AdamW
// as a loop over the parameters and as one operator. And a start: from nothing to the end of a first update, in a
// process of its own. Twin: peers/training.py.
#include <torch/torch.h>

#include <benchmark/benchmark.h>
#include "common/measure/trial.h"
#include "common/models/convnet.h"
#include "common/models/gpt.h"
#include "common/models/mlp.h"
#include "lessons/45_fused_adamw/adamw_steps.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iomanip>
#include <iostream>
#include <map>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>

#include "run_benchmarks.h"

namespace {

namespace fs = std::filesystem;
using Settings = std::map<std::string, tenfold::SettingValue>;

/// Updates whose last loss the twin must have, too.
constexpr int kUpdates = 3;

struct Training {
  int64_t items = 0;                           ///< images or tokens of an update
  std::function<torch::Tensor()> update = {};  ///< gives its loss, which nobody has waited for
};

/// An update with this optimizer: SGD of the workload, or AdamW.
Training training(const tenfold::Workload& workload, const Settings& settings, std::string_view optimizer) {
  const auto record = std::make_shared<tenfold::TrialRecord>();
  record->given = settings;
  tenfold::Trial trial(record);
  trial.seed = 1234;
  trial.workload = workload;
  torch::manual_seed(trial.seed);  // of the weights; the batches have a generator of their own
  const tenfold::Work work = workload.make(trial);
  std::function<void()> step;
  if (optimizer == "sgd") {
    step = [of = work.optimizer] { of->step(); };
  } else if (optimizer == "adamw") {
    const auto options = torch::optim::AdamWOptions(1e-3).weight_decay(1e-2);
    step = [of = std::make_shared<torch::optim::AdamW>(work.model->parameters(), options)] { of->step(); };
  } else {
    step = [of = std::make_shared<tenfold::AdamWState>(work.model->parameters())] { tenfold::fused_adamw(*of, {}); };
  }
  return {work.items, [work, step] {
            work.optimizer->zero_grad();
            torch::Tensor loss = work.next_loss();
            loss.backward();
            step();
            return loss.detach();
          }};
}

struct Case {
  std::string name;
  std::function<Training()> make;
};

std::vector<Case> cases() {
  const auto of = [](const tenfold::Workload& workload, const Settings& settings, const std::string& optimizer) {
    return [=] { return training(workload, settings, optimizer); };
  };
  const Settings small = {
      {"layers", int64_t{12}}, {"width", int64_t{768}}, {"heads", int64_t{12}}, {"batch", int64_t{1}}};
  return {{"mlp/sgd", of(tenfold::mlp_workload, {}, "sgd")},
          {"mlp/adamw", of(tenfold::mlp_workload, {}, "adamw")},
          {"mlp/adamw_fused", of(tenfold::mlp_workload, {}, "adamw_fused")},
          {"convnet/sgd", of(tenfold::convnet_workload, {}, "sgd")},
          {"gpt/sgd", of(tenfold::gpt_workload, {}, "sgd")},
          {"gpt/adamw", of(tenfold::gpt_workload, {}, "adamw")},
          {"gpt/adamw_fused", of(tenfold::gpt_workload, {}, "adamw_fused")},
          {"gpt_85m/sgd", of(tenfold::gpt_workload, small, "sgd")},
          {"gpt_85m/adamw_fused", of(tenfold::gpt_workload, small, "adamw_fused")}};
}

/// The losses after kUpdates, as the twin's are compared.
std::string losses() {
  std::ostringstream text;
  text << std::setprecision(9);
  for (const Case& row : cases()) {
    const Training training = row.make();
    double loss = 0;
    for (int i = 0; i < kUpdates; ++i) loss = training.update().item<double>();
    text << loss << ' ';
  }
  return text.str();
}

void train(benchmark::State& state, const std::function<Training()>& make) {
  const Training training = make();
  training.update();  // momentum and averages are made in the first one; the twin warms up, too
  for (auto _ : state) benchmark::DoNotOptimize(training.update().item<double>());
  state.SetItemsProcessed(state.iterations() * training.items);
}

constexpr std::string_view kFirstUpdate = "--first-update";

/// Of this program alone: getrusage() keeps the peak of the process that started it.
int64_t peak_resident_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    int64_t kib = 0;
    if (word == "VmHWM:" && status >> kib) return kib * 1024;
  }
  throw std::runtime_error("/proc/self/status has no VmHWM");
}

/// What a process of its own does: one update of the MLP's size on images of zeros. Prints its peak of resident bytes.
int first_update() {
  torch::manual_seed(1234);
  tenfold::Mlp model(tenfold::MlpOptions{});
  torch::optim::SGD optimizer(model->parameters(), torch::optim::SGDOptions(0.05).momentum(0.9));
  torch::cross_entropy_loss(model->forward(torch::zeros({32, 1, 28, 28})), torch::zeros({32}, torch::kLong)).backward();
  optimizer.step();
  std::cout << peak_resident_bytes() << '\n';
  return 0;
}

/// Runs first_update() in a process of its own; its peak of resident bytes.
int64_t start(const fs::path& program) {
  const std::string command = "'" + program.string() + "' " + std::string(kFirstUpdate);
  const std::unique_ptr<FILE, int (*)(FILE*)> child(popen(command.c_str(), "r"), pclose);
  int64_t bytes = 0;
  if (!child || std::fscanf(child.get(), "%ld", &bytes) != 1) throw std::runtime_error(command + " did not run");
  return bytes;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 2 && argv[1] == kFirstUpdate) return first_update();
  return tenfold::bench::run_benchmarks(argc, argv, "training_bench", [] {
    const fs::path program = fs::read_symlink("/proc/self/exe");
    benchmark::AddCustomContext("answer", "losses");
    benchmark::AddCustomContext("answer_near", losses());
    benchmark::AddCustomContext("bytes: resident after a first update", std::to_string(start(program)));
    for (const Case& row : cases())
      benchmark::RegisterBenchmark(row.name.c_str(), train, row.make)->Unit(benchmark::kMillisecond)->UseRealTime();
    benchmark::RegisterBenchmark("start",
                                 [program](benchmark::State& state) {
                                   for (auto _ : state) start(program);
                                   state.SetItemsProcessed(state.iterations());
                                 })
        ->Unit(benchmark::kMillisecond)
        ->UseRealTime();
  });
}
