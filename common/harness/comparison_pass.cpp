#include "common/harness/comparison_pass.h"

#include "common/harness/budget_pass.h"
#include "common/harness/passes.h"
#include "common/result/judge.h"

namespace tenfold {

ComparisonPass::ComparisonPass(PartRun run)
    : PartPass(std::move(run)), case_(*std::get<const Case*>(run_.chosen.part.body)) {
  run_.add({.name = run_.lesson.baseline.name, .body = &run_.lesson.baseline});
  for (const Variant& technique : run_.lesson.techniques) {
    if (run_.options.choice.wants(technique.name) && compares(case_, technique.name))
      run_.add({.name = technique.name, .body = &technique}, expected_of(case_, technique.name, run_.device));
  }
  // A CPU's memory is of one kind.
  if (case_.judged_peak.empty() || run_.device.is_cpu()) return;
  for (Candidate& candidate : run_.candidates) candidate.result.judged_peak = case_.judged_peak;
}

void ComparisonPass::build_once() {
  if (!built_) build_pass(run_);
  built_ = true;
}

bool ComparisonPass::build() {
  build_once();
  run_.end_processes();
  return true;
}

void ComparisonPass::measure(double seconds, const SettingsWatch& watch) {
  measure_until_rest(seconds, watch);
  run_.end_processes();
}

void ComparisonPass::measure_until_rest(double seconds, const SettingsWatch& watch) {
  const Preset& preset = run_.options.preset;
  build_once();
  watch.settings_read(run_);
  if (preset.updates == 0 || !baseline_ok()) return;
  if (run_.only_memory()) {
    priming_pass(run_);
  } else {
    agreement_pass(run_);
  }
  if (!baseline_ok()) return;
  // Where a dry GPU computes, agreement alone is kept: another start without arithmetic counts the work and predicts.
  if (!run_.on_dry_gpu() || run_.only_memory()) counting_pass(run_);
  memory_pass(run_);
  if (case_.budget && (preset.timed || run_.only_memory())) budget_pass(run_, *case_.budget);
  if (!preset.timed || loads_by_threads_of_this_host(run_)) return;
  time_ = std::make_unique<TimePass>(run_);
  time_->first_slice(seconds / 2);
}

void ComparisonPass::finish() {
  if (time_) split_pass(run_);
  run_.end_processes();
}

void ComparisonPass::complete(CaseResult& result) const {
  result.kind = "comparison";
  if (case_.budget) {
    result.budget = Budget{case_.budget->bytes.at(run_.size), case_.budget->setting};
    // The setting that grew is each variant's own; the case's is what agreement was checked at.
    if (run_.own_budget_value) result.settings[result.budget->setting] = *run_.own_budget_value;
  }
  judge(result, run_.machine.cores);
}

}  // namespace tenfold
