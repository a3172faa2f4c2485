#pragma once
// What a training came to, in words: its quality, and the time to an equal one.

#include <string>
#include <vector>

#include "common/result/result.h"

namespace tenfold {

/// The verdict on a quality as a reader is told it. A result knows NOT WORSE, which a much better one is, too; BETTER,
/// as WORSE on the other side, is one whose whole interval is beyond the margin.
std::string quality_label(const QualityResult& quality, Better better);
/// "NOT WORSE +0.0040 [-0.0021, +0.0101]": the technique's quality less the baseline's; the label alone where there is
/// no difference.
std::string quality_verdict_text(const QualityResult& quality, Better better);
/// Of a training: "FASTER 1.30x [1.22, 1.40]" to an equal quality, "reached by 4 of 6 seeds" where no ratio follows.
std::string time_to_quality_text(const Verdict& verdict);
/// Why there is no time to an equal quality although both were reached: "in 3 of 6 seeds the baseline is there at its
/// first evaluation"; empty elsewhere.
std::string no_time_because(const Verdict& verdict);
/// What a training is judged by: "validation loss, lower is better; margin 0.021 (1 %)".
std::string metric_text(const CaseResult& c);
/// "3.1 s": the median time of a whole training, without its evaluations; "-" of other variants.
std::string training_time_text(const CaseResult& c, const VariantResult& variant);
/// "12.3 k": the median of its seeds' items a second, where items were counted; empty elsewhere.
std::string training_rate_text(const CaseResult& c, const VariantResult& variant);
/// Whether the memory of its variants was measured, too.
bool has_peaks(const CaseResult& c);
/// "36.2"; with several seeds the median and the range, "36.2 (35.1 to 37.0) of 5 seeds".
std::string quality_text(const std::vector<double>& values);

}  // namespace tenfold
