#include "common/result/lever_gains.h"

#include <algorithm>

#include "common/result/quality.h"
#include "common/result/rate_ratio.h"

namespace tenfold {
namespace {

constexpr const char *kStacked = "+ ", *kWithout = "all but ";  // stack_up_to(), stack_without()

const Blocks* timed(const CaseResult& c, const std::string& technique) {
  const VariantResult* variant = variant_of(c, technique);
  return variant && variant->status == "ok" && variant->blocks.size() == 1 ? &variant->blocks[0] : nullptr;
}

std::optional<Interval> over_baseline(const CaseResult& c, const std::string& technique) {
  const Verdict* verdict = verdict_of(c, technique);
  if (!verdict || !verdict->speed.ratio || !verdict->speed.low) return std::nullopt;
  return Interval{*verdict->speed.low, *verdict->speed.high, *verdict->speed.ratio, 0.95};
}

/// The run of this name, where it has ended.
const VariantResult* trained(const CaseResult* training, const std::string& run) {
  const VariantResult* variant = training ? variant_of(*training, run) : nullptr;
  const bool ended = variant && variant->status == "ok" && variant->curves && training->variants.front().curves;
  return ended ? variant : nullptr;
}

/// Seconds of whole trainings, the first run's over this one's: a gain only where the model is no worse.
std::optional<Interval> training_gain(const CaseResult* training, const std::string& run) {
  const VariantResult* variant = trained(training, run);
  if (!variant) return std::nullopt;
  const Verdict* verdict = verdict_of(*training, run);
  if (!verdict || !verdict->quality || verdict->quality->label != to_string(Quality::not_worse)) return std::nullopt;
  const auto& before = *training->variants.front().curves;
  std::vector<double> gains;
  for (size_t seed = 0; seed < std::min(before.size(), variant->curves->size()); ++seed)
    gains.push_back(static_cast<double>(before[seed].ns(training->clock).back()) /
                    static_cast<double>((*variant->curves)[seed].ns(training->clock).back()));
  if (gains.size() < 2) return std::nullopt;
  return student_interval(gains);
}

}  // namespace

std::string stack_up_to(const std::string& lever) { return kStacked + lever; }
std::string stack_without(const std::string& lever) { return kWithout + lever; }

std::vector<LeverGain> lever_gains(const CaseResult& stacks, const CaseResult* training) {
  std::vector<LeverGain> gains;
  const Blocks *below = nullptr, *all = nullptr;
  for (const VariantResult& variant : stacks.variants) {
    if (!variant.name.starts_with(kStacked)) continue;
    LeverGain gain{.lever = variant.name.substr(std::string(kStacked).size()), .reason = variant.reason};
    if (const Blocks* blocks = timed(stacks, variant.name)) {
      gain.so_far = over_baseline(stacks, variant.name);
      gain.own = below ? std::optional(rate_ratio(*below, *blocks, stacks.clock)) : gain.so_far;
      all = below = blocks;
    } else if (const auto saved = training_gain(training, gain.lever)) {
      gain.own = saved;
      gain.reason = "of whole trainings, and of the number of updates that they were planned for: in no product";
    } else if (trained(training, gain.lever)) {
      gain.reason = "ends with a model that is not shown to be as good: see the trainings";
    }
    gains.push_back(gain);
  }
  for (LeverGain& gain : gains) {
    if (timed(stacks, stack_up_to(gain.lever)) == all) gain.in_all = gain.own;  // nothing is on top of it
    const Blocks* others = timed(stacks, stack_without(gain.lever));
    if (others && all) gain.in_all = rate_ratio(*others, *all, stacks.clock);
  }
  return gains;
}

const CaseResult* training_of(const Result& result, const std::string& case_name) {
  const auto same = std::ranges::find(result.cases, case_name + " to the end", &CaseResult::name);
  return same == result.cases.end() ? nullptr : &*same;
}

}  // namespace tenfold
