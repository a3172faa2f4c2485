#pragma once
// Cases are written when they are finished, and with --resume a run that was stopped goes on with the others.

#include <filesystem>
#include <string>
#include <vector>

#include "common/harness/options.h"
#include "common/ranks/process_group.h"
#include "common/result/result.h"

namespace tenfold {

struct Kept {
  std::vector<CaseResult> cases;
  std::string why_none;  ///< in words, where there is a file and nothing of it can be kept
};

/// The cases of a result file that a run with the head `now` (lesson, flags, code, machine; no cases) would measure the
/// same way, on this many ranks. None where there is no file; none of other code, other flags or another machine, and
/// none that was written before `program`, which may then be another than the one that wrote it.
Kept kept_of(const std::filesystem::path& file, const Result& now, int ranks, const std::filesystem::path& program);

/// What of a run is finished: in its result, and in the file of --json, as soon as it is.
class FinishedParts {
 public:
  /// With --resume begins with what the file holds; rank 0 says on standard error when that is of no use. `result` has
  /// its head. Every rank makes one.
  FinishedParts(const std::vector<Chosen>& parts, const Options& options, const World& world, Result& result);

  /// The parts that are to be measured, and the names of those that were kept.
  const std::vector<Chosen>& left() const { return left_; }
  const std::vector<std::string>& kept() const { return kept_; }

  /// What was kept and what was measured, in the order of the parts.
  std::vector<CaseResult> with(const std::vector<CaseResult>& measured) const;
  /// Writes both. A file that cannot be written is no error here: the last writing says it.
  void write(const std::vector<CaseResult>& measured);

  /// "1 of 3 parts were finished and written; --resume goes on with the others", "nothing was written".
  std::string in_words() const;

 private:
  const std::vector<Chosen>& parts_;
  const std::string file_;  // empty on all ranks but 0
  const int rank_;
  Result& result_;
  size_t written_ = 0;                  // cases in the file
  std::vector<CaseResult> kept_parts_;  // empty on all ranks but 0
  std::vector<Chosen> left_;
  std::vector<std::string> kept_;
};

}  // namespace tenfold
