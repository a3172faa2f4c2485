#pragma once
// A result as text for a terminal: what a lesson prints at its end, and what the tour prints over all lessons.

#include <string>
#include <vector>

#include "common/pages/rows/quality_text.h"
#include "common/result/result.h"

namespace tenfold {

/// The whole result, at most 120 columns wide: per case each variant with its speed, peak, verdicts and predictions,
/// where the time goes, notes and reasons. A survey prints its notes instead of verdicts.
std::string format_table(const Result& result);

/// One table of verdicts over many results, grouped by lesson, at most 120 columns wide.
std::string format_summary(const std::vector<Result>& results);

/// "FASTER 1.42x [1.38, 1.47]"; the label alone where there is no ratio.
std::string speed_text(const SpeedResult& speed);
/// "SMALLER 0.331x"; "-" where memory was not measured.
std::string memory_text(const MemoryResult& memory);
/// "exact", "agrees 2e-07", "DIFFERS 0.03"; of a training quality_verdict_text; "-" where nothing was compared.
std::string agreement_text(const Verdict& verdict);
/// "as expected" (both were stated), "memory as expected", "SURPRISE: speed", "speed open, memory as expected" (the
/// measurement did not decide on speed), "trap caught", "NOT CAUGHT"; "INVALID" where a variant failed that should not
/// have; "-" where nothing was stated.
std::string expectation_text(const VariantResult& variant, const Verdict& verdict);
/// "0.70x, error -5.7 %", with ", off" when it is further off than kPredictionOff; "-" without a prediction of the
/// speed.
std::string prediction_text(const VariantResult& variant, const Verdict& verdict);
/// The same of the peak: "10.2 MiB, error +0.3 %".
std::string predicted_peak_text(const VariantResult& variant, const Verdict& verdict);
/// "batch=4, layers=2", without those that the case's name already tells, and without the one called `left_out`.
std::string settings_text(const CaseResult& c, const std::string& left_out = "");
/// The step's seconds, and the shares of data, host, device, copy and communication: "41.4 ms", "1.0 %", "-" for none.
std::vector<std::string> split_cells(const Split& split);
/// What a step asked of each collective: "asked of all_reduce in a step 1.2 MiB in 5 calls".
std::vector<std::string> request_texts(const VariantResult& variant);
/// All items over all time, by the clock on the wall (on CUDA by the device's). 0 without rounds.
double items_per_second(const VariantResult& variant);
/// "96 rounds in 6 builds by processor time", "6 seeds by wall clock"; empty where nothing was timed.
std::string rounds_text(const CaseResult& c);
/// Peak allocated bytes, "16.3 MiB"; "-" where memory was not measured.
std::string peak_text(const VariantResult& variant);
/// A peak of the result leaves out what nobody knows: it is printed as "at least".
bool has_peak_at_least(const Result& result);
/// A note's value with its unit: bytes and seconds scaled, others as they are.
std::string note_text(const Note& note);
/// The same behind its name, which may tell the unit: "256" of the note "images" in images.
std::string note_text(const std::string& name, const Note& note);
/// The word stands in the text, not as a part of another one; the empty word always does.
bool has_word(const std::string& text, const std::string& word);
/// "reduce.cuh:31 global load" is "global load, worst line": a look has many lines, and their numbers change with every
/// edit of the kernel. `./tenfold kernel` shows them line by line.
std::string without_line(const std::string& thing);
/// "2 x NVIDIA H100 80GB HBM3" or the CPU with its cores.
std::string machine_text(const Machine& machine);

}  // namespace tenfold
