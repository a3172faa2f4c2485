// installs as <tenfold/gpt2_layout.h>
#pragma once
// GPT-2's file and this suite's module: the same names, and other sides first in the weights of linear layers. The
// original has them as Conv1D, y = x W with W (in, out); torch::nn::Linear has (out, in).
// Source: openai/gpt-2, src/model.py (conv1d); the file of gpt2 at Hugging Face.

#include <torch/torch.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>

#include "gpt2.h"
#include "safetensors.h"

namespace tenfold {

/// Whether this parameter is the weight of a linear layer, which the file has the other way round. Not by its sizes:
/// that of attn.c_proj is square.
inline bool is_conv1d_weight(std::string_view name) {
  constexpr std::array<std::string_view, 4> kLayers = {"attn.c_attn.weight", "attn.c_proj.weight", "mlp.c_fc.weight",
                                                       "mlp.c_proj.weight"};
  return std::any_of(kLayers.begin(), kLayers.end(), [&](std::string_view layer) { return name.ends_with(layer); });
}

/// The model's parameters as GPT-2's file has them, on the CPU: linear layers (in, out), no padding of the vocabulary,
/// and no "lm_head.weight", which is "wte.weight". Copies: training goes on without changing them.
inline NamedTensors gpt2_tensors(const Gpt2& model) {
  const torch::NoGradGuard no_grad;
  NamedTensors tensors;
  for (const auto& item : model->named_parameters()) {
    torch::Tensor values = item.value().detach();
    if (is_conv1d_weight(item.key())) values = values.t();
    if (item.key() == "wte.weight") values = values.narrow(0, 0, model->options.vocabulary);
    tensors[item.key()] = values.to(torch::kCPU, /*non_blocking=*/false, /*copy=*/true).contiguous();
  }
  return tensors;
}

namespace gpt2_detail {

inline std::string sizes_of(const torch::Tensor& tensor) {
  std::ostringstream text;
  text << tensor.sizes();
  return text.str();
}

/// Without "transformer.", under which the model with a head stores it. Empty: no parameter (the causal mask, which
/// old files have for each block as attn.bias, and the head, where it is written beside the embedding that it is).
inline std::string parameter_name(std::string_view name) {
  if (name.starts_with("transformer.")) name.remove_prefix(std::string_view("transformer.").size());
  if (name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias") || name == "lm_head.weight") return "";
  return std::string(name);
}

}  // namespace gpt2_detail

/// Copies GPT-2's tensors into the model, whatever their floating type. Throws std::runtime_error, in one line, for one
/// that is missing, unknown, of other sizes, or for a head that is not the embedding; the model is then as it was.
inline void load_gpt2(Gpt2& model, const NamedTensors& file) {
  const torch::NoGradGuard no_grad;
  NamedTensors found;
  for (const auto& [name, tensor] : file) {
    const std::string parameter = gpt2_detail::parameter_name(name);
    if (!parameter.empty() && !found.emplace(parameter, tensor).second)
      throw std::runtime_error("GPT-2's file has '" + parameter + "' twice, with and without 'transformer.'");
  }
  if (const auto head = file.find("lm_head.weight"); head != file.end()) {
    const auto tokens = found.find("wte.weight");
    if (tokens == found.end() || !torch::equal(head->second, tokens->second))
      throw std::runtime_error("'lm_head.weight' is not 'wte.weight': no GPT-2, whose head is tied to the embedding");
  }
  const auto parameters = model->named_parameters();
  for (const auto& item : parameters) {
    const auto at = found.find(item.key());
    if (at == found.end()) throw std::runtime_error("GPT-2's file lacks '" + item.key() + "'");
    torch::Tensor values = at->second;
    if (values.dim() == 2 && is_conv1d_weight(item.key())) values = values.t();
    torch::Tensor own = item.value();
    if (item.key() == "wte.weight") own = own.narrow(0, 0, model->options.vocabulary);
    if (!values.sizes().equals(own.sizes()) || !values.is_floating_point())
      throw std::runtime_error("'" + item.key() + "' is " + toString(at->second.scalar_type()) + " of " +
                               gpt2_detail::sizes_of(at->second) + " in the file, which does not fit the model");
    at->second = values;
  }
  for (const auto& [name, tensor] : found)
    if (!parameters.contains(name)) throw std::runtime_error("the model has no '" + name + "', which the file has");
  for (const auto& item : parameters) {
    const torch::Tensor& values = found.at(item.key());
    item.value().narrow(0, 0, values.size(0)).copy_(values);  // a padded vocabulary keeps its rows of zeros
  }
}

/// The sizes that a file was made with, all but the heads, which it does not say: those are of 64 features each in
/// every published GPT-2. Throws std::runtime_error where it has no embeddings or no blocks.
inline Gpt2Options gpt2_options_of(const NamedTensors& file) {
  Gpt2Options options{.layers = 0};
  bool has_tokens = false, has_positions = false;
  for (const auto& [name, tensor] : file) {
    const std::string parameter = gpt2_detail::parameter_name(name);
    if (parameter.ends_with(".ln_1.weight")) ++options.layers;
    if (tensor.dim() != 2) continue;
    if (parameter == "wte.weight") {
      options.vocabulary = tensor.size(0);
      options.width = tensor.size(1);
      has_tokens = true;
    }
    if (parameter == "wpe.weight") {
      options.length = tensor.size(0);
      has_positions = true;
    }
  }
  if (!has_tokens || !has_positions || options.layers == 0)
    throw std::runtime_error("no GPT-2: its file has wte.weight, wpe.weight and blocks h.0, h.1, ...");
  options.heads = std::max<int64_t>(1, options.width / 64);
  return options;
}

}  // namespace tenfold
