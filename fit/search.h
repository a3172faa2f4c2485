#pragma once
// Which levers make a model fit: the search, whatever counts a step.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "fit/levers.h"

namespace tenfold::fit {

/// What one way to train is: the batch of an update and how many of its sequences are on the card at a time.
struct Way {
  Levers levers;
  int64_t batch = 1;
  int64_t at_once = 1;  ///< divides the batch
};

/// What was counted of it.
struct Counted {
  bool fits = false;
  std::string stopped_in;  ///< where memory ran out, "backward"; empty if it fits
  std::string error;       ///< the allocator's words
  int64_t reserved_bytes = 0, allocated_bytes = 0, requested_bytes = 0;  ///< peaks
  std::optional<double> step_seconds;  ///< that the card is busy with an update, modelled
};

struct Row {
  Way way;
  Counted counted;
};

/// Counts a step on the card, or, without `limited`, on one that holds whatever is asked for.
using Count = std::function<Counted(const Way& way, bool limited)>;

struct Found {
  std::vector<Row> ladder;      ///< a row for each lever that was added. What does not fit has the peaks that it needs
  std::optional<Row> smallest;  ///< the first that fits, without the levers that it can do without
  std::optional<int64_t> at_once;  ///< most sequences at a time that fit with these levers
  bool more_may_fit = false;       ///< the search ended there
};

/// As `batch` sequences are trained with these levers.
Way way_of(const Levers& levers, int64_t batch);

/// Adds one of `levers` after the other, each to those before it. Of the first set that fits, levers are left out
/// again, the last one first, as long as it fits; but for autocast, which makes a step faster. Of what is left, the
/// most sequences at a time are searched for.
Found find(const std::vector<Lever>& levers, int64_t batch, const Count& count);

/// The same for these levers alone. Where the batch does not fit, fewer sequences at a time may.
Found find_with(const Levers& levers, int64_t batch, const Count& count);

/// No search goes beyond so many sequences at a time.
inline constexpr int64_t kMostAtOnce = 4096;

}  // namespace tenfold::fit
