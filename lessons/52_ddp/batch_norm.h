#pragma once
// Batch normalisation on ranks, by each rank's samples and by all of them: how far either is from one process.

#include <torch/torch.h>

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include <ATen/CPUGeneratorImpl.h>

#include <chrono>
#include <cstdint>
#include <type_traits>

#include "common/measure/trial.h"
#include "common/ranks/rank_threads.h"
#include "gradient_buckets.h"
#include "sync_batch_norm.h"

namespace tenfold::inline lesson_52 {

/// What a model has that nobody has changed for several ranks.
using BatchNormOfRank = torch::nn::BatchNorm2d;

/// A batch of images for all ranks together, (B, C, H, W), and what weighs the output in the loss.
inline constexpr int64_t kNormalisedBatch = 16, kNormalisedChannels = 8, kNormalisedSide = 8;
inline constexpr int kNormalisingRanks = 4;

inline torch::Tensor normalised_images(uint64_t seed) {
  return torch::randn({kNormalisedBatch, kNormalisedChannels, kNormalisedSide, kNormalisedSide},
                      at::detail::createCPUGenerator(seed));
}

/// One update's output, and the gradients of the images.
struct Normalised {
  torch::Tensor output, gradient;
};

template <class Norm>
Normalised normalised(Norm& norm, const torch::Tensor& images, const torch::Tensor& weights) {
  const torch::Tensor x = images.clone().requires_grad_();
  const torch::Tensor output = norm->forward(x);
  (output.square() * weights).sum().backward();
  return {output.detach(), x.grad()};
}

/// Notes how far rank 0 is from what one process makes of the same images: of the largest value, in percent.
template <class Norm>
void note_batch_norm(const Trial& trial) {
  const torch::Tensor images = normalised_images(trial.seed), weights = normalised_images(trial.seed + 1);
  torch::nn::BatchNorm2d whole(kNormalisedChannels);
  const Normalised expected = normalised(whole, images, weights);
  on_rank_threads(kNormalisingRanks, std::chrono::seconds(60), [&](int rank, const auto& group) {
    Norm norm = [&] {
      if constexpr (std::is_same_v<Norm, SyncBatchNorm>) return SyncBatchNorm(kNormalisedChannels, group);
      if constexpr (std::is_same_v<Norm, BatchNormOfRank>) return BatchNormOfRank(kNormalisedChannels);
    }();
    const auto own = [&](const torch::Tensor& all) { return local_batch(all, rank, kNormalisingRanks); };
    const Normalised made = normalised(norm, own(images), own(weights));
    if (rank != 0) return;
    const auto off = [](const torch::Tensor& a, const torch::Tensor& b) {
      return 100 * ((a - b).abs().max() / b.abs().max()).template item<double>();
    };
    trial.note("output off by", off(made.output, own(expected.output)), "%");
    trial.note("gradient off by", off(made.gradient, own(expected.gradient)), "%");
    trial.note("running variance off by", off(norm->running_var, whole->running_var), "%");
  });
}

}  // namespace tenfold::inline lesson_52
