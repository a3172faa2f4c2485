#pragma once
// PyTorch's own engine, which Python's DistributedDataParallel drives: the peer that ddp.h is compared with.

#include <torch/torch.h>

#include <torch/csrc/distributed/c10d/reducer.hpp>

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "gradient_buckets.h"

namespace tenfold::inline lesson_52 {

/// A c10d::Reducer with buckets of the given sizes. After prepare_step(), backward() leaves averaged gradients.
inline std::shared_ptr<c10d::Reducer> pytorch_reducer(const std::vector<torch::Tensor>& parameters,
                                                      const c10::intrusive_ptr<c10d::ProcessGroup>& group,
                                                      const DdpOptions& options = {}) {
  auto buckets = std::get<0>(c10d::compute_bucket_assignment_by_size(
      {parameters.rbegin(), parameters.rend()},
      {static_cast<size_t>(options.first_bucket_bytes), static_cast<size_t>(options.bucket_bytes)}));
  for (auto& bucket : buckets) {
    for (size_t& index : bucket) index = parameters.size() - 1 - index;
  }
  return std::make_shared<c10d::Reducer>(
      parameters, std::move(buckets), group,
      /*expect_sparse_gradients=*/std::vector<bool>(parameters.size(), false), options.bucket_bytes,
      /*find_unused_parameters=*/false, /*gradient_as_bucket_view=*/false,
      /*param_names=*/std::unordered_map<size_t, std::string>{}, options.first_bucket_bytes,
      /*skip_all_reduce_unused_params=*/false, /*use_python_reducer=*/false,
      /*bucket_bytes_cap_list=*/std::vector<int64_t>{});
}

/// Before the forward pass of every step.
inline void prepare_step(c10d::Reducer& reducer) {
  reducer.rebuild_buckets();  // once: into the order in which the first backward() made gradients
  reducer.prepare_for_forward();
  reducer.prepare_for_backward({});
}

}  // namespace tenfold::inline lesson_52
