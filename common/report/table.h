#pragma once
// A result as text for a terminal: what a lesson prints at its end, and what the tour prints over all lessons.

#include <string>
#include <vector>

#include <tenfold/result.h>

namespace tenfold {

/// The whole result, at most 120 columns wide: per case each variant with its speed, peak, verdicts and predictions,
/// where the time goes, notes and reasons. A foundation page prints its notes instead of verdicts.
std::string format_table(const Result& result);

/// One table of verdicts over many results, grouped by lesson, at most 120 columns wide.
std::string format_summary(const std::vector<Result>& results);

/// "FASTER 1.42x [1.38, 1.47]"; the label alone where there is no ratio.
std::string speed_text(const SpeedResult& speed);
/// "SMALLER 0.331x"; "-" where memory was not measured.
std::string memory_text(const MemoryResult& memory);
/// "exact", "agrees 2e-07", "DIFFERS 0.03"; "-" where nothing was compared.
std::string agreement_text(const Verdict& verdict);
/// "as expected", "SURPRISE", "trap caught", "open" (the measurement did not decide) or "-" (nothing was expected).
std::string expectation_text(const VariantResult& variant, const Verdict& verdict);
/// "0.70x, error -5.7 %"; "-" without a prediction of the speed.
std::string prediction_text(const VariantResult& variant, const Verdict& verdict);
/// A case that trains nothing: of a foundation page, or one of workload "foundation" beside cases that train. Its variants
/// note numbers and get no verdicts.
bool only_notes(const Result& result, const CaseResult& c);
/// "412 items in 1.3 s" as a rate over all rounds: all items / all time. 0 without rounds.
double items_per_second(const VariantResult& variant);
/// Peak allocated bytes, "16.3 MiB"; "-" where memory was not measured.
std::string peak_text(const VariantResult& variant);
/// A note's value with its unit: bytes and seconds scaled, others as they are.
std::string note_text(const Note& note);
/// The verdict on a technique; nullptr for the baseline.
const Verdict* verdict_of(const CaseResult& c, const std::string& technique);
/// "2 x NVIDIA H100 80GB HBM3" or the CPU with its cores.
std::string machine_text(const Machine& machine);

}  // namespace tenfold
