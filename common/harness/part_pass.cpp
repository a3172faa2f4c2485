#include "common/harness/part_pass.h"

#include "common/harness/comparison_pass.h"
#include "common/harness/survey_pass.h"
#include "common/harness/training_pass.h"
#include "common/measure/dry.h"
#include "common/measure/memory.h"
#include "common/result/judge.h"

namespace tenfold {

CaseResult PartPass::result() const {
  CaseResult result;
  result.name = run_.chosen.name;
  result.workload = run_.chosen.part.workload.name;
  result.items = run_.chosen.part.workload.items;
  result.size = to_string(run_.size);
  const bool dry = run_.on_dry_gpu();
  result.device = dry ? "dry" : run_.device.is_cuda() ? "cuda" : "cpu";
  result.dtype = "float32";
  result.flags = {{"tf32_matmul", at::globalContext().allowTF32CuBLAS()},
                  {"tf32_cudnn", at::globalContext().allowTF32CuDNN()}};
  result.ranks = run_.world.ranks.world_size;
  for (const auto& dimension : run_.mesh.dimensions()) result.mesh[dimension.name] = dimension.size;
  result.backend = run_.world.backend;
  result.threads = run_.options.threads;
  result.preset = run_.options.preset.name;
  result.seed = static_cast<int64_t>(run_.options.seed);
  result.clock = run_.clock;
  result.sweep = run_.chosen.sweep;
  for (const Candidate& candidate : run_.candidates) {
    for (const auto& [name, value] : candidate.record->read) result.settings[name] = value;
    VariantResult variant = candidate.result;
    variant.notes.insert(candidate.record->notes.begin(), candidate.record->notes.end());
    if (dry) variant.source = "dry";
    const auto mebibytes = [](int bytes) { return std::to_string(bytes >> 20) + " MiB"; };
    variant.environment["malloc"] = "fixed thresholds: mmap " + mebibytes(kMmapThreshold) + ", trim " +
                                    mebibytes(kTrimThreshold) + ", top pad " + mebibytes(kTopPad);
    variant.environment.insert(run_.chosen.part.place.environment.begin(), run_.chosen.part.place.environment.end());
    if (const auto* const body = std::get_if<const Variant*>(&candidate.body); body != nullptr && (*body)->process) {
      for (const auto& [name, value] : (*body)->process->stated()) variant.environment[name] = value;
    }
    if (const int devices = run_.chosen.part.place.devices; devices > 1)
      variant.environment["devices"] = std::to_string(devices);
    if (const Ranks& ranks = run_.world.ranks; ranks.local_size != ranks.world_size)
      variant.environment[kRanksHere] = std::to_string(ranks.local_size);
    result.variants.push_back(std::move(variant));
    if (candidate.agreement) {
      Verdict verdict;
      verdict.technique = candidate.name;
      verdict.agreement = candidate.agreement;
      result.verdicts.push_back(verdict);
    }
  }
  complete(result);
  return result;
}

std::unique_ptr<PartPass> pass_of(PartRun run) {
  struct Maker {
    PartRun& run;
    std::unique_ptr<PartPass> operator()(const Case* /*case*/) {
      return std::make_unique<ComparisonPass>(std::move(run));
    }
    std::unique_ptr<PartPass> operator()(const Training* /*training*/) {
      return std::make_unique<TrainingPass>(std::move(run));
    }
    std::unique_ptr<PartPass> operator()(const Survey* /*survey*/) {
      return std::make_unique<SurveyPass>(std::move(run));
    }
  };
  const auto body = run.chosen.part.body;
  return std::visit(Maker{run}, body);
}

}  // namespace tenfold
