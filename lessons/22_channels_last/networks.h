#pragma once
// What lesson 22 trains: the convnet, if a case asks for it with more convolutions, or the GPT. Variants change where
// tensors lie, and nothing else.

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

namespace tenfold::inline lesson_22 {

inline constexpr Setting<int64_t> kInnerLayers{"inner_layers", 0, "convolutions between the convnet's first and last"};
inline constexpr Setting<int64_t> kGroups{"groups", 1, "groups of each inner convolution; a divisor of channels"};

/// What a variant does about memory formats. What it leaves out stays as the workload has it: NCHW.
struct Formats {
  std::function<void(torch::nn::Module& model)> model = nullptr;                      ///< once, before training
  std::function<torch::Tensor(const torch::Tensor& images)> images = nullptr;         ///< each batch, (B, 1, 28, 28)
  std::function<torch::Tensor(const torch::Tensor& h)> behind_first_layer = nullptr;  ///< (B, C, 28, 28) and back
};

/// The convnet workload with `inner_layers` more convolutions, as wide as the first.
struct DeeperConvNet : FashionConvNet {
  explicit DeeperConvNet(const Trial& trial) : FashionConvNet(trial) {
    const int64_t channels = trial.get(convnet::kChannels), groups = trial.get(kGroups);
    TORCH_CHECK_VALUE(channels % groups == 0, "setting groups: ", groups, " do not divide ", channels, " channels");
    for (int64_t i = 0; i < trial.get(kInnerLayers); ++i) {
      inner.emplace_back(torch::nn::Conv2dOptions(channels, channels, 3).padding(1).groups(groups));
      model->register_module("inner" + std::to_string(i), inner.back());
    }
    model->to(trial.device);
    optimizer = std::make_unique<torch::optim::SGD>(
        model->parameters(), torch::optim::SGDOptions(trial.get(convnet::kLearningRate)).momentum(0.9));
  }

  torch::Tensor next_loss(const Formats& formats) {
    auto [images, labels] = next_batch();  // (B, 1, 28, 28), (B)
    if (formats.images) images = formats.images(images);
    torch::Tensor h = torch::relu(model->conv1(images));  // (B, C, 28, 28)
    if (formats.behind_first_layer) h = formats.behind_first_layer(h);
    for (auto& layer : inner) h = torch::relu(layer(h));          // (B, C, 28, 28)
    h = torch::max_pool2d(torch::relu(model->conv2(h)), {2, 2});  // (B, 2 C, 7, 7)
    return torch::cross_entropy_loss(model->head(h.flatten(1)), labels);
  }

  std::vector<torch::nn::Conv2d> inner;
};

/// The trial's workload as one training step needs it.
struct Trained {
  int64_t items = 0;
  Parameters parameters;
  std::shared_ptr<torch::nn::Module> model;
  std::shared_ptr<torch::optim::Optimizer> optimizer;
  std::function<torch::Tensor()> next_loss;  ///< of the next batch
};

/// `formats` are of the convnet; of the GPT, whose batches are ids of two dimensions, only what is done to the model.
inline Trained trained(const Trial& trial, const Formats& formats) {
  Trained trained;
  if (trial.workload == gpt_workload) {
    Work work = trial.workload.make(trial);
    trained = {work.items, work.parameters, work.model, work.optimizer, work.next_loss};
  } else {
    auto work = std::make_shared<DeeperConvNet>(trial);
    trained = {work->batches.batch(), work->parameters(), work->model.ptr(),
               std::shared_ptr<torch::optim::Optimizer>(work, work->optimizer.get()),
               [work, formats] { return work->next_loss(formats); }};
  }
  if (formats.model) formats.model(*trained.model);
  return trained;
}

/// Of the first convolution's output, and of each inner one's.
inline int64_t convolved_bytes(int64_t batch, int64_t channels) { return 4 * batch * channels * 28 * 28; }
/// Of an inner convolution: weight and bias.
inline int64_t inner_bytes(int64_t channels, int64_t groups) { return 4 * channels * (9 * channels / groups + 1); }

/// Of the baseline. Each inner convolution adds its output's activation, its weights, their momentum and their
/// gradient.
inline int64_t layouts_most_bytes(const Trial& trial) {
  if (trial.workload == gpt_workload) return gpt_most_bytes(trial);
  const int64_t inner = trial.get(kInnerLayers), channels = trial.get(convnet::kChannels);
  return convnet_most_bytes(trial) + inner * (convolved_bytes(trial.get(convnet::kBatch), channels) +
                                              3 * inner_bytes(channels, trial.get(kGroups)));
}

}  // namespace tenfold::inline lesson_22
