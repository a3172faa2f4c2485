#include <tenfold/gpt.h>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/record_function.h>

#include <cmath>

#include <tenfold/token_stream.h>

namespace tenfold {
namespace {

using torch::Tensor;
namespace F = torch::nn::functional;

GptConfig gpt_config(const Trial& trial) {
  GptConfig config;
  config.layers = trial.get("layers", trial.by_size(6, 6, 12));
  config.width = trial.get("width", trial.by_size(64, 512, 768));
  config.heads = trial.get("heads", trial.by_size(4, 8, 12));
  config.length = trial.get("length", trial.by_size(64, 512, 1024));
  config.dropout = trial.get("dropout", 0.0);
  config.vocabulary = trial.size == Size::cpu ? 128 : 50304;  // 50257 rounded up to a multiple of 64
  TORCH_CHECK_VALUE(config.width % config.heads == 0, "setting heads=", config.heads, " does not divide width=", config.width);
  return config;
}

}  // namespace

GptBlockImpl::GptBlockImpl(const GptConfig& config)
    : norm1(torch::nn::LayerNormOptions({config.width})),
      norm2(torch::nn::LayerNormOptions({config.width})),
      qkv(config.width, 3 * config.width),
      projection(config.width, config.width),
      up(config.width, 4 * config.width),
      down(4 * config.width, config.width),
      heads(config.heads),
      dropout(config.dropout) {
  register_module("norm1", norm1);
  register_module("qkv", qkv);
  register_module("projection", projection);
  register_module("norm2", norm2);
  register_module("up", up);
  register_module("down", down);
}

Tensor GptBlockImpl::forward(const Tensor& x) {
  return forward_with(x, [&](const Tensor& rows) {
    const auto parts = rows.permute({2, 0, 3, 1, 4}).unbind(0);  // (B, T, 3, H, D / H) -> three of (B, H, T, D / H)
    const Tensor attended = at::scaled_dot_product_attention(parts[0], parts[1], parts[2], /*attn_mask=*/{}, is_training() ? dropout : 0.0,
                                                             /*is_causal=*/true);
    return attended.transpose(1, 2).reshape(x.sizes());
  });
}

Tensor GptBlockImpl::forward_with(const Tensor& x, const GptAttention& attention) {
  RECORD_USER_SCOPE("block.forward");
  std::vector<int64_t> split = x.sizes().vec();  // (..., 3, H, D / H)
  const int64_t width = split.back();
  split.back() = 3;
  split.insert(split.end(), {heads, width / heads});
  const Tensor rows = qkv(norm1(x)).view(split);
  Tensor attended;  // (..., D)
  {
    RECORD_USER_SCOPE("attention");
    attended = attention(rows);
  }
  const auto drop = [&](const Tensor& t) { return dropout > 0 ? torch::dropout(t, dropout, is_training()) : t; };
  const Tensor h = x + drop(projection(attended));
  return h + drop(down(torch::gelu(up(norm2(h)), "tanh")));
}

GptImpl::GptImpl(const GptConfig& c)
    : config(c),
      tokens(c.vocabulary, c.width),
      positions(c.length, c.width),
      norm(torch::nn::LayerNormOptions({c.width})),
      head(torch::nn::LinearOptions(c.width, c.vocabulary).bias(false)) {
  register_module("tokens", tokens);
  register_module("positions", positions);
  for (int64_t i = 0; i < c.layers; ++i) blocks.push_back(register_module("block" + std::to_string(i), GptBlock(c)));
  register_module("norm", norm);
  register_module("head", head);
  torch::NoGradGuard no_grad;
  for (const auto& item : named_parameters()) {
    if (item.value().dim() < 2) continue;
    // GPT-2's initialisation: residual projections are scaled down by the number of residual additions.
    const bool residual = item.key().find("projection") != std::string::npos || item.key().find("down") != std::string::npos;
    torch::nn::init::normal_(item.value(), 0, residual ? 0.02 / std::sqrt(2.0 * static_cast<double>(c.layers)) : 0.02);
  }
}

Tensor GptImpl::embed(const Tensor& ids) {
  return tokens(ids) + positions(torch::arange(ids.size(1), ids.options()));  // (B, T, D)
}

Tensor GptImpl::logits(const Tensor& h) { return head(norm(h)); }

Tensor GptImpl::loss(const Tensor& h, const Tensor& targets) {
  RECORD_USER_SCOPE("head.forward");
  return F::cross_entropy(logits(h).view({-1, config.vocabulary}), targets.reshape({-1}));
}

Tensor GptImpl::forward(const Tensor& ids) {
  Tensor h = embed(ids);
  for (auto& block : blocks) h = block(h);
  return logits(h);
}

GptTraining::GptTraining(const Trial& trial)
    : batch(trial.get("batch", trial.by_size(8, 8, 16))),
      model(gpt_config(trial)),
      device_(trial.device),
      tokens_(shakespeare_tokens(trial.size == Size::cpu ? Encoding::characters : Encoding::gpt2, /*train=*/true)),
      generator_(at::detail::createCPUGenerator(trial.seed)) {
  model->to(device_);
  optimizer =
      std::make_unique<torch::optim::SGD>(model->parameters(), torch::optim::SGDOptions(trial.get("learning_rate", 0.1)).momentum(0.9));
}

std::pair<Tensor, Tensor> GptTraining::next_batch() {
  RECORD_USER_SCOPE("data");
  const TextBatch sampled = sample_batch(tokens_, batch, model->config.length, generator_);
  return {sampled.ids.to(device_), sampled.targets.to(device_)};
}

}  // namespace tenfold
