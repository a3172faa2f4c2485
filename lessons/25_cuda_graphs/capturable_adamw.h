// installs as <tenfold/capturable_adamw.h>
#pragma once
// AdamW with its step number and its learning rate on the device.
//
// torch::optim::AdamW computes the bias corrections on the host, from a step number that the host counts, and passes
// the learning rate as a number. A graph keeps both as they were at the capture. Here the device reads them from its
// memory, as with PyTorch's AdamW(fused=True, capturable=True) and a learning rate that is a tensor. Source: I.
// Loshchilov, F. Hutter, Decoupled Weight Decay Regularization, 2019 (arXiv:1711.05101), algorithm 2.

#include <torch/torch.h>

#include <cstddef>
#include <optional>
#include <unordered_set>
#include <vector>

namespace tenfold {

/// Updates parameters of one device and one type by ATen's fused operator: one launch for many tensors. Those without a
/// gradient stay as they are; the others share one step number, so they should be the same in each step, as they are in
/// a graph. A tied parameter, which LibTorch lists under each of its names, is updated once.
class CapturableAdamW {
 public:
  /// Throws c10::ValueError for amsgrad, which is not implemented, and for parameters of several types or devices.
  CapturableAdamW(const std::vector<torch::Tensor>& parameters, const torch::optim::AdamWOptions& options)
      : options_(options) {
    TORCH_CHECK_VALUE(!options.amsgrad(), "CapturableAdamW: amsgrad is not implemented");
    std::unordered_set<const void*> seen;
    for (const torch::Tensor& parameter : parameters) {
      TORCH_CHECK_VALUE(
          parameter.scalar_type() == parameters[0].scalar_type() && parameter.device() == parameters[0].device(),
          "CapturableAdamW: parameters of several types or devices");
      if (!seen.insert(parameter.unsafeGetTensorImpl()).second) continue;
      parameters_.push_back(parameter);
      averages_.push_back(torch::zeros_like(parameter));
      square_averages_.push_back(torch::zeros_like(parameter));
    }
    // The operator reads 32 bits.
    steps_ = torch::zeros({}, parameters_.at(0).options().dtype(torch::kFloat).requires_grad(false));
    rate_ = torch::full_like(steps_, options.lr());
  }

  /// For the steps from now on, replayed ones too: a schedule calls it outside of the graph. Queued on the current
  /// stream.
  void set_rate(double rate) { rate_.fill_(rate); }

  /// Throws c10::Error for a gradient with other strides than its parameter's: the operator goes through both as they
  /// lie. For fp16, without a wait, as PyTorch's fused optimizers take a GradScaler's: gradients are divided by
  /// `grad_scale`, in place on CUDA, and where `found_inf` is 1 nothing changes. Both () float on the parameters'
  /// device; found_inf is 0 or 1. A step that a graph can hold whole, with scale, found_inf and one () float and
  /// growth () int32:
  ///
  ///     (loss * scale).backward();
  ///     found_inf.zero_();
  ///     at::_amp_foreach_non_finite_check_and_unscale_(gradients, found_inf, one);  // of 1: it only looks
  ///     optimizer.step(scale, found_inf);
  ///     at::_amp_update_scale_(scale, growth, found_inf, 2, 0.5, 2000);
  ///
  /// To clip, unscale first: give the third line scale.reciprocal() in place of `one`, clip, then step({}, found_inf).
  void step(const std::optional<torch::Tensor>& grad_scale = {}, const std::optional<torch::Tensor>& found_inf = {}) {
    const torch::NoGradGuard no_grad;
    std::vector<torch::Tensor> parameters, gradients, averages, square_averages;
    for (size_t i = 0; i < parameters_.size(); ++i) {
      const torch::Tensor& gradient = parameters_[i].grad();
      if (!gradient.defined()) continue;
      TORCH_CHECK(lie_alike(parameters_[i], gradient), "CapturableAdamW: the gradient of parameter ", i,
                  " is not laid out as the parameter");
      parameters.push_back(parameters_[i]);
      gradients.push_back(gradient);
      averages.push_back(averages_[i]);
      square_averages.push_back(square_averages_[i]);
    }
    if (gradients.empty()) return;
    found_inf ? steps_.add_(found_inf->eq(0)) : steps_.add_(1);
    const std::vector<torch::Tensor> steps(gradients.size(), steps_);  // one for each; they are only read
    const auto [beta1, beta2] = options_.betas();
    at::_fused_adamw_(parameters, gradients, averages, square_averages, /*max_exp_avg_sqs=*/{}, steps, /*lr=*/rate_,
                      beta1, beta2, options_.weight_decay(), options_.eps(), /*amsgrad=*/false, /*maximize=*/false,
                      grad_scale, found_inf);
  }

 private:
  static bool lie_alike(const torch::Tensor& parameter, const torch::Tensor& gradient) {
    if (parameter.is_contiguous() && gradient.is_contiguous()) return true;
    return parameter.is_non_overlapping_and_dense() && parameter.strides() == gradient.strides();
  }

  std::vector<torch::Tensor> parameters_, averages_, square_averages_;
  torch::Tensor steps_, rate_;  // one number each
  torch::optim::AdamWOptions options_;
};

}  // namespace tenfold
