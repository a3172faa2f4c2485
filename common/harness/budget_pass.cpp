#include "common/harness/budget_pass.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "common/base/text.h"
#include "common/harness/passes.h"

namespace tenfold {
namespace {

constexpr int kMostPeaks = 8;  // measured of one variant; each takes a build and four steps

/// The peak of a step with this value of the setting.
int64_t peak_of(PartRun& run, Candidate& candidate, const std::string& setting, int64_t value) {
  candidate.record->given[setting] = value;
  candidate.result.peak_bytes = measured_peak(run, candidate);
  return candidate.result.peak().value();
}

void find_largest(PartRun& run, Candidate& candidate, const std::string& setting, int64_t own, int64_t bytes) {
  const int64_t first = candidate.result.peak().value();
  if (first > bytes) {
    throw c10::OutOfMemoryError({__func__, __FILE__, __LINE__},
                                "its own " + setting + "=" + std::to_string(own) + " takes " +
                                    human_bytes(static_cast<double>(first)) + " of a budget of " +
                                    human_bytes(static_cast<double>(bytes)));
  }
  int64_t fits = 1;                                       // times the own value
  int64_t exceeds = std::numeric_limits<int64_t>::max();  // the smallest that was found not to fit
  int64_t next = 2;
  int64_t peak_of_fitting = first;
  for (int measured = 0; measured < kMostPeaks && exceeds > fits + 1; ++measured) {
    const int64_t peak = peak_of(run, candidate, setting, own * next);
    if (peak <= bytes) {
      fits = next;
      peak_of_fitting = peak;
    } else {
      exceeds = next;
    }
    // Activations grow with the value, model states do not: a straight line through the two peaks.
    const double growth = static_cast<double>(std::max<int64_t>(1, peak - first)) / static_cast<double>(next - 1);
    const auto predicted = 1 + static_cast<int64_t>(std::floor(static_cast<double>(bytes - first) / growth));
    next = std::min(std::max(predicted, fits + 1), exceeds - 1);
  }
  if (candidate.result.peak() != peak_of_fitting) peak_of(run, candidate, setting, own * fits);
  candidate.result.budget_value = own * fits;
  candidate.result.predicted = {};
}

}  // namespace

void budget_pass(PartRun& run, const SameBudget& budget) {
  const int64_t bytes = budget.bytes.at(run.size);
  for (Candidate& candidate : run.candidates) {
    if (!candidate.ok()) continue;
    run.stop_if_interrupted();
    run.progress.at(0.3, "largest " + budget.setting + " in the budget: " + candidate.name);
    const auto read = candidate.record->read.find(budget.setting);
    run.guarded(candidate, [&] {
      if (read == candidate.record->read.end())
        throw std::invalid_argument("does not read " + budget.setting + ", which is to grow with the budget");
      if (!run.own_budget_value) run.own_budget_value = read->second;
      find_largest(run, candidate, budget.setting, std::get<int64_t>(read->second), bytes);
    });
  }
}

}  // namespace tenfold
