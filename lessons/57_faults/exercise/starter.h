#pragma once
// Your answer to exercise 57. Build and check it with: ./tenfold exercise 57
#include <torch/torch.h>

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include <cstdint>
#include <vector>

/// The newest step of which every rank has a good checkpoint, or -1 where there is none. `good` are the steps of this
/// rank's good files in ascending order; other ranks may have other ones, or none. Every rank calls it, and gets the
/// same answer.
inline int64_t newest_of_all(const std::vector<int64_t>& good, c10d::ProcessGroup& group) {
  // Hint: least_of_ranks(value) would be a good helper: an all-reduce with ReduceOp::MIN of one int64.
  //   std::vector<torch::Tensor> least{torch::tensor({value}, torch::kLong)};
  //   c10d::AllreduceOptions options;
  //   options.reduceOp = c10d::ReduceOp::MIN;
  //   group.allreduce(least, options)->wait();
  // Hint: every rank must make as many all-reduces as the others, so decide only by what all of them know.
  (void)group;
  return good.empty() ? -1 : good.back();  // this rank's own newest
}
