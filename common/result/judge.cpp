#include "common/result/judge.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <set>

namespace tenfold {
namespace {

/// Whether what was stated came true; nothing where nothing was stated, or the measurement did not decide.
std::optional<bool> met(const std::string& stated, const std::string& label) {
  if (stated == "ANY" || label == "AMBIGUOUS" || label == "UNDECIDED" || label == "SKIPPED" || label == "UNKNOWN")
    return std::nullopt;
  return stated == label;
}

/// A variant that must fail counts as caught only by what it was planted for: a trap by the agreement check, or by
/// numbers that are not finite; what exceeds the budget by running out of memory. Any other failure proves nothing.
/// What was only built was not tried.
std::optional<bool> caught(const VariantResult& variant, bool tried) {
  if (!must_fail(variant) || variant.status == "skipped" || !tried) return std::nullopt;
  if (variant.expected->kind == "exceeds") return variant.failure == "out_of_memory";
  return variant.failure == "disagrees" || variant.failure == "not_finite";
}

void judge_memory_of(const VariantResult& baseline, const VariantResult& technique, Verdict& verdict) {
  const MemoryVerdict memory = judge_memory(baseline.peak(), technique.peak());
  verdict.memory.label = to_string(memory.label);
  if (memory.label != Memory::unknown) verdict.memory.ratio = memory.ratio;
}

/// Of a variant that trained to an end, and whose baseline did.
void judge_training(const CaseResult& c, const VariantResult& technique, Verdict& verdict) {
  const VariantResult& baseline = c.variants.front();
  const Metric& metric = *c.metric;
  const QualityVerdict quality =
      judge_quality(baseline.quality.at(metric.name), technique.quality.at(metric.name), metric);
  const TimeToQuality time =
      judge_time_to_quality(*baseline.curves, *technique.curves, metric.better, quality.margin, c.clock);
  verdict.quality = {.label = to_string(quality.label),
                     .difference = quality.difference.middle,
                     .margin = quality.margin,
                     .seeds = seeds_of(c),
                     .reached = time.reached,
                     .at_once = time.at_once};
  if (quality.difference.coverage > 0) {
    verdict.quality->low = quality.difference.low;
    verdict.quality->high = quality.difference.high;
  }
  verdict.speed.label = to_string(time.label);
  if (time.ratio) verdict.speed.ratio = time.ratio->middle;
  if (time.ratio && time.ratio->coverage > 0) {
    verdict.speed.low = time.ratio->low;
    verdict.speed.high = time.ratio->high;
  }
  judge_memory_of(baseline, technique, verdict);
  if (!technique.expected) return;
  verdict.as_expected.quality = met(technique.expected->quality.value_or("ANY"), verdict.quality->label);
  verdict.as_expected.speed = met(technique.expected->speed, verdict.speed.label);
  verdict.as_expected.memory = met(technique.expected->memory, verdict.memory.label);
}

Verdict judge_one(const CaseResult& c, const VariantResult& technique, std::optional<AgreementResult> agreement,
                  bool judges_speed) {
  const VariantResult& baseline = c.variants.front();
  Verdict verdict;
  verdict.technique = technique.name;
  verdict.agreement = std::move(agreement);
  verdict.memory.label = to_string(Memory::unknown);
  verdict.speed.label = to_string(Speed::undecided);
  const bool open = verdict.agreement && verdict.agreement->is_open();
  const bool tried = (verdict.agreement && !open) || technique.status != "ok";
  if (baseline.status != "invalid") verdict.as_expected.caught = caught(technique, tried);
  if (technique.status != "ok" || baseline.status != "ok") {
    // A wrong or impossible run gets no ratio: a number would be quoted.
    const bool invalid = technique.status == "invalid" || (technique.status == "ok" && baseline.status == "invalid");
    verdict.speed.label = to_string(invalid ? Speed::invalid : Speed::skipped);
    if (c.kind == "training") verdict.quality = {.label = verdict.speed.label};
    if (invalid && !must_fail(technique)) verdict.as_expected.valid = false;
    return verdict;
  }
  if (c.kind == "training") {
    judge_training(c, technique, verdict);
    return verdict;
  }
  if (judges_speed && baseline.blocks.size() == 2 && technique.blocks.size() == 1) {
    const SpeedVerdict speed = judge_speed(baseline.blocks[0], baseline.blocks[1], technique.blocks[0], c.clock);
    // What may have learned nothing has no ratio that could be quoted. A dry GPU, which trains nothing to an end,
    // leaves that to another machine's training.
    const bool known = !open || c.device == "dry";
    if (known) verdict.speed.label = to_string(speed.label);
    if (known && technique.blocks[0].size() > 0) {
      verdict.speed.ratio = speed.ratio.middle;
      verdict.speed.low = speed.ratio.low;
      verdict.speed.high = speed.ratio.high;
    }
  }
  judge_memory_of(baseline, technique, verdict);

  if (technique.expected && !must_fail(technique)) {
    verdict.as_expected.speed = met(technique.expected->speed, verdict.speed.label);
    verdict.as_expected.memory = met(technique.expected->memory, verdict.memory.label);
  }
  if (technique.predicted.speed_ratio && verdict.speed.ratio) {
    verdict.prediction_error["speed"] = std::log(*verdict.speed.ratio / *technique.predicted.speed_ratio);
  }
  if (const auto error = peak_error(technique)) verdict.prediction_error["peak"] = *error;
  if (const auto error = sent_error(technique)) verdict.prediction_error["sent"] = *error;
  return verdict;
}

}  // namespace

bool must_fail(const VariantResult& variant) {
  return variant.expected && (variant.expected->kind == "trap" || variant.expected->kind == "exceeds");
}

namespace {

int64_t ranks_here(const CaseResult& c) {
  const auto& environment = c.variants.front().environment;
  const auto stated = environment.find(kRanksHere);
  return stated == environment.end() ? c.ranks : std::atoll(stated->second.c_str());
}

}  // namespace

bool ranks_took_turns(const CaseResult& c, int64_t cores) {
  return c.device == "cpu" && !c.variants.empty() && ranks_share_cores(ranks_here(c), cores);
}

std::string speed_withheld(const CaseResult& c, int64_t cores) {
  if (ranks_took_turns(c, cores))
    return "no verdict on speed: " + std::to_string(ranks_here(c)) + " ranks take turns on " + std::to_string(cores) +
           (cores == 1 ? " core" : " cores");
  if (c.variants.empty()) return "";
  // Without the baseline's there is no ratio.
  const auto& environment = c.variants.front().environment;
  const auto why = environment.find(kNotModelled);
  return why == environment.end() ? "" : std::string(kNotModelled) + ": " + why->second;
}

void judge(CaseResult& result, int64_t cores) {
  std::map<std::string, AgreementResult> agreements;
  for (const Verdict& verdict : result.verdicts) {
    if (verdict.agreement) agreements[verdict.technique] = *verdict.agreement;
  }
  result.verdicts.clear();
  result.noise.reset();
  result.margin.reset();
  if (result.variants.empty()) return;
  for (size_t i = 1; i < result.variants.size(); ++i) {
    const auto found = agreements.find(result.variants[i].name);
    result.verdicts.push_back(judge_one(result, result.variants[i],
                                        found == agreements.end() ? std::nullopt : std::optional(found->second),
                                        !ranks_took_turns(result, cores)));
  }
  if (seeds_of(result) > 0) result.margin = kSame;
  if (rounds_of(result) == 0) return;
  const std::vector<Blocks>& baselines = result.variants.front().blocks;
  result.noise = judge_speed(baselines[0], baselines[1], baselines[0], result.clock).noise();
  result.margin = kSame;
}

int seeds_of(const CaseResult& c) {
  if (c.kind != "training" || c.variants.empty() || !c.variants.front().curves) return 0;
  return static_cast<int>(c.variants.front().curves->size());
}

int rounds_of(const CaseResult& c) {
  const bool timed = !c.variants.empty() && c.variants.front().blocks.size() == 2;
  return timed ? static_cast<int>(c.variants.front().blocks.front().size()) : 0;
}

bool all_well(const CaseResult& c) {
  const bool started = c.variants.empty() || c.variants.front().status != "invalid";
  // A survey has no verdicts; its variants speak for themselves.
  const bool surveyed =
      c.kind != "survey" ||
      std::none_of(c.variants.begin(), c.variants.end(), [](const VariantResult& v) { return v.status == "invalid"; });
  return started && surveyed && std::all_of(c.verdicts.begin(), c.verdicts.end(), [](const Verdict& v) {
           return v.as_expected.valid.value_or(true) && v.as_expected.caught.value_or(true);
         });
}

int builds_of(const CaseResult& c) {
  if (rounds_of(c) == 0) return 0;
  const std::vector<int64_t>& builds = c.variants.front().blocks.front().build;
  return static_cast<int>(std::set<int64_t>(builds.begin(), builds.end()).size());
}

std::optional<double> sent_error(const VariantResult& variant) {
  if (!variant.predicted.sent_bytes || *variant.predicted.sent_bytes <= 0) return std::nullopt;
  int64_t sent = 0;
  for (const auto& [collective, bytes] : variant.sent_bytes) sent += bytes;
  return static_cast<double>(sent) / static_cast<double>(*variant.predicted.sent_bytes) - 1;
}

namespace {

/// Quality as a training of the same ranks and size came to judge a technique; nothing where there is no such training,
/// or the technique failed there for a reason that says nothing of what it learns.
std::optional<std::string> quality_in(const std::vector<CaseResult>& cases, const CaseResult& judged,
                                      const std::string& training, const std::string& technique) {
  const auto found = std::ranges::find_if(cases, [&](const CaseResult& c) {
    return c.kind == "training" && c.name == training && c.ranks == judged.ranks && c.mesh == judged.mesh &&
           c.size == judged.size && c.device == judged.device;
  });
  if (found == cases.end() || found->variants.front().status != "ok") return std::nullopt;
  const VariantResult* const trained = variant_of(*found, technique);
  if (trained == nullptr) return std::nullopt;
  if (trained->failure == "not_finite") return to_string(Quality::worse);
  const Verdict* const verdict = verdict_of(*found, technique);
  if (trained->status != "ok" || verdict == nullptr || !verdict->quality) return std::nullopt;
  return verdict->quality->label;
}

}  // namespace

void judge_by_trainings(std::vector<CaseResult>& cases, int64_t cores) {
  for (CaseResult& c : cases) {
    bool changed = false;
    for (Verdict& verdict : c.verdicts) {
      if (!verdict.agreement || !verdict.agreement->training) continue;
      AgreementResult& agreement = *verdict.agreement;
      const auto quality = quality_in(cases, c, *agreement.training, verdict.technique);
      if (!quality) continue;
      agreement.quality = quality;
      agreement.pass = *quality == to_string(Quality::not_worse);
      changed = true;
      const auto technique = std::ranges::find(c.variants, verdict.technique, &VariantResult::name);
      if (agreement.pass || agreement.is_open() || technique->status != "ok") continue;
      technique->status = "invalid";
      technique->failure = "disagrees";
      technique->reason = "came out " + *quality + " in the training '" + *agreement.training +
                          "', which judges it, since its steps differ from the baseline's by design";
    }
    if (changed) judge(c, cores);
  }
}

std::optional<double> peak_error(const VariantResult& variant) {
  const auto peak = variant.peak();
  if (!peak || !variant.predicted.peak_bytes || *variant.predicted.peak_bytes <= 0) return std::nullopt;
  return static_cast<double>(*peak) / static_cast<double>(*variant.predicted.peak_bytes) - 1;
}

std::map<std::string, double> predictions_off(const Verdict& verdict) {
  std::map<std::string, double> off;
  for (const auto& [name, error] : verdict.prediction_error) {
    // A speed's error is a logarithm: half as fast and twice as fast are equally far off.
    const bool far = name == "speed" ? std::abs(error) > std::log1p(kPredictionOff) : std::abs(error) > kPredictionOff;
    if (far) off[name] = name == "speed" ? std::expm1(error) : error;
  }
  return off;
}

}  // namespace tenfold
