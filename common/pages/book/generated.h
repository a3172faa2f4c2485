#pragma once
// The generated parts of the documentation: tables of what was measured and excerpts of the code that was compiled.
//
//   <!-- tenfold:begin KIND ARGUMENTS -->  ... replaced ...  <!-- tenfold:end -->
//
// KIND       ARGUMENTS             becomes
// question   -                     what the lesson asks
// measured   [LESSON]              every published result of a lesson (default: the folder the page is in)
// printed    LESSON CASE           what `./tenfold run` printed of one case on its machine of results/REFERENCE
// printed_dry CARD LESSON CASE     the same on a GPU that is not there: "H100"
// claims     -                     a line: the claims that the lesson tests; on other pages the whole ledger
// elsewhere  -                     a table of what others measured of the lesson's technique
// code       FILE SYMBOL...        the definitions as a code block; FILE is relative to the page
// diff       FILE BEFORE AFTER     what changes from one function to the other
// dry        -                     what GPUs that are not there counted over all lessons
// held       MACHINE CARD          what a GPU measured beside what one that is not there said of the same cases
// host_launches -                  what a host needs for a launch on a GPU that is not there
// published_steps -                modelled times held against published ones
// published_peers -                other predictors held against the same ones
// published_fits -                 peaks of a model held against published ones
// printed_fit -                    what `./tenfold fit` printed of that model
// seals      -                     the hash and date of each set of a GPU that is not there
// compared   PART A B [LESSON..]  two machines of results/ side by side: card, rows, noted, sweeps or refused
// decide     CARD NUMBER...        lessons to choose from: when to use each, what it brings and costs
// one_gpt    measured | CARD       the techniques that lessons compare on the same GPT, side by side
// one_gpt    CARD 16_bits          the cases in 16 bits that lessons have, and which lessons have none
// beside_python -                  the same training from C++ and from Python
// levers     CASE                  what each lever of a stack brings, as a table
// figure     KIND ...              a figure of a published result: common/pages/figures/figure.h
// lessons    -                     a lesson of each chapter and what it asks
// map        -                     a table of all lessons: what each needs, in what order and for how long
// results    -                     every published verdict
// kernels    -                     what the compiler says of every kernel
// timed      KERNEL                what GPUs took for its rungs
// arrows     -                     the picture of the table in docs/architecture.md
//
// and single numbers in sentences: common/pages/book/inline_values.h. What a paragraph explains is checked:
// common/pages/book/explains.h.

#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/base/files.h"
#include "common/pages/figures/figure.h"
#include "common/result/result.h"

namespace tenfold {

/// What a page says about a lesson, from the lesson's own description.
struct LessonEntry {
  std::string name, title, question, workload;
  bool survey = false;  ///< it compares nothing
  bool core = false;    ///< on the tour's core path
};

struct GeneratedFile {
  std::filesystem::path path;
  std::string old_text;                             ///< empty when the file does not exist
  std::string text;                                 ///< empty when the file is to be removed, or drawn
  std::optional<PageFigure> figure = std::nullopt;  ///< that the file is to be drawn from
};

/// Sentences that the published results contradict, a line for each with its page.
class ContradictedSentences : public FileError {
 public:
  explicit ContradictedSentences(std::vector<std::string> lines)
      : FileError(lines.at(0) + (lines.size() == 1 ? "" : "; " + std::to_string(lines.size() - 1) + " more")),
        lines_(std::move(lines)) {}
  const std::vector<std::string>& lines() const { return lines_; }

 private:
  std::vector<std::string> lines_;
};

/// README.md, lessons/*/README.md and docs/*.md below `root` with every generated part filled anew, and the page that
/// is generated whole, docs/results.md; and the figures: an old one that is still right as it is, another to be drawn,
/// one that no page shows any more to be removed. Writes nothing. Throws FileError naming file and line for an unknown
/// kind, a marker without its partner, a missing file or symbol, or a damaged result; ContradictedSentences for all
/// that inline values say of sentences, and for paragraphs that explain the wrong direction.
std::vector<GeneratedFile> generate_documents(const std::filesystem::path& root,
                                              const std::vector<LessonEntry>& lessons);

/// Every measured results/<machine>/<lesson>.json (not results/compiler, sweeps, nor those of dry GPUs) below `root`,
/// by lesson, then machine.
std::vector<Result> published_results(const std::filesystem::path& root);

/// The same of GPUs that are not there: every results/dry-CARD/<lesson>.json.
std::vector<Result> dry_results(const std::filesystem::path& root);

}  // namespace tenfold
