#pragma once
// Connects the ranks that torchrun, srun or mpirun have started, and what they tell each other.

#include <torch/torch.h>

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <chrono>
#include <string>
#include <vector>

#include "common/base/launchers.h"

namespace tenfold {

/// The ranks of one run, connected. What they tell each other to stay in step goes over Gloo, also where the lesson's
/// own collectives go over NCCL: it needs no memory on a GPU, and Gloo notices a lost rank.
struct World {
  Ranks ranks;
  std::string backend;  ///< of the lesson's collectives: "gloo" on CPU, "nccl" on CUDA
  c10::intrusive_ptr<c10d::Store> store;
  c10::intrusive_ptr<c10d::ProcessGroup> group;
  std::chrono::milliseconds timeout{0};  ///< of each collective

  /// Sums (or takes the largest of) one number over all ranks. Every rank must call it.
  double sum(double value) const;
  double max(double value) const;
  /// One rank's value on every rank.
  double from_rank(int rank, double value) const;
  double from_rank_0(double value) const { return from_rank(0, value); }
  /// One rank's text on every rank.
  std::string text_from_rank(int rank, const std::string& text) const;
  /// Every rank's text, by rank.
  std::vector<std::string> texts_of_all(const std::string& text) const;
  /// The lowest rank for which this is true, or -1.
  int first_rank(bool here) const;
  /// Of the hosts: work that is queued on a GPU may still be running.
  void barrier() const;
  /// After a failed collective: which ranks do not answer within `wait`. Each surviving rank calls it.
  std::vector<int> missing_ranks(std::chrono::milliseconds wait) const;
};

/// Connects all ranks over Gloo; waits at most `timeout` for them, as does each later collective. Throws
/// std::runtime_error with one line saying which rank could not connect to what, and what made it a rank.
World connect(const Ranks& ranks, std::chrono::milliseconds timeout);

/// Gives the ranks NCCL for CUDA tensors. Every rank must call it, with its own GPU as the current device, before any
/// group within the world is made. Throws std::runtime_error in a build without NCCL.
void add_nccl(World& world);

/// A group of some of the world's ranks, over the same store and backend, in which this rank is `rank` of `size`. Each
/// group has a name of its own. Every member must call it.
c10::intrusive_ptr<c10d::ProcessGroup> group_within(const World& world, const std::string& name, int rank, int size);

/// A group over a store that the ranks share already.
c10::intrusive_ptr<c10d::ProcessGroup> gloo_group(const c10::intrusive_ptr<c10d::Store>& store, int rank,
                                                  int world_size, std::chrono::milliseconds timeout);

}  // namespace tenfold
