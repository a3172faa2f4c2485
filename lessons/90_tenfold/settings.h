#pragma once
// What lesson 90's pipelines are set to, and what they train: a workload each.

#include <algorithm>
#include <cstdint>

#include "common/harness/lesson.h"
#include "common/measure/rank_share.h"
#include "common/models/convnet.h"
#include "common/models/gpt.h"

namespace tenfold::inline lesson_90 {

/// On the largest GPU no more than on a smaller one: the host decodes each of them, whatever card it feeds.
inline constexpr Setting<int64_t> kBatch{"batch", {16, 256, 256}, "images in a batch, of all ranks together"};
inline constexpr Setting<int64_t> kSpeeches{"batch", {8, 8, 32}, "speeches in a batch, of all ranks together"};
inline constexpr Setting<int64_t> kWorkers{"workers", {2, 8, 16}, "threads that load, of all ranks together"};
inline constexpr Setting<int64_t> kValidated{"validated", {4, 64, 64}, "images that are validated for each update"};
inline constexpr Setting<int64_t> kValidatedWindows{
    "validated", {4, 4, 8}, "windows of text that are validated for each update"};

inline constexpr Setting<int64_t> kOneGpu{"one_gpu", 0, "1: the levers of a single process, on a GPU only"};

/// Side of the images once they are decoded, and of the squares that the model sees.
inline constexpr int64_t kDecodedSide = 64, kSeenSide = 56;

/// At the workload's own learning rate a training of some hundred updates ends worse than after its first ones.
inline ConvNetOptions picture_model(Size size) {
  return {.channels = convnet::kChannels.value.at(size), .colours = 3, .side = kSeenSide, .learning_rate = 0.003};
}

/// Openclipart's PNG files, and Shakespeare's speeches: the workloads' models at their own sizes, with these batches.
/// An update's bytes are the most: the graph of validation is smaller, and made after the update's is freed.
inline const Workload pictures_workload{
    .name = "convnet", .items = "images", .settings = {kBatch, kValidated}, .most_bytes = [](const Trial& trial) {
      return step_peak_bytes(picture_model(trial.size), trial.get(kBatch), trial.device);
    }};
inline const Workload texts_workload{
    .name = "gpt", .items = "tokens", .settings = {kSpeeches, kValidatedWindows}, .most_bytes = [](const Trial& trial) {
      GptOptions options = gpt_options(trial.size);
      options.batch = trial.get(kSpeeches);
      return step_peak_bytes(options);
    }};

/// Threads that load for one rank: at least one.
inline int64_t workers_of_rank(const Trial& trial, bool divided) {
  return std::max<int64_t>(trial.get(kWorkers) / (divided ? trial.world_size : 1), 1);
}

/// Of all ranks' part of `whole`, this one's. Skips what cannot be divided.
inline int64_t part_of_rank(const Trial& trial, const Setting<int64_t>& whole, bool divided) {
  return share_of_rank(trial, whole, divided ? trial.world_size : 1);
}

}  // namespace tenfold::inline lesson_90
