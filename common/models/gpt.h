#pragma once
// The transformer workload: a GPT on Shakespeare, whose parts a lesson may replace.

#include <torch/torch.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/measure/step.h"
#include "common/measure/trial.h"
#include "common/models/token_stream.h"

namespace tenfold {

namespace gpt {
inline constexpr Setting<int64_t> kLayers{"layers", {6, 6, 12}, "transformer blocks"};
inline constexpr Setting<int64_t> kWidth{"width", {64, 512, 768}, "features of a token"};
inline constexpr Setting<int64_t> kHeads{"heads", {4, 8, 12}, "attention heads"};
inline constexpr Setting<int64_t> kLength{"length", {64, 512, 1024}, "tokens of a sequence"};
inline constexpr Setting<int64_t> kBatch{"batch", {8, 8, 16}, "sequences in a batch"};
inline constexpr Setting<double> kDropout{"dropout", 0.0, "share of activations that is dropped"};
inline constexpr Setting<double> kLearningRate{"learning_rate", 0.1, "of SGD with momentum 0.9"};
/// Characters keep the head small on a CPU: 128 classes instead of 50304 (50257, rounded up to a multiple of 64).
inline constexpr Setting<std::string> kTokens{
    "tokens", {"characters", "gpt2", "gpt2"}, "what the text is cut into", {"characters", "gpt2"}};
}  // namespace gpt

struct GptOptions {
  int64_t layers = 6, width = 64, heads = 4, length = 64, batch = 8;
  double dropout = 0, learning_rate = 0.1;
  Encoding tokens = Encoding::characters;

  int64_t vocabulary() const { return tokens == Encoding::characters ? 128 : 50304; }
};
/// As the trial's settings have them. Throws when the heads do not divide the width.
GptOptions gpt_options(const Trial& trial);
/// As the workload is at a size, whatever the settings.
GptOptions gpt_options(Size size);

struct GptBlockImpl;
struct GptImpl;

/// What a GPT computes with its parameters, part by part. A lesson about an operator replaces one and leaves the
/// others, the parameters and their names as they are. All are differentiable.
struct GptParts {
  /// (..., D) -> (..., D): the blocks' two norms and the last one.
  std::function<torch::Tensor(torch::nn::LayerNormImpl& layer, const torch::Tensor& x)> norm;
  /// Queries, keys and values of every token, (..., 3, H, D / H), to what each token gets, (..., D). `...` is (B, T),
  /// or whatever a lesson lays its tokens out in. `dropout` is 0 unless the model trains with some.
  std::function<torch::Tensor(const torch::Tensor& qkv, double dropout)> attention;
  /// (..., D) -> (..., D): the two linear layers with GELU between.
  std::function<torch::Tensor(GptBlockImpl& block, const torch::Tensor& x)> mlp;
  /// Every linear layer of the blocks: (..., in) -> (..., out).
  std::function<torch::Tensor(torch::nn::LinearImpl& layer, const torch::Tensor& x)> linear;
  /// (..., D) after the last block -> (..., V).
  std::function<torch::Tensor(GptImpl& model, const torch::Tensor& h)> head;
  /// Mean cross-entropy of the last block's output, (..., D), against targets (...); region "head.forward".
  std::function<torch::Tensor(GptImpl& model, const torch::Tensor& h, const torch::Tensor& targets)> loss;
};

/// ATen's operators; what is null in `replaced` stays so. With it a lesson names only what it replaces:
/// GptTraining(trial, {.attention = eager_attention}).
GptParts gpt_parts(GptParts replaced = {});

/// Causal attention of (B, T, 3, H, D / H) by ATen's fused operator.
torch::Tensor aten_attention(const torch::Tensor& qkv, double dropout);

/// One pre-norm transformer block: x + attention(norm(x)), then x + mlp(norm(x)). Marks the region "block.forward" and,
/// in it, "attention".
/// Source: Radford et al., Language Models are Unsupervised Multitask Learners, 2019.
struct GptBlockImpl : torch::nn::Module {
  GptBlockImpl(const GptOptions& options, std::shared_ptr<const GptParts> parts);
  torch::Tensor forward(const torch::Tensor& x);  // (..., D) -> (..., D)

  torch::nn::LayerNorm norm1, norm2;
  torch::nn::Linear qkv, projection, up, down;
  int64_t heads;
  double dropout;
  std::shared_ptr<const GptParts> parts;
};
TORCH_MODULE(GptBlock);

struct GptImpl : torch::nn::Module {
  explicit GptImpl(const GptOptions& options, GptParts replaced = {});
  torch::Tensor embed(const torch::Tensor& ids);                                         // (B, T) -> (B, T, D)
  torch::Tensor embed(const torch::Tensor& ids, const torch::Tensor& positions);         // (...) each -> (..., D)
  torch::Tensor blocks_forward(torch::Tensor h);                                         // (..., D) -> (..., D)
  torch::Tensor hidden(const torch::Tensor& ids) { return blocks_forward(embed(ids)); }  // (B, T) -> (B, T, D)
  torch::Tensor logits(const torch::Tensor& h);                                          // (..., D) -> (..., V)
  /// Mean cross-entropy of the last block's output; region "head.forward".
  torch::Tensor loss(const torch::Tensor& h, const torch::Tensor& targets);
  torch::Tensor forward(const torch::Tensor& ids) { return logits(hidden(ids)); }  // (B, T) -> (B, T, V)

  GptOptions options;
  std::shared_ptr<const GptParts> parts;
  torch::nn::Embedding tokens, positions;
  std::vector<GptBlock> blocks;
  torch::nn::LayerNorm norm;
  torch::nn::Linear head;
};
TORCH_MODULE(Gpt);

/// Everything that one variant trains with. SGD with momentum: its update shows an error of scale, which Adam would
/// hide.
struct GptTraining {
  explicit GptTraining(const Trial& trial, GptParts replaced = {})
      : GptTraining(trial, gpt_options(trial), std::move(replaced)) {}
  GptTraining(const Trial& trial, const GptOptions& options, GptParts replaced = {});

  /// Ids and next ids, (B, T) each, on the trial's device; the same sequence for equal seeds. Region "data".
  std::pair<torch::Tensor, torch::Tensor> next_batch();
  int64_t tokens_per_step() const { return model->options.batch * model->options.length; }
  Parameters parameters() const { return model->named_parameters(); }

  Gpt model{nullptr};
  std::unique_ptr<torch::optim::Optimizer> optimizer;

 private:
  torch::Device device_;
  torch::Tensor tokens_;  // the training text
  at::Generator generator_;
};

/// Mean loss of eight batches of the plays that are not trained on, always the same windows, with dropout off. Without
/// gradients; the model's mode is as before.
double held_out_loss(Gpt& model);

/// Of one block's parameters, for tokens of `width` features: 12 D^2 + 13 D numbers of 32 bits.
constexpr int64_t block_parameter_bytes(int64_t width) { return 4 * (12 * width + 13) * width; }

/// Most bytes of tensors alive at a time in a training step: next_batch(), zero_grad(), forward, backward, update, in
/// 32-bit numbers. Parameters and momentum are in it; allocators' rounding and libraries' workspaces are not.
/// Without dropout, with ATen's attention.
int64_t step_peak_bytes(const GptOptions& options);
int64_t parameter_bytes(const GptOptions& options);
/// The first with the trial's settings.
int64_t gpt_most_bytes(const Trial& trial);
Work gpt_work(const Trial& trial);

inline const Workload gpt_workload{.name = "gpt",
                                   .items = "tokens",
                                   .settings = {gpt::kLayers, gpt::kWidth, gpt::kHeads, gpt::kLength, gpt::kBatch,
                                                gpt::kDropout, gpt::kLearningRate, gpt::kTokens},
                                   .most_bytes = gpt_most_bytes,
                                   .make = gpt_work};

}  // namespace tenfold
