// installs as <tenfold/weight_grad_store.h>
#pragma once
// A backward in two halves, for zero-bubble schedules: a layer's backward() computes the gradient of its input at once,
// which the stage before waits for, and leaves that of its weights in a store, until the rank would wait. Nothing is
// computed twice. Two calls of torch::autograd::grad(), for the input and for the weights, would compute the gradients
// between the layers twice: with F = B = W a third of all work more. Source: P. Qi et al., Zero Bubble Pipeline
// Parallelism, ICLR 2024, arXiv 2401.10241; the name is that of sail-sg/zero-bubble-pipeline-parallelism,
// megatron/core/weight_grad_store.py.

#include <torch/custom_class.h>
#include <torch/torch.h>

#include <ATen/record_function.h>

#include <cstdint>
#include <functional>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "lessons/21_mixed_precision/autocast.h"

namespace tenfold {

/// What backward() has left to do, of one micro-batch at a time. A graph that defers to a store keeps it alive.
///
///   auto store = c10::make_intrusive<tenfold::WeightGradStore>();
///   ... h = tenfold::deferred_linear(h, layer->weight, layer->bias, store);  // in a stage
///   tenfold::Pipeline pipeline(zb_h1_schedule(4, 8), group, {forward}, {b, t, d}, torch::kFloat, store);
class WeightGradStore : public torch::CustomClassHolder {
 public:
  using Work = std::vector<std::function<void()>>;

  /// Of a layer's backward: work that adds to its weights' .grad(), to be run under no_grad.
  void put(std::function<void()> work) { work_.push_back(std::move(work)); }

  /// What was put since the last call, in the layers' backward order.
  Work take() { return std::exchange(work_, {}); }

 private:
  Work work_;
};

/// Runs what a store had, and frees the tensors of each part when it is done.
inline void run_weight_gradients(WeightGradStore::Work work) {
  RECORD_USER_SCOPE("weight gradients");
  const torch::NoGradGuard no_grad;
  for (std::function<void()>& part : work) std::exchange(part, nullptr)();
}

namespace weight_grad_detail {

inline bool is_trained(const torch::Tensor& weight) { return weight.defined() && weight.requires_grad(); }

/// Steals the first gradient and adds every other one, as autograd does.
inline void accumulate(const torch::Tensor& weight, const torch::Tensor& gradient) {
  torch::Tensor& sum = weight.mutable_grad();
  if (sum.defined())
    sum.add_(gradient);
  else
    sum = gradient.to(weight.scalar_type());
}

/// (..., out) -> (out), in the order in which autograd sums a bias's gradient.
inline torch::Tensor sum_of_rows(const torch::Tensor& gradient) {
  std::vector<int64_t> rows(static_cast<size_t>(gradient.dim() - 1));
  std::iota(rows.begin(), rows.end(), 0);
  return rows.empty() ? gradient.clone() : gradient.sum(rows);
}

struct DeferredLinear : torch::autograd::Function<DeferredLinear> {
  /// `input` and `cast` have the product's type: under autocast `cast` is a 16-bit copy of `weight`, made outside,
  /// where autocast keeps it for the next micro-batch.
  static torch::Tensor forward(torch::autograd::AutogradContext* context, const torch::Tensor& input,
                               const torch::Tensor& weight, const std::optional<torch::Tensor>& bias,
                               const torch::Tensor& cast, const c10::intrusive_ptr<WeightGradStore>& store) {
    context->save_for_backward({input, weight, bias.value_or(torch::Tensor()), cast});
    context->saved_data["store"] = c10::IValue::make_capsule(store);
    // As torch::nn::functional::linear does it while its weight is trained.
    if (input.dim() == 2 && bias) return at::addmm(bias->detach(), input, cast.t());
    const torch::Tensor result = input.reshape({-1, weight.size(1)}).mm(cast.t());  // (rows, out)
    if (bias) result.add_(*bias);
    std::vector<int64_t> shape = input.sizes().vec();
    shape.back() = weight.size(0);
    return at::_unsafe_view(result, shape);  // a Function's result may not be a view
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    TORCH_CHECK(!at::GradMode::is_enabled(), "deferred_linear: backward(create_graph = true) is not supported");
    const auto saved = context->get_saved_variables();
    const torch::Tensor &input = saved[0], &weight = saved[1], &bias = saved[2], &cast = saved[3];
    const torch::Tensor gradient = gradients[0].reshape({-1, weight.size(0)});  // (rows, out)
    if (is_trained(weight) || is_trained(bias)) {
      const auto capsule = context->saved_data["store"].toCapsule();
      const torch::Tensor rows = input.detach().reshape({-1, weight.size(1)});
      const auto versions = std::pair(gradients[0]._version(), rows._version());
      c10::static_intrusive_pointer_cast<WeightGradStore>(capsule)->put(
          [of_output = gradients[0], gradient, rows, versions, weight, bias] {
            TORCH_CHECK(versions == std::pair(of_output._version(), rows._version()),
                        "a layer's input or gradient was changed in place before its weights' gradients were computed");
            if (is_trained(weight)) accumulate(weight, gradient.t().mm(rows));  // (out, in)
            if (is_trained(bias)) accumulate(bias, sum_of_rows(of_output));
          });
    }
    torch::Tensor of_input;
    if (context->needs_input_grad(0)) of_input = gradient.mm(cast).view_as(input);
    return {of_input, {}, {}, {}, {}};
  }
};

}  // namespace weight_grad_detail

/// What torch::nn::Linear computes of (..., in), to the same bits, in 16 bits and under autocast, too: (..., out). (It
/// is C++'s, which rounds the product of an input that is no matrix before it adds the bias; Python's rounds once.) But
/// its backward() puts the gradients of weight and bias into `store` and computes the input's alone. `bias` may be
/// undefined. Hooks of the weights do not see these gradients: DistributedDataParallel of lesson 52 cannot be used with
/// it, and its finish() would miss them. With data parallelism on a second dimension of the mesh call
/// average_in_buckets() after run(). Throws std::invalid_argument (c10::ValueError) for weights that are no leaves:
/// .grad() is where they are added.
inline torch::Tensor deferred_linear(const torch::Tensor& input, const torch::Tensor& weight, const torch::Tensor& bias,
                                     const c10::intrusive_ptr<WeightGradStore>& store) {
  TORCH_CHECK_VALUE(weight.is_leaf() && (!bias.defined() || bias.is_leaf()),
                    "the gradients of weights that are computed from others cannot be left for later");
  const auto optional = bias.defined() ? std::optional(bias) : std::nullopt;
  return weight_grad_detail::DeferredLinear::apply(autocast_input(input), weight, optional,
                                                   autocast_input(weight).detach(), store);
}

}  // namespace tenfold
