#pragma once
// What all makers of rows say of a variant, and of a verdict.

#include <string>
#include <vector>

#include "common/pages/rows/rows.h"

namespace tenfold {

/// Qualities besides the case's metric, requests of collectives, notes, and what in the environment tells the variants
/// apart.
std::vector<Fact> facts_of(const CaseResult& c, const VariantResult& variant);

/// What was processed in a second: "tokens/s".
std::string rate_heading(const CaseResult& c);

/// "baseline"; "baseline, skipped".
Cell baseline_cell(const VariantResult& baseline);
Cell rate_cell(const VariantResult& variant);
Cell peak_cell(const VariantResult& variant);
Cell memory_cell(const MemoryResult& memory);
Cell expectation_cell(const VariantResult& variant, const Verdict& verdict);

/// The tone of a speed's label; any other than FASTER, SLOWER, SAME and INVALID is open.
Tone speed_tone(const std::string& label);

}  // namespace tenfold
