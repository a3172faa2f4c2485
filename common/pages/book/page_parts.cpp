#include "common/pages/book/page_parts.h"

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string_view>

#include "common/base/files.h"
#include "common/base/text.h"
#include "common/pages/book/architecture.h"
#include "common/pages/book/beside_python.h"
#include "common/pages/book/chapters.h"
#include "common/pages/book/claims.h"
#include "common/pages/book/claims_page.h"
#include "common/pages/book/comparison_page.h"
#include "common/pages/book/decide_page.h"
#include "common/pages/book/dry_cases.h"
#include "common/pages/book/dry_held.h"
#include "common/pages/book/dry_peaks.h"
#include "common/pages/book/dry_tables.h"
#include "common/pages/book/excerpt.h"
#include "common/pages/book/host_launches.h"
#include "common/pages/book/kernel_resources.h"
#include "common/pages/book/kernel_times.h"
#include "common/pages/book/lesson_map.h"
#include "common/pages/book/lessons_table.h"
#include "common/pages/book/lever_table.h"
#include "common/pages/book/line_diff.h"
#include "common/pages/book/link_rates.h"
#include "common/pages/book/measured.h"
#include "common/pages/book/nsight_tables.h"
#include "common/pages/book/one_gpt.h"
#include "common/pages/book/published_fits.h"
#include "common/pages/book/published_ladders.h"
#include "common/pages/book/published_peers.h"
#include "common/pages/book/published_scaling.h"
#include "common/pages/book/published_steps.h"
#include "common/pages/book/rank_tables.h"
#include "common/pages/book/results_page.h"
#include "common/pages/book/seals.h"
#include "common/pages/book/timed_ladders.h"
#include "common/pages/rows/case_words.h"
#include "common/pages/rows/markdown_table.h"
#include "common/pages/rows/references.h"
#include "common/pages/rows/terminal_table.h"
#include "common/result/code_hash.h"

namespace tenfold {
namespace {

namespace fs = std::filesystem;
using Arguments = std::vector<std::string>;

constexpr std::ptrdiff_t kMostLinesOpen = 40;  // of code; more is folded

/// "../../kernels/x/x.cuh", as seen from a lesson's page, is "kernels/x/x.cuh" to the reader.
std::string name_in_tree(std::string name) {
  while (name.starts_with("../")) name.erase(0, 3);
  return name;
}

bool is_python(const std::string& file) { return file.ends_with(".py"); }

/// The definitions of some symbols of a file, which is relative to the page.
std::vector<std::string> definitions(const char* kind, const fs::path& page, const Arguments& arguments) {
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

std::string code_block(const fs::path& page, const Arguments& arguments) {
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

/// Without the comment above it, and without its name, which differs anyway; the signature on one line, because where
/// its second line begins depends on the name.
std::string body_of(const std::string& definition, const std::string& symbol) {
  std::istringstream in(definition);
  std::string out;
  for (std::string line; std::getline(in, line);) {
    if (out.empty() && line.starts_with("//")) continue;
    out += line + "\n";
  }
  size_t body = out.find(") {");
  for (size_t at = out.find('\n', out.find('(')); body != std::string::npos && at < body; at = out.find('\n', at)) {
    out.replace(at, out.find_first_not_of(" \n", at) - at, " ");
    body = out.find(") {");
  }
  const size_t name = out.find(symbol);
  return name == std::string::npos ? out : out.replace(name, symbol.size(), "step");
}

std::string diff_block(const fs::path& page, const Arguments& arguments) {
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
std::string claims_part(const std::string& kind, const Page& page) {
  const fs::path file = page.root / "docs" / "claims.json";
  if (!fs::exists(file)) throw std::invalid_argument(kind + ": there is no " + file.string());
  const Ledger ledger = read_ledger(file);
  std::vector<Result> results = page.published;
  results.insert(results.end(), page.dry.begin(), page.dry.end());
  if (page.path.parent_path().parent_path() != page.root / "lessons") {
    if (kind == "claims") return ledger_markdown(ledger, results);
    throw std::invalid_argument("elsewhere: this page is no lesson's");
  }
  const std::string lesson = page.path.parent_path().filename().string();
  // Nothing for a lesson without rows: a copied one has the comments and is a lesson all the same.
  const Result* const shown = result_of(page.references, lesson);
  const std::string machine = shown == nullptr ? "" : shown->machine.id;
  return kind == "claims" ? claims_line(ledger, lesson, results, "../../docs/claims.md", machine)
                          : elsewhere_table(ledger, lesson);
}

/// What `results` hold of one case of a lesson, as the program printed it.
std::string printed_block(const Page& page, const Arguments& arguments, const std::vector<Result>& results) {
  if (arguments.size() < 2) throw std::invalid_argument("printed needs a lesson and a case");
  const std::string name = joined({arguments.begin() + 1, arguments.end()}, " ");
  if (!fs::is_directory(page.root / "lessons" / arguments[0]))
    throw std::invalid_argument("printed: there is no lesson '" + arguments[0] + "'");
  const Result* reference = result_of(results, arguments[0]);
  if (!reference) return "Not yet measured.\n";
  Result result = *reference;
  std::erase_if(result.cases, [&](const CaseResult& c) { return c.name != name; });
  if (result.cases.empty()) throw std::invalid_argument("printed: " + arguments[0] + " has no case '" + name + "'");
  return "```text\n" + format_table(result) + "```\n";
}

/// "[transpose, rung by rung, on h200](../../kernels/transpose/README.md#timed)" of the kernels whose model the page
/// shows: their times are the kernel's page's, and no case of the lesson.
std::string timed_kernels(const Page& page) {
  constexpr std::string_view kModelled = "<!-- tenfold:begin modelled ";
  std::vector<std::string> timed;
  for (size_t at = page.text.find(kModelled); at != std::string::npos; at = page.text.find(kModelled, at + 1)) {
    const size_t name = at + kModelled.size();
    const std::string kernel = page.text.substr(name, page.text.find(' ', name) - name);
    const std::vector<std::string> gpus = gpus_that_timed(page.root, kernel);
    const fs::path to = (page.root / "kernels" / kernel / "README.md").lexically_relative(page.path.parent_path());
    if (!gpus.empty())
      timed.push_back("[" + kernel + ", rung by rung, on " + joined(gpus) + "](" + to.generic_string() + "#timed)");
  }
  return joined(timed);
}

std::string measured_part(const Page& page, const Arguments& arguments) {
  const std::string lesson = arguments.empty() ? page.path.parent_path().filename().string() : arguments[0];
  if (!fs::is_directory(page.root / "lessons" / lesson))
    throw std::invalid_argument("measured: there is no lesson '" + lesson + "'");
  const fs::path docs = (page.root / "docs").lexically_relative(page.path.parent_path());
  const std::string hash_now = code_hash(page.root / "lessons" / lesson);
  const Result* const measured = result_of(page.references, lesson);
  const std::string on_dry =
      dry_markdown(page.dry, lesson, hash_now, docs.generic_string(), measured, page.earlier_models);
  return measured_markdown(page.published, measured, lesson, hash_now, docs.generic_string(), timed_kernels(page)) +
         (on_dry.empty() ? "" : "\n" + on_dry);
}

std::string levers_part(const Page& page, const Arguments& words) {
  const std::string lesson = page.path.parent_path().filename().string();
  return levers_markdown(result_of(page.references, lesson), joined(words, " "));
}

std::string shown_figure(const Page& page, const std::optional<PageFigure>& figure) {
  if (!figure) return "";
  page.figures.push_back(*figure);
  return figure_markdown(*figure, page.path);
}

std::string figure_part(const Page& page, const Arguments& arguments) {
  return shown_figure(page, page_figure(page.path, arguments, page.root, page.published, page.references));
}

std::vector<Result> results_on_card(const Page& page, const Arguments& words) {
  std::vector<Result> on_card;
  for (const Result& result : page.dry) {
    if (!words.empty() && dry_card(result) == words[0]) on_card.push_back(result);
  }
  return on_card;
}

Arguments after_card(const Arguments& words) { return {words.begin() + (words.empty() ? 0 : 1), words.end()}; }

/// A figure of what a dry GPU, whose name comes first, has counted and modelled: "H100 split mlp".
std::string dry_figure_part(const Page& page, const Arguments& words) {
  const Arguments arguments = after_card(words);
  for (const char* kind : {"sweep", "roofline"}) {
    if (!arguments.empty() && arguments[0] == kind)
      throw std::invalid_argument("figure_dry: a dry GPU has no " + std::string(kind));
  }
  const std::vector<Result> on_card = results_on_card(page, words);
  auto figure = page_figure(page.path, arguments, page.root, {}, on_card);
  if (figure) {
    const fs::path docs = (page.root / "docs").lexically_relative(page.path.parent_path());
    const Result* const shown = result_of(on_card, page.path.parent_path().filename().string());
    const bool earlier_model = shown != nullptr && is_of_earlier_model(page, *shown);
    figure->file.replace_filename("dry_" + words[0] + "_" + figure->file.filename().string());
    figure->remark = "*A [dry](" + docs.generic_string() + "/dry_gpu.md) " + markdown_cell(words[0]) +
                     ": memory is counted, time modelled" + (earlier_model ? ", by an earlier model" : "") + ".*\n";
  }
  return shown_figure(page, figure);
}

using Part = std::function<std::string(const Page&, const Arguments&)>;

const std::map<std::string, Part>& parts() {
  static const std::map<std::string, Part> all = {
      {"question", [](const Page& page, const Arguments&) { return question_of(page.path, page.lessons); }},
      {"measured", measured_part},
      {"dry", [](const Page& page, const Arguments&) { return dry_peaks_markdown(page.dry); }},
      {"host_launches", [](const Page& page, const Arguments&) { return host_launches_markdown(page.dry); }},
      {"published_steps",
       [](const Page& page, const Arguments&) { return published_steps_markdown(page.root, page.earlier_models); }},
      {"published_peers", [](const Page& page, const Arguments&) { return published_peers_markdown(page.root); }},
      {"published_fits", [](const Page& page, const Arguments&) { return published_fits_markdown(page.root); }},
      {"links",
       [](const Page& page, const Arguments& words) {
         if (words.size() != 1) throw std::invalid_argument("links: of one lesson, a folder of docs/links");
         return link_rates_markdown(page.root, words[0]);
       }},
      {"rank_tables", [](const Page& page, const Arguments&) { return rank_tables_markdown(page.root); }},
      {"published_scaling", [](const Page& page, const Arguments&) { return published_scaling_markdown(page.root); }},
      {"scaling_forecast", [](const Page& page, const Arguments&) { return scaling_forecast_markdown(page.root); }},
      {"printed_fit", [](const Page& page, const Arguments&) { return printed_fit_markdown(page.root); }},
      {"seals",
       [](const Page& page, const Arguments&) { return seals_markdown(page.root, page.dry, page.earlier_models); }},
      {"compared", compared_markdown},
      {"decide", decide_markdown},
      {"one_gpt", one_gpt_part},
      {"held", held_part},
      {"beside_python", [](const Page& page, const Arguments&) { return beside_python_markdown(page); }},
      {"levers", levers_part},
      {"figure", figure_part},
      {"figure_dry", dry_figure_part},
      {"printed", [](const Page& page, const Arguments& words) { return printed_block(page, words, page.references); }},
      {"printed_dry",
       [](const Page& page, const Arguments& words) {
         return printed_block(page, after_card(words), results_on_card(page, words));
       }},
      {"claims", [](const Page& page, const Arguments&) { return claims_part("claims", page); }},
      {"elsewhere", [](const Page& page, const Arguments&) { return claims_part("elsewhere", page); }},
      {"code", [](const Page& page, const Arguments& words) { return code_block(page.path, words); }},
      {"diff", [](const Page& page, const Arguments& words) { return diff_block(page.path, words); }},
      {"lessons",
       [](const Page& page, const Arguments&) {
         return lessons_markdown(headline_lessons(page.lessons), page.path, page.root);
       }},
      {"map",
       [](const Page& page, const Arguments&) { return lesson_map_markdown(page.lessons, page.path, page.root); }},
      {"results", [](const Page& page, const Arguments&) { return results_markdown(page.published, page.root); }},
      {"kernels", [](const Page& page, const Arguments&) { return kernel_resources_markdown(page.root); }},
      {"modelled",
       [](const Page& page, const Arguments& words) {
         return kernel_times_markdown(page.root, words.empty() ? "" : words[0]);
       }},
      {"timed",
       [](const Page& page, const Arguments& words) {
         if (words.size() != 1) throw std::invalid_argument("timed: of one benchmark, bench/NAME_bench.cpp");
         return timed_ladders_markdown(page.root, words[0]);
       }},
      {"ladder",
       [](const Page& page, const Arguments& words) {
         if (words.size() != 1)
           throw std::invalid_argument("a ladder has one name: of a file in docs/published_ladders");
         return published_ladder_markdown(page.root, words[0]);
       }},
      {"ladders", [](const Page& page, const Arguments&) { return published_ladders_markdown(page.root); }},
      {"nsight_metrics", [](const Page& page, const Arguments&) { return nsight_metrics_markdown(page.root); }},
      {"nsight_sheet", [](const Page& page, const Arguments&) { return nsight_sheet_markdown(page.root); }},
      {"loads_in_flight", [](const Page& page, const Arguments&) { return loads_in_flight_markdown(page.root); }},
      {"control_bits", [](const Page& page, const Arguments&) { return control_bits_markdown(page.root); }},
      {"control_bits_check", [](const Page& page, const Arguments&) { return control_bits_check_markdown(page.root); }},
      {"arrows", [](const Page& page, const Arguments&) { return arrows_markdown(tree_folders(page.text)); }},
  };
  return all;
}

}  // namespace

std::string page_part(const Page& page, const std::string& kind, const std::vector<std::string>& arguments) {
  const auto part = parts().find(kind);
  if (part != parts().end()) return part->second(page, arguments);
  std::vector<std::string> names;
  for (const auto& [name, text_of] : parts()) names.push_back(name);
  throw std::invalid_argument("unknown kind '" + kind + "' (" + joined(names) + ")");
}

}  // namespace tenfold
