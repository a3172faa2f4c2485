#include "common/pages/generated.h"

#include <algorithm>
#include <map>
#include <sstream>

#include "common/base/files.h"
#include "common/base/text.h"
#include "common/pages/architecture.h"
#include "common/pages/claims.h"
#include "common/pages/excerpt.h"
#include "common/pages/inline_values.h"
#include "common/pages/kernel_resources.h"
#include "common/pages/lesson_map.h"
#include "common/pages/line_diff.h"
#include "common/pages/markdown.h"
#include "common/pages/table.h"
#include "common/result/code_hash.h"

namespace tenfold {
namespace {

namespace fs = std::filesystem;

constexpr const char* kBegin = "<!-- tenfold:begin ";
constexpr const char* kEnd = "<!-- tenfold:end -->";
constexpr std::ptrdiff_t kMostLinesOpen = 40;  // of code; more is folded

/// "../../kernels/x/x.cuh", as seen from a lesson's page, is "kernels/x/x.cuh" to the reader.
std::string name_in_tree(std::string name) {
  while (name.starts_with("../")) name.erase(0, 3);
  return name;
}

bool is_python(const std::string& file) { return file.ends_with(".py"); }

/// The definitions of some symbols of a file, which is relative to the page.
std::vector<std::string> definitions(const char* kind, const fs::path& page,
                                     const std::vector<std::string>& arguments) {
  const fs::path file = page.parent_path() / arguments[0];
  if (!fs::is_regular_file(file)) throw std::invalid_argument(std::string(kind) + ": there is no file " + arguments[0]);
  const std::string source = read_text(file);
  const auto cut = is_python(arguments[0]) ? cut_python : cut_definition;
  std::vector<std::string> found;
  for (size_t i = 1; i < arguments.size(); ++i) {
    try {
      found.push_back(cut(source, arguments[i]));
    } catch (const std::invalid_argument& error) {
      throw std::invalid_argument(std::string(kind) + ": " + arguments[0] + " has " + error.what());
    }
  }
  return found;
}

std::string code_block(const fs::path& page, const std::vector<std::string>& arguments) {
  if (arguments.size() < 2) throw std::invalid_argument("code needs a file and at least one symbol");
  const std::string file = name_in_tree(arguments[0]);
  const std::vector<std::string> found = definitions("code", page, arguments);
  std::string code = (is_python(file) ? "```python\n# " : "```cpp\n// ") + file + "\n", names;
  for (size_t i = 0; i < found.size(); ++i) {
    code += (i == 0 ? "" : is_python(file) ? "\n\n" : "\n") + found[i] + "\n";
    names += (i == 0 ? "" : ", ") + arguments[i + 1];
  }
  code += "```\n";
  const auto lines = std::count(code.begin(), code.end(), '\n') - 3;
  if (lines <= kMostLinesOpen) return code;
  return "<details><summary>" + file + ": " + names + " (" + std::to_string(lines) + " lines)</summary>\n\n" + code +
         "\n</details>\n";
}

/// Without the comment above it, and without its name, which differs anyway.
std::string body_of(const std::string& definition, const std::string& symbol) {
  std::istringstream in(definition);
  std::string out;
  for (std::string line; std::getline(in, line);) {
    if (out.empty() && line.starts_with("//")) continue;
    out += line + "\n";
  }
  const size_t name = out.find(symbol);
  return name == std::string::npos ? out : out.replace(name, symbol.size(), "step");
}

std::string diff_block(const fs::path& page, const std::vector<std::string>& arguments) {
  if (arguments.size() != 3)
    throw std::invalid_argument("diff needs a file and two symbols, without and with the technique");
  const std::vector<std::string> found = definitions("diff", page, arguments);
  return "```diff\n // " + name_in_tree(arguments[0]) + ", from " + arguments[1] + "() to " + arguments[2] + "()\n" +
         line_diff(body_of(found[0], arguments[1]), body_of(found[1], arguments[2])) + "```\n";
}

std::string question_of(const fs::path& page, const std::vector<LessonEntry>& lessons) {
  const std::string name = page.parent_path().filename().string();
  for (const LessonEntry& lesson : lessons) {
    if (lesson.name == name) return "**" + markdown_cell(lesson.question) + "**\n";
  }
  throw std::invalid_argument("question: there is no lesson '" + name + "'");
}

/// What docs/claims.json says for a page: all of it, or what belongs to the page's lesson.
std::string claims_part(const std::string& kind, const fs::path& page, const fs::path& root,
                        const std::vector<Result>& published) {
  const fs::path file = root / "docs" / "claims.json";
  if (!fs::exists(file)) throw std::invalid_argument(kind + ": there is no " + file.string());
  const Ledger ledger = read_ledger(file);
  if (page.parent_path().parent_path() != root / "lessons") {
    if (kind == "claims") return ledger_markdown(ledger, published);
    throw std::invalid_argument("elsewhere: this page is no lesson's");
  }
  const std::string lesson = page.parent_path().filename().string();
  std::string text = kind == "claims" ? claims_line(ledger, lesson, published, "../../docs/claims.md")
                                      : elsewhere_table(ledger, lesson);
  if (text.empty()) throw std::invalid_argument(kind + ": docs/claims.json has no row for " + lesson);
  return text;
}

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

std::string printed_block(const fs::path& root, const std::vector<Result>& published,
                          const std::vector<std::string>& arguments) {
  if (arguments.size() < 2) throw std::invalid_argument("printed needs a lesson and a case");
  const std::string name = joined({arguments.begin() + 1, arguments.end()}, " "), machine = reference_machine(root);
  for (Result result : published) {
    if (result.lesson != arguments[0] || result.machine.id != machine) continue;
    std::erase_if(result.cases, [&](const CaseResult& c) { return c.name != name; });
    if (result.cases.empty()) throw std::invalid_argument("printed: " + arguments[0] + " has no case '" + name + "'");
    return "```text\n" + format_table(result) + "```\n";
  }
  if (!fs::is_directory(root / "lessons" / arguments[0]))
    throw std::invalid_argument("printed: there is no lesson '" + arguments[0] + "'");
  return "Not yet measured.\n";
}

}  // namespace

std::vector<Result> published_results(const fs::path& root) {
  std::vector<fs::path> files;
  std::error_code none;
  for (const auto& machine : fs::directory_iterator(root / "results", none)) {
    if (!machine.is_directory() || machine.path().filename() == "compiler") continue;
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

std::string fill_generated_parts(const std::string& text, const fs::path& page, const fs::path& root,
                                 const std::vector<LessonEntry>& lessons, const std::vector<Result>& published,
                                 std::vector<PageFigure>* figures) {
  std::string out;
  size_t from = 0;
  const auto line_of = [&](size_t at) {
    return page.string() + ":" +
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
      if (kind == "code") {
        body = code_block(page, arguments);
      } else if (kind == "diff") {
        body = diff_block(page, arguments);
      } else if (kind == "measured") {
        const std::string lesson = arguments.empty() ? page.parent_path().filename().string() : arguments[0];
        if (!fs::is_directory(root / "lessons" / lesson))
          throw std::invalid_argument("measured: there is no lesson '" + lesson + "'");
        body = measured_markdown(published, lesson, code_hash(root / "lessons" / lesson),
                                 (root / "docs" / "method.md").lexically_relative(page.parent_path()).generic_string());
      } else if (kind == "figure") {
        if (const auto figure = page_figure(page, arguments, root, published)) {
          body = figure_markdown(*figure, page);
          if (figures) figures->push_back(*figure);
        }
      } else if (kind == "printed") {
        body = printed_block(root, published, arguments);
      } else if (kind == "question") {
        body = question_of(page, lessons);
      } else if (kind == "claims" || kind == "elsewhere") {
        body = claims_part(kind, page, root, published);
      } else if (kind == "lessons") {
        body = lessons_markdown(lessons, published, page, root);
      } else if (kind == "map") {
        body = lesson_map_markdown(lessons, page, root);
      } else if (kind == "results") {
        body = results_markdown(published, root);
      } else if (kind == "kernels") {
        body = kernel_resources_markdown(root);
      } else if (kind == "arrows") {
        body = arrows_markdown(tree_folders(text));
      } else {
        throw std::invalid_argument("unknown kind '" + kind +
                                    "' (question, measured, figure, printed, claims, elsewhere, code, diff, lessons, "
                                    "map, results, kernels, arrows)");
      }
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

std::vector<GeneratedFile> generate_documents(const fs::path& root, const std::vector<LessonEntry>& lessons) {
  const std::vector<Result> published = published_results(root);
  const fs::path results_page = root / "docs" / "results.md";
  std::vector<fs::path> pages;
  std::error_code none;
  if (fs::exists(root / "README.md")) pages.push_back(root / "README.md");
  for (const auto& entry : fs::directory_iterator(root / "lessons", none)) {
    if (fs::exists(entry.path() / "README.md")) pages.push_back(entry.path() / "README.md");
  }
  for (const auto& entry : fs::directory_iterator(root / "docs", none)) {
    if (entry.path().extension() == ".md" && entry.path() != results_page) pages.push_back(entry.path());
  }
  std::sort(pages.begin(), pages.end());

  const std::string machine = reference_machine(root);
  std::vector<GeneratedFile> files;
  std::vector<PageFigure> figures;
  for (const fs::path& page : pages) {
    const std::string text = read_text(page);
    try {
      files.push_back({page, text,
                       fill_inline_values(fill_generated_parts(text, page, root, lessons, published, &figures), page,
                                          published, machine)});
    } catch (const std::invalid_argument& error) {
      throw FileError(page.string() + ": " + error.what());
    }
  }
  add_figures(files, figures, root);
  files.push_back(
      {results_page, fs::exists(results_page) ? read_text(results_page) : "",
       "# Results\n\n<!-- Written by `./tenfold report --write`; changes here are lost. -->\n\n"
       "Every published verdict, by machine. [method.md](method.md) says what the words mean; the files are "
       "in `results/`. What they say of others' promises: [claims.md](claims.md).\n\n" +
           results_markdown(published, root)});
  return files;
}

}  // namespace tenfold
