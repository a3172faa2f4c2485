#include "common/harness/survey_pass.h"

namespace tenfold {

SurveyPass::SurveyPass(PartRun run)
    : PartPass(std::move(run)), survey_(*std::get<const Survey*>(run_.chosen.part.body)) {
  for (const Look& look : survey_.looks) {
    if (run_.options.choice.wants(look.name)) run_.add({.name = look.name, .body = &look});
  }
}

bool SurveyPass::wanted() const {
  const Preset& preset = run_.options.preset;
  return preset.updates > 0 && (run_.only_memory() ? survey_.of_memory : preset.timed);
}

void SurveyPass::measure(double /*seconds*/, const SettingsWatch& watch) {
  for (size_t i = 0; i < run_.candidates.size(); ++i) {
    Candidate& candidate = run_.candidates[i];
    if (!candidate.ok()) continue;
    run_.stop_if_interrupted();
    run_.progress.at(static_cast<double>(i) / static_cast<double>(run_.candidates.size()), candidate.name);
    run_.guarded(candidate, [&] {
      run_.clean.restore();
      torch::manual_seed(run_.options.seed);
      std::get<const Look*>(candidate.body)->note(run_.trial(candidate));
    });
  }
  watch.settings_read(run_);
}

void SurveyPass::complete(CaseResult& result) const {
  result.kind = "survey";
  result.workload = survey_.workload.name;  // what it looks at need not be the lesson's
  result.items.reset();                     // and nothing is counted by the second
}

}  // namespace tenfold
