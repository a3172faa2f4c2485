#pragma once
// What all makers of rows say of a variant, and of a verdict.

#include <string>
#include <vector>

#include "common/pages/rows/rows.h"

namespace tenfold {

/// Qualities besides the case's metric, requests of collectives, notes, and what in the environment tells the variants
/// apart.
std::vector<Fact> facts_of(const CaseResult& c, const VariantResult& variant);

/// What a step asked of a collective: "1.22 MiB in 5 calls"; "-" where nothing.
std::string sent_text(const VariantResult& variant, const std::string& collective);
/// What was predicted that a step asks of all collectives: "2.95 MiB, error 0.0 %"; "-" where nothing was.
std::string predicted_sent_text(const VariantResult& variant);

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
