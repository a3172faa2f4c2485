#pragma once
// The ledger for readers: docs/claims.md, a line on lessons' pages, and a terminal.

#include <string>
#include <vector>

#include "common/pages/book/claims.h"

namespace tenfold {

/// For a lesson's first screen: one line where there are one or two, else how many came out how, with the list folded;
/// empty when no claim is tested there. `ledger_page` is the way to docs/claims.md; `machine` the one that the page
/// shows: a verdict that it could not give names those that gave it.
std::string claims_line(const Ledger& ledger, const std::string& lesson, const std::vector<Result>& published,
                        const std::string& ledger_page, const std::string& machine = "");

/// The table "Measured elsewhere, not by us" of a lesson; empty when there is no row.
std::string elsewhere_table(const Ledger& ledger, const std::string& lesson);

/// The whole ledger, by article: what stands in docs/claims.md.
std::string ledger_markdown(const Ledger& ledger, const std::vector<Result>& published);

/// For a terminal, at most 80 columns wide. `lesson` and `machine` may be empty: all.
std::string ledger_text(const Ledger& ledger, const std::vector<Result>& results, const std::string& lesson,
                        const std::string& machine);

}  // namespace tenfold
