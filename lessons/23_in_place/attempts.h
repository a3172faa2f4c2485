#pragma once
// Survey "tried" of lesson 23: in-place operators that autograd allows, refuses at once, or refuses in backward(). A
// refusal is an exception, which no agreement check can judge; so each is tried, and what happened is noted.

#include <torch/torch.h>

#include <functional>
#include <optional>
#include <regex>
#include <string>
#include <vector>

#include "common/harness/lesson.h"

namespace tenfold::inline lesson_23 {

/// Something to try on small tensors; throws what PyTorch throws.
struct Attempt {
  std::string name;
  std::function<void(torch::Device)> run;
};

namespace attempts {
using torch::Tensor;

/// A parameter with a gradient.
inline Tensor parameter(torch::Device device) {
  Tensor param = torch::randn({4}, device).requires_grad_();
  (param * param).sum().backward();
  return param;
}

/// What a layer gives: no leaf, and nothing keeps it.
inline Tensor output_of_layer(torch::Device device) { return torch::randn({4}, device).requires_grad_() * 2; }

/// Refused at once: the graph would record that a leaf was computed from itself.
inline void subtract_from_leaf(torch::Device device) {
  Tensor param = parameter(device);
  param -= 0.1 * param.grad();
}

/// The right form.
inline void subtract_under_no_grad(torch::Device device) {
  Tensor param = parameter(device);
  const torch::NoGradGuard no_grad;
  param -= 0.1 * param.grad();
}

inline void write_to_view_of_leaf(torch::Device device) {
  Tensor param = parameter(device);
  param.slice(0, 0, 2).zero_();
}

/// Refused in backward(): sigmoid keeps its result, which the multiplication changes.
inline void change_result_of_sigmoid(torch::Device device) {
  Tensor gate = torch::sigmoid(output_of_layer(device));
  gate.mul_(2);
  gate.sum().backward();
}

/// The same with an operator that was in place itself: the version that it kept is 1.
inline void change_result_of_exp(torch::Device device) {
  Tensor odds = output_of_layer(device).exp_();
  odds.add_(1);
  odds.sum().backward();
}

/// Allowed: neither the linear layer nor the addition keeps its output.
inline void change_output_of_linear(torch::Device device) {
  torch::nn::Linear layer(4, 4);
  layer->to(device);
  Tensor h = layer(torch::randn({2, 4}, device));
  h.add_(1).relu_();
  h.sum().backward();
}

/// Refused in backward(): the norm keeps x.
inline void add_to_residual_stream(torch::Device device) {
  Tensor x = output_of_layer(device);
  const Tensor branch = torch::layer_norm(x, {4});
  x += branch;
  x.sum().backward();
}

/// Allowed: nobody keeps the sum's other operand.
inline void add_to_branch(torch::Device device) {
  const Tensor x = output_of_layer(device);
  Tensor branch = torch::layer_norm(x, {4}) * 2;
  branch += x;
  branch.sum().backward();
}
}  // namespace attempts

inline std::vector<Attempt> all_attempts() {
  using namespace attempts;
  return {
      {"param -= lr * grad", subtract_from_leaf},         {"param -= lr * grad under no_grad", subtract_under_no_grad},
      {"a slice of param, zero_", write_to_view_of_leaf}, {"sigmoid, then mul_", change_result_of_sigmoid},
      {"exp_, then add_", change_result_of_exp},          {"linear, then add_, relu_", change_output_of_linear},
      {"x += branch(norm(x))", add_to_residual_stream},   {"branch(norm(x)) += x", add_to_branch}};
}

/// What PyTorch says of it; nothing when it is allowed.
inline std::string refusal(const Attempt& attempt, torch::Device device) {
  try {
    attempt.run(device);
  } catch (const c10::Error& error) {
    return error.what_without_backtrace();
  }
  return "";
}

/// The versions of the changed tensor, as the message has them.
struct Versions {
  int found = 0, expected = 0;
};
inline std::optional<Versions> versions_in(const std::string& message) {
  std::smatch match;
  if (!std::regex_search(message, match, std::regex(R"(is at version (\d+); expected version (\d+))")))
    return std::nullopt;
  return Versions{std::stoi(match[1]), std::stoi(match[2])};
}

/// `param = param - lr * grad` raises nothing; if it did, this would. Notes what becomes of the next backward().
inline void look_at_rebound_parameter(const Trial& trial) {
  using torch::Tensor;
  const Tensor old = attempts::parameter(trial.device);
  Tensor param = old - 0.1 * old.grad();
  old.mutable_grad() = Tensor();
  (param * param).sum().backward();
  trial.note("is a leaf", param.is_leaf() ? 1 : 0, "of 1");
  trial.note("gradient after the next backward()", param.mutable_grad().defined() ? 1 : 0, "of 1");
  trial.note("gradient of the tensor that was replaced", old.grad().defined() ? 1 : 0, "of 1");
}

inline std::vector<Look> attempt_looks() {
  std::vector<Look> looks;
  for (const Attempt& attempt : all_attempts()) {
    looks.push_back({attempt.name, [attempt](const Trial& trial) {
                       const std::string text = refusal(attempt, trial.device);
                       trial.note("raises", text.empty() ? 0 : 1, "errors");
                       const auto versions = versions_in(text);
                       if (!versions) return;
                       trial.note("version that autograd kept", versions->expected, "changes");
                       trial.note("version that backward() found", versions->found, "changes");
                     }});
  }
  looks.push_back({"param = param - lr * grad", look_at_rebound_parameter});
  return looks;
}

}  // namespace tenfold::inline lesson_23
