#pragma once
// R2, the transformer workload: a GPT on Shakespeare.

#include <torch/torch.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <tenfold/lesson.h>

namespace tenfold {

struct GptConfig {
  int64_t layers = 6, width = 64, heads = 4, length = 64, vocabulary = 128;
  double dropout = 0;
};

/// Queries, keys and values of every token, (..., 3, heads, D / heads), to what each token gets, (..., D). `...` is (B, T), or whatever a
/// lesson lays its tokens out in.
using GptAttention = std::function<torch::Tensor(const torch::Tensor& qkv)>;

/// One pre-norm transformer block: x + attention(norm(x)), then x + mlp(norm(x)). Marks the region "block.forward" and, in it, "attention".
/// Source: Radford et al., Language Models are Unsupervised Multitask Learners, 2019.
struct GptBlockImpl : torch::nn::Module {
  explicit GptBlockImpl(const GptConfig& config);
  torch::Tensor forward(const torch::Tensor& x);                                      // (B, T, D) -> (B, T, D)
  torch::Tensor forward_with(const torch::Tensor& x, const GptAttention& attention);  // (..., D) -> (..., D)

  torch::nn::LayerNorm norm1, norm2;
  torch::nn::Linear qkv, projection, up, down;
  int64_t heads;
  double dropout;
};
TORCH_MODULE(GptBlock);

struct GptImpl : torch::nn::Module {
  explicit GptImpl(const GptConfig& config);
  torch::Tensor embed(const torch::Tensor& ids);                             // (B, T) -> (B, T, D)
  torch::Tensor logits(const torch::Tensor& h);                              // (B, T, D) -> (B, T, V)
  torch::Tensor loss(const torch::Tensor& h, const torch::Tensor& targets);  // mean cross-entropy; region "head.forward"
  torch::Tensor forward(const torch::Tensor& ids);                           // (B, T) -> (B, T, V)

  GptConfig config;
  torch::nn::Embedding tokens, positions;
  std::vector<GptBlock> blocks;
  torch::nn::LayerNorm norm;
  torch::nn::Linear head;
};
TORCH_MODULE(Gpt);

/// Everything one variant of an R2 lesson trains with, built from the trial's seed, size and settings:
///   layers, width, heads, length, batch, dropout, learning_rate.
/// Characters (vocabulary 128) at size cpu, GPT-2 tokens above. SGD with momentum: its update shows an error of scale,
/// which Adam would hide.
struct GptTraining {
  explicit GptTraining(const Trial& trial);

  /// Ids and next ids, (B, T) each, on the trial's device; the same sequence for equal seeds. Region "data".
  std::pair<torch::Tensor, torch::Tensor> next_batch();
  int64_t tokens_per_step() const { return batch * model->config.length; }
  Parameters parameters() const { return model->named_parameters(); }

  int64_t batch;
  Gpt model{nullptr};
  std::unique_ptr<torch::optim::Optimizer> optimizer;

 private:
  torch::Device device_;
  torch::Tensor tokens_;  // the training text
  at::Generator generator_;
};

}  // namespace tenfold
