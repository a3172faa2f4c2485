// installs as <tenfold/used_parameters.h>
#pragma once
// Which parameters a loss depends on, and how many ranks have a batch left: what data parallel training has to know
// when ranks do not all do the same.

#include <torch/torch.h>

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include <cstdint>
#include <unordered_set>
#include <vector>

namespace tenfold {

/// Leaves of the graph behind `loss`, by their TensorImpl: backward() makes a gradient for each of them and for no
/// other. A loss that needs no gradient has none. Parameters inside a checkpointed block, which is computed again in
/// backward(), are not in the graph yet.
inline std::unordered_set<const void*> parameters_in_graph(const torch::Tensor& loss) {
  std::unordered_set<const void*> leaves;
  std::unordered_set<const torch::autograd::Node*> seen;
  std::vector<torch::autograd::Node*> left;
  if (loss.grad_fn()) left.push_back(loss.grad_fn().get());
  while (!left.empty()) {
    torch::autograd::Node* const node = left.back();
    left.pop_back();
    if (!seen.insert(node).second) continue;
    if (const auto* const leaf = dynamic_cast<const torch::autograd::AccumulateGrad*>(node))
      leaves.insert(leaf->variable.unsafeGetTensorImpl());
    for (const torch::autograd::Edge& edge : node->next_edges()) {
      if (edge.function) left.push_back(edge.function.get());
    }
  }
  return leaves;
}

/// How many ranks have a batch. 0: the epoch is over, on every rank at once. Every rank must call it before each
/// update:
///
///   while (const int64_t ranks = tenfold::ranks_with_batch(loader.has_next(), device, *group)) {
///     ddp.mean_over(ranks);
///     if (loader.has_next()) loss_of(loader.next()).backward(); else ddp.without_batch();
///     ddp.finish();
///     optimizer.step();  // by all ranks, so that they stay equal
///   }
inline int64_t ranks_with_batch(bool has_batch, torch::Device device, c10d::ProcessGroup& group) {
  std::vector<torch::Tensor> count{torch::full({1}, has_batch ? 1 : 0, torch::dtype(torch::kLong).device(device))};
  group.allreduce(count)->wait();
  return count[0].item<int64_t>();
}

}  // namespace tenfold
