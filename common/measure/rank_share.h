#pragma once
// What a variant asks of the trial's ranks before it builds anything: that there are two, and its share of a batch.

#include <cstdint>
#include <string>

#include "common/measure/setting.h"
#include "common/measure/trial.h"

namespace tenfold {

/// For what means nothing on one rank, where there is no group: skips the variant.
inline void needs_two_ranks(const Trial& trial) {
  if (!trial.group) trial.skip("needs two ranks");
}

/// One rank's part of what `whole` says for `ranks` of them together, such as the sequences of a batch. Skips a number
/// that the ranks cannot share evenly: a mean of means over parts of unequal size is not the mean over the batch.
inline int64_t share_of_rank(const Trial& trial, const Setting<int64_t>& whole, int64_t ranks) {
  const int64_t all = trial.get(whole);
  if (all % ranks != 0)
    trial.skip(std::string(whole.name) + "=" + std::to_string(all) + " cannot be divided by " + std::to_string(ranks) +
               " ranks");
  return all / ranks;
}

/// The same, of all of the trial's ranks.
inline int64_t share_of_rank(const Trial& trial, const Setting<int64_t>& whole) {
  return share_of_rank(trial, whole, trial.world_size);
}

}  // namespace tenfold
