#pragma once
// Which cases the results of dry GPUs have, and which of them a page need not show twice.

#include <optional>
#include <string>
#include <vector>

#include "common/result/result.h"

namespace tenfold {

/// Results of one lesson, a card each. Pointers lead into the results.
using Cards = std::vector<const Result*>;

/// Cards with less memory first.
Cards by_card(const std::vector<Result>& dry, const std::string& lesson);

/// The card's short name, by which columns and remarks call it: "H100".
std::string dry_card(const Result& result);

/// "T4, H100": their short names.
std::string names_of(const Cards& cards, const std::string& separator = ", ");

/// Nullptr where the card did not run it.
const CaseResult* case_of(const Result& result, const std::string& name);

/// Cases of any card, in the last one's order: a card may have been run before a case was written.
std::vector<std::string> case_names(const Cards& cards);

/// The case before `name` that is the same on all of these cards; empty without one. Two cases that differ on a CPU may
/// have one size on a card: the same settings, peaks and launches.
std::string earlier_twin(const Cards& cards, const std::vector<std::string>& names, const std::string& name);

/// The row that stands for the lesson on the card: its headline, or where that was skipped or is a training without a
/// peak, the first technique to use, of its case if there is one, whose peak was counted against its baseline's.
std::optional<Headline> counted_headline(const Result& card);

}  // namespace tenfold
