#pragma once
// A part of a lesson on its way through what is measured of it. Here is what all kinds of parts have in common; what
// they have not stands in comparison_pass, training_pass and survey_pass, and nobody else asks which kind a part is.

#include <functional>
#include <memory>

#include "common/harness/part_run.h"

namespace tenfold {

class TimePass;

/// What a part tells of its settings while it is measured.
struct SettingsWatch {
  /// Its variants have read their settings.
  std::function<void(PartRun&)> settings_read;
  /// Whether it should go on after that: false when nothing reads a setting that was typed.
  std::function<bool()> goes_on;
};

class PartPass {
 public:
  explicit PartPass(PartRun run) : run_(std::move(run)) {}
  virtual ~PartPass() = default;
  PartPass(const PartPass&) = delete;
  PartPass& operator=(const PartPass&) = delete;

  PartRun& run() { return run_; }
  /// Whether the preset, and this device, measure it at all.
  virtual bool wanted() const = 0;
  /// Whether the lesson's time is shared out among it and others of its kind.
  virtual bool shares_time() const { return false; }
  /// Builds its variants, so that what they read is known. False where that is known only once they run.
  virtual bool build() { return false; }
  /// Measures all but what more time would improve. `seconds` of the lesson's time are its own until then.
  virtual void measure(double seconds, const SettingsWatch& watch) = 0;
  /// Where more of the lesson's time can go; null where it cannot.
  virtual TimePass* time() { return nullptr; }
  /// After all timing.
  virtual void finish() {}
  /// What was measured so far.
  CaseResult result() const;

 protected:
  /// Its kind's own fields.
  virtual void complete(CaseResult& result) const = 0;

  PartRun run_;
};

/// The pass of this kind of part, with the candidates that --only leaves.
std::unique_ptr<PartPass> pass_of(PartRun run);

}  // namespace tenfold
