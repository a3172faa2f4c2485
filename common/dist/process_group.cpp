#include <tenfold/process_group.h>

#include <tenfold/nccl_backend.h>

#include <c10/util/Logging.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <cstdlib>
#include <stdexcept>
#include <thread>

namespace tenfold {
namespace {

const char* env(const char* name) { return std::getenv(name); }

int number(const char* name) {
  const char* text = env(name);
  char* end = nullptr;
  const long value = text == nullptr ? -1 : std::strtol(text, &end, 10);
  if (text == nullptr || end == text || *end != '\0' || value < 0) {
    throw std::invalid_argument(std::string(name) + " is " + (text == nullptr ? "not set" : "'" + std::string(text) + "'") +
                                ", expected a number; start the ranks with torchrun, srun or mpirun");
  }
  return static_cast<int>(value);
}

double reduce(const World& world, double value, c10d::ReduceOp::RedOpType operation) {
  if (!world.group) return value;
  std::vector<torch::Tensor> tensors{torch::tensor({value}, torch::kDouble)};
  if (world.backend == "nccl") tensors[0] = tensors[0].to(torch::kCUDA);
  c10d::AllreduceOptions options;
  options.reduceOp = operation;
  world.group->allreduce(tensors, options)->wait();
  return tensors[0].item<double>();
}

}  // namespace

Ranks ranks_from_environment() {
  Ranks ranks;
  if (env("RANK") != nullptr || env("WORLD_SIZE") != nullptr) {
    ranks = {number("RANK"), number("WORLD_SIZE"), env("LOCAL_RANK") != nullptr ? number("LOCAL_RANK") : 0, "torchrun"};
  } else if (env("OMPI_COMM_WORLD_RANK") != nullptr) {
    ranks = {number("OMPI_COMM_WORLD_RANK"), number("OMPI_COMM_WORLD_SIZE"), number("OMPI_COMM_WORLD_LOCAL_RANK"), "openmpi"};
  } else if (env("SLURM_PROCID") != nullptr && env("SLURM_STEP_ID") != nullptr) {
    ranks = {number("SLURM_PROCID"), number("SLURM_NTASKS"), number("SLURM_LOCALID"), "slurm"};
  }
  if (ranks.world_size < 1 || ranks.rank >= ranks.world_size) {
    throw std::invalid_argument("rank " + std::to_string(ranks.rank) + " of " + std::to_string(ranks.world_size) + " (from " +
                                ranks.launcher + ") makes no sense; start the ranks with torchrun, srun or mpirun");
  }
  if (ranks.world_size > 1) {
    if (env("MASTER_ADDR") == nullptr) throw std::invalid_argument("MASTER_ADDR is not set: the ranks cannot find each other");
    number("MASTER_PORT");
  }
  return ranks;
}

double World::sum(double value) const { return reduce(*this, value, c10d::ReduceOp::SUM); }
double World::max(double value) const { return reduce(*this, value, c10d::ReduceOp::MAX); }
double World::from_rank_0(double value) const { return sum(ranks.rank == 0 ? value : 0); }
void World::barrier() const {
  if (group) sum(0);
}

std::vector<int> World::missing_ranks(std::chrono::milliseconds wait) const {
  std::vector<int> missing;
  if (!store) return missing;
  const auto key = [](int rank) { return "tenfold/answers/" + std::to_string(rank); };
  const auto until = std::chrono::steady_clock::now() + wait;
  try {
    store->set(key(ranks.rank), std::vector<uint8_t>{1});
    for (int rank = 0; rank < ranks.world_size; ++rank) {
      while (!store->check({key(rank)}) && std::chrono::steady_clock::now() < until) {
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
      }
      if (!store->check({key(rank)})) missing.push_back(rank);
    }
  } catch (const std::exception&) {
    missing.assign(1, 0);  // the store itself is gone: it lives with the launcher or with rank 0
  }
  return missing;
}

World connect(const Ranks& ranks, torch::Device device, std::chrono::milliseconds timeout) {
  World world;
  world.ranks = ranks;
  if (ranks.world_size == 1) return world;
  // What c10d logs about a lost connection, stack traces included, comes back as an exception as well: one line is enough.
  if (setenv("TORCH_CPP_LOG_LEVEL", "FATAL", /*overwrite=*/0) == 0) c10::initLogging();
  const std::string host = env("MASTER_ADDR");
  const int port = number("MASTER_PORT");
  try {
    c10d::TCPStoreOptions options;
    options.port = static_cast<uint16_t>(port);
    // torchrun's agent already serves a store at this address; elsewhere rank 0 serves it.
    const bool agent = env("TORCHELASTIC_USE_AGENT_STORE") != nullptr && std::string(env("TORCHELASTIC_USE_AGENT_STORE")) == "True";
    options.isServer = !agent && ranks.rank == 0;
    options.timeout = timeout;
    options.waitWorkers = false;
    const std::string run = env("TORCHELASTIC_RESTART_COUNT") != nullptr ? env("TORCHELASTIC_RESTART_COUNT") : "0";
    world.store = c10::make_intrusive<c10d::PrefixStore>("tenfold/" + run, c10::make_intrusive<c10d::TCPStore>(host, options));
    world.group = gloo_group(world.store, ranks.rank, ranks.world_size, timeout);
    world.backend = "gloo";
    if (device.is_cuda()) {
      add_nccl_backend(*world.group, world.store, ranks.rank, ranks.world_size, timeout);
      world.backend = "nccl";
    }
    world.barrier();
  } catch (const std::exception& error) {
    const std::string text = error.what();
    throw std::runtime_error("rank " + std::to_string(ranks.rank) + " of " + std::to_string(ranks.world_size) + " could not connect at " +
                             host + ":" + std::to_string(port) + ": " + text.substr(0, text.find('\n')) +
                             "; start all ranks together, with torchrun, srun or mpirun");
  }
  return world;
}

}  // namespace tenfold
