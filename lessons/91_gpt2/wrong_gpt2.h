#pragma once
// Traps: GPT-2 with one line wrong. Each trains, and its loss falls; it is another model than the file's.

#include <torch/torch.h>

#include <memory>
#include <string>

#include "training.h"

namespace tenfold::inline lesson_91 {

/// torch::gelu without an argument: the GELU by erf. GPT-2 was trained with the approximation by tanh.
inline Changes gelu_by_erf() {
  return {.parts = {.gelu = [](const Tensor& x) { return torch::gelu(x); }}};  // wrong: torch::gelu(x, "tanh")
}

/// Every token sees those after it, and among them the one that it has to name.
inline Changes not_causal() {
  return {.parts = {.attention = [](const Tensor& q, const Tensor& k, const Tensor& v) {
            return at::scaled_dot_product_attention(q, k, v);  // wrong: is_causal=true
          }}};
}

/// Every token has to name itself.
inline Changes not_shifted() {
  return {.loss = [](Gpt2& model, const Tensor& ids, const Tensor& /*targets*/) { return model->loss(ids, ids); }};
}

/// A head of its own: it begins as the embedding and then goes its own way.
inline Changes untied_head(const Trial& trial) {
  torch::manual_seed(trial.seed);
  const Tensor head =
      Gpt2(gpt2_options(trial))->wte->weight.detach().to(trial.device).clone().requires_grad_();  // wrong: a copy
  return {.loss =
              [head](Gpt2& model, const Tensor& ids, const Tensor& targets) {
                const Tensor logits = torch::linear(model->hidden(ids).flatten(0, 1), head);
                return torch::nn::functional::cross_entropy(logits, targets.flatten());
              },
          .more_parameters = {head}};
}

/// A padded vocabulary whose rows of zeros take part in the softmax.
inline Changes padding_in_the_softmax() {
  return {.prepare = [](Gpt2& model) { model->padding.zero_(); }};  // wrong: minus infinity
}

/// The weights of linear layers as they lie in the file. Only the square ones can be taken so without an error.
inline Changes not_transposed(const Trial& trial) {
  return {.prepare = [file = start_file(trial)](Gpt2& model) {
    NamedTensors tensors = read_safetensors(file).tensors;
    for (auto& [name, values] : tensors)
      if (name.ends_with("attn.c_proj.weight")) values = values.t();  // wrong: load_gpt2() transposes it back
    load_gpt2(model, tensors);
  }};
}

}  // namespace tenfold::inline lesson_91
