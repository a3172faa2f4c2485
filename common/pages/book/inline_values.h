#pragma once
// Published numbers inside sentences, with what the sentence says of them:
//
//   memory falls to <!-- value gpt | accumulate | memory < 0.5 -->0.357x<!-- / -->
//
// Between the two comments stands what the lesson's machine of results/REFERENCE measured; `report --write` puts it
// there. The condition holds the sentence: `report --check` fails when a newer publication breaks it. A sentence of
// absence is held as well, and keeps its words:
//
//   <!-- none FASTER in * | chunked -->nothing is shown to be faster<!-- / -->

#include <filesystem>
#include <string>
#include <vector>

#include "common/result/result.h"

namespace tenfold {

/// What is published: of each lesson the machine that its page shows, of all machines, of GPUs that are not there.
struct PublishedSets {
  const std::vector<Result>&references, &published, &dry;
};

/// The text with every inline value filled anew. The comment has CASE | TECHNIQUE | WHAT, on a page that is no lesson's
/// a lesson's number before them. Before all of it may stand `on CARD`, as in on H100 | gpt | accumulate | memory: what
/// was counted on this GPU that is not there; its speed is a model's, and the text says so, and where
/// the host has a say in it. WHAT is
///
/// - `speed`: ratio to the baseline, "0.857x"; one that is AMBIGUOUS must be said so, and shows its interval
/// - `speed over TECHNIQUE`: how many times as fast as another technique of the case, by their ratios to the baseline
/// - `memory`: ratio to the baseline
/// - `peak`, `rate`: of the variant, the baseline's included: "10.2 MiB", "14.2 k"
/// - `quality`: of a training's run, the median of its seeds, "0.731"; `is` asks for its label, as is NOT WORSE, which
///   BETTER is, too
/// - `predicted speed`: ratio that was predicted
/// - `data`, `host`, `device`, `copy`, `communication`: that part of the variant's step, "53 %"; compared as a share
/// - `deviation`: of a technique from the baseline, as the agreement check found it, "0.54", "1.1e-07"
/// - `note NAME`: what a variant or a survey's look has noted under that name, with its unit, "8.10 %"
///
/// and a condition may follow: `< NUMBER`, `> NUMBER` (bytes, items/s, a note's own unit), or of a verdict `is LABEL`,
/// as in speed is SLOWER, or `is SAME or AMBIGUOUS` where a sentence says no more than that nothing was found. A line
/// that is indented by four spaces is an example, and stays as it is. Without a published result the text is
/// "(not yet measured)".
///
/// After `none` stand a verdict's label (FASTER, SLOWER, SMALLER, LARGER, BETTER, WORSE, AMBIGUOUS), `in`, and
/// CASE | TECHNIQUE, each of which may be `*`: no technique of these may have it. A case, variant or WHAT that the
/// result has not, and a condition that does not hold, are added to `wrong`, a line each with the page's name. Throws
/// std::invalid_argument, one line, for a comment that is not closed.
std::string fill_inline_values(const std::string& text, const std::filesystem::path& page, const PublishedSets& sets,
                               std::vector<std::string>& wrong);

}  // namespace tenfold
