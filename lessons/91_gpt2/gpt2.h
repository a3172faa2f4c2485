// installs as <tenfold/gpt2.h>
#pragma once
// GPT-2 as it was published, but without its dropout, its parameters under the names that its files have: learned
// positions, norms before each part, GELU by tanh, biases everywhere, and a head that is the token embedding.
// Source: Radford et al., Language Models are Unsupervised Multitask Learners, 2019; names of its file at Hugging Face.

#include <torch/torch.h>

#include <ATen/record_function.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace tenfold {

/// The defaults are those of the smallest GPT-2, 124 million parameters.
struct Gpt2Options {
  int64_t layers = 12, heads = 12, width = 768, length = 1024, vocabulary = 50257;
  /// The embedding gets more rows, up to a multiple of this: a matmul likes 50304 columns better than 50257. No token
  /// has them, and the head gives them the probability 0. 1: none.
  int64_t pad_vocabulary_to = 1;

  int64_t padded_vocabulary() const {
    return (vocabulary + pad_vocabulary_to - 1) / pad_vocabulary_to * pad_vocabulary_to;
  }
};

/// Causal attention, operator by operator: the scores of all pairs are materialised. (B, H, T, D / H) each and back.
inline torch::Tensor eager_causal_attention(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v) {
  const torch::Tensor later = torch::ones({q.size(2), q.size(2)}, q.options().dtype(torch::kBool)).triu(1);  // (T, T)
  torch::Tensor scores = q.matmul(k.transpose(-2, -1)) / std::sqrt(static_cast<double>(q.size(3)));  // (B, H, T, T)
  scores = scores.masked_fill(later, -std::numeric_limits<float>::infinity());
  return scores.softmax(-1).matmul(v);
}

/// The same by ATen's fused operator, which keeps a number for each row in place of the scores.
inline torch::Tensor fused_causal_attention(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v) {
  return at::scaled_dot_product_attention(q, k, v, /*attn_mask=*/{}, /*dropout_p=*/0, /*is_causal=*/true);
}

/// GELU by its approximation with tanh, as GPT-2 was trained; torch::gelu(x) alone is the one by erf.
inline torch::Tensor gelu_by_tanh(const torch::Tensor& x) { return torch::gelu(x, "tanh"); }

struct Gpt2BlockImpl;

/// What may be computed in other ways, each differentiable. Null: fused_causal_attention, gelu_by_tanh, forward().
struct Gpt2Parts {
  std::function<torch::Tensor(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v)> attention =
      nullptr;
  std::function<torch::Tensor(const torch::Tensor& x)> gelu = nullptr;
  std::function<torch::Tensor(Gpt2BlockImpl& block, const torch::Tensor& x)> block = nullptr;
};

struct Gpt2AttentionImpl : torch::nn::Module {
  Gpt2AttentionImpl(const Gpt2Options& options, std::shared_ptr<const Gpt2Parts> of_model)
      : heads(options.heads), parts(std::move(of_model)) {
    c_attn = register_module("c_attn", torch::nn::Linear(options.width, 3 * options.width));
    c_proj = register_module("c_proj", torch::nn::Linear(options.width, options.width));
  }
  torch::Tensor forward(const torch::Tensor& x) {  // (B, T, D) -> (B, T, D)
    const int64_t batch = x.size(0), length = x.size(1), width = x.size(2);
    const auto qkv = c_attn(x).view({batch, length, 3, heads, width / heads}).permute({2, 0, 3, 1, 4}).unbind(0);
    const torch::Tensor mixed = parts->attention(qkv[0], qkv[1], qkv[2]);  // (B, H, T, D / H)
    return c_proj(mixed.transpose(1, 2).reshape({batch, length, width}));
  }

  torch::nn::Linear c_attn{nullptr}, c_proj{nullptr};
  int64_t heads;
  std::shared_ptr<const Gpt2Parts> parts;
};
TORCH_MODULE(Gpt2Attention);

struct Gpt2MlpImpl : torch::nn::Module {
  Gpt2MlpImpl(const Gpt2Options& options, std::shared_ptr<const Gpt2Parts> of_model) : parts(std::move(of_model)) {
    c_fc = register_module("c_fc", torch::nn::Linear(options.width, 4 * options.width));
    c_proj = register_module("c_proj", torch::nn::Linear(4 * options.width, options.width));
  }
  torch::Tensor forward(const torch::Tensor& x) { return c_proj(parts->gelu(c_fc(x))); }  // (..., D) -> (..., D)

  torch::nn::Linear c_fc{nullptr}, c_proj{nullptr};
  std::shared_ptr<const Gpt2Parts> parts;
};
TORCH_MODULE(Gpt2Mlp);

struct Gpt2BlockImpl : torch::nn::Module {
  Gpt2BlockImpl(const Gpt2Options& options, const std::shared_ptr<const Gpt2Parts>& of_model) {
    const torch::nn::LayerNormOptions norm({options.width});  // epsilon 1e-5, as GPT-2 has it
    ln_1 = register_module("ln_1", torch::nn::LayerNorm(norm));
    attn = register_module("attn", Gpt2Attention(options, of_model));
    ln_2 = register_module("ln_2", torch::nn::LayerNorm(norm));
    mlp = register_module("mlp", Gpt2Mlp(options, of_model));
  }
  torch::Tensor forward(const torch::Tensor& x) {  // (B, T, D) -> (B, T, D)
    RECORD_USER_SCOPE("block.forward");
    const torch::Tensor h = x + attn(ln_1(x));
    return h + mlp(ln_2(h));
  }

  torch::nn::LayerNorm ln_1{nullptr}, ln_2{nullptr};
  Gpt2Attention attn{nullptr};
  Gpt2Mlp mlp{nullptr};
};
TORCH_MODULE(Gpt2Block);

/// Parameters are named as in GPT-2's file: "wte.weight", "h.0.attn.c_attn.weight", "ln_f.bias". Linear layers have
/// PyTorch's (out, in); the file has (in, out), see gpt2_layout.h.
struct Gpt2Impl : torch::nn::Module {
  /// Throws c10::ValueError when the heads do not divide the width.
  explicit Gpt2Impl(const Gpt2Options& chosen, Gpt2Parts replaced = {}) : options(chosen) {
    TORCH_CHECK_VALUE(chosen.heads > 0 && chosen.width % chosen.heads == 0, "Gpt2: heads=", chosen.heads,
                      " does not divide width=", chosen.width);
    if (!replaced.attention) replaced.attention = fused_causal_attention;
    if (!replaced.gelu) replaced.gelu = gelu_by_tanh;
    if (!replaced.block) {
      replaced.block = [](Gpt2BlockImpl& block, const torch::Tensor& x) { return block.forward(x); };
    }
    parts = std::make_shared<const Gpt2Parts>(std::move(replaced));
    wte = register_module("wte", torch::nn::Embedding(chosen.vocabulary, chosen.width));
    wpe = register_module("wpe", torch::nn::Embedding(chosen.length, chosen.width));
    h = register_module("h", torch::nn::ModuleList());
    for (int64_t i = 0; i < chosen.layers; ++i) h->push_back(Gpt2Block(chosen, parts));
    ln_f = register_module("ln_f", torch::nn::LayerNorm(torch::nn::LayerNormOptions({chosen.width})));
    initialise();
    pad_vocabulary();
  }

  /// (B, T) -> (B, T, D). Throws c10::ValueError for more tokens than there are positions.
  torch::Tensor hidden(const torch::Tensor& ids) {
    // A CUDA kernel that reads beyond a table ends the process's work on that GPU.
    TORCH_CHECK_VALUE(ids.size(1) <= options.length, "Gpt2: ", ids.size(1), " tokens, at most ", options.length);
    torch::Tensor x = wte(ids) + wpe(torch::arange(ids.size(1), ids.options()));
    for (const auto& block : *h) x = parts->block(*block->as<Gpt2Block>(), x);
    return ln_f(x);
  }

  /// (N, D) -> (N, V) with V padded: a logit of the padding is minus infinity.
  torch::Tensor head(const torch::Tensor& x) { return torch::linear(x, wte->weight, padding); }

  /// (B, T) -> (B, T, V): a logit for each token of the vocabulary, without the padding.
  torch::Tensor forward(const torch::Tensor& ids) {
    const torch::Tensor logits = head(hidden(ids).flatten(0, 1)).narrow(1, 0, options.vocabulary);
    return logits.view({ids.size(0), ids.size(1), options.vocabulary});
  }

  /// Mean cross-entropy of (B, T) ids against the ids that follow them, in 32 bits under autocast, too.
  torch::Tensor loss(const torch::Tensor& ids, const torch::Tensor& targets) {
    const torch::Tensor x = hidden(ids).flatten(0, 1);  // (N, D)
    RECORD_USER_SCOPE("head.forward");
    return torch::nn::functional::cross_entropy(head(x).to(torch::kFloat), targets.flatten());
  }

  Gpt2Options options;
  torch::nn::Embedding wte{nullptr}, wpe{nullptr};
  torch::nn::ModuleList h{nullptr};
  torch::nn::LayerNorm ln_f{nullptr};
  std::shared_ptr<const Gpt2Parts> parts;
  torch::Tensor padding;  ///< added to the logits, (V); none without padding

 private:
  /// Weights of deviation 0.02, those that end a residual branch smaller by the number of branches, biases 0.
  void initialise() {
    const torch::NoGradGuard no_grad;
    const double residual = 0.02 / std::sqrt(2.0 * static_cast<double>(options.layers));
    for (const auto& item : named_parameters()) {
      const bool ends_branch = item.key().find("c_proj") != std::string::npos;
      if (item.value().dim() >= 2) torch::nn::init::normal_(item.value(), 0, ends_branch ? residual : 0.02);
      if (item.value().dim() == 1 && item.key().ends_with("bias")) item.value().zero_();
    }
  }

  /// After the weights are drawn, so that padding changes none of them.
  void pad_vocabulary() {
    const int64_t more = options.padded_vocabulary() - options.vocabulary;
    if (more == 0) return;
    const torch::NoGradGuard no_grad;
    wte->weight.set_data(torch::cat({wte->weight, torch::zeros({more, options.width})}));
    padding = register_buffer("padding", torch::zeros({options.padded_vocabulary()}));
    padding.narrow(0, options.vocabulary, more).fill_(-std::numeric_limits<float>::infinity());
  }
};
TORCH_MODULE(Gpt2);

/// How the next token is chosen among the logits.
struct Sampling {
  double temperature = 1;  ///< the logits are divided by it; 0: always the likeliest token
  int64_t top_k = 0;       ///< only among so many of the likeliest; 0: among all
};

/// The ids, (T), with `count` more, (T + count): each is drawn from the softmax of the logits, by this generator of the
/// CPU. The model sees the last `length` ids. Computes all of them again for each new one. Throws c10::ValueError for
/// no ids, or a temperature or top_k below 0.
inline torch::Tensor generate(Gpt2& model, torch::Tensor ids, int64_t count, const Sampling& sampling,
                              const at::Generator& generator) {
  TORCH_CHECK_VALUE(ids.dim() == 1 && ids.size(0) > 0, "generate: needs at least one id to go on from");
  TORCH_CHECK_VALUE(sampling.temperature >= 0 && sampling.top_k >= 0, "generate: temperature=", sampling.temperature,
                    " and top_k=", sampling.top_k, " must not be negative");
  const torch::NoGradGuard no_grad;
  const int64_t vocabulary = model->options.vocabulary;
  const int64_t among = sampling.top_k > 0 ? std::min(sampling.top_k, vocabulary) : vocabulary;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t seen = std::min(ids.size(0), model->options.length);
    const torch::Tensor all = model->forward(ids.narrow(0, ids.size(0) - seen, seen).unsqueeze(0))[0][seen - 1];
    const torch::Tensor logits = all.to(torch::kCPU, torch::kFloat);  // (V)
    torch::Tensor next;                                               // (1)
    if (sampling.temperature == 0) {
      next = logits.argmax(0, /*keepdim=*/true);
    } else {
      const auto [likeliest, tokens] = logits.topk(among);  // (K) each
      const torch::Tensor chances = (likeliest / sampling.temperature).softmax(0);
      next = tokens.index({chances.multinomial(1, /*replacement=*/false, generator)});
    }
    ids = torch::cat({ids, next.to(ids.device())});
  }
  return ids;
}

}  // namespace tenfold
