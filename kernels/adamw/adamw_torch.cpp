#include "adamw_torch.h"

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "kernels/torch_binding.h"

namespace tenfold::fused {
namespace {

using torch::Tensor;
using torch::optim::AdamWOptions;
using torch::optim::AdamWParamState;

constexpr const char* kName = "fused::adamw_";

/// The functions below throw c10::Error unless the kernel can walk through a parameter and what belongs to it from
/// their first value to their last. `name` is for the message: who is called, with what.
void check_parameter(const std::string& name, size_t index, const Tensor& parameter) {
  TORCH_CHECK(parameter.defined(), name, ": parameter ", index, " is undefined");
  TORCH_CHECK(parameter.is_cpu() || parameter.is_cuda() || parameter.is_meta(), name, ": parameter ", index,
              " must be on the CPU or on CUDA, not on ", parameter.device());
  TORCH_CHECK(parameter.scalar_type() == at::kFloat, name, ": takes float parameters; ", index, " is ",
              parameter.scalar_type());
  TORCH_CHECK(parameter.layout() == at::kStrided && parameter.is_non_overlapping_and_dense(), name, ": parameter ",
              index, " has gaps or overlaps",
              parameter.layout() == at::kStrided
                  ? c10::str(": shape ", parameter.sym_sizes(), ", strides ", parameter.sym_strides())
                  : c10::str(": its layout is ", parameter.layout()));
}

void check_values(const std::string& name, const char* what, size_t index, const Tensor& tensor,
                  const Tensor& parameter) {
  TORCH_CHECK(tensor.defined(), name, ": ", what, " ", index, " is undefined");
  TORCH_CHECK(tensor.layout() == at::kStrided, name, ": takes no ", tensor.is_sparse() ? "sparse " : "", what, "; ",
              index, " has layout ", tensor.layout());
  TORCH_CHECK(tensor.scalar_type() == at::kFloat && tensor.device() == parameter.device(), name, ": ", what, " ", index,
              " is ", tensor.scalar_type(), " on ", tensor.device(), "; it must be Float on ", parameter.device());
  TORCH_CHECK(tensor.sym_sizes() == parameter.sym_sizes(), name, ": ", what, " ", index, " has shape ",
              tensor.sym_sizes(), "; its parameter has ", parameter.sym_sizes());
}

void check_beside(const std::string& name, const char* what, size_t index, const Tensor& tensor,
                  const Tensor& parameter) {
  check_values(name, what, index, tensor, parameter);
  TORCH_CHECK(tensor.sym_strides() == parameter.sym_strides(), name, ": ", what, " ", index, " has strides ",
              tensor.sym_strides(), "; its parameter has ", parameter.sym_strides());
}

/// One call of the kernel.
struct Update {
  std::vector<Tensor> parameters, averages, square_averages, gradients;
  kernels::AdamWSettings settings;
  int64_t step = 1;
  std::vector<kernels::AdamWTensor> list;  ///< those that have values

  void add(const Tensor& parameter, const Tensor& average, const Tensor& square_average, const Tensor& gradient) {
    if (parameter.is_meta()) return;  // no values, and nobody to notice
    parameters.push_back(parameter);
    averages.push_back(average);
    square_averages.push_back(square_average);
    gradients.push_back(gradient);
    if (parameter.numel() == 0) return;
    list.push_back({data_of<float>(parameter), data_of<float>(average), data_of<float>(square_average),
                    data_of<float>(gradient), parameter.numel()});
  }

  void run() const {
    if (list.empty()) return;
    NamedTensors used;
    for (size_t i = 0; i < parameters.size(); ++i) {
      if (parameters[i].numel() == 0) continue;
      used.insert(used.end(), {{"parameter", parameters[i], 2},
                               {"average", averages[i], 2},
                               {"square_average", square_averages[i], 2},
                               {"gradient", gradients[i]}});
    }
    launch_where_they_are(used, [&](auto stream, auto) {
      kernels::adamw(stream, std::span<const kernels::AdamWTensor>(list), settings, step);
    });
    // A graph that has kept an old value must notice.
    for (const std::vector<Tensor>* changed : {&parameters, &averages, &square_averages}) {
      for (const Tensor& tensor : *changed) torch::autograd::impl::bump_version(tensor);
    }
  }
};

/// What a step will do, without doing any of it: the states that a first gradient makes, and how often each parameter
/// has been seen. A parameter that is listed twice moves twice, as in LibTorch's step().
class PlannedStates {
 public:
  using Slots = std::remove_reference_t<decltype(std::declval<torch::optim::Optimizer&>().state())>;
  explicit PlannedStates(Slots& slots) : slots_(slots) {}

  struct Next {
    AdamWParamState& state;
    int64_t step;
  };
  Next next(const Tensor& parameter) {
    void* const key = parameter.unsafeGetTensorImpl();
    Planned& planned = planned_[key];
    if (planned.state == nullptr) {
      const auto slot = slots_.find(key);
      if (slot != slots_.end() && slot->second) {
        planned.state = static_cast<AdamWParamState*>(slot->second.get());
      } else {
        planned.made = std::make_unique<AdamWParamState>();
        planned.made->exp_avg(torch::zeros_like(parameter));
        planned.made->exp_avg_sq(torch::zeros_like(parameter));
        planned.state = planned.made.get();
      }
      planned.step = planned.state->step();
    }
    return {*planned.state, ++planned.step};
  }

  /// From here on the optimizer has them.
  void store() {
    for (auto& [key, planned] : planned_) {
      planned.state->step(planned.step);
      if (planned.made) slots_[key] = std::move(planned.made);
    }
  }

 private:
  struct Planned {
    AdamWParamState* state = nullptr;
    std::unique_ptr<AdamWParamState> made;
    int64_t step = 0;
  };
  Slots& slots_;
  std::map<void*, Planned> planned_;
};

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
  Update update{.settings = settings, .step = step};
  for (size_t i = 0; i < parameters.size(); ++i) {
    check_parameter(kName, i, parameters[i]);
    TORCH_CHECK(parameters[i].device() == parameters[0].device(), kName, ": parameter ", i, " is on ",
                parameters[i].device(), " and 0 on ", parameters[0].device());
    check_beside(kName, "average", i, averages[i], parameters[i]);
    check_beside(kName, "square average", i, square_averages[i], parameters[i]);
    check_beside(kName, "gradient", i, gradients[i], parameters[i]);
    update.add(parameters[i], averages[i], square_averages[i], gradients[i]);
  }
  update.run();
}

Tensor FusedAdamW::step(LossClosure closure) {
  Tensor loss;
  if (closure != nullptr) {
    const at::AutoGradMode with_gradients(true);
    loss = closure();
  }
  const torch::NoGradGuard no_grad;
  PlannedStates states(state());
  std::vector<Update> updates;
  for (size_t g = 0; g < param_groups_.size(); ++g) {
    const std::string name = "FusedAdamW: group " + std::to_string(g);
    const auto& options = static_cast<const AdamWOptions&>(param_groups_[g].options());
    TORCH_CHECK(!options.amsgrad(), name, " asks for amsgrad, which this optimizer does not have");
    const auto [beta1, beta2] = options.betas();
    const kernels::AdamWSettings settings{.learning_rate = options.lr(),
                                          .beta1 = beta1,
                                          .beta2 = beta2,
                                          .epsilon = options.eps(),
                                          .weight_decay = options.weight_decay()};
    std::map<std::pair<std::string, int64_t>, Update> calls;  // by device and step
    for (size_t i = 0; i < param_groups_[g].params().size(); ++i) {
      const Tensor& parameter = param_groups_[g].params()[i];
      if (!parameter.grad().defined()) continue;
      check_parameter(name, i, parameter);
      check_values(name, "gradient", i, parameter.grad(), parameter);
      const auto [next, step] = states.next(parameter);
      check_beside(name, "average", i, next.exp_avg(), parameter);
      check_beside(name, "square average", i, next.exp_avg_sq(), parameter);
      Update& update = calls[{parameter.device().str(), step}];
      update.settings = settings;
      update.step = step;
      update.add(parameter, next.exp_avg(), next.exp_avg_sq(), with_strides_of(parameter, parameter.grad()));
    }
    for (auto& [key, update] : calls) {
      const std::span<const kernels::AdamWTensor> none;  // options and step are checked, nothing is launched
      kernels::adamw(static_cast<simt::Device*>(nullptr), none, settings, update.step);
      updates.push_back(std::move(update));
    }
  }
  states.store();  // all groups are checked, and all memory is there
  for (const Update& update : updates) update.run();
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
