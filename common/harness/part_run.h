#pragma once
// A part of a lesson while it is measured, and its variants.

#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "common/harness/lesson.h"
#include "common/harness/options.h"
#include "common/harness/progress.h"
#include "common/measure/global_state.h"
#include "common/ranks/counted_backend.h"
#include "common/ranks/process_group.h"
#include "common/result/result.h"

namespace tenfold {

/// One variant of a case, one run of a training or one look of a survey, on its way through the passes.
struct Candidate {
  std::string name;
  std::variant<const Variant*, const Run*, const Look*> body;
  VariantResult result = {};
  std::shared_ptr<TrialRecord> record = std::make_shared<TrialRecord>();
  std::optional<AgreementResult> agreement = std::nullopt;
  int64_t resting_bytes = 0;  ///< live between two steps
  bool has_threads = false;   ///< its steps have threads of their own, which load for one
  /// Of a variant that runs in another process: that process, from its first build until end_processes().
  std::shared_ptr<TrainingProcess> process = nullptr;

  const Variant& variant() const { return *std::get<const Variant*>(body); }  ///< of a case
  bool ok() const { return result.status == "ok"; }
};

/// What all passes share.
struct PartRun {
  const Lesson& lesson;
  Chosen chosen;
  const Options& options;
  const World& world;
  torch::Device device;
  const Machine& machine;
  Size size;
  GlobalState clean;  ///< flags as they were before any variant ran
  Progress& progress;
  CountedGroups& groups;
  Mesh mesh;                               ///< of `groups`
  std::vector<Candidate> candidates = {};  ///< the baseline first
  Clock clock = Clock::wall;               ///< that verdicts are drawn from
  /// Of a case with a byte budget: what the setting that grows had when agreement was checked.
  std::optional<SettingValue> own_budget_value = std::nullopt;

  /// One more candidate, with the part's settings and what is expected of it.
  void add(Candidate candidate, std::optional<Expected> expected = std::nullopt);
  Trial trial(const Candidate& candidate) const;
  /// What the part's place asks for, `device` first. Throws Skipped where this machine has fewer GPUs.
  std::vector<torch::Device> devices() const;
  /// Builds a case's variant from clean flags and the case's seed.
  Step build(Candidate& candidate) const;
  /// Starts the process of a variant that runs in another one; nothing for any other. Throws Skipped on a dry GPU.
  std::shared_ptr<TrainingProcess> process_of(Candidate& candidate) const;
  /// No process of a variant outlives what is measured in a row: each has memory, on a GPU a context.
  void end_processes();
  /// Runs `work` for a candidate and turns what it throws into skipped or invalid, the same on every rank.
  bool guarded(Candidate& candidate, const std::function<void()>& work) const;
  /// More ranks here than cores: times then say nothing about speed.
  bool crowded() const;
  /// On a GPU that is not there.
  bool on_dry_gpu() const;
  /// On a dry GPU that computes nothing: only its memory means something.
  bool only_memory() const;
  /// True on every rank when any was asked to stop.
  void stop_if_interrupted() const;
};

/// A loss that is NaN or infinite.
struct NotFinite : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Uses of the same memory on a dry GPU that nothing orders: on a GPU the numbers may be others, whatever they are
/// here.
struct DataRace : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// 0 to `count` - 1 in an order that the seed draws.
std::vector<size_t> drawn_order(size_t count, uint64_t seed);

}  // namespace tenfold
