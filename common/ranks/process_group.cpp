#include "common/ranks/process_group.h"

#include "common/ranks/nccl_backend.h"

#include <c10/util/Logging.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <algorithm>
#include <cstdlib>
#include <stdexcept>
#include <thread>

namespace tenfold {
namespace {

const char* env(const char* name) { return std::getenv(name); }

double reduce(const World& world, double value, c10d::ReduceOp::RedOpType operation) {
  if (!world.group) return value;
  std::vector<torch::Tensor> tensors{torch::tensor({value}, torch::kDouble)};
  c10d::AllreduceOptions options;
  options.reduceOp = operation;
  world.group->getBackend(c10::DeviceType::CPU)->allreduce(tensors, options)->wait();
  return tensors[0].item<double>();
}

c10::intrusive_ptr<c10d::ProcessGroup> group_of(const World& world, const c10::intrusive_ptr<c10d::Store>& store,
                                                int rank, int size) {
  auto group = gloo_group(store, rank, size, world.timeout);
  if (world.backend == "nccl") add_nccl_backend(*group, store, rank, size, world.timeout);
  return group;
}

}  // namespace

double World::sum(double value) const { return reduce(*this, value, c10d::ReduceOp::SUM); }
double World::max(double value) const { return reduce(*this, value, c10d::ReduceOp::MAX); }
double World::from_rank(int rank, double value) const { return sum(ranks.rank == rank ? value : 0); }

std::string World::text_from_rank(int rank, const std::string& text) const {
  if (!group) return text;
  const auto size = static_cast<int64_t>(from_rank(rank, static_cast<double>(text.size())));
  torch::Tensor bytes = torch::empty({size}, torch::kByte);
  if (ranks.rank == rank) std::copy(text.begin(), text.end(), bytes.data_ptr<uint8_t>());
  std::vector<torch::Tensor> one{bytes};
  c10d::BroadcastOptions options;
  options.rootRank = rank;
  if (size > 0) group->getBackend(c10::DeviceType::CPU)->broadcast(one, options)->wait();
  return {bytes.data_ptr<uint8_t>(), bytes.data_ptr<uint8_t>() + size};
}

std::vector<std::string> World::texts_of_all(const std::string& text) const {
  std::vector<std::string> texts;
  for (int rank = 0; rank < ranks.world_size; ++rank) texts.push_back(text_from_rank(rank, text));
  return texts;
}

int World::first_rank(bool here) const {
  // The largest of the negatives, since max is what there is.
  const double none = -ranks.world_size, found = max(here ? -ranks.rank : none);
  return found == none ? -1 : static_cast<int>(-found);
}

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

c10::intrusive_ptr<c10d::ProcessGroup> group_within(const World& world, const std::string& name, int rank, int size) {
  return group_of(world, c10::make_intrusive<c10d::PrefixStore>("group/" + name, world.store), rank, size);
}

World connect(const Ranks& ranks, std::chrono::milliseconds timeout) {
  World world;
  world.ranks = ranks;
  world.timeout = timeout;
  if (ranks.world_size == 1) return world;
  // What c10d logs about a lost connection, stack traces included, comes back as an exception as well: one line is
  // enough.
  if (setenv("TORCH_CPP_LOG_LEVEL", "FATAL", /*overwrite=*/0) == 0) c10::initLogging();
  const std::string host = env("MASTER_ADDR");
  const int64_t port = number_of_environment("MASTER_PORT", {1, 65535}, 0);
  try {
    c10d::TCPStoreOptions options;
    options.port = static_cast<uint16_t>(port);
    // torchrun's agent already serves a store at this address; elsewhere rank 0 serves it.
    const bool agent =
        env("TORCHELASTIC_USE_AGENT_STORE") != nullptr && std::string(env("TORCHELASTIC_USE_AGENT_STORE")) == "True";
    options.isServer = !agent && ranks.rank == 0;
    options.timeout = timeout;
    options.waitWorkers = false;
    const std::string run = env("TORCHELASTIC_RESTART_COUNT") != nullptr ? env("TORCHELASTIC_RESTART_COUNT") : "0";
    world.store =
        c10::make_intrusive<c10d::PrefixStore>("tenfold/" + run, c10::make_intrusive<c10d::TCPStore>(host, options));
    world.backend = "gloo";
    world.group = group_of(world, world.store, ranks.rank, ranks.world_size);
    world.barrier();
  } catch (const std::exception& error) {
    const std::string text = error.what();
    throw std::runtime_error("rank " + std::to_string(ranks.rank) + " of " + std::to_string(ranks.world_size) +
                             (ranks.origin.empty() ? "" : " (" + ranks.origin + ")") + " could not connect at " + host +
                             ":" + std::to_string(port) + ": " + text.substr(0, text.find('\n')) +
                             "; start all ranks together, with torchrun, srun or mpirun");
  }
  return world;
}

void add_nccl(World& world) {
  if (!world.group) return;
  world.backend = "nccl";
  add_nccl_backend(*world.group, world.store, world.ranks.rank, world.ranks.world_size, world.timeout);
}

}  // namespace tenfold
