#pragma once
// A search for the learning rate of each way to train, as a training whose runs are the rates.

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "common/harness/lesson.h"
#include "common/models/judged_images.h"

namespace tenfold {

/// A way to train, and the rates that it has to choose from, with the digits that they are written with. `Way` has
/// `rate` and `judge`.
template <class Way>
struct Tried {
  std::string name;
  Way way;
  std::vector<std::pair<std::string, double>> rates;
};

/// Judged on the tuning images, which no other training is judged by. `run` makes a training's run of a way.
template <class Way>
Training rate_search(Metric metric, const std::string& name, std::vector<Assignment> settings,
                     const std::vector<Tried<Way>>& all, std::function<Learned(const Trial&)> (*run)(const Way&)) {
  metric.name = "accuracy on tuning images";
  Training training{.name = "rates, " + name, .metric = metric, .runs = {}, .settings = std::move(settings)};
  for (const Tried<Way>& tried : all) {
    for (const auto& [digits, rate] : tried.rates) {
      Way chosen = tried.way;
      chosen.rate = rate;
      chosen.judge = Judge::tuning;
      training.runs.push_back({tried.name + ", " + digits, run(chosen)});
    }
  }
  return training;
}

}  // namespace tenfold
