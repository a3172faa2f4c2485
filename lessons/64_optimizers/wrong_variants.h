#pragma once
// Mistakes with optimizers that are right themselves: the wrong parameters, a step left out, another's rate, and a
// model that is evaluated at the wrong weights.

#include <torch/torch.h>

#include "trained.h"

namespace tenfold::inline lesson_64 {

/// Wrong: embeddings and the head are matrices, too, but no hidden ones.
inline Trained muon_on_all(const Trial& trial) {
  const Work work = trial.workload.make(trial);
  MuonSplit split;
  for (const auto& item : work.parameters)
    (item.value().dim() == 2 ? split.hidden : split.rest).push_back(item.value());
  return with_muon(trial, work, split, muon_options(trial));
}

/// Wrong: a momentum of length 1, which is what Newton-Schulz begins with, at Muon's rate.
inline Trained not_orthogonal(const Trial& trial) {
  const Work work = trial.workload.make(trial);
  return with_muon(trial, work, split_for_muon(*work.model, not_hidden(trial)), muon_options(trial).ns_steps(0));
}

/// Wrong: rates that were tuned for another optimizer.
inline Trained lion_at_adamws_rate(const Trial& trial) { return lion_at(trial, trial.get(kAdamWRate)); }
inline Trained adamw_at_muons_rate(const Trial& trial) {
  const Work work = trial.workload.make(trial);
  return {work, {adamw_of(trial, work.parameters.values(), trial.get(kMuonRate))}};
}

/// Wrong: evaluated where gradients are taken.
template <Make schedule_free>
Trained not_switched(const Trial& trial) {
  Trained trained = schedule_free(trial);
  trained.averaged = nullptr;
  return trained;
}

}  // namespace tenfold::inline lesson_64
