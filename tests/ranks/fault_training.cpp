// usage: fault_training FOLDER UPDATES EVERY
// One rank of a small data parallel training that survives what fault_test does to it: it names who is missing, and
// goes on from the newest checkpoint that all ranks have. Its launcher sets RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT.
//   FAULT=die:1:12     rank 1 kills itself in the all-reduce of update 12 (under torchrun, only before a restart)
//   FAULT=drift:1:12   rank 1 changes a parameter before update 12
//   FAULT=model:1:0    rank 1 has a wider model;  FAULT=data:1:0    it draws in another order
//   TIMEOUT_MS=5000    of a collective
// Ends with 0, with 3 after a lost rank, with 4 where a rank differs.
#include <torch/torch.h>

#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

#include "common/base/launchers.h"
#include "common/ranks/process_group.h"
#include "lessons/52_ddp/gradient_buckets.h"
#include "lessons/57_faults/monitored_barrier.h"
#include "lessons/57_faults/resume.h"
#include "lessons/57_faults/same_on_ranks.h"

namespace {

using namespace tenfold;
constexpr int64_t kSamples = 256, kRows = 4, kInputs = 64, kHidden = 512;

struct Fault {
  std::string kind;
  int rank = -1;
  int64_t update = -1;
};

Fault fault_of_environment() {
  Fault fault;
  const char* restarts = std::getenv("TORCHELASTIC_RESTART_COUNT");
  if (restarts != nullptr && std::string(restarts) != "0") return fault;
  std::istringstream in(std::getenv("FAULT") != nullptr ? std::getenv("FAULT") : "");
  std::string rank, update;
  if (std::getline(in, fault.kind, ':') && std::getline(in, rank, ':') && std::getline(in, update))
    fault.rank = std::stoi(rank), fault.update = std::stoll(update);
  return fault;
}

void say(const World& world, const std::string& text) {
  std::printf("rank %d: %s\n", world.ranks.rank, text.substr(0, text.find('\n')).c_str());
  std::fflush(stdout);
}

void train(const World& world, const std::string& folder, int64_t updates, int64_t every, Fault fault) {
  const int rank = world.ranks.rank, ranks = world.ranks.world_size;
  if (rank != fault.rank) fault = {};
  c10d::ProcessGroup& group = *world.group;
  const torch::Device cpu(torch::kCPU);

  torch::manual_seed(3);
  const int64_t hidden = fault.kind == "model" ? kHidden + 1 : kHidden;
  torch::nn::Sequential model(torch::nn::Linear(kInputs, hidden), torch::nn::ReLU(), torch::nn::Linear(hidden, 1));
  torch::optim::AdamW optimizer(model->parameters(), torch::optim::AdamWOptions(1e-3));
  ResumableSampler sampler(kSamples, rank, ranks, fault.kind == "data" ? 6 : 5);
  require_same_on_ranks("the model", hash_of_structure(*model), cpu, group);
  require_same_on_ranks("seed or data", hash_of({sampler.state()}), cpu, group);

  const CheckpointFolder checkpoints(folder);
  std::vector<std::string> refused;
  const int64_t step = agree_on_step(checkpoints.good_steps(&refused), cpu, group);
  for (const std::string& line : refused) say(world, "refused: " + line);
  if (step > 0) load_training_state(checkpoints.load(step), *model, optimizer, sampler);
  say(world, "begins after update " + std::to_string(std::max<int64_t>(0, step)));

  const std::vector<torch::Tensor> parameters = model->parameters();
  const auto buckets = assign_buckets(parameters, {});
  const torch::Tensor inputs = torch::randn({kSamples, kInputs}, at::detail::createCPUGenerator(1));
  const torch::Tensor targets = inputs.sum(1, true).sin();
  std::ofstream progress(folder + "/progress." + std::to_string(rank), std::ios::app);
  for (int64_t update = std::max<int64_t>(0, step) + 1; update <= updates; ++update) {
    if (update == fault.update && fault.kind == "drift") {
      const torch::NoGradGuard no_grad;
      parameters[0].add_(1e-6);
    }
    const torch::Tensor rows = sampler.next(kRows);
    optimizer.zero_grad();
    torch::mse_loss(model->forward(inputs.index_select(0, rows)), targets.index_select(0, rows)).backward();
    if (update == fault.update && fault.kind == "die") {
      std::vector<torch::Tensor> rows;
      for (const size_t i : buckets[0]) rows.push_back(parameters[i].grad().flatten());
      const auto work = start_all_reduce(torch::cat(rows), group);  // the one that the others are in
      kill(getpid(), SIGKILL);
    }
    average_in_buckets(parameters, buckets, group);
    optimizer.step();
    if (update % every == 0) {
      require_same_on_ranks("the parameters after update " + std::to_string(update), hash_of(parameters), cpu, group);
      if (rank == 0) checkpoints.save(update, training_state(*model, optimizer, sampler));
    }
    progress << update << std::endl;
  }
  std::ofstream(folder + "/result." + std::to_string(rank), std::ios::binary)
      << checkpoint_bytes(training_state(*model, optimizer, sampler));
  world.barrier();
}

int run(const World& world, char** arguments) {
  const auto wait = world.timeout / 2;
  try {
    monitored_barrier(*world.store, "start", world.ranks.rank, world.ranks.world_size, world.timeout);
    train(world, arguments[1], std::stoll(arguments[2]), std::stoll(arguments[3]), fault_of_environment());
    return 0;
  } catch (const c10::ValueError& difference) {
    say(world, difference.what_without_backtrace());
    return 4;
  } catch (const std::exception& failure) {
    say(world, std::string("failed: ") + failure.what());
  }
  try {
    const auto missing = missing_ranks(*world.store, "after a failure", world.ranks.rank, world.ranks.world_size, wait);
    say(world, missing.empty() ? "all ranks answer" : names_of_ranks(missing) + " did not come");
  } catch (const std::exception& gone) {
    say(world, gone.what());
  }
  return 3;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  torch::set_num_threads(1);
  const char* timeout = std::getenv("TIMEOUT_MS");
  World world;
  try {
    world =
        connect(ranks_from_environment(), std::chrono::milliseconds(timeout != nullptr ? std::atoll(timeout) : 5000));
  } catch (const std::exception& error) {
    std::printf("%s\n", error.what());
    return 2;
  }
  const int code = run(world, argv);
  std::fflush(stdout);
  std::_Exit(code);  // a group with a lost rank may wait for it at its end
}
