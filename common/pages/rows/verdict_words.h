#pragma once
// What was found of a technique against its baseline, and what was stated of it before, in words.

#include <string>

#include "common/result/result.h"

namespace tenfold {

/// "FASTER 1.42x [1.38, 1.47]"; the label alone where there is no ratio.
std::string speed_text(const SpeedResult& speed);
/// "FASTER 1.42x": of a modelled ratio, whose interval would be the host's noise alone, or where a column is narrow.
/// With its interval where it is AMBIGUOUS, since such a number says less than it seems to: "AMBIGUOUS 1.40x
/// [0.892, 2.18]".
std::string ratio_text(const SpeedResult& speed);
/// "1.42x" without its word, but for an AMBIGUOUS one, which is as in ratio_text(); "-" where there is no ratio.
std::string number_text(const SpeedResult& speed);
/// " (host)" behind a modelled ratio in which the host has a say: of one of the two steps a fifth or more is this
/// host's, or its launches would take all of it on the slowest host of a real card so far, 20 us for each. Else
/// nothing.
std::string host_mark(const VariantResult& variant, const VariantResult& baseline);
/// "SMALLER 0.331x"; "-" where memory was not measured.
std::string memory_text(const MemoryResult& memory);
/// "exact", "agrees 2e-07", "DIFFERS 0.03"; "-" where nothing was compared. Of a training there is
/// quality_verdict_text() instead.
std::string agreement_text(const Verdict& verdict);
/// "as expected" (both were stated), "memory as expected", "SURPRISE: speed", "speed open, memory as expected" (the
/// measurement did not decide on speed), "trap caught", "NOT CAUGHT"; "INVALID" where a variant failed that should not
/// have; "-" where nothing was stated.
std::string expectation_text(const VariantResult& variant, const Verdict& verdict);
/// Whether what expectation_text() says needs a reader's attention.
bool is_surprise(const std::string& expectation);
/// "0.70x, error -5.7 %", with ", off" when it is further off than kPredictionOff; "-" without a prediction of the
/// speed.
std::string prediction_text(const VariantResult& variant, const Verdict& verdict);
/// The same of the peak: "10.2 MiB, error +0.3 %".
std::string predicted_peak_text(const VariantResult& variant, const Verdict& verdict);

}  // namespace tenfold
