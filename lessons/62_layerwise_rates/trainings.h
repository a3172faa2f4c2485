#pragma once
// The trainings of lesson 62. The rates are those that `rates` found best for each way, out of as many values.

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "common/harness/lesson.h"
#include "fine_tuning.h"
#include "settings.h"

namespace tenfold::inline lesson_62 {

inline std::vector<Assignment> fine_tuned(int64_t images) {
  return {kImages(images), convnet::kBatch(20, 20, 20), convnet::kChannels(8, 16, 16)};
}

// What `rates` chose, by the tuning images.
inline constexpr double kOneRate = 0.01, kLayerRate = 0.03, kHeadRate = 0.03, kUnfreezingRate = 0.03,
                        kScratchRate = 0.03;

/// 20 images of each new class.
inline Training few_images(const Metric& metric) {
  using namespace expect;
  return {.name = "few images",
          .metric = metric,
          .runs = {{"one rate", tuned({.rate = kOneRate})},
                   {"rates by layer", tuned({.rate = kLayerRate, .decay = 0.5}), NOT_WORSE},
                   {"scale never applied", tuned({.rate = kLayerRate, .decay = 0.5, .overwritten = true})},
                   {"gradual unfreezing", tuned({.rate = kUnfreezingRate, .gradual = true}), NOT_WORSE},
                   {"head alone", tuned({.rate = kHeadRate, .trained = 1})},
                   {"from scratch", tuned({.rate = kScratchRate, .from_scratch = true}), WORSE}},
          .settings = fine_tuned(100)};
}

/// As many as are drawn.
inline Training many_images(const Metric& metric) {
  using namespace expect;
  return {.name = "many images",
          .metric = metric,
          .runs = {{"one rate", tuned({.rate = kOneRate})},
                   {"rates by layer", tuned({.rate = kLayerRate, .decay = 0.5}), NOT_WORSE},
                   {"head alone", tuned({.rate = kHeadRate, .trained = 1}), WORSE},
                   {"from scratch", tuned({.rate = kScratchRate, .from_scratch = true})}},
          .settings = fine_tuned(8000)};
}

/// Each way with the same three rates, on images that the others are not judged by.
inline Training rates(Metric metric) {
  metric.name = "accuracy on tuning images";
  Training training{.name = "rates, few images", .metric = metric, .runs = {}, .settings = fine_tuned(100)};
  const std::vector<std::pair<std::string, Way>> ways = {{"one rate", {}},
                                                         {"by layer", {.decay = 0.5}},
                                                         {"unfreezing", {.gradual = true}},
                                                         {"head", {.trained = 1}},
                                                         {"from scratch", {.from_scratch = true}}};
  for (const auto& [name, way] : ways) {
    for (const auto& [digits, rate] : {std::pair{"0.01", 0.01}, {"0.03", 0.03}, {"0.1", 0.1}}) {
      Way chosen = way;
      chosen.rate = rate;
      chosen.judge = Judge::tuning;
      training.runs.push_back({name + ", " + digits, tuned(chosen)});
    }
  }
  return training;
}

}  // namespace tenfold::inline lesson_62
