#pragma once
// What GPUs that are not there have counted, as Markdown: apart from everything that was measured.

#include <set>
#include <string>
#include <vector>

#include "common/result/result.h"

namespace tenfold {

/// A table for a lesson's page: of each case and variant the peak on each card, what was predicted, what a step asks of
/// the card, and the agreement; folded, but for surveys of which `measured`, the result that the page shows beside it,
/// could run nothing. Empty without a result of the lesson. `docs` is the way from the page to the folder docs;
/// `earlier_models` are the commits whose model of time is not this tree's.
std::string dry_markdown(const std::vector<Result>& dry, const std::string& lesson, const std::string& hash_now,
                         const std::string& docs, const Result* measured = nullptr,
                         const std::set<std::string>& earlier_models = {});

}  // namespace tenfold
