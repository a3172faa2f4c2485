#include "adamw_torch.h"

#include <map>

#include "kernels/torch_binding.h"

namespace tenfold::fused {
namespace {

using torch::Tensor;
using torch::optim::AdamWOptions;
using torch::optim::AdamWParamState;

constexpr const char* kName = "fused::adamw_";

/// Throws c10::Error unless the kernel can walk through both from their first value to their last.
void check_beside(const char* what, size_t index, const Tensor& tensor, const Tensor& parameter) {
  TORCH_CHECK(tensor.scalar_type() == at::kFloat && tensor.device() == parameter.device(), kName, ": ", what, " ",
              index, " is ", tensor.scalar_type(), " on ", tensor.device(), "; it must be Float on ",
              parameter.device());
  TORCH_CHECK(tensor.sizes() == parameter.sizes() && tensor.strides() == parameter.strides(), kName, ": ", what, " ",
              index, " has shape ", tensor.sizes(), " and strides ", tensor.strides(), "; its parameter has ",
              parameter.sizes(), " and ", parameter.strides());
}

/// The tensors of one call of adamw_().
struct Lists {
  std::vector<Tensor> parameters, averages, square_averages, gradients;
};

/// The parameter's state, made with its first gradient; counts the step.
AdamWParamState& next_state(torch::optim::Optimizer& optimizer, const Tensor& parameter) {
  auto& slot = optimizer.state()[parameter.unsafeGetTensorImpl()];
  if (!slot) {
    auto made = std::make_unique<AdamWParamState>();
    made->exp_avg(torch::zeros_like(parameter));
    made->exp_avg_sq(torch::zeros_like(parameter));
    slot = std::move(made);
  }
  auto& state = static_cast<AdamWParamState&>(*slot);
  state.step(state.step() + 1);
  return state;
}

Tensor with_strides_of(const Tensor& parameter, const Tensor& gradient) {
  return gradient.strides() == parameter.strides() ? gradient : torch::empty_like(parameter).copy_(gradient);
}

}  // namespace

void adamw_(at::TensorList parameters, at::TensorList averages, at::TensorList square_averages,
            at::TensorList gradients, const kernels::AdamWSettings& settings, int64_t step) {
  TORCH_CHECK(parameters.size() == averages.size() && parameters.size() == square_averages.size() &&
                  parameters.size() == gradients.size(),
              kName, ": ", parameters.size(), " parameters, ", averages.size(), " averages, ", square_averages.size(),
              " square averages and ", gradients.size(), " gradients; there must be as many of each");
  NamedTensors used;
  std::vector<kernels::AdamWTensor> list;
  for (size_t i = 0; i < parameters.size(); ++i) {
    const Tensor& parameter = parameters[i];
    TORCH_CHECK(parameter.is_cpu() || parameter.is_cuda(), kName, ": parameter ", i,
                " must be on the CPU or on CUDA, not on ", parameter.device());
    TORCH_CHECK(parameter.device() == parameters[0].device(), kName, ": parameter ", i, " is on ", parameter.device(),
                " and 0 on ", parameters[0].device());
    TORCH_CHECK(parameter.scalar_type() == at::kFloat, kName, ": takes float parameters; ", i, " is ",
                parameter.scalar_type());
    TORCH_CHECK(parameter.is_non_overlapping_and_dense(), kName, ": parameter ", i, " has gaps or overlaps: shape ",
                parameter.sizes(), ", strides ", parameter.strides());
    check_beside("average", i, averages[i], parameter);
    check_beside("square average", i, square_averages[i], parameter);
    check_beside("gradient", i, gradients[i], parameter);
    if (parameter.numel() == 0) continue;
    list.push_back({data_of<float>(parameter), data_of<float>(averages[i]), data_of<float>(square_averages[i]),
                    data_of<float>(gradients[i]), parameter.numel()});
    used.insert(used.end(), {{"parameter", parameter},
                             {"average", averages[i]},
                             {"square_average", square_averages[i]},
                             {"gradient", gradients[i]}});
  }
  if (list.empty()) return;
  launch_where_they_are(used, [&](auto stream, auto) {
    kernels::adamw(stream, std::span<const kernels::AdamWTensor>(list), settings, step);
  });
  // A graph that has kept an old value must notice.
  for (const at::TensorList changed : {parameters, averages, square_averages}) {
    for (const Tensor& tensor : changed) torch::autograd::impl::bump_version(tensor);
  }
}

Tensor FusedAdamW::step(LossClosure closure) {
  Tensor loss;
  if (closure != nullptr) {
    const at::AutoGradMode with_gradients(true);
    loss = closure();
  }
  const torch::NoGradGuard no_grad;
  for (auto& group : param_groups_) {
    const auto& options = static_cast<const AdamWOptions&>(group.options());
    TORCH_CHECK(!options.amsgrad(), "FusedAdamW: has no amsgrad");
    std::map<std::pair<std::string, int64_t>, Lists> calls;  // by device and step
    for (const Tensor& parameter : group.params()) {
      const Tensor& gradient = parameter.grad();
      if (!gradient.defined()) continue;
      TORCH_CHECK(!gradient.is_sparse(), "FusedAdamW: takes no sparse gradient");
      const AdamWParamState& state = next_state(*this, parameter);
      Lists& lists = calls[{parameter.device().str(), state.step()}];
      lists.parameters.push_back(parameter);
      lists.averages.push_back(state.exp_avg());
      lists.square_averages.push_back(state.exp_avg_sq());
      lists.gradients.push_back(with_strides_of(parameter, gradient));
    }
    const auto [beta1, beta2] = options.betas();
    const kernels::AdamWSettings settings{.learning_rate = options.lr(),
                                          .beta1 = beta1,
                                          .beta2 = beta2,
                                          .epsilon = options.eps(),
                                          .weight_decay = options.weight_decay()};
    for (const auto& [key, lists] : calls) {
      adamw_(lists.parameters, lists.averages, lists.square_averages, lists.gradients, settings, key.second);
    }
  }
  return loss;
}

void reference::adamw_(at::TensorList parameters, at::TensorList averages, at::TensorList square_averages,
                       at::TensorList gradients, const kernels::AdamWSettings& settings, int64_t step) {
  if (parameters.empty()) return;
  const std::vector<Tensor> steps(
      parameters.size(), torch::full({}, static_cast<double>(step), parameters[0].options().dtype(torch::kFloat)));
  at::_fused_adamw_(parameters, gradients, averages, square_averages, /*max_exp_avg_sqs=*/{}, steps,
                    settings.learning_rate, settings.beta1, settings.beta2, settings.weight_decay, settings.epsilon,
                    /*amsgrad=*/false, /*maximize=*/false);
}

}  // namespace tenfold::fused
