#pragma once
// From what was measured to what is said of it: verdicts, what was expected, what was predicted.

#include <map>
#include <string>

#include <tenfold/result.h>

namespace tenfold {

/// Recomputes the speed and memory verdicts of a case from its blocks and peaks; agreement is kept as recorded.
void judge(CaseResult& result);

/// Rounds that the case's variants were timed for.
int rounds_of(const CaseResult& c);

/// Builds of each variant among these rounds.
int builds_of(const CaseResult& c);

/// A trap or what exceeds the budget: a variant that must come out INVALID.
bool must_fail(const VariantResult& variant);

/// Nothing is known to be wrong: every variant is valid or skipped, and each that must fail was caught.
bool all_well(const CaseResult& c);

/// A prediction further off than this is shown as such: 25 % more or less.
inline constexpr double kPredictionOff = 0.25;
/// The errors of a verdict's predictions that are off, "speed" and "peak", as measured / predicted - 1.
std::map<std::string, double> predictions_off(const Verdict& verdict);

}  // namespace tenfold
