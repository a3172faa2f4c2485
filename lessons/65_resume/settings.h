#pragma once
// The settings that lesson 65 has besides those of its workloads and of lesson 57.

#include <cstdint>
#include <string>
#include <vector>

#include "common/measure/trial.h"
#include "common/models/convnet.h"
#include "common/models/gpt.h"
#include "lessons/57_faults/settings.h"

namespace tenfold::inline lesson_65 {

inline constexpr Setting<int64_t> kImages{"images", 60000, "images of an epoch, of 60000"};
inline constexpr Setting<double> kScale{"scale", 65536.0, "of the loss in fp16, until an update changes it"};
inline constexpr Setting<int64_t> kGrowth{"growth_interval", 2000, "updates without infinity until the scale doubles"};
inline constexpr Setting<int64_t> kKills{"kills", 25,
                                         "processes that are killed at random moments, by each way of saving"};

inline constexpr int kWorkers = 2, kPrefetch = 2;  // of the loader

/// A few seconds of training in which every part of the state matters: an epoch ends after ten updates, and the scale
/// grows with each until it overflows, which one that begins again from 1024 every four updates never does.
inline std::vector<Assignment> everything_matters() {
  return {kEvery(4), kImages(160), kScale(1024.0), kGrowth(1), convnet::kBatch(16), convnet::kChannels(4)};
}

/// Saved so often that some kills come in the middle of it.
inline std::vector<Assignment> everything_matters_often_saved() {
  std::vector<Assignment> settings = everything_matters();
  settings.front() = kEvery(2);
  return settings;
}

/// Many parameters and few images: a checkpoint takes about as long as an update. The first one is not skipped: the
/// optimizer would have no state after it.
inline std::vector<Assignment> large_convnet() {
  return {kScale(1024.0), convnet::kBatch(4, 8, 8), convnet::kChannels(64, 256, 512)};
}

inline std::vector<Assignment> convnet_every_update() {
  std::vector<Assignment> settings = large_convnet();
  settings.push_back(kEvery(1));
  return settings;
}

/// Two ranks or more, with shards of the model states. AdamW's are three quarters of it.
inline std::vector<Assignment> sharded_gpt() {
  return {kEvery(2), gpt::kTokens("characters"), gpt::kLayers(2, 2, 2), gpt::kLength(32, 256, 256)};
}

}  // namespace tenfold::inline lesson_65
