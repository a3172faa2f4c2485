#pragma once
// From what was measured to what is said of it: verdicts, what was expected, what was predicted.

#include <map>
#include <optional>
#include <string>

#include "common/result/result.h"

namespace tenfold {

/// Recomputes the verdicts of a case from its blocks and peaks, or its curves; agreement is kept as recorded. With more
/// ranks on a machine than it has cores (0: as many as it needs), speed stays UNDECIDED and gets no ratio.
void judge(CaseResult& result, int64_t cores = 0);

/// Gives techniques whose steps differ by design their agreement: what the training that judges them came to, if it is
/// among these cases, on as many ranks. One that trains worse is INVALID. Verdicts are recomputed.
void judge_by_trainings(std::vector<CaseResult>& cases, int64_t cores = 0);

/// What a variant's environment calls the number of ranks on this machine, where they are on several.
inline constexpr const char* kRanksHere = "ranks on this machine";

/// Ranks that take turns on cores: their times say nothing about machines with a core for each.
constexpr bool ranks_share_cores(int64_t ranks_here, int64_t cores) {
  return ranks_here > 1 && cores > 0 && ranks_here > cores;
}

/// In a variant's environment: why no speed of it is modelled on a dry GPU.
inline constexpr const char* kNotModelled = "speed not modelled";

/// Whether the case's ranks took turns on cores.
bool ranks_took_turns(const CaseResult& c, int64_t cores);

/// Why a case has no verdict on speed, in one sentence; empty when it may have one.
std::string speed_withheld(const CaseResult& c, int64_t cores);

/// Rounds that the case's variants were timed for.
int rounds_of(const CaseResult& c);

/// Builds of each variant among these rounds.
int builds_of(const CaseResult& c);

/// Seeds that a training's variants were trained with; 0 of other cases.
int seeds_of(const CaseResult& c);

/// A trap or what exceeds the budget: a variant that must come out INVALID.
bool must_fail(const VariantResult& variant);

/// Nothing is known to be wrong: every variant is valid or skipped, and each that must fail was caught.
bool all_well(const CaseResult& c);

/// The variant's peak over what was predicted of it, less 1; none where either is missing.
std::optional<double> peak_error(const VariantResult& variant);

/// The same of the bytes that a rank sent in a step.
std::optional<double> sent_error(const VariantResult& variant);

/// A prediction further off than this is shown as such: 25 % more or less.
inline constexpr double kPredictionOff = 0.25;
/// The errors of a verdict's predictions that are off, "speed" and "peak", as measured / predicted - 1.
std::map<std::string, double> predictions_off(const Verdict& verdict);

}  // namespace tenfold
