#pragma once
// Starts the process group of a lesson's ranks from what torchrun, srun or mpirun put into the environment.

#include <torch/torch.h>

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <chrono>
#include <string>
#include <vector>

namespace tenfold {

struct Ranks {
  int rank = 0, world_size = 1, local_rank = 0;
  std::string launcher;  ///< "torchrun", "slurm", "openmpi"; empty when started alone
};

/// Reads RANK and WORLD_SIZE (torchrun), SLURM_PROCID and SLURM_NTASKS, or OMPI_COMM_WORLD_RANK and _SIZE. Throws
/// std::invalid_argument when they contradict themselves or MASTER_ADDR and MASTER_PORT are missing.
Ranks ranks_from_environment();

/// The ranks of one run, connected.
struct World {
  Ranks ranks;
  std::string backend;  ///< "gloo" on CPU, "nccl" on CUDA
  c10::intrusive_ptr<c10d::Store> store;
  c10::intrusive_ptr<c10d::ProcessGroup> group;

  /// Sums (or takes the largest of) one number over all ranks. Every rank must call it.
  double sum(double value) const;
  double max(double value) const;
  /// Rank 0's value on every rank.
  double from_rank_0(double value) const;
  void barrier() const;
  /// After a failed collective: which ranks do not answer within `wait`. Each surviving rank calls it.
  std::vector<int> missing_ranks(std::chrono::milliseconds wait) const;
};

/// Connects all ranks; waits at most `timeout` for them, as does each later collective. Throws std::runtime_error with
/// one line saying which rank could not connect to what.
World connect(const Ranks& ranks, torch::Device device, std::chrono::milliseconds timeout);

/// A group over a store that the ranks share already.
c10::intrusive_ptr<c10d::ProcessGroup> gloo_group(const c10::intrusive_ptr<c10d::Store>& store, int rank, int world_size,
                                                  std::chrono::milliseconds timeout);

}  // namespace tenfold
