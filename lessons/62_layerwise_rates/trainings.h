#pragma once
// The trainings of lesson 62. The rates are those that `rates` found best for each way, out of as many values.

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "common/harness/lesson.h"
#include "common/harness/rate_search.h"
#include "fine_tuning.h"
#include "settings.h"

namespace tenfold::inline lesson_62 {

inline std::vector<Assignment> fine_tuned(int64_t images) {
  return {kImages(images), convnet::kBatch(20, 20, 20), convnet::kChannels(8, 16, 16)};
}

// What the trainings `rates` chose, by the tuning images.
inline constexpr double kOneRate = 0.003, kLayerRate = 0.003, kUnfreezingRate = 0.003, kHeadRate = 0.01,
                        kScratchRate = 0.03, kManyRate = 0.01;

/// 10 images of each new class.
inline Training few_images(const Metric& metric) {
  using namespace expect;
  return {.name = "few images",
          .metric = metric,
          .runs = {{"one rate", tuned({.rate = kOneRate})},
                   {"rates by layer", tuned({.rate = kLayerRate, .decay = 0.5}), NOT_WORSE},
                   {"scale never applied", tuned({.rate = kLayerRate, .decay = 0.5, .overwritten = true})},
                   {"gradual unfreezing", tuned({.rate = kUnfreezingRate, .gradual = true}), NOT_WORSE},
                   {"head alone", tuned({.rate = kHeadRate, .trained = 1})},
                   {"from scratch", tuned({.rate = kScratchRate, .from_scratch = true})}},
          .settings = fine_tuned(50)};
}

/// More than are drawn.
inline Training many_images(const Metric& metric) {
  using namespace expect;
  return {.name = "many images",
          .metric = metric,
          .runs = {{"one rate", tuned({.rate = kManyRate})},
                   {"rates by layer", tuned({.rate = kManyRate, .decay = 0.5}), NOT_WORSE},
                   {"head alone", tuned({.rate = kHeadRate, .trained = 1})},
                   {"from scratch", tuned({.rate = kScratchRate, .from_scratch = true})}},
          .settings = fine_tuned(8000)};
}

// The searches for the rates.
inline Training rates_of_few(const Metric& metric) {
  const std::vector<std::pair<std::string, double>> low = {{"0.001", 0.001}, {"0.003", 0.003}, {"0.01", 0.01}};
  const std::vector<std::pair<std::string, double>> high = {{"0.003", 0.003}, {"0.01", 0.01}, {"0.03", 0.03}};
  return rate_search<Way>(metric, "few images", fine_tuned(50),
                          {{"one rate", {}, low},
                           {"by layer", {.decay = 0.5}, low},
                           {"unfreezing", {.gradual = true}, low},
                           {"head", {.trained = 1}, high},
                           {"from scratch", {.from_scratch = true}, high}},
                          tuned);
}
inline Training rates_of_many(const Metric& metric) {
  const std::vector<std::pair<std::string, double>> high = {{"0.01", 0.01}, {"0.03", 0.03}};
  return rate_search<Way>(metric, "many images", fine_tuned(8000),
                          {{"one rate", {}, high}, {"by layer", {.decay = 0.5}, high}}, tuned);
}

}  // namespace tenfold::inline lesson_62
