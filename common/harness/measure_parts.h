#pragma once
// All parts of a lesson, through all passes.

#include <set>
#include <string>
#include <vector>

#include "common/harness/options.h"
#include "common/harness/resume.h"
#include "common/ranks/process_group.h"
#include "common/result/result.h"

namespace tenfold {

struct MeasuredParts {
  std::vector<CaseResult> results;    ///< cases that got through their first slice, trainings and surveys
  bool to_the_end = true;             ///< false when it was asked to stop before
  std::vector<std::string> left_out;  ///< trainings and surveys, by a preset that measures no time
  std::vector<std::string> unread;    ///< settings of --set that no part reads; then parts after that are not measured
};

/// Measures the parts that are left. Each case gets an equal part of about a third of the lesson's time for timing;
/// what the other passes leave goes where it narrows intervals most. Throws UsageError for a setting of --set or
/// --sweep that no part reads, when that is known before anything is measured: variants read settings while they are
/// built, surveys and trainings while they run; where parts were kept, they may have read it. What is finished is
/// written after each part's first slice.
MeasuredParts measure_parts(const Lesson& lesson, FinishedParts& finished, const Options& options, const World& world,
                            torch::Device device, const Machine& machine);

/// "setting layers: nothing in 'gpt' reads it; settings that are read: batch, width".
std::string refusal_of_settings(const std::set<std::string>& unread, const std::vector<Chosen>& chosen,
                                const std::set<std::string>& read);

/// True where the driver starts this program more than once, for parts of other ranks: they may read what these do not.
bool other_starts();

}  // namespace tenfold
