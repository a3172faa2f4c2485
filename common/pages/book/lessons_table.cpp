#include "common/pages/book/lessons_table.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "common/base/text.h"
#include "common/pages/book/chapters.h"
#include "common/pages/rows/headlines.h"
#include "common/pages/rows/markdown_table.h"
#include "common/pages/rows/quality_words.h"
#include "common/pages/rows/references.h"
#include "common/pages/rows/verdict_words.h"

namespace tenfold {
namespace {

using Rows = std::vector<std::vector<std::string>>;

/// Of the lesson's newest result on this kind of device.
std::string newest_verdict(const std::vector<Result>& published, const std::string& lesson, bool gpu) {
  const Result* newest = nullptr;
  std::optional<VerdictRow> found;
  for (const Result& result : published) {
    if (result.lesson != lesson || (newest && result.started_at <= newest->started_at)) continue;
    if (auto headline = headline_of(result, gpu)) newest = &result, found = std::move(headline);
  }
  if (!found) return "not yet measured";
  const Verdict& verdict = *found->row.verdict;
  if (verdict.quality)
    return verdict.technique + ": " + quality_verdict_text(*verdict.quality, found->c->metric->better);
  const std::string memory = verdict.memory.ratio ? "; memory " + memory_text(verdict.memory) : "";
  return verdict.technique + ": speed " + speed_text(verdict.speed) + memory;
}

/// Number, title linked relative to `page`, and question.
std::vector<std::string> row_of(const LessonEntry& lesson, const std::filesystem::path& page,
                                const std::filesystem::path& root) {
  const std::string link =
      (root / "lessons" / lesson.name / "README.md").lexically_relative(page.parent_path()).generic_string();
  return {number_of_name(lesson.name), "[" + markdown_cell(lesson.title) + "](" + link + ")",
          markdown_cell(lesson.question)};
}

std::string with_verdicts(const std::vector<LessonEntry>& lessons, const std::vector<Result>& published,
                          const std::vector<Result>& references, const std::filesystem::path& page,
                          const std::filesystem::path& root) {
  const bool any_gpu = std::any_of(published.begin(), published.end(),
                                   [](const Result& result) { return headline_of(result, /*gpu=*/true).has_value(); });
  Rows rows = {{"", "lesson", "question", "on a CPU"}};
  if (any_gpu) rows[0].emplace_back("on a GPU");
  for (const LessonEntry& lesson : lessons) {
    const auto verdict = [&](bool gpu) {
      if (lesson.survey) return std::string("counts, and times nothing");
      const bool has_reference = !gpu && result_of(references, lesson.name) != nullptr;
      return newest_verdict(has_reference ? references : published, lesson.name, gpu);
    };
    rows.push_back(row_of(lesson, page, root));
    rows.back().push_back(markdown_cell(verdict(false)));
    if (any_gpu) rows.back().push_back(markdown_cell(verdict(true)));
  }
  return markdown_table(rows);
}

}  // namespace

std::string lessons_markdown(const std::vector<LessonEntry>& lessons, const std::filesystem::path& page,
                             const std::filesystem::path& root) {
  Rows rows = {{"", "lesson", "question"}};
  for (const LessonEntry& lesson : lessons) rows.push_back(row_of(lesson, page, root));
  return rows.size() > 1 ? markdown_table(rows) : "No lesson is built.\n";
}

std::string chapters_markdown(const std::vector<LessonEntry>& lessons, const std::vector<Result>& published,
                              const std::vector<Result>& references, const std::filesystem::path& page,
                              const std::filesystem::path& root) {
  std::string out;
  for (const std::vector<LessonEntry>& chapter : by_chapter(lessons)) {
    out += (out.empty() ? "" : "\n") + ("### " + chapter_of(chapter.front().name) + "\n\n") +
           with_verdicts(chapter, published, references, page, root);
  }
  return out;
}

}  // namespace tenfold
