#pragma once
// What lesson 90's pipelines are set to. Models have the workloads' own sizes: convnet and gpt have some settings of
// the same names.

#include <algorithm>
#include <cstdint>
#include <string>

#include "common/harness/lesson.h"
#include "common/models/convnet.h"
#include "common/models/gpt.h"

namespace tenfold {

inline constexpr Setting<std::string> kData{"data",
                                            "pictures",
                                            "what is trained on: openclipart's PNG files, or Shakespeare's speeches",
                                            {"pictures", "texts"}};
inline constexpr Setting<int64_t> kBatch{
    "batch", {16, 256, 1024}, "images or speeches in a batch, of all ranks together"};
inline constexpr Setting<int64_t> kWorkers{"workers", {2, 8, 16}, "threads that load, of all ranks together"};
inline constexpr Setting<int64_t> kValidated{
    "validated", {4, 64, 256}, "images or windows of text that are validated for each update"};

inline constexpr Setting<int64_t> kOneGpu{"one_gpu", 0, "1: the levers of a single process, on a GPU only"};

/// Side of the images once they are decoded, and of the squares that the model sees.
inline constexpr int64_t kDecodedSide = 64, kSeenSide = 56;

/// At the workload's own learning rate a training of some hundred updates ends worse than after its first ones.
inline ConvNetOptions picture_model(Size size) {
  return {.channels = convnet::kChannels.value.at(size), .colours = 3, .side = kSeenSide, .learning_rate = 0.003};
}

/// Of all ranks' part of `whole`, this one's. Throws c10::ValueError where it cannot be divided.
inline int64_t part_of_rank(const Trial& trial, const Setting<int64_t>& whole, bool divided) {
  const int64_t all = trial.get(whole), ranks = divided ? trial.world_size : 1;
  TORCH_CHECK_VALUE(all >= ranks && all % ranks == 0, whole.name, "=", all, " cannot be divided by ", ranks, " ranks");
  return all / ranks;
}

}  // namespace tenfold
