#pragma once
// The passes that one case goes through, in this order: build, agreement, counting, memory, time, split.
// Agreement comes first: a variant that computes something else is never timed.

#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include <tenfold/global_state.h>
#include <tenfold/lesson.h>
#include <tenfold/options.h>
#include <tenfold/process_group.h>
#include <tenfold/progress.h>
#include <tenfold/result.h>

namespace tenfold {

/// What a variant has read and noted; shared by all its trials of one case.
struct TrialRecord {
  Settings settings;
  Settings read;  ///< every setting asked for, with the value given
  std::map<std::string, Note> notes;
};

/// One variant of one case on its way through the passes.
struct Candidate {
  const Variant* variant;
  VariantResult result;
  std::shared_ptr<TrialRecord> record;
  std::optional<AgreementResult> agreement;
  int64_t resting_bytes = 0;  ///< live between two steps
  bool ok() const { return result.status == "ok"; }
};

/// What all passes share.
struct CaseRun {
  const Lesson& lesson;
  const Case& description;
  const Options& options;
  const World& world;
  torch::Device device;
  const Machine& machine;
  Size size;
  GlobalState clean;  ///< flags as they were before any variant ran
  Progress& progress;
  std::vector<Candidate> candidates;  ///< the baseline first
  double seconds;                     ///< for timing, by an equal share; a survey's Trial::seconds
  Clock clock = Clock::wall;          ///< that verdicts are drawn from

  Trial trial(const Candidate& candidate) const;
  /// Builds a variant from clean flags and the case's seed.
  Step build(const Candidate& candidate) const;
  /// Runs `work` for a candidate and turns what it throws into skipped or invalid, the same on every rank.
  bool guarded(Candidate& candidate, const std::function<void()>& work) const;
  /// True on every rank when any was asked to stop.
  void stop_if_interrupted() const;
};

/// A loss that is NaN or infinite.
struct NotFinite : std::runtime_error {
  using std::runtime_error::runtime_error;
};

void build_pass(CaseRun& run);
void agreement_pass(CaseRun& run);
void counting_pass(CaseRun& run);
void memory_pass(CaseRun& run);
/// Steps of each variant that the split pass warms up with, and looks at.
inline constexpr int kSplitWarmUp = 2, kSplitSteps = 5;
void split_pass(CaseRun& run);

}  // namespace tenfold
