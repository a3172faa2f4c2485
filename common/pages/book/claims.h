#pragma once
// The ledger of docs/claims.json: what articles and papers promise, held against published results, and what others
// measured. docs/claims.md is the same for readers, and explains the fields.

#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/base/files.h"
#include "common/result/result.h"

namespace tenfold {

/// An article; its title in the language it is written in.
struct ClaimSource {
  std::string id, title;
};

/// What a claim's metric must come to. A bound holds for the ratio to the baseline, or for a noted number.
struct ClaimRule {
  std::string text;                 ///< "ratio >= 1.5", "value between 1 and 2", "SMALLER", "agrees"
  std::string label;                ///< of a rule without bounds
  std::optional<double> low, high;  ///< included
  std::string of;                   ///< "ratio" or "value" of a rule with bounds
};

/// Where a claim is tested.
struct ClaimTest {
  std::string case_name, technique;
  std::string note;     ///< of metric "note": which noted number
  std::string against;  ///< the variant whose note it is divided by; empty: the number itself
};

/// What a claim about a "high-end" CPU is decided on.
inline constexpr int kServerCores = 16;

struct Claim {
  std::string id, source, text, lesson, metric;
  ClaimRule rule;
  bool gpu = false;     ///< only what ran on a GPU decides it
  bool server = false;  ///< only what ran on kServerCores cores or more
  std::vector<ClaimTest> tests;
};

/// What somebody else measured. `checked` is the day on which the number was read at `url`.
struct Elsewhere {
  std::string id, lesson, what, hardware, model, number, source, url, date, checked;
};

struct Ledger {
  std::vector<ClaimSource> sources;
  std::vector<Claim> claims;
  std::vector<Elsewhere> elsewhere;
};

/// Of one lesson, in the ledger's order.
std::vector<const Elsewhere*> elsewhere_of(const Ledger& ledger, const std::string& lesson);

/// Reads strictly. Throws FileError, one line naming the row, on a missing or unknown field, a metric, rule or source
/// that does not exist, or an id that is there twice.
Ledger read_ledger(const std::filesystem::path& file);
Ledger parse_ledger(const std::string& text, const std::string& name);

/// What there is to test in a lesson.
struct LessonParts {
  std::set<std::string> cases;     ///< comparisons, trainings and surveys
  std::set<std::string> variants;  ///< techniques and runs of a training; what surveys look at is not among them
  std::set<std::string> surveys;
};

/// A lesson's parts from its own description, NAME.describe.json. Throws FileError on a damaged one.
LessonParts described_parts(const std::filesystem::path& description);

/// Throws FileError naming file and row when a row names a lesson that is not in `lessons`, or a case or technique
/// that it has not. Of a lesson without parts (it is not built) only the name is checked.
void check_names(const Ledger& ledger, const std::string& file, const std::map<std::string, LessonParts>& lessons);

}  // namespace tenfold
