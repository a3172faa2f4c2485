#pragma once
// Ranks that are threads, for a unit test, and tensors that are the same on all of them.

#include <torch/torch.h>

#include <ATen/CPUGeneratorImpl.h>

#include <chrono>
#include <cstdint>
#include <functional>

#include "common/ranks/rank_threads.h"

namespace tenfold::test {

/// As on_rank_threads(), with a time-out that a busy machine keeps. `Group` is made of the process group; one rank is
/// this thread, with an empty one.
template <class Group>
void on_ranks(int ranks, const std::function<void(int, const Group&)>& work) {
  if (ranks == 1) return work(0, {});
  on_rank_threads(ranks, std::chrono::seconds(20), [&](int rank, const auto& group) { work(rank, Group(group)); });
}

inline torch::Tensor random(at::IntArrayRef sizes, uint64_t seed) {
  return torch::randn(sizes, at::detail::createCPUGenerator(seed));
}

}  // namespace tenfold::test
