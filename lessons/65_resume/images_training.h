#pragma once
// A training with something to forget in every place: convolutions with batch normalisation and dropout, momentum, a
// learning rate with a schedule, a loss scale, and a loader whose workers shuffle, augment and run ahead.

#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "common/models/convnet.h"
#include "lessons/21_mixed_precision/autocast.h"
#include "resumable.h"
#include "settings.h"
#include "training_checkpoint.h"

namespace tenfold::inline lesson_65 {

/// The convnet with batch normalisation behind its convolutions and dropout before its head.
struct NormedNetImpl : torch::nn::Module {
  explicit NormedNetImpl(int64_t channels)
      : conv1(torch::nn::Conv2dOptions(1, channels, 3).padding(1)),
        norm1(channels),
        conv2(torch::nn::Conv2dOptions(channels, 2 * channels, 3).padding(1).stride(2)),
        norm2(2 * channels),
        head(2 * channels * 7 * 7, 10) {
    register_module("conv1", conv1);
    register_module("norm1", norm1);
    register_module("conv2", conv2);
    register_module("norm2", norm2);
    register_module("head", head);
  }

  /// (B, 1, 28, 28) -> (B, 10). The head is in fp16; convolutions are slow in it on a CPU.
  torch::Tensor forward(const torch::Tensor& images) {
    torch::Tensor h = torch::relu(norm1(conv1(images)));                     // (B, C, 28, 28)
    h = torch::max_pool2d(torch::relu(norm2(conv2(h))), {2, 2}).flatten(1);  // (B, 2 C * 7 * 7)
    h = torch::dropout(h, /*p=*/0.25, is_training());
    const Autocast scope(images.device().type(), torch::kHalf);
    return head(h);
  }

  torch::nn::Conv2d conv1;
  torch::nn::BatchNorm2d norm1;
  torch::nn::Conv2d conv2;
  torch::nn::BatchNorm2d norm2;
  torch::nn::Linear head;
};
TORCH_MODULE(NormedNet);

/// Fashion-MNIST, each image moved by up to two pixels and mirrored or not: fields (1, 28, 28) bytes, and () int64.
/// What is random belongs to the sample and the epoch, so that it needs no place in a checkpoint.
inline Dataset augmented_images(int64_t count) {
  constexpr int64_t kSide = 28, kMost = 2;
  const ImageSet set = fashion_mnist(/*train=*/true);
  TORCH_CHECK_VALUE(count >= 1 && count <= set.size(), "setting images=", count, ": must be 1 to ", set.size());
  const auto load = [set](int64_t i, SampleRandom& random, const Row& row) {
    const uint8_t* const image = set.images.const_data_ptr<uint8_t>() + i * kSide * kSide;
    const bool mirrored = random.uniform() < 0.5;
    const int64_t down = random.below(2 * kMost + 1) - kMost, right = random.below(2 * kMost + 1) - kMost;
    const auto out = row.field<uint8_t>(0);
    for (int64_t y = 0; y < kSide; ++y) {
      for (int64_t x = 0; x < kSide; ++x) {
        const int64_t from_y = y - down, from_x = (mirrored ? kSide - 1 - x : x) - right;
        const bool inside = from_y >= 0 && from_y < kSide && from_x >= 0 && from_x < kSide;
        out[static_cast<size_t>(y * kSide + x)] = inside ? image[from_y * kSide + from_x] : 0;
      }
    }
    row.field<int64_t>(1)[0] = set.labels.const_data_ptr<int64_t>()[i];
  };
  return {.size = count, .fields = {{{1, kSide, kSide}, torch::kByte}, {{}, torch::kLong}}, .load = load};
}

/// The generators that a training on this device draws from: the CPU's and the device's.
inline std::vector<at::Generator> generators_of(torch::Device device) {
  std::vector<at::Generator> generators = {at::globalContext().defaultGenerator(torch::kCPU)};
  if (!device.is_cpu()) generators.push_back(at::globalContext().defaultGenerator(device));
  return generators;
}

class ImagesTraining : public Resumable {
 public:
  explicit ImagesTraining(const Trial& trial)
      : device_(trial.device),
        rate_(trial.get(convnet::kLearningRate)),
        model_(trial.get(convnet::kChannels)),
        scaler_({.initial_scale = trial.get(kScale), .growth_interval = trial.get(kGrowth)}),
        dataset_(augmented_images(trial.get(kImages))),
        options_{.batch = trial.get(convnet::kBatch),
                 .workers = kWorkers,
                 .prefetch = kPrefetch,
                 .tail = Tail::drop,
                 .seed = trial.seed,
                 .pinned = trial.device.is_cuda()} {
    model_->to(device_);
    optimizer_ =
        std::make_unique<torch::optim::SGD>(model_->parameters(), torch::optim::SGDOptions(rate_).momentum(0.9));
    loader_ = std::make_unique<Loader>(dataset_, options_);
  }

  torch::Tensor update() override {
    optimizer_->param_groups()[0].options().set_lr(rate_ * schedule(updates_));
    const std::vector<torch::Tensor> batch = loader_->next_of_any_epoch().to(device_);
    optimizer_->zero_grad();
    torch::Tensor loss = torch::cross_entropy_loss(model_(normalise_images(batch[0])).to(torch::kFloat), batch[1]);
    scaler_.scale(loss).backward();
    scaler_.step(*optimizer_);
    scaler_.update();
    ++updates_;
    return loss.detach();
  }

  NamedTensors state() override { return whole_state(parts(), loader_->state()); }

  void load(const std::vector<NamedTensors>& of_ranks) override {
    load_whole_state(of_ranks.at(0), parts());
    loader_ = std::make_unique<Loader>(dataset_, options_, loader_place(of_ranks.at(0)));
  }

  int64_t updates() const override { return updates_; }
  int64_t items() const override { return options_.batch; }
  void park(bool parked) override { loader_->park(parked); }

  /// Gradients that overflowed are left out: the scaler skipped them, and nothing can be compared with infinity.
  Gathered whole() const override {
    Gathered whole = Resumable::whole();
    for (auto& item : whole.gradients) {
      if (item.value().defined() && !item.value().isfinite().all().item<bool>()) item.value() = torch::Tensor();
    }
    return whole;
  }

  /// Parameters, and the buffers that training changes: what is forgotten of those does not show in a training loss.
  Parameters parameters() const override {
    Parameters all = model_->named_parameters();
    for (const auto& item : model_->named_buffers()) {
      if (item.value().is_floating_point()) all.insert(item.key(), item.value());
    }
    return all;
  }

 private:
  /// Up for 8 updates, then with the inverse of the root.
  static double schedule(int64_t update) {
    const double at = static_cast<double>(update + 1) / 8;
    return std::min(at, 1 / std::sqrt(at));
  }

  TrainingParts parts() {
    return {.model = *model_,
            .optimizer = *optimizer_,
            .scaler = &scaler_,
            .generators = generators_of(device_),
            .counters = {{"updates", &updates_}}};
  }

  torch::Device device_;
  double rate_;
  NormedNet model_;
  std::unique_ptr<torch::optim::Optimizer> optimizer_;
  GradScaler scaler_;
  Dataset dataset_;
  LoaderOptions options_;
  std::unique_ptr<Loader> loader_;
  int64_t updates_ = 0;
};

}  // namespace tenfold::inline lesson_65
