#pragma once
// A training that can say all that it goes on from, and go on from it: what lesson 65's variants, surveys and traps
// have in common, on one process or on several ranks.

#include <torch/torch.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "common/measure/step.h"
#include "common/measure/trial.h"
#include "lessons/57_faults/atomic_checkpoint.h"

namespace tenfold::inline lesson_65 {

class Resumable {
 public:
  virtual ~Resumable() = default;

  /// Returns the loss, of this rank.
  virtual torch::Tensor update() = 0;
  /// What this rank saves. Some of it are the training's own tensors, which the next update changes.
  virtual NamedTensors state() = 0;
  /// Goes on from what ranks have saved, by rank: all of them, or of as many this rank's own alone.
  virtual void load(const std::vector<NamedTensors>& of_ranks) = 0;
  virtual int64_t updates() const = 0;  ///< made so far
  virtual int64_t items() const = 0;    ///< of an update, on all ranks
  virtual Parameters parameters() const = 0;
  virtual void park(bool parked) = 0;  ///< its loader
  /// The whole of what ranks keep in parts.
  virtual Gathered whole() const {
    Gathered whole{parameters(), Parameters()};
    for (const auto& item : whole.parameters) whole.gradients.insert(item.key(), item.value().grad());
    return whole;
  }

  /// That many updates; their mean loss.
  torch::Tensor update(int64_t count) {
    torch::Tensor total = update();
    for (int64_t i = 1; i < count; ++i) total = total + update();
    return total / count;
  }
};

/// The trial's workload, trained so.
std::unique_ptr<Resumable> training_of(const Trial& trial);

}  // namespace tenfold::inline lesson_65
