#pragma once
// What each of several techniques brings that are stacked one on top of the other.

#include <optional>
#include <string>
#include <vector>

#include "common/result/result.h"
#include "common/result/statistics.h"

namespace tenfold {

/// The name of the technique that pulls all levers up to this one, and of the one that pulls all others.
std::string stack_up_to(const std::string& lever);
std::string stack_without(const std::string& lever);

struct LeverGain {
  std::string lever;
  std::string reason;                             ///< why it has no gain, or none in a step; else empty
  std::optional<Interval> own = std::nullopt;     ///< items/s over those of the stack below it
  std::optional<Interval> so_far = std::nullopt;  ///< over those of the baseline
  std::optional<Interval> in_all = std::nullopt;  ///< of all levers, over all but this one
};

/// From a comparison of stacks in the same rounds: its technique "+ LEVER" pulls the levers up to this one, "all but
/// LEVER" all the others. A lever that changes how many steps there are, and not how long one takes, is the run LEVER
/// of `training`, if there is one: its own gain is that of the seconds of the whole training, if the model is no worse.
/// It multiplies nothing: how many updates were planned decides it. Empty for a case without such techniques.
std::vector<LeverGain> lever_gains(const CaseResult& stacks, const CaseResult* training);

/// The training that belongs to a comparison of stacks: the case "NAME to the end". nullptr where there is none.
const CaseResult* training_of(const Result& result, const std::string& case_name);

}  // namespace tenfold
