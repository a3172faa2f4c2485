#pragma once
// What was measured of one lesson, as Markdown.

#include <string>
#include <vector>

#include "common/result/result.h"

namespace tenfold {

/// A survey under its name: what looks have in common stands side by side; the rest has a row for each number.
std::string survey_markdown(const CaseResult& c);

/// What was measured of one lesson, a table for each case under what it ran: by the machine of `reference` (one of
/// `published`; null: by every machine), and on every GPU; of the other machines their names. "not yet measured" for
/// the GPU, or for all, where there is nothing; then `timed_kernels` names what a GPU has timed of it all the same, or
/// is empty. A result whose code is not `hash_now` is marked stale. `docs` is the way from the page to the folder docs.
std::string measured_markdown(const std::vector<Result>& published, const Result* reference, const std::string& lesson,
                              const std::string& hash_now, const std::string& docs,
                              const std::string& timed_kernels = "");

}  // namespace tenfold
