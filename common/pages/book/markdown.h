#pragma once
// Results as Markdown tables.

#include <filesystem>
#include <string>
#include <vector>

#include "common/pages/book/generated.h"

namespace tenfold {

/// A cell: | and < escaped, one line.
std::string markdown_cell(const std::string& text);
std::string markdown_table(const std::vector<std::vector<std::string>>& rows);

bool is_on_gpu(const CaseResult& c);

/// A survey under its name: what looks have in common stands side by side; the rest has a row for each number.
std::string survey_markdown(const CaseResult& c);

/// What was measured of one lesson, a table for each case under what it ran: by the machine of `reference` (one of
/// `published`; null: by every machine), and on every GPU; of the other machines their names. "not yet measured" for
/// the GPU, or for all, where there is nothing. A result whose code is not `hash_now` is marked stale. `docs` is the
/// way from the page to the folder docs.
std::string measured_markdown(const std::vector<Result>& published, const Result* reference, const std::string& lesson,
                              const std::string& hash_now, const std::string& docs);

/// All lessons: number, title linked relative to `page`, question, and the headline's verdict on a CPU, of `references`
/// where there is one, and, once one is published, on a GPU.
std::string lessons_markdown(const std::vector<LessonEntry>& lessons, const std::vector<Result>& published,
                             const std::vector<Result>& references, const std::filesystem::path& page,
                             const std::filesystem::path& root);

/// Every verdict, by machine, and what its benchmarks say beside Python.
std::string results_markdown(const std::vector<Result>& published, const std::filesystem::path& root);

}  // namespace tenfold
