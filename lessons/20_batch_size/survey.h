#pragma once
// What the surveys of lesson 20 note: batches for a budget, found in four ways, and how fast batches train.

#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "batch_search.h"
#include "by_utilisation.h"
#include "common/measure/clock.h"
#include "common/models/gpt.h"
#include "training.h"

namespace tenfold::inline lesson_20 {

/// The batch that was found, next to the formula's and those of two articles.
inline void note_budget(const Trial& trial, int64_t bytes, const LargestBatch& found) {
  const auto note_batch = [&](const std::string& name, int64_t batch) {
    trial.note(name, static_cast<double>(batch), "images");
    if (found.batch > 0)
      trial.note(name + " / found", static_cast<double>(batch) / static_cast<double>(found.batch), "x");
  };
  trial.note("budget", static_cast<double>(bytes), "bytes");
  trial.note("found", static_cast<double>(found.batch), "images");
  trial.note("tries", static_cast<double>(found.tries), "batches");
  trial.note("tries out of memory", static_cast<double>(found.out_of_memory), "batches");
  note_batch("by formula", largest_by_formula(trial, bytes));
  note_batch("by D's search, new process", search_by_utilisation(trial, bytes, /*was_full=*/false));
  note_batch("by D's search, full before", search_by_utilisation(trial, bytes, /*was_full=*/true));
  // Article A: where a step takes half of the memory, the other half is for the data of the batch.
  const int64_t half = largest_by_formula(trial, bytes / 2);
  if (half > 0) note_batch("by A's arithmetic", half + (bytes - bytes / 2) / fashion_batch_bytes(1));
}

/// Times `update(n)` for these batches, in turns and in blocks of 8 ms or more. Notes items per second of each, and
/// what the largest gains, also over the workload's `own` batch.
inline void note_rates(const Trial& trial, const std::vector<int64_t>& batches, int64_t own, int64_t items,
                       const std::string& unit, const std::function<void(int64_t batch)>& update) {
  if (trial.device.is_cpu() && trial.size != Size::cpu) trial.skip("times batches of a GPU's size on a GPU only");
  constexpr double kBlock = 0.008;
  constexpr int kRounds = 3;
  std::map<int64_t, int> steps;  // of a block
  const auto step_seconds = [&](int64_t batch) {
    if (!steps.contains(batch)) {  // in the turn that warms up
      update(batch);
      const double once = time_block(trial.device, [&] { update(batch); });
      steps[batch] = static_cast<int>(std::clamp(std::ceil(kBlock / once), 1.0, 200.0));
      return once;
    }
    const int count = steps.at(batch);
    const double block = time_block(trial.device, [&] {
      for (int i = 0; i < count; ++i) update(batch);
    });
    return block / count;
  };
  const FastestBatch found = fastest_batch(batches, step_seconds, kRounds);
  const double at_largest = found.rates.back().samples_per_s;
  const size_t digits = std::to_string(batches.back()).size();
  double best = 0;
  for (const BatchRate& rate : found.rates) {
    best = std::max(best, rate.samples_per_s);
    const std::string batch = std::to_string(rate.batch);
    const std::string sorted = std::string(digits - batch.size(), '0') + batch;
    trial.note("batch " + sorted, static_cast<double>(items) * rate.samples_per_s, unit);
    if (rate.batch == 1 || rate.batch == own)
      trial.note("largest / batch " + batch, at_largest / rate.samples_per_s, "x");
  }
  trial.note("fastest batch", static_cast<double>(found.batch), "samples");
  trial.note("largest / best", at_largest / best, "x");
}

/// Updates of a model of images, with as many of Fashion-MNIST as it is called with.
template <class Training>
auto updates_of(const Trial& trial, Training& work) {
  return [&](int64_t batch) {
    FashionBatches batches(trial, batch);
    auto [images, labels] = batches.next();  // (B, 1, 28, 28), (B)
    work.optimizer->zero_grad();
    torch::cross_entropy_loss(work.model->forward(images), labels).backward();
    work.optimizer->step();
  };
}

/// The workload convnet.
inline void rates_of_convnet(const Trial& trial) {
  ConvNetTraining work(convnet_options(trial), trial.device);
  note_rates(trial, doublings(trial.by_size(512, 8192, 65536)), 64, 1, "images/s", updates_of(trial, work));
}

/// The workload mlp, at the sizes that all lessons have.
inline void rates_of_mlp(const Trial& trial) {
  MlpTraining work(trial, MlpOptions{}, /*batch=*/1);
  note_rates(trial, doublings(trial.by_size(2048, 16384, 65536)), 32, 1, "images/s", updates_of(trial, work));
}

/// The workload gpt.
inline void rates_of_gpt(const Trial& trial) {
  GptTraining work(trial, gpt_options(trial.size));
  const auto update = [&](int64_t batch) {
    work.model->options.batch = batch;        // what next_batch() goes by
    auto [ids, targets] = work.next_batch();  // (B, T) each
    work.optimizer->zero_grad();
    work.model->loss(work.model->hidden(ids), targets).backward();
    work.optimizer->step();
  };
  note_rates(trial, doublings(trial.by_size(32, 16, 32)), 8, work.model->options.length, "tokens/s", update);
}

/// Article D's example: one convolution, 3 to 64 channels, on 32 images of 224 x 224, forward alone.
inline void rates_of_convolution(const Trial& trial) {
  const torch::NoGradGuard no_gradients;
  torch::nn::Conv2d convolution(torch::nn::Conv2dOptions(3, 64, 3));
  convolution->to(trial.device);
  const torch::Tensor images = torch::randn({32, 3, 224, 224}, trial.device);
  note_rates(trial, {1, 32}, 1, 1, "images/s", [&](int64_t batch) { convolution(images.narrow(0, 0, batch)); });
}

}  // namespace tenfold::inline lesson_20
