#include "common/pages/book/generated.h"

#include <algorithm>
#include <map>
#include <set>
#include <sstream>
#include <string_view>

#include <nlohmann/json.hpp>

#include "common/base/files.h"
#include "common/pages/book/explains.h"
#include "common/pages/book/inline_values.h"
#include "common/pages/book/lessons_table.h"
#include "common/pages/book/page_parts.h"
#include "common/pages/book/published_steps.h"
#include "common/pages/book/results_page.h"
#include "common/pages/rows/references.h"
#include "common/result/time_model.h"

namespace tenfold {
namespace {

namespace fs = std::filesystem;

constexpr const char* kBegin = "<!-- tenfold:begin ";
constexpr const char* kEnd = "<!-- tenfold:end -->";

/// What is to become of every figure that is there or that a page shows.
void add_figures(std::vector<GeneratedFile>& files, const std::vector<PageFigure>& figures, const fs::path& root) {
  std::map<fs::path, const PageFigure*> all;
  std::error_code none;
  for (const auto& lesson : fs::directory_iterator(root / "lessons", none)) {
    for (const auto& entry : fs::directory_iterator(lesson.path() / "figures", none)) {
      if (entry.path().extension() == ".svg") all[entry.path()] = nullptr;
    }
  }
  for (const PageFigure& figure : figures) all[figure.file] = &figure;
  for (const auto& [path, figure] : all) {
    const std::string old = fs::exists(path) ? read_text(path) : "";
    if (figure && is_drawn_as(old, figure->figure))
      files.push_back({path, old, old});
    else
      files.push_back({path, old, "", figure ? std::optional(*figure) : std::nullopt});
  }
}

/// Whether the page has folded what stands behind `text`, by hand or by a part of its own.
bool is_folded(const std::string& text) {
  const size_t open = text.rfind("<details>"), closed = text.rfind("</details>");
  return open != std::string::npos && (closed == std::string::npos || closed < open);
}

/// A part that is one fold as a whole, without it: inside another fold a reader would have to open both.
std::string unfolded(const std::string& body) {
  constexpr std::string_view kBehindSummary = "</summary>\n\n", kClosed = "\n</details>\n";
  const size_t summary = body.find(kBehindSummary);
  if (!body.starts_with("<details>") || body.find("<details>", 1) != std::string::npos || !body.ends_with(kClosed) ||
      summary == std::string::npos)
    return body;
  const size_t begin = summary + kBehindSummary.size();
  return body.substr(begin, body.size() - kClosed.size() - begin);
}

/// One page with its generated parts filled.
std::string fill_generated_parts(const Page& page) {
  const std::string& text = page.text;
  std::string out;
  size_t from = 0;
  const auto line_of = [&](size_t at) {
    return page.path.string() + ":" +
           std::to_string(1 + std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(at), '\n')) + ": ";
  };
  for (size_t begin = text.find(kBegin); begin != std::string::npos; begin = text.find(kBegin, from)) {
    if (const size_t stray = text.find(kEnd, from); stray < begin)
      throw FileError(line_of(stray) + "'tenfold:end' without a 'tenfold:begin'");
    const size_t close = text.find(" -->", begin);
    const size_t end = text.find(kEnd, begin);
    if (close == std::string::npos || end == std::string::npos || text.find(kBegin, begin + 1) < end) {
      throw FileError(line_of(begin) + "'tenfold:begin' without a 'tenfold:end'");
    }
    std::istringstream words(
        text.substr(begin + std::string(kBegin).size(), close - begin - std::string(kBegin).size()));
    std::string kind;
    words >> kind;
    std::vector<std::string> arguments;
    for (std::string word; words >> word;) arguments.push_back(word);
    std::string body;
    try {
      body = page_part(page, kind, arguments);
      if (is_folded(text.substr(0, begin))) body = unfolded(body);
    } catch (const std::invalid_argument& error) {
      throw FileError(line_of(begin) + error.what());
    }
    out += text.substr(from, close + 4 - from) + "\n" + body + kEnd;
    from = end + std::string(kEnd).size();
  }
  if (const size_t stray = text.find(kEnd, from); stray != std::string::npos)
    throw FileError(line_of(stray) + "'tenfold:end' without a 'tenfold:begin'");
  return out + text.substr(from);
}

/// Every result below results/, of dry GPUs or of what was measured: no page mixes them.
std::vector<Result> results_below(const fs::path& root, bool dry) {
  std::vector<fs::path> files;
  std::error_code none;
  for (const auto& machine : fs::directory_iterator(root / "results", none)) {
    const std::string name = machine.path().filename().string();
    if (!machine.is_directory() || name == "compiler" || name.starts_with(kDryMachine) != dry) continue;
    for (const auto& entry : fs::directory_iterator(machine.path())) {
      if (entry.path().extension() == ".json") files.push_back(entry.path());
    }
  }
  std::vector<Result> results;
  for (const fs::path& file : files) results.push_back(read_result(file));
  std::sort(results.begin(), results.end(), [](const Result& a, const Result& b) {
    return std::pair(a.lesson, a.machine.id) < std::pair(b.lesson, b.machine.id);
  });
  return results;
}

}  // namespace

std::vector<Result> published_results(const fs::path& root) { return results_below(root, /*dry=*/false); }

std::vector<Result> dry_results(const fs::path& root) { return results_below(root, /*dry=*/true); }

std::vector<GeneratedFile> generate_documents(const fs::path& root, const std::vector<LessonEntry>& lessons) {
  const std::vector<Result> published = published_results(root);
  const fs::path results_page = root / "docs" / "results.md";
  std::vector<fs::path> pages;
  std::error_code none;
  if (fs::exists(root / "README.md")) pages.push_back(root / "README.md");
  for (const char* folder : {"lessons", "kernels"}) {
    for (const auto& entry : fs::directory_iterator(root / folder, none)) {
      if (fs::exists(entry.path() / "README.md")) pages.push_back(entry.path() / "README.md");
    }
  }
  for (const auto& entry : fs::directory_iterator(root / "docs", none)) {
    if (entry.path().extension() == ".md" && entry.path() != results_page) pages.push_back(entry.path());
  }
  std::sort(pages.begin(), pages.end());

  const std::vector<Result> dry = dry_results(root);
  const std::vector<Result> references = reference_results(root, published);
  std::set<std::string> commits = commits_of_scores(root);
  for (const Result& result : dry) commits.insert(result.commit);
  const std::map<std::string, std::string> models = time_models(root, commits);
  const std::set<std::string> of_earlier_models = earlier_models(root, commits, models);
  std::vector<GeneratedFile> files;
  if (!models.empty()) {
    const fs::path kept = root / kTimeModels;
    files.push_back({kept, fs::exists(kept) ? read_text(kept) : "", nlohmann::json(models).dump(1) + "\n"});
  }
  std::vector<PageFigure> figures;
  std::vector<std::string> wrong;
  for (const fs::path& page : pages) {
    const std::string text = read_text(page);
    check_explained(text, page, references, wrong);
    try {
      files.push_back({page, text,
                       fill_inline_values(fill_generated_parts({page, text, root, lessons, published, dry, references,
                                                                figures, of_earlier_models}),
                                          page, {references, published, dry}, wrong)});
    } catch (const std::invalid_argument& error) {
      throw FileError(page.string() + ": " + error.what());
    }
  }
  if (!wrong.empty()) throw ContradictedSentences(wrong);
  add_figures(files, figures, root);
  files.push_back(
      {results_page, fs::exists(results_page) ? read_text(results_page) : "",
       "# Results\n\n<!-- Written by `./tenfold report --write`; changes here are lost. -->\n\n"
       "Every published verdict, by machine. [method.md](method.md) says what the words mean; the files are "
       "in `results/`. What they say of others' promises: [claims.md](claims.md).\n\n"
       "## What each lesson measured\n\n" +
           chapters_markdown(lessons, published, references, results_page, root) + "\n" +
           results_markdown(published, root)});
  return files;
}

}  // namespace tenfold
