// installs as <tenfold/muon.h>
#pragma once
// Muon for LibTorch: momentum, whose update of each hidden matrix is made orthogonal by a Newton-Schulz iteration.
//
//   const MuonSplit split = split_for_muon(*model, {"head"});
//   Muon hidden(split.hidden, MuonOptions(0.02).weight_decay(0.01));
//   torch::optim::AdamW rest(split.rest, torch::optim::AdamWOptions(2e-3));
//   ...
//   hidden.step();
//   rest.step();
//
// The same updates as torch.optim.Muon of PyTorch 2.11, step by step. Sources: K. Jordan et al., Muon: An optimizer for
// hidden layers in neural networks, 2024; J. Liu et al., Muon is Scalable for LLM Training, 2025 (arXiv:2502.16982).

#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "parameter_wise.h"

namespace tenfold {

struct MuonOptions : torch::optim::OptimizerCloneableOptions<MuonOptions> {
  using Coefficients = std::tuple<double, double, double>;

  MuonOptions(double lr = 1e-3) : lr_(lr) {}  // NOLINT(google-explicit-constructor): as LibTorch's
  TORCH_ARG(double, lr);
  TORCH_ARG(double, weight_decay) = 0.1;
  TORCH_ARG(double, momentum) = 0.95;
  TORCH_ARG(bool, nesterov) = true;
  /// Of the polynomial a x + b x^3 + c x^5, which each singular value goes through `ns_steps` times.
  TORCH_ARG(Coefficients, ns_coefficients) = { 3.4445, -4.7750, 2.0315 };
  TORCH_ARG(double, eps) = 1e-7;
  TORCH_ARG(int64_t, ns_steps) = 5;
  /// Of a matrix (R, C): "original" is sqrt(max(1, R / C)), "match_rms_adamw" is 0.2 sqrt(max(R, C)), with which rate
  /// and weight decay of AdamW fit.
  TORCH_ARG(std::string, adjust_lr_fn) = "original";
  /// ATen's own matmuls of 16 bits on a CPU, too. They are 20 and more times as slow on one without such instructions.
  TORCH_ARG(bool, native_bf16) = false;

 public:
  void serialize(torch::serialize::InputArchive& archive) override {
    _TORCH_OPTIM_DESERIALIZE_TORCH_ARG(double, lr);
    _TORCH_OPTIM_DESERIALIZE_TORCH_ARG(double, weight_decay);
    _TORCH_OPTIM_DESERIALIZE_TORCH_ARG(double, momentum);
    _TORCH_OPTIM_DESERIALIZE_TORCH_ARG(bool, nesterov);
    _TORCH_OPTIM_DESERIALIZE_TORCH_ARG(Coefficients, ns_coefficients);
    _TORCH_OPTIM_DESERIALIZE_TORCH_ARG(double, eps);
    _TORCH_OPTIM_DESERIALIZE_TORCH_ARG(int64_t, ns_steps);
    _TORCH_OPTIM_DESERIALIZE_TORCH_ARG(std::string, adjust_lr_fn);
    _TORCH_OPTIM_DESERIALIZE_TORCH_ARG(bool, native_bf16);
  }
  void serialize(torch::serialize::OutputArchive& archive) const override {
    _TORCH_OPTIM_SERIALIZE_TORCH_ARG(lr);
    _TORCH_OPTIM_SERIALIZE_TORCH_ARG(weight_decay);
    _TORCH_OPTIM_SERIALIZE_TORCH_ARG(momentum);
    _TORCH_OPTIM_SERIALIZE_TORCH_ARG(nesterov);
    _TORCH_OPTIM_SERIALIZE_TORCH_ARG(ns_coefficients);
    _TORCH_OPTIM_SERIALIZE_TORCH_ARG(eps);
    _TORCH_OPTIM_SERIALIZE_TORCH_ARG(ns_steps);
    _TORCH_OPTIM_SERIALIZE_TORCH_ARG(adjust_lr_fn);
    _TORCH_OPTIM_SERIALIZE_TORCH_ARG(native_bf16);
  }
  double get_lr() const override { return lr(); }
  void set_lr(const double rate) override { lr(rate); }
};

/// Four bytes for each parameter of 32 bits.
struct MuonParamState : torch::optim::OptimizerCloneableParamState<MuonParamState> {
  TORCH_ARG(torch::Tensor, momentum_buffer);

 public:
  void serialize(torch::serialize::InputArchive& archive) override {
    _TORCH_OPTIM_DESERIALIZE_TORCH_ARG(torch::Tensor, momentum_buffer);
  }
  void serialize(torch::serialize::OutputArchive& archive) const override {
    _TORCH_OPTIM_SERIALIZE_TORCH_ARG(momentum_buffer);
  }
};

/// A matrix (R, C) = U S V' as roughly U V': singular vectors stay, singular values come to about 0.7 to 1.2. One of
/// less than about a thousandth of the matrix's norm stays smaller. Computed in bf16; by the options' defaults a CPU
/// multiplies in 32 bits and rounds each result to bf16, which is what products of 16 bits with sums of 32 bits do, but
/// for the order of the sums. The result is bf16, or floats that bf16 holds.
inline torch::Tensor newton_schulz(const torch::Tensor& matrix, const MuonOptions& options) {
  const auto [a, b, c] = options.ns_coefficients();
  const bool native = options.native_bf16() || !matrix.is_cpu();
  const auto rounded = [native](torch::Tensor values) {
    return native ? values : values.copy_(values.to(torch::kBFloat16));
  };
  torch::Tensor x = matrix.to(torch::kBFloat16);  // (R, C)
  if (!native) x = x.to(torch::kFloat);
  const bool tall = matrix.size(0) > matrix.size(1);
  if (tall) x = x.t();  // the products below are then of the smaller side
  // No singular value is larger than the norm of all. From above 1 the iteration may diverge.
  x = rounded(x / rounded(x.norm()).clamp_min(options.eps()));
  for (int64_t step = 0; step < options.ns_steps(); ++step) {
    const torch::Tensor gram = rounded(x.mm(x.t()));
    x = rounded(torch::addmm(x, rounded(torch::addmm(gram, gram, gram, b, c)), x, a, 1));
  }
  return tall ? x.t() : x;
}

/// What the rate of a matrix (R, C) is multiplied with.
inline double muon_rate_factor(const std::string& adjust_lr_fn, int64_t rows, int64_t columns) {
  const auto r = static_cast<double>(rows), c = static_cast<double>(columns);
  return adjust_lr_fn == "original" ? std::sqrt(std::max(1.0, r / c)) : 0.2 * std::sqrt(std::max(r, c));
}

/// Of hidden matrices only: embeddings, the output layer, norms and biases need another optimizer (split_for_muon).
class Muon : public ParameterWise<Muon, MuonOptions, MuonParamState> {
 public:
  /// Throws c10::ValueError for a parameter that is no matrix, and for options that torch.optim.Muon refuses.
  explicit Muon(const Groups& groups, const MuonOptions& defaults = {}) : ParameterWise(groups, defaults) {
    for (auto& group : param_groups_) {
      check(options_of(group));
      for (const torch::Tensor& parameter : group.params()) {
        TORCH_CHECK_VALUE(parameter.dim() == 2, "Muon: a parameter of shape ", parameter.sizes(),
                          " is no matrix; give it to AdamW, as split_for_muon() does");
        TORCH_CHECK_VALUE(parameter.is_floating_point(), "Muon: a parameter of type ", parameter.dtype(),
                          "; it must be real floating point");
      }
    }
  }
  explicit Muon(std::vector<torch::Tensor> parameters, const MuonOptions& defaults = {})
      : Muon(one_group(std::move(parameters)), defaults) {}

 private:
  friend ParameterWise;

  /// Throws c10::ValueError for a sparse gradient.
  void update(torch::Tensor& parameter, const MuonOptions& options) {
    const torch::Tensor& gradient = parameter.grad();
    TORCH_CHECK_VALUE(!gradient.is_sparse(), "Muon: a sparse gradient of shape ", gradient.sizes());
    torch::Tensor buffer = state_of(parameter, [&](MuonParamState& first) {
                             first.momentum_buffer(torch::zeros_like(gradient));
                           }).momentum_buffer();
    buffer.lerp_(gradient, 1 - options.momentum());
    const torch::Tensor direction =
        newton_schulz(options.nesterov() ? gradient.lerp(buffer, options.momentum()) : buffer, options);
    parameter.mul_(1 - options.lr() * options.weight_decay());
    parameter.add_(direction,
                   -options.lr() * muon_rate_factor(options.adjust_lr_fn(), parameter.size(0), parameter.size(1)));
  }

  static void check(const MuonOptions& options) {
    TORCH_CHECK_VALUE(options.lr() >= 0, "Muon: the learning rate must be 0 or more, got ", options.lr());
    TORCH_CHECK_VALUE(options.momentum() >= 0, "Muon: the momentum must be 0 or more, got ", options.momentum());
    TORCH_CHECK_VALUE(options.weight_decay() >= 0, "Muon: the weight decay must be 0 or more, got ",
                      options.weight_decay());
    TORCH_CHECK_VALUE(options.ns_steps() < 100, "Muon: ns_steps must be below 100, got ", options.ns_steps());
    TORCH_CHECK_VALUE(options.adjust_lr_fn() == "original" || options.adjust_lr_fn() == "match_rms_adamw",
                      "Muon: adjust_lr_fn is original or match_rms_adamw, got ", options.adjust_lr_fn());
  }
};

/// A model's parameters, each once in one of the two, in the model's order.
struct MuonSplit {
  std::vector<torch::Tensor> hidden;  ///< matrices, (R, C) each: for Muon
  std::vector<torch::Tensor> rest;    ///< embeddings, the named layers, norms, biases, convolutions: for AdamW
};

/// Splits by shape, by the type of a layer, and by name: an embedding is a matrix, too, but a table of rows, and only
/// you know which layers are not hidden: the output layer, and of a model without an embedding the first. A parameter
/// is of a layer "head" when its name begins with "head.". A tied parameter, which the model lists under each of its
/// names, is given once, and is hidden where all its names are. Throws c10::ValueError for a name that the model does
/// not have.
inline MuonSplit split_for_muon(const torch::nn::Module& model, const std::vector<std::string>& not_hidden) {
  std::set<const void*> left_out, seen;
  for (const auto& module : model.modules()) {
    if (const auto* embedding = module->as<torch::nn::EmbeddingImpl>())
      left_out.insert(embedding->weight.unsafeGetTensorImpl());
  }
  const auto parameters = model.named_parameters();
  std::set<std::string> found;
  for (const auto& item : parameters) {
    for (const std::string& layer : not_hidden) {
      if (!item.key().starts_with(layer + ".")) continue;
      left_out.insert(item.value().unsafeGetTensorImpl());
      found.insert(layer);
    }
  }
  MuonSplit split;
  for (const auto& item : parameters) {
    const void* const parameter = item.value().unsafeGetTensorImpl();
    if (!seen.insert(parameter).second) continue;  // no optimizer would notice, and each would update it twice
    const bool hidden = item.value().dim() == 2 && !left_out.contains(parameter);
    (hidden ? split.hidden : split.rest).push_back(item.value());
  }
  for (const std::string& layer : not_hidden)
    TORCH_CHECK_VALUE(found.contains(layer), "split_for_muon: the model has no parameters of a layer ", layer);
  return split;
}

}  // namespace tenfold
