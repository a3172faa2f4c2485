#pragma once
// An SGD update with momentum: in place, into new tensors, and the two ways to write `param = param - lr * grad` that
// do not train.

#include <torch/torch.h>

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "networks.h"

namespace tenfold::inline lesson_23 {

/// Makes the update of what is trained.
using MakeUpdate = std::function<std::function<void()>(const Trained&)>;

/// torch::optim::SGD, which works in place under no_grad.
inline std::function<void()> by_optimizer(const Trained& work) {
  return [optimizer = work.optimizer] { optimizer->step(); };
}

/// The parameters, as handles of the same tensors that the model has, and their velocities (the momentum's averages).
struct SgdState {
  explicit SgdState(const Trained& work) : parameters(work.parameters.values()), learning_rate(work.learning_rate) {}

  /// Before the first update, when the gradients are there, as an optimizer does: tensors that lie elsewhere in memory
  /// can make the same update slower or faster on a CPU.
  void make_velocities() {
    if (!velocities.empty()) return;
    for (const torch::Tensor& parameter : parameters) velocities.push_back(torch::zeros_like(parameter));
  }

  std::vector<torch::Tensor> parameters, velocities;
  double learning_rate;
};

/// In place: no new tensor, and each parameter stays the leaf that the model and autograd know. Without no_grad the
/// last line raises.
inline void step_in_place(SgdState& state) {
  const torch::NoGradGuard no_grad;
  for (size_t i = 0; i < state.parameters.size(); ++i) {
    state.velocities[i].mul_(kMomentum).add_(state.parameters[i].grad());
    state.parameters[i].add_(state.velocities[i], -state.learning_rate);
  }
}

/// A functional update: new velocities and new parameters from the old ones, both complete before the model gets them.
inline void step_into_new(SgdState& state) {
  const torch::NoGradGuard no_grad;
  std::vector<torch::Tensor> velocities, parameters;
  for (size_t i = 0; i < state.parameters.size(); ++i) {
    velocities.push_back(state.velocities[i] * kMomentum + state.parameters[i].grad());
    parameters.push_back(torch::add(state.parameters[i], velocities[i], -state.learning_rate));
  }
  for (size_t i = 0; i < parameters.size(); ++i) state.parameters[i].set_data(parameters[i]);
  state.velocities = std::move(velocities);
}

/// A trap: `param` becomes the name of a new tensor, and the model keeps the old one. Nothing raises, nothing is
/// trained.
inline void step_of_names(SgdState& state) {
  for (size_t i = 0; i < state.parameters.size(); ++i) {
    state.velocities[i].mul_(kMomentum).add_(state.parameters[i].grad());
    torch::Tensor param = state.parameters[i];
    param = param - state.learning_rate * state.velocities[i];  // wrong: assigns to the name
  }
}

/// A trap: the model's own member is assigned. The first update is right. Its result is no leaf but the output of a
/// subtraction, so the next backward() fills the .grad() of the tensor that was replaced. The member's stays empty, and
/// an update skips what has no gradient, as every optimizer does.
inline void step_of_members(SgdState& state, const std::vector<torch::Tensor*>& members) {
  for (size_t i = 0; i < members.size(); ++i) {
    torch::Tensor& param = *members[i];
    const torch::Tensor grad = param.mutable_grad();  // grad() of a tensor that is no leaf prints a warning
    if (!grad.defined()) continue;
    state.velocities[i].mul_(kMomentum).add_(grad);
    param = param - state.learning_rate * state.velocities[i];  // wrong: the subtraction is recorded
  }
}

template <class StepOfState>
std::function<void()> with_state(const Trained& work, const StepOfState& step) {
  return [state = std::make_shared<SgdState>(work), step] {
    state->make_velocities();
    step(*state);
  };
}
inline std::function<void()> update_in_place(const Trained& work) { return with_state(work, step_in_place); }
inline std::function<void()> update_into_new(const Trained& work) { return with_state(work, step_into_new); }
inline std::function<void()> rebind_names(const Trained& work) { return with_state(work, step_of_names); }
inline std::function<void()> rebind_members(const Trained& work) {
  return with_state(work, [members = work.members](SgdState& state) { step_of_members(state, members); });
}

}  // namespace tenfold::inline lesson_23
