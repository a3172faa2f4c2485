#include "common/models/gpt.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/record_function.h>

#include <algorithm>
#include <cmath>

#include "common/models/host_batch.h"

namespace tenfold {

using torch::Tensor;

namespace {

/// `value_of` gives each setting's value.
GptOptions options_by(const auto& value_of) {
  return {.layers = value_of(gpt::kLayers),
          .width = value_of(gpt::kWidth),
          .heads = value_of(gpt::kHeads),
          .length = value_of(gpt::kLength),
          .batch = value_of(gpt::kBatch),
          .dropout = value_of(gpt::kDropout),
          .learning_rate = value_of(gpt::kLearningRate),
          .tokens = encoding_named(value_of(gpt::kTokens))};
}

}  // namespace

GptOptions gpt_options(Size size) {
  return options_by([&](const auto& setting) { return setting.value.at(size); });
}

GptOptions gpt_options(const Trial& trial) {
  const GptOptions options = options_by([&](const auto& setting) { return trial.get(setting); });
  TORCH_CHECK_VALUE(options.heads > 0 && options.width % options.heads == 0, "setting heads=", options.heads,
                    " does not divide width=", options.width);
  return options;
}

Tensor aten_attention(const Tensor& qkv, double dropout) {
  const auto parts = qkv.permute({2, 0, 3, 1, 4}).unbind(0);  // (B, T, 3, H, D / H) -> three of (B, H, T, D / H)
  return at::scaled_dot_product_attention(parts[0], parts[1], parts[2], /*attn_mask=*/{}, dropout, /*is_causal=*/true)
      .transpose(1, 2)
      .flatten(2);
}

GptParts gpt_parts(GptParts replaced) {
  if (!replaced.norm) replaced.norm = [](torch::nn::LayerNormImpl& layer, const Tensor& x) { return layer.forward(x); };
  if (!replaced.attention) replaced.attention = aten_attention;
  if (!replaced.linear)
    replaced.linear = [](torch::nn::LinearImpl& layer, const Tensor& x) { return layer.forward(x); };
  if (!replaced.mlp) {
    replaced.mlp = [](GptBlockImpl& block, const Tensor& x) {
      return block.parts->linear(*block.down, torch::gelu(block.parts->linear(*block.up, x), "tanh"));
    };
  }
  if (!replaced.head) {
    replaced.head = [](GptImpl& model, const Tensor& h) { return model.head(model.parts->norm(*model.norm, h)); };
  }
  if (!replaced.loss) {
    replaced.loss = [](GptImpl& model, const Tensor& h, const Tensor& targets) {
      // In 32 bits under autocast, too: on CUDA it would leave the logarithms of the probabilities in 16.
      const Tensor logits = model.logits(h).view({-1, model.options.vocabulary()}).to(torch::kFloat);
      return torch::nn::functional::cross_entropy(logits, targets.reshape({-1}));
    };
  }
  return replaced;
}

GptBlockImpl::GptBlockImpl(const GptOptions& options, std::shared_ptr<const GptParts> of_model)
    : norm1(torch::nn::LayerNormOptions({options.width})),
      norm2(torch::nn::LayerNormOptions({options.width})),
      qkv(options.width, 3 * options.width),
      projection(options.width, options.width),
      up(options.width, 4 * options.width),
      down(4 * options.width, options.width),
      heads(options.heads),
      dropout(options.dropout),
      parts(std::move(of_model)) {
  register_module("norm1", norm1);
  register_module("qkv", qkv);
  register_module("projection", projection);
  register_module("norm2", norm2);
  register_module("up", up);
  register_module("down", down);
}

Tensor GptBlockImpl::forward(const Tensor& x) {
  RECORD_USER_SCOPE("block.forward");
  std::vector<int64_t> split = x.sizes().vec();  // (..., 3, H, D / H)
  const int64_t width = split.back();
  split.back() = 3;
  split.insert(split.end(), {heads, width / heads});
  const Tensor heads_of_tokens = parts->linear(*qkv, parts->norm(*norm1, x)).view(split);
  Tensor attended;  // (..., D)
  {
    RECORD_USER_SCOPE("attention");
    attended = parts->attention(heads_of_tokens, is_training() ? dropout : 0.0);
  }
  const auto drop = [&](const Tensor& t) { return dropout > 0 ? torch::dropout(t, dropout, is_training()) : t; };
  const Tensor h = x + drop(parts->linear(*projection, attended));
  return h + drop(parts->mlp(*this, parts->norm(*norm2, h)));
}

GptImpl::GptImpl(const GptOptions& chosen, GptParts replaced)
    : options(chosen),
      parts(std::make_shared<const GptParts>(gpt_parts(std::move(replaced)))),
      tokens(chosen.vocabulary(), chosen.width),
      positions(chosen.length, chosen.width),
      norm(torch::nn::LayerNormOptions({chosen.width})),
      head(torch::nn::LinearOptions(chosen.width, chosen.vocabulary()).bias(false)) {
  register_module("tokens", tokens);
  register_module("positions", positions);
  for (int64_t i = 0; i < options.layers; ++i)
    blocks.push_back(register_module("block" + std::to_string(i), GptBlock(options, parts)));
  register_module("norm", norm);
  register_module("head", head);
  torch::NoGradGuard no_grad;
  for (const auto& item : named_parameters()) {
    if (item.value().dim() < 2) continue;
    // GPT-2's initialisation: residual projections are scaled down by the number of residual additions.
    const bool residual =
        item.key().find("projection") != std::string::npos || item.key().find("down") != std::string::npos;
    torch::nn::init::normal_(item.value(), 0,
                             residual ? 0.02 / std::sqrt(2.0 * static_cast<double>(options.layers)) : 0.02);
  }
}

Tensor GptImpl::embed(const Tensor& ids) { return embed(ids, torch::arange(ids.size(1), ids.options())); }

Tensor GptImpl::embed(const Tensor& ids, const Tensor& places) { return tokens(ids) + positions(places); }

Tensor GptImpl::blocks_forward(Tensor h) {
  for (auto& block : blocks) h = block->forward(h);
  return h;
}

Tensor GptImpl::logits(const Tensor& h) { return parts->head(*this, h); }

Tensor GptImpl::loss(const Tensor& h, const Tensor& targets) {
  RECORD_USER_SCOPE("head.forward");
  return parts->loss(*this, h, targets);
}

GptTraining::GptTraining(const Trial& trial, const GptOptions& options, GptParts replaced)
    : model(options, std::move(replaced)),
      device_(trial.device),
      tokens_(shakespeare_tokens(options.tokens, /*train=*/true)),
      generator_(at::detail::createCPUGenerator(trial.seed)) {
  model->to(device_);
  optimizer = std::make_unique<torch::optim::SGD>(model->parameters(),
                                                  torch::optim::SGDOptions(options.learning_rate).momentum(0.9));
}

namespace {

int64_t embedding_bytes(const GptOptions& options) {
  return 4 * (options.vocabulary() + options.length) * options.width;
}
/// With the last norm.
int64_t head_bytes(const GptOptions& options) { return 4 * (options.vocabulary() + 2) * options.width; }

}  // namespace

int64_t parameter_bytes(const GptOptions& options) {
  return options.layers * block_parameter_bytes(options.width) + embedding_bytes(options) + head_bytes(options);
}

int64_t step_peak_bytes(const GptOptions& options) {
  const int64_t rows = options.batch * options.length, width = options.width, vocabulary = options.vocabulary();
  const int64_t block = block_parameter_bytes(width);
  const int64_t embeddings = embedding_bytes(options), head = head_bytes(options);
  const int64_t parameters = parameter_bytes(options);
  const int64_t inputs = 2 * 8 * rows;      // ids and targets
  const int64_t stream = 4 * rows * width;  // (B, T, D)
  const int64_t logits = 4 * rows * vocabulary;
  // A block keeps, in streams: two norms, q, k and v, what attention and its residual sum give, the inner layer before
  // and after GELU at four each, and its result; and of each row two means, two deviations and a number for each head.
  const int64_t kept = 16 * stream + 4 * rows * (4 + options.heads);
  const int64_t after_blocks = 2 * parameters + inputs + stream + options.layers * kept;
  // The loss keeps the norm and the logarithms; its backward makes two gradients of the logits' size.
  const int64_t at_loss = after_blocks + stream + 8 * rows + 3 * logits;
  // In a block's backward its result is gone, and four streams' worth of gradients is there twice.
  const int64_t in_block = 4 * stream + 4 * 4 * width * width;
  const int64_t at_last_block = after_blocks + head + in_block;
  const int64_t at_first_block = after_blocks - (options.layers - 1) * (kept - block) + head + in_block;
  // In the first block's, at its first linear layer: the norm's result and input, and gradients of q, k and v, of the
  // norm's result and of the residual sum.
  const int64_t at_first_layer = 3 * parameters - embeddings + inputs + 7 * stream;
  const int64_t at_end = 3 * parameters + inputs + stream;
  return std::max({at_loss, at_last_block, at_first_block, at_first_layer, at_end});
}

std::pair<Tensor, Tensor> GptTraining::next_batch() {
  RECORD_USER_SCOPE("data");
  const TextBatch sampled = sample_batch(tokens_, model->options.batch, model->options.length, generator_);
  return {tensor_on(device_, sampled.ids), tensor_on(device_, sampled.targets)};
}

int64_t gpt_most_bytes(const Trial& trial) { return step_peak_bytes(gpt_options(trial)); }

double held_out_loss(Gpt& model) {
  constexpr int kBatches = 8;
  const torch::NoGradGuard no_gradients;
  const GptOptions& options = model->options;
  const torch::Device device = model->head->weight.device();
  const torch::Tensor tokens = shakespeare_tokens(options.tokens, /*train=*/false);
  const at::Generator same_windows = at::detail::createCPUGenerator(/*seed=*/1);
  const bool was_training = model->is_training();
  model->eval();
  torch::Tensor sum = torch::zeros({}, device);
  for (int i = 0; i < kBatches; ++i) {
    const TextBatch windows = sample_batch(tokens, options.batch, options.length, same_windows);
    sum += model->loss(model->hidden(windows.ids.to(device)), windows.targets.to(device));
  }
  model->train(was_training);
  return sum.item<double>() / kBatches;
}

Work gpt_work(const Trial& trial) {
  auto training = std::make_shared<GptTraining>(trial);
  return {.items = training->tokens_per_step(),
          .parameters = training->parameters(),
          .optimizer = {training, training->optimizer.get()},
          .next_logits =
              [training] {
                auto [ids, targets] = training->next_batch();  // (B, T) each
                return std::pair(training->model->forward(ids).flatten(0, 1), targets.flatten());
              },
          .next_loss =
              [training] {
                auto [ids, targets] = training->next_batch();
                return training->model->loss(training->model->hidden(ids), targets);
              },
          .model = training->model.ptr(),
          .held_out_loss = [training] { return held_out_loss(training->model); }};
}

}  // namespace tenfold
