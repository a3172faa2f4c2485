// installs as <tenfold/resume.h>
#pragma once
// What data parallel training needs to go on as if nothing had happened: parameters, buffers, the optimizer's state and
// the place in the data. All ranks have the same, so that one of them saves it; each loads it.

#include <torch/torch.h>

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "atomic_checkpoint.h"
#include "lessons/52_ddp/distributed_sampler.h"

namespace tenfold {

/// A rank's samples in the order of indices_of_rank(), and where it is in them. Every rank is at the same place.
class ResumableSampler {
 public:
  /// Throws as indices_of_rank() does.
  ResumableSampler(int64_t size, int rank, int ranks, uint64_t seed)
      : size_(size), rank_(rank), ranks_(ranks), seed_(seed) {
    go_to(0, 0);
  }

  /// The next `count` numbers of samples, (count) int64. What is left of an epoch, if it is fewer, is left out.
  torch::Tensor next(int64_t count) {
    if (position_ + count > order_.size(0)) go_to(epoch_ + 1, 0);
    const torch::Tensor numbers = order_.narrow(0, position_, count);
    position_ += count;
    return numbers;
  }

  void go_to(int64_t epoch, int64_t position) {
    order_ = indices_of_rank(size_, rank_, ranks_, seed_, static_cast<uint64_t>(epoch)).contiguous();
    epoch_ = epoch;
    position_ = position;
  }

  /// (5) int64: epoch, position, and what both only mean something with: seed, number of samples and ranks.
  torch::Tensor state() const {
    return torch::tensor({epoch_, position_, static_cast<int64_t>(seed_), size_, static_cast<int64_t>(ranks_)});
  }
  /// Throws c10::ValueError for the place in another order: of other samples, ranks or another seed.
  void load(const torch::Tensor& saved) {
    TORCH_CHECK_VALUE(torch::equal(saved.narrow(0, 2, 3), state().narrow(0, 2, 3)),
                      "the checkpoint's place in the data is one with [seed, samples, ranks] ", saved.narrow(0, 2, 3),
                      ", and here they are ", state().narrow(0, 2, 3));
    go_to(saved[0].item<int64_t>(), saved[1].item<int64_t>());
  }

 private:
  int64_t size_;
  int rank_, ranks_;
  uint64_t seed_;
  int64_t epoch_ = 0, position_ = 0;
  torch::Tensor order_;
};

namespace resume {
/// Calls `visit(name, tensor&)` for each tensor of one parameter's state, and `count(name, number&)` for its step.
template <class State, class Visit, class Count>
void visit_state(State& state, const std::string& name, const Visit& visit, const Count& count) {
  if constexpr (std::is_same_v<State, torch::optim::SGDParamState>) {
    visit(name + "/momentum", state.momentum_buffer());
  } else {
    visit(name + "/average", state.exp_avg());
    visit(name + "/square", state.exp_avg_sq());
    visit(name + "/largest square", state.max_exp_avg_sq());
    count(name + "/step", state.step());
  }
}

template <class State>
bool add_state(NamedTensors& into, const std::string& name, torch::optim::OptimizerParamState& any) {
  auto* const state = dynamic_cast<State*>(&any);
  if (state == nullptr) return false;
  visit_state(
      *state, name,
      [&](const std::string& of, const torch::Tensor& tensor) {
        if (tensor.defined()) into[of] = tensor;
      },
      [&](const std::string& of, int64_t number) { into[of] = torch::tensor({number}); });
  return true;
}

template <class State>
std::unique_ptr<torch::optim::OptimizerParamState> state_from(const NamedTensors& saved, const std::string& name,
                                                              const torch::Tensor& parameter) {
  auto state = std::make_unique<State>();
  if constexpr (std::is_same_v<State, torch::optim::SGDParamState>) {
    const auto momentum = saved.find(name + "/momentum");
    if (momentum == saved.end()) return nullptr;
    state->momentum_buffer(momentum->second.to(parameter.device(), /*non_blocking=*/false, /*copy=*/true));
  } else {
    const auto tensor = [&](const char* of) {
      const auto found = saved.find(name + of);
      return found == saved.end() ? torch::Tensor() : found->second.to(parameter.device(), false, /*copy=*/true);
    };
    if (!saved.contains(name + "/step")) return nullptr;
    state->exp_avg(tensor("/average"));
    state->exp_avg_sq(tensor("/square"));
    state->max_exp_avg_sq(tensor("/largest square"));
    state->step(saved.at(name + "/step").item<int64_t>());
  }
  return state;
}
}  // namespace resume

namespace resume {
/// One parameter's state, of the kind that the optimizer keeps; null where none was saved.
inline std::unique_ptr<torch::optim::OptimizerParamState> state_for(const torch::optim::Optimizer& optimizer,
                                                                    const NamedTensors& saved, const std::string& name,
                                                                    const torch::Tensor& parameter) {
  if (dynamic_cast<const torch::optim::SGD*>(&optimizer) != nullptr)
    return state_from<torch::optim::SGDParamState>(saved, name, parameter);
  if (dynamic_cast<const torch::optim::AdamW*>(&optimizer) != nullptr)
    return state_from<torch::optim::AdamWParamState>(saved, name, parameter);
  if (dynamic_cast<const torch::optim::Adam*>(&optimizer) != nullptr)
    return state_from<torch::optim::AdamParamState>(saved, name, parameter);
  return nullptr;
}
}  // namespace resume

/// Parameters and buffers, and the state of SGD, Adam or AdamW: the tensors themselves, not copies. Throws
/// c10::ValueError for another optimizer.
inline NamedTensors model_and_optimizer_state(const torch::nn::Module& model, torch::optim::Optimizer& optimizer) {
  NamedTensors saved;
  for (const auto& item : model.named_parameters()) {
    saved["model/" + item.key()] = item.value();
    const auto found = optimizer.state().find(item.value().unsafeGetTensorImpl());
    if (found == optimizer.state().end()) continue;  // not updated yet
    const std::string name = "optimizer/" + item.key();
    TORCH_CHECK_VALUE(resume::add_state<torch::optim::SGDParamState>(saved, name, *found->second) ||
                          resume::add_state<torch::optim::AdamParamState>(saved, name, *found->second) ||
                          resume::add_state<torch::optim::AdamWParamState>(saved, name, *found->second),
                      "the state of this optimizer cannot be saved: expected SGD, Adam or AdamW");
  }
  for (const auto& item : model.named_buffers()) saved["model/" + item.key()] = item.value();
  return saved;
}

/// Parameters and buffers, the state of SGD, Adam or AdamW, and the sampler's place: the tensors themselves, not
/// copies. Not in it: an optimizer's options (a schedule follows from the step), a loss scale, generators of dropout,
/// batches that a loader has ready. Throws c10::ValueError for another optimizer.
inline NamedTensors training_state(const torch::nn::Module& model, torch::optim::Optimizer& optimizer,
                                   const ResumableSampler& sampler) {
  NamedTensors saved = model_and_optimizer_state(model, optimizer);
  saved["sampler"] = sampler.state();
  return saved;
}

/// Goes on from what training_state() gave, in a model and an optimizer that were made as those were. Throws
/// c10::ValueError for a checkpoint of another model, naming the parameter, and as ResumableSampler::load() does.
inline void load_training_state(const NamedTensors& saved, const torch::nn::Module& model,
                                torch::optim::Optimizer& optimizer, ResumableSampler& sampler) {
  const torch::NoGradGuard no_grad;
  size_t used = 0;
  const auto load = [&](const std::string& name, torch::Tensor tensor) {
    const auto found = saved.find("model/" + name);
    TORCH_CHECK_VALUE(found != saved.end() && found->second.sizes() == tensor.sizes() &&
                          found->second.scalar_type() == tensor.scalar_type(),
                      "the checkpoint is of another model: it has no '", name, "' ", tensor.sizes(), ' ',
                      tensor.scalar_type());
    tensor.copy_(found->second);
    ++used;
  };
  for (const auto& item : model.named_buffers()) load(item.key(), item.value());
  for (const auto& item : model.named_parameters()) {
    load(item.key(), item.value());
    const std::string name = "optimizer/" + item.key();
    auto state = resume::state_for(optimizer, saved, name, item.value());
    if (state) optimizer.state()[item.value().unsafeGetTensorImpl()] = std::move(state);
  }
  const auto of_model =
      std::count_if(saved.begin(), saved.end(), [](const auto& item) { return item.first.starts_with("model/"); });
  TORCH_CHECK_VALUE(static_cast<size_t>(of_model) == used, "the checkpoint is of another model: it has ", of_model,
                    " parameters and buffers, and here are ", used);
  sampler.load(saved.at("sampler"));
}

/// The newest step of which every rank has a good file, or -1: what all of them resume from. Ranks that took their own
/// newest would go on from different parameters wherever a file has reached one and not another, or is damaged on one.
/// `good` is in ascending order. Every rank must call it.
inline int64_t agree_on_step(const std::vector<int64_t>& good, torch::Device device, c10d::ProcessGroup& group) {
  const auto least_of_ranks = [&](int64_t value) {
    std::vector<torch::Tensor> least{torch::tensor({value}, torch::kLong).to(device)};
    c10d::AllreduceOptions options;
    options.reduceOp = c10d::ReduceOp::MIN;
    group.allreduce(least, options)->wait();
    return least[0].item<int64_t>();
  };
  // The least of the ranks' newest is tried first. A rank without it has an older one, which becomes the next limit.
  for (int64_t limit = least_of_ranks(good.empty() ? -1 : good.back()); limit >= 0;) {
    const auto above = std::upper_bound(good.begin(), good.end(), limit);
    const int64_t own = above == good.begin() ? -1 : *(above - 1);
    const int64_t least = least_of_ranks(own);
    if (least == limit) return limit;
    limit = least;
  }
  return -1;
}

}  // namespace tenfold
