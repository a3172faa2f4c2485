#pragma once
// What a host needs for a launch on a dry GPU, as a sentence.

#include <string>
#include <vector>

#include "common/result/result.h"

namespace tenfold {

/// For each host of `dry`: its seconds of a step over the step's launches, the median of the baselines of which the
/// host's part is a third or more. Not of the chapter on data, whose steps load and decode on the host, too. "Not yet
/// timed" without any.
std::string host_launches_markdown(const std::vector<Result>& dry);

}  // namespace tenfold
