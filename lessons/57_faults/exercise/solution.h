#pragma once
// The kept solution of exercise 57; CI proves that it passes.
#include <torch/torch.h>

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include <algorithm>
#include <cstdint>
#include <vector>

/// The newest step of which every rank has a good checkpoint, or -1 where there is none. `good` are the steps of this
/// rank's good files in ascending order; other ranks may have other ones, or none. Every rank calls it, and gets the
/// same answer.
inline int64_t newest_of_all(const std::vector<int64_t>& good, c10d::ProcessGroup& group) {
  const auto least_of_ranks = [&](int64_t value) {
    std::vector<torch::Tensor> least{torch::tensor({value}, torch::kLong)};
    c10d::AllreduceOptions options;
    options.reduceOp = c10d::ReduceOp::MIN;
    group.allreduce(least, options)->wait();
    return least[0].item<int64_t>();
  };
  int64_t limit = least_of_ranks(good.empty() ? -1 : good.back());
  while (limit >= 0) {
    const auto above = std::upper_bound(good.begin(), good.end(), limit);
    const int64_t own = above == good.begin() ? -1 : *(above - 1);  // this rank's newest that is not newer
    const int64_t least = least_of_ranks(own);
    if (least == limit) break;  // every rank has it
    limit = least;
  }
  return limit;
}
