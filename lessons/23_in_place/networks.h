#pragma once
// What lesson 23 trains: the convnet, if a case asks for it with more convolutions, or the GPT. Variants replace parts.

#include <torch/torch.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/harness/lesson.h"
#include "common/models/convnet.h"
#include "common/models/gpt.h"

namespace tenfold::inline lesson_23 {

inline constexpr Setting<std::string> kActivation{
    "activation", "relu", "behind each convolution", {"relu", "leaky_relu"}};
inline constexpr Setting<int64_t> kInnerLayers{"inner_layers", 0, "convolutions between the convnet's first and last"};

inline constexpr double kSlope = 0.1;     ///< of the leaky ReLU left of zero
inline constexpr double kMomentum = 0.9;  ///< of the workloads' SGD

/// What a variant may compute in another way. What it leaves out stays as the workload has it.
struct Parts {
  /// Of the convnet; with a leaky ReLU or a plain one.
  std::function<torch::Tensor(torch::Tensor h, bool leaky)> activation = nullptr;
  std::function<torch::Tensor(torch::nn::Conv2dImpl& layer, const torch::Tensor& x)> convolution = nullptr;
  std::function<torch::Tensor(torch::nn::LinearImpl& layer, const torch::Tensor& x)> linear = nullptr;
  /// Of the GPT: the residual sum, and GELU.
  std::function<torch::Tensor(const torch::Tensor& x, torch::Tensor branch)> add = nullptr;
  std::function<torch::Tensor(torch::Tensor h)> gelu = nullptr;
};

/// A model with its data: what a training step needs.
struct Trained {
  int64_t items = 0;
  Parameters parameters;
  std::vector<torch::Tensor*> members;  ///< of the convnet's modules: where each parameter lies, in the same order
  std::shared_ptr<torch::optim::Optimizer> optimizer;
  double learning_rate = 0;
  std::function<torch::Tensor()> next_loss;  ///< of the next batch
};

/// The convnet workload with `inner_layers` more convolutions, as wide as the first.
struct DeeperConvNet : FashionConvNet {
  DeeperConvNet(const Trial& trial, Parts chosen)
      : FashionConvNet(trial), parts(std::move(chosen)), leaky(trial.get(kActivation) == "leaky_relu") {
    const int64_t channels = trial.get(convnet::kChannels);
    for (int64_t i = 0; i < trial.get(kInnerLayers); ++i) {
      const auto options = torch::nn::Conv2dOptions(channels, channels, 3).padding(1);
      inner.emplace_back(options);
      model->register_module("inner" + std::to_string(i), inner.back());
    }
    model->to(trial.device);
    optimizer = std::make_unique<torch::optim::SGD>(
        model->parameters(), torch::optim::SGDOptions(trial.get(convnet::kLearningRate)).momentum(kMomentum));
  }

  /// The convolution's output has no name here: out of place it is freed as soon as autograd does not keep it.
  torch::Tensor activated(torch::nn::Conv2d& layer, const torch::Tensor& x) {
    return parts.activation(parts.convolution ? parts.convolution(*layer, x) : layer(x), leaky);
  }

  torch::Tensor next_loss() {
    auto [images, labels] = next_batch();               // (B, 1, 28, 28), (B)
    torch::Tensor h = activated(model->conv1, images);  // (B, C, 28, 28)
    for (auto& layer : inner) h = activated(layer, h);  // (B, C, 28, 28)
    h = torch::max_pool2d(activated(model->conv2, h), {2, 2}).flatten(1);
    return torch::cross_entropy_loss(parts.linear ? parts.linear(*model->head, h) : model->head(h), labels);
  }

  std::vector<torch::Tensor*> members() {
    std::vector<torch::Tensor*> all;
    const auto add = [&](auto& layer) { all.insert(all.end(), {&layer->weight, &layer->bias}); };
    add(model->conv1);
    add(model->conv2);
    add(model->head);
    for (auto& layer : inner) add(layer);
    return all;
  }

  Parts parts;
  bool leaky;
  std::vector<torch::nn::Conv2d> inner;
};

/// A block of the GPT with a residual sum of the variant's; as GptBlockImpl::forward, without dropout.
inline torch::Tensor block_forward(GptBlockImpl& block, const Parts& parts, const torch::Tensor& x) {
  const auto add = [&](const torch::Tensor& to, torch::Tensor branch) {
    return parts.add ? parts.add(to, std::move(branch)) : to + branch;
  };
  const torch::Tensor qkv =
      block.parts->linear(*block.qkv, block.parts->norm(*block.norm1, x)).unflatten(-1, {3, block.heads, -1});
  const torch::Tensor h = add(x, block.parts->linear(*block.projection, block.parts->attention(qkv, 0)));
  return add(h, block.parts->mlp(block, block.parts->norm(*block.norm2, h)));
}

inline Trained trained_convnet(const Trial& trial, const Parts& parts) {
  auto work = std::make_shared<DeeperConvNet>(trial, parts);
  return {.items = work->batches.batch(),
          .parameters = work->parameters(),
          .members = work->members(),
          .optimizer = std::shared_ptr<torch::optim::Optimizer>(work, work->optimizer.get()),
          .learning_rate = trial.get(convnet::kLearningRate),
          .next_loss = [work] { return work->next_loss(); }};
}

inline Trained trained_gpt(const Trial& trial, const Parts& parts) {
  TORCH_CHECK_VALUE(trial.get(gpt::kDropout) == 0, "setting dropout: lesson 23 trains without; set dropout=0");
  GptParts replaced;
  if (parts.gelu) {
    replaced.mlp = [gelu = parts.gelu](GptBlockImpl& block, const torch::Tensor& x) {
      return block.parts->linear(*block.down, gelu(block.parts->linear(*block.up, x)));
    };
  }
  auto work = std::make_shared<GptTraining>(trial, std::move(replaced));
  return {.items = work->tokens_per_step(),
          .parameters = work->parameters(),
          .members = {},
          .optimizer = std::shared_ptr<torch::optim::Optimizer>(work, work->optimizer.get()),
          .learning_rate = trial.get(gpt::kLearningRate),
          .next_loss = [work, parts] {
            auto [ids, targets] = work->next_batch();  // (B, T) each
            torch::Tensor h = work->model->embed(ids);
            for (auto& block : work->model->blocks) h = block_forward(*block, parts, h);
            return work->model->loss(h, targets);
          }};
}

inline Trained trained(const Trial& trial, const Parts& parts) {
  return trial.workload == gpt_workload ? trained_gpt(trial, parts) : trained_convnet(trial, parts);
}

/// Of the first convolution's output, and of each inner one's.
inline int64_t convolved_bytes(int64_t batch, int64_t channels) { return 4 * batch * channels * 28 * 28; }

/// Of the baseline. Each inner convolution adds its output's activation, its weights, their momentum and their
/// gradient; out of place a leaky ReLU also keeps its input.
inline int64_t in_place_most_bytes(const Trial& trial) {
  if (trial.workload == gpt_workload) return gpt_most_bytes(trial);
  const int64_t inner = trial.get(kInnerLayers), channels = trial.get(convnet::kChannels);
  const int64_t kept = inner + (trial.get(kActivation) == "leaky_relu" ? 1 + inner : 0);
  return convnet_most_bytes(trial) + kept * convolved_bytes(trial.get(convnet::kBatch), channels) +
         inner * 3 * 4 * channels * (9 * channels + 1);
}

}  // namespace tenfold::inline lesson_23
