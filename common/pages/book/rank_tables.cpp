#include "common/pages/book/rank_tables.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "common/base/files.h"
#include "common/base/text.h"
#include "common/pages/rows/markdown_table.h"
#include "common/result/code_hash.h"
#include "common/result/result.h"

namespace tenfold {
namespace {

namespace fs = std::filesystem;

/// How many ranks, and whether they were cards that are not there.
using Ranks = std::pair<int, bool>;

/// A number of bytes as it was counted, and how far the formula is off, where there is one.
struct Count {
  int64_t bytes = 0;
  std::optional<double> error;

  std::string text() const {
    return human_bytes(static_cast<double>(bytes)) + (error ? ", " + human_percent(*error, /*sign=*/true) : "");
  }
};

/// A technique of a case.
struct Line {
  std::map<Ranks, Count> sent, peak;
};

struct Lesson {
  std::vector<std::pair<std::string, Line>> lines;  ///< by "CASE: TECHNIQUE", in the order of the results
  std::set<Ranks> ranks;
  bool stale = false;  ///< some of it was counted with other code

  Line& line(const std::string& name) {
    const auto known = std::ranges::find(lines, name, &std::pair<std::string, Line>::first);
    if (known != lines.end()) return known->second;
    return lines.emplace_back(name, Line()).second;
  }
};

std::optional<double> error_of(const Verdict* verdict, const char* kind) {
  if (verdict == nullptr || !verdict->prediction_error.contains(kind)) return std::nullopt;
  return verdict->prediction_error.at(kind);
}

void add(Lesson& lesson, const Result& result) {
  for (const CaseResult& c : result.cases) {
    const Ranks ranks = {c.ranks, is_dry(result.machine)};
    for (const VariantResult& variant : c.variants) {
      if (variant.status != "ok" || !variant.peak()) continue;
      const auto verdict = std::ranges::find(c.verdicts, variant.name, &Verdict::technique);
      const Verdict* const judged = verdict == c.verdicts.end() ? nullptr : &*verdict;
      Line& line = lesson.line(c.name + ": " + variant.name);
      lesson.ranks.insert(ranks);
      line.peak[ranks] = {*variant.peak(), error_of(judged, "peak")};
      int64_t sent = 0;
      for (const auto& [collective, bytes] : variant.sent_bytes) sent += bytes;
      if (sent > 0) line.sent[ranks] = {sent, error_of(judged, "sent")};
    }
  }
}

std::map<std::string, Lesson> lessons_of(const fs::path& root) {
  const fs::path folder = root / "docs" / "ranks";
  std::vector<fs::path> files;
  if (fs::exists(folder)) {
    for (const auto& entry : fs::recursive_directory_iterator(folder)) {
      if (entry.path().extension() == ".json") files.push_back(entry.path());
    }
  }
  std::ranges::sort(files);
  std::map<std::string, Lesson> lessons;
  for (const fs::path& file : files) {
    const Result result = read_result(file);
    Lesson& lesson = lessons[file.stem().string()];
    add(lesson, result);
    if (result.code_hash != code_hash(root / "lessons" / result.lesson)) lesson.stale = true;
  }
  return lessons;
}

std::string words_for(const Ranks& ranks) { return std::to_string(ranks.first) + (ranks.second ? ", dry" : ""); }

struct Errors {
  int counts = 0, predicted = 0;
  double largest = 0;
};

Errors errors_of(const Lesson& lesson, std::map<Ranks, Count> Line::* kind) {
  Errors errors;
  for (const auto& [name, line] : lesson.lines) {
    for (const auto& [ranks, count] : line.*kind) {
      ++errors.counts;
      if (!count.error) continue;
      ++errors.predicted;
      if (std::abs(*count.error) > std::abs(errors.largest)) errors.largest = *count.error;
    }
  }
  return errors;
}

/// "72 of 90, +1.2 %"
std::string summary(const Errors& errors) {
  if (errors.counts == 0) return "-";
  return std::to_string(errors.predicted) + " of " + std::to_string(errors.counts) +
         (errors.predicted > 0 ? ", " + human_percent(errors.largest, /*sign=*/true) : "");
}

std::string table_of(const Lesson& lesson, std::map<Ranks, Count> Line::* kind) {
  std::vector<std::vector<std::string>> rows = {{"case: variant"}};
  for (const Ranks& ranks : lesson.ranks) rows[0].push_back(words_for(ranks));
  for (const auto& [name, line] : lesson.lines) {
    if ((line.*kind).empty()) continue;
    rows.push_back({name});
    for (const Ranks& ranks : lesson.ranks) {
      const auto count = (line.*kind).find(ranks);
      rows.back().push_back(count == (line.*kind).end() ? "-" : count->second.text());
    }
  }
  return rows.size() == 1 ? "Nothing.\n" : markdown_table_of_texts(rows);
}

}  // namespace

std::string rank_tables_markdown(const fs::path& root) {
  const std::map<std::string, Lesson> lessons = lessons_of(root);
  if (lessons.empty()) return "Not counted yet.\n";
  std::vector<std::vector<std::string>> rows = {
      {"lesson", "ranks", "sent: with a formula, largest error", "peak: with a formula, largest error"}};
  std::string folded;
  for (const auto& [name, lesson] : lessons) {
    std::vector<std::string> ranks;
    for (const Ranks& counted : lesson.ranks) ranks.push_back(words_for(counted));
    rows.push_back({"[" + name.substr(0, 2) + "](../lessons/" + name + "/README.md)" + (lesson.stale ? " (stale)" : ""),
                    joined(ranks, "; "), summary(errors_of(lesson, &Line::sent)),
                    summary(errors_of(lesson, &Line::peak))});
    folded += "\n<details><summary>" + name.substr(0, 2) +
              ": bytes that a rank asks collectives to send in a step, and its peak" + "</summary>\n\n" +
              table_of(lesson, &Line::sent) + "\nPeak:\n\n" + table_of(lesson, &Line::peak) + "\n</details>\n";
  }
  return markdown_table(rows) + folded;  // a link is no text
}

}  // namespace tenfold
