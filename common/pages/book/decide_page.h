#pragma once
// The page to decide from: of each lesson when to use it and what came out, joined from the lessons' pages, the
// published results and the ledger of claims.

#include <string>
#include <vector>

#include "common/pages/book/page.h"

namespace tenfold {

/// `words` are a card that is not there and numbers of lessons, "H100 30 31": a table of these lessons in this order,
/// when to use each and memory and speed of its headline on that card (where the card has none, on the first machine
/// that has); and folded below it for each what it costs, the line in PyTorch, the numbers of every machine, and one of
/// others. Behind a number may stand what its row needs:
///
/// - `:CASE/TECHNIQUE` ("15:speeches/packed,_one_kernel"): on cards another row than the headline's
/// - `~TECHNIQUE` ("59~loop_over_experts"): below it that of another technique of the case
/// - `#SURVEY#NOTE` ("20#rate_by_batch#largest_/_best"): in place of memory and speed what each look of a survey noted
/// - `=memory`: the lesson's page says that the model cannot tell its speed
/// - `=mistake`: what the row compares is what to avoid
///
/// Throws std::invalid_argument, one line, for a card without results, a number that no lesson has, a row, technique,
/// survey or note that its results have not, and a lesson's page that lacks a part of its first table.
std::string decide_markdown(const Page& page, const std::vector<std::string>& words);

}  // namespace tenfold
