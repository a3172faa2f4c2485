#include "common/pages/book/claims_judge.h"

#include <algorithm>

#include "common/base/text.h"
#include "common/pages/rows/case_words.h"
#include "common/pages/rows/quality_words.h"

namespace tenfold {
namespace {

/// What one row says of a claim.
struct Finding {
  enum class Says { holds, fails, nothing, missing } says = Says::missing;
  std::string text;  ///< "0.357x", "AMBIGUOUS"
};
using Says = Finding::Says;

/// Whether all of [low, high] meets the bounds, none of it does, or a bound lies inside.
Says within(const ClaimRule& rule, double low, double high) {
  const bool above = !rule.low || low >= *rule.low, below = !rule.high || high <= *rule.high;
  if (above && below) return Says::holds;
  const bool under = rule.low && high < *rule.low, over = rule.high && low > *rule.high;
  return under || over ? Says::fails : Says::nothing;
}

Finding judge_label(const ClaimRule& rule, const std::string& label, const std::string& text) {
  return {label == rule.label ? Says::holds : Says::fails, text};
}

Finding judge_speed(const ClaimRule& rule, const SpeedResult& speed) {
  if (speed.label == "SKIPPED") return {Says::missing, "SKIPPED"};
  const bool decided = speed.label == "FASTER" || speed.label == "SLOWER" || speed.label == "SAME";
  if (!decided || !speed.ratio) return {Says::nothing, speed.label};
  const std::string text = human_ratio(*speed.ratio);
  if (!rule.label.empty()) return judge_label(rule, speed.label, text);
  return {within(rule, speed.low.value_or(*speed.ratio), speed.high.value_or(*speed.ratio)), text};
}

Finding judge_memory(const ClaimRule& rule, const MemoryResult& memory) {
  if (memory.label == "UNKNOWN" || !memory.ratio) return {Says::missing, "not measured"};
  const std::string text = human_ratio(*memory.ratio);
  if (!rule.label.empty()) return judge_label(rule, memory.label, text);
  return {within(rule, *memory.ratio, *memory.ratio), text};
}

/// To be no worse is to be better or about as good; of two that are about as good neither is shown to be better.
Finding judge_quality(const ClaimRule& rule, const std::string& label) {
  const bool better = label == "BETTER", worse = label == "WORSE", not_worse = better || label == "NOT WORSE";
  if (!not_worse && !worse) return {Says::nothing, label};
  if (rule.label == "BETTER" && !better && !worse) return {Says::nothing, label};
  const bool holds = rule.label == "BETTER" ? better : rule.label == "WORSE" ? worse : not_worse;
  return {holds ? Says::holds : Says::fails, label};
}

Finding judge_verdict(const Claim& claim, const CaseResult& c, const Verdict& verdict) {
  if (claim.metric == "speed") return judge_speed(claim.rule, verdict.speed);
  if (claim.metric == "memory") return judge_memory(claim.rule, verdict.memory);
  if (claim.metric == "agreement") {
    if (!verdict.agreement || verdict.agreement->is_open()) return {Says::missing, "not compared"};
    const std::string word = verdict.agreement->pass ? "agrees" : "disagrees";
    return judge_label(claim.rule, word, word);
  }
  if (!verdict.quality) return {Says::missing, "not trained to an end"};
  return judge_quality(claim.rule, quality_label(*verdict.quality, c.metric.value_or(Metric{}).better));
}

const Note* note_of(const CaseResult& c, const std::string& variant, const std::string& note) {
  const VariantResult* found = variant_of(c, variant);
  if (!found) return nullptr;
  const auto at = found->notes.find(note);
  return at == found->notes.end() ? nullptr : &at->second;
}

Finding judge_note(const Claim& claim, const ClaimTest& test, const CaseResult& c) {
  const VariantResult* variant = variant_of(c, test.technique);
  if (variant && variant->status == "skipped") return {Says::missing, "skipped"};
  const Note* note = note_of(c, test.technique, test.note);
  if (!note) return {Says::missing, "not noted"};
  if (test.against.empty()) {
    return {within(claim.rule, note->value, note->value),
            human_number(note->value) + (note->unit.empty() ? "" : " " + note->unit)};
  }
  const Note* base = note_of(c, test.against, test.note);
  if (!base || base->value == 0) return {Says::missing, "not noted"};
  const double ratio = note->value / base->value;
  return {within(claim.rule, ratio, ratio), human_ratio(ratio)};
}

Finding judge_test(const Claim& claim, const ClaimTest& test, const CaseResult& c) {
  if (claim.metric == "note") return judge_note(claim, test, c);
  const Verdict* verdict = verdict_of(c, test.technique);
  return verdict ? judge_verdict(claim, c, *verdict) : Finding{Says::missing, "not run"};
}

/// Names the row as shortly as the claim's other rows allow.
std::string test_name(const Claim& claim, const ClaimTest& test, const CaseResult* c) {
  const auto differs = [&](std::string ClaimTest::* field) {
    return std::any_of(claim.tests.begin(), claim.tests.end(),
                       [&](const ClaimTest& other) { return other.*field != test.*field; });
  };
  std::string name = differs(&ClaimTest::technique) ? test.technique : "";
  if (name.empty() || differs(&ClaimTest::case_name)) name += (name.empty() ? "" : " in ") + test.case_name;
  if (differs(&ClaimTest::note)) name += ", " + test.note;
  return name + (c && is_on_gpu(*c) && !claim.gpu ? " on the GPU" : "");
}

/// Whether the case ran where the claim is about.
bool decides(const Claim& claim, const CaseResult& c) {
  if (c.device == "dry") return is_counted(claim);
  return !claim.gpu || is_on_gpu(c);
}

bool is_decided(ClaimVerdict verdict) {
  return verdict != ClaimVerdict::not_decided && verdict != ClaimVerdict::not_measured;
}

}  // namespace

bool is_counted(const Claim& claim) {
  return claim.gpu && (claim.metric == "memory" || claim.metric == "agreement" || claim.metric == "note");
}

std::string to_string(ClaimVerdict verdict) {
  switch (verdict) {
    case ClaimVerdict::holds:
      return "holds";
    case ClaimVerdict::does_not_hold:
      return "does not hold";
    case ClaimVerdict::depends:
      return "depends";
    case ClaimVerdict::not_decided:
      return "not decided";
    case ClaimVerdict::not_measured:
      break;
  }
  return "not measured here";
}

ClaimOutcome judge_claim(const Claim& claim, const std::vector<Result>& results) {
  ClaimOutcome outcome;
  if (claim.server && !results.empty() && results.front().machine.cores < kServerCores) {
    outcome.why = "needs " + std::to_string(kServerCores) + " cores";
    return outcome;
  }
  std::map<Says, std::vector<std::string>> findings;
  for (const ClaimTest& test : claim.tests) {
    bool found = false;
    for (const Result& result : results) {
      for (const CaseResult& c : result.cases) {
        if (result.lesson != claim.lesson || c.name != test.case_name || c.sweep || !decides(claim, c)) continue;
        const Finding finding = judge_test(claim, test, c);
        findings[finding.says].push_back(test_name(claim, test, &c) + ": " + finding.text);
        found = true;
      }
    }
    if (!found && !claim.gpu) findings[Says::missing].push_back(test_name(claim, test, nullptr) + ": not run");
  }
  const bool holds = !findings[Says::holds].empty(), fails = !findings[Says::fails].empty();
  const auto list = [&](Says says) { return joined(findings[says], "; "); };
  const auto beside = [&](const std::string& decided) {
    return decided + (findings[Says::nothing].empty() ? "" : "; not decided in " + list(Says::nothing));
  };
  if (holds && fails) {
    outcome.verdict = ClaimVerdict::depends;
    outcome.why = beside("holds in " + list(Says::holds) + "; not in " + list(Says::fails));
  } else if (holds && findings[Says::nothing].size() > findings[Says::holds].size()) {  // too little for "everywhere"
    outcome.verdict = ClaimVerdict::depends;
    outcome.why = beside("holds in " + list(Says::holds));
  } else if (holds || fails) {
    outcome.verdict = holds ? ClaimVerdict::holds : ClaimVerdict::does_not_hold;
    outcome.why = beside(list(holds ? Says::holds : Says::fails));
  } else if (!findings[Says::nothing].empty()) {
    outcome.verdict = ClaimVerdict::not_decided;
    outcome.why = list(Says::nothing);
  } else {
    outcome.why = claim.gpu && findings[Says::missing].empty() ? "needs a GPU" : list(Says::missing);
  }
  return outcome;
}

std::vector<ClaimOutcome> judge_on_each(const Claim& claim, const std::vector<Result>& published) {
  std::map<std::string, std::vector<Result>> machines;
  for (const Result& result : published) {
    if (result.lesson == claim.lesson) machines[result.machine.id].push_back(result);
  }
  std::vector<ClaimOutcome> outcomes;
  for (const auto& [machine, results] : machines) {
    ClaimOutcome outcome = judge_claim(claim, results);
    outcome.machine = machine;
    const bool is_there = !machine.starts_with(kDryMachine);
    if (is_there || is_decided(outcome.verdict)) outcomes.push_back(std::move(outcome));
  }
  return outcomes;
}

ClaimVerdict overall(const std::vector<ClaimOutcome>& outcomes) {
  std::set<ClaimVerdict> decided;
  bool measured = false;
  for (const ClaimOutcome& outcome : outcomes) {
    if (is_decided(outcome.verdict)) decided.insert(outcome.verdict);
    measured = measured || outcome.verdict != ClaimVerdict::not_measured;
  }
  if (decided.empty()) return measured ? ClaimVerdict::not_decided : ClaimVerdict::not_measured;
  return decided.size() == 1 ? *decided.begin() : ClaimVerdict::depends;
}

}  // namespace tenfold
