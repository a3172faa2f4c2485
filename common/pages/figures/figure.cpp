#include "common/pages/figures/figure.h"

#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <set>
#include <stdexcept>

#include "common/base/files.h"
#include "common/base/process.h"
#include "common/base/sha256.h"
#include "common/base/text.h"
#include "common/pages/figures/figure_curves.h"
#include "common/pages/figures/figure_notes.h"
#include "common/pages/figures/figure_roofline.h"
#include "common/pages/figures/figure_waterfall.h"
#include "common/pages/rows/case_words.h"
#include "common/pages/rows/markdown_table.h"
#include "common/pages/rows/references.h"
#include "common/pages/rows/rows.h"
#include "common/pages/rows/sweeps.h"
#include "common/result/code_hash.h"
#include "common/result/lever_gains.h"

namespace tenfold {
namespace {

namespace fs = std::filesystem;

constexpr const char* kStamp = "<!-- tenfold figure ";

/// A marker's words: "split large batch | overlapped".
struct Wanted {
  std::string kind, about, technique;
};

Wanted wanted_of(const std::vector<std::string>& arguments) {
  if (arguments.empty())
    throw std::invalid_argument("figure needs a kind: memory, split, ratio, notes, sweep, roofline or waterfall");
  const std::string rest = joined({arguments.begin() + 1, arguments.end()}, " ");
  const size_t bar = rest.find('|');
  Wanted wanted{arguments[0], trimmed(rest.substr(0, bar)),
                bar == std::string::npos ? "" : trimmed(rest.substr(bar + 1))};
  const std::set<std::string> kinds = {"memory", "split", "ratio", "notes", "sweep", "roofline", "waterfall"};
  if (!kinds.contains(wanted.kind))
    throw std::invalid_argument("figure: unknown kind '" + wanted.kind + "' (" + joined({kinds.begin(), kinds.end()}) +
                                ")");
  if (wanted.kind == "sweep" && wanted.about.empty()) throw std::invalid_argument("figure: sweep needs a setting");
  if (wanted.kind == "notes" && (wanted.about.empty() || wanted.technique.empty()))
    throw std::invalid_argument("figure: notes needs a survey and what to show of it: notes SURVEY | NOTE");
  return wanted;
}

const CaseResult& case_of(const Result& result, const std::string& name) {
  for (const CaseResult& c : result.cases) {
    if (name.empty() ? rows_of(c).judged && (!result.headline || result.headline->case_name == c.name) : c.name == name)
      return c;
  }
  throw std::invalid_argument("figure: the published result has no " +
                              (name.empty() ? "case to show" : "case '" + name + "'"));
}

void require_technique(const CaseResult& c, const std::string& technique) {
  if (!technique.empty() && !verdict_of(c, technique))
    throw std::invalid_argument("figure: the published case has no technique '" + technique + "'");
}

std::optional<Figure> figure_of(const Wanted& wanted, const Result& result, const CaseResult& c) {
  if (wanted.kind == "notes") {
    const auto figure = notes_figure(c, wanted.technique);
    if (!figure)
      throw std::invalid_argument("figure: survey '" + c.name + "' has no look and no note '" + wanted.technique + "'");
    return figure;
  }
  require_technique(c, wanted.technique);
  if (wanted.kind == "waterfall") return waterfall_figure(c, training_of(result, c.name));
  if (wanted.kind == "memory") return memory_figure(c, wanted.technique);
  return wanted.kind == "split" ? split_figure(c) : ratio_figure(c);
}

/// The lesson's sweep that is meant by "length", or by "length model states" where several cases were swept over it.
std::optional<Result> sweep_of(const std::string& about, const std::vector<Result>& sweeps, const std::string& lesson) {
  const size_t space = about.find(' ');
  const std::string setting = about.substr(0, space);
  const std::string case_name = space == std::string::npos ? "" : trimmed(about.substr(space));
  std::optional<Result> found;
  for (const Result& sweep : sweeps) {
    if (sweep.lesson != lesson || sweep.cases.empty()) continue;
    const CaseResult& point = sweep.cases.front();
    if (point.sweep->setting != setting || (!case_name.empty() && swept_case(point) != case_name)) continue;
    if (found)
      throw std::invalid_argument("figure: there are sweeps of " + setting + " over the cases " +
                                  swept_case(found->cases.front()) + " and " + swept_case(point) +
                                  "; name one: figure sweep " + setting + " " + swept_case(point));
    found = sweep;
  }
  return found;
}

/// The sweep that a page shows: of the machine that results/REFERENCE prefers, one of the code as it stands before one
/// of older code.
std::optional<Result> sweep_of_reference(const std::string& about, const fs::path& root, const std::string& lesson,
                                         const std::string& hash_now) {
  std::vector<Result> sweeps;
  for (const std::string& machine : reference_machines(root)) {
    if (auto sweep = sweep_of(about, published_sweeps(root, machine), lesson)) sweeps.push_back(std::move(*sweep));
  }
  std::vector<const Result*> in_order;
  for (const Result& sweep : sweeps) in_order.push_back(&sweep);
  const Result* chosen = reference_of(in_order, hash_now);
  return chosen ? std::optional(*chosen) : std::nullopt;
}

/// What a file was drawn from: all that may change it.
std::string spec_hash(const Figure& figure) {
  std::string text = std::string(kRenderer) + " " + kVegaLite + "\n" + figure.spec.dump() + "\n" + figure.alt;
  for (const FigureColour& colour : figure_colours())
    text += std::string("\n") + colour.plain + colour.on_light + colour.on_dark;
  return sha256(text);
}

std::string stamp(const Figure& figure, const std::string& drawing) {
  return kStamp + ("spec " + spec_hash(figure)) + " drawing " + sha256(drawing) + " -->\n";
}

/// Rules that give each colour its shade for a scheme.
std::string scheme(const char* name, const char* FigureColour::* shade) {
  std::string rules;
  for (const FigureColour& colour : figure_colours()) {
    if (std::string(colour.plain) == colour.*shade) continue;
    for (const char* property : {"fill", "stroke"})
      rules += std::string("[") + property + "=\"" + colour.plain + "\"]{" + property + ":" + colour.*shade + "}";
  }
  return std::string("@media (prefers-color-scheme:") + name + "){" + rules + "}";
}

}  // namespace

std::optional<PageFigure> page_figure(const fs::path& page, const std::vector<std::string>& arguments,
                                      const fs::path& root, const std::vector<Result>& published,
                                      const std::vector<Result>& references) {
  const Wanted wanted = wanted_of(arguments);
  const fs::path folder = page.parent_path();
  const std::string lesson = folder.filename().string();
  const Result* reference = result_of(references, lesson);
  if (folder.parent_path().filename() != "lessons")
    throw std::invalid_argument("figure: stands on lessons' pages only");
  const auto named = [&](const std::string& about) {
    return folder / "figures" /
           (wanted.kind + "_" + file_part(about) + (wanted.technique.empty() ? "" : "_" + file_part(wanted.technique)) +
            ".svg");
  };
  if (wanted.kind == "sweep") {
    const std::string hash_now = code_hash(folder);
    const std::optional<Result> sweep = sweep_of_reference(wanted.about, root, lesson, hash_now);
    if (!sweep) return std::nullopt;
    require_technique(sweep->cases.front(), wanted.technique);
    const auto figure = sweep_figure(sweep->cases, wanted.technique);
    if (!figure) return std::nullopt;
    return PageFigure{named(wanted.about), *figure,
                      "*" + markdown_cell(machine_text(sweep->machine)) + ", " + sweep->started_at.substr(0, 10) +
                          (sweep->code_hash == hash_now ? "" : "; the lesson's code has changed since") + ".*\n"};
  }
  if (wanted.kind == "roofline") {  // of one machine: points of another would lie below other roofs
    const std::vector<std::string> machines = reference_machines(root);
    if (machines.empty()) return std::nullopt;
    const std::string machine = reference ? reference->machine.id : machines.front();
    std::vector<Result> here = published_sweeps(root, machine);
    std::erase_if(here, [&](const Result& sweep) { return sweep.lesson != lesson; });
    for (const Result& result : published) {
      if (result.machine.id == machine) here.push_back(result);
    }
    const auto figure = roofline_figure(here, lesson);
    return figure ? std::optional(PageFigure{folder / "figures" / "roofline.svg", *figure, ""}) : std::nullopt;
  }
  if (!reference) return std::nullopt;
  const CaseResult& c = case_of(*reference, wanted.about);
  const auto figure = figure_of(wanted, *reference, c);
  return figure ? std::optional(PageFigure{named(c.name), *figure, ""}) : std::nullopt;
}

std::string figure_markdown(const PageFigure& figure, const fs::path& page) {
  return "![" + markdown_cell(figure.figure.alt) + "](" +
         figure.file.lexically_relative(page.parent_path()).generic_string() + ")\n" +
         (figure.remark.empty() ? "" : "\n" + figure.remark);
}

bool is_drawn_as(const std::string& svg, const Figure& figure) {
  const size_t line = svg.find('\n');
  return line != std::string::npos && svg.substr(0, line + 1) == stamp(figure, svg.substr(line + 1));
}

std::string finished_svg(const std::string& drawing, const Figure& figure) {
  const size_t tag = drawing.find("<svg");
  const size_t open = tag == std::string::npos ? tag : drawing.find('>', tag);
  if (open == std::string::npos) throw std::invalid_argument("a figure's drawing is no SVG");
  const std::string body = drawing.substr(tag, open + 1 - tag) + "<title>" + escape_html(figure.alt) +
                           "</title><style>" + scheme("light", &FigureColour::on_light) +
                           scheme("dark", &FigureColour::on_dark) + "</style>" + drawing.substr(open + 1) + "\n";
  return stamp(figure, body) + body;
}

std::map<fs::path, std::string> draw_figures(const std::vector<PageFigure>& figures, const fs::path& python,
                                             const fs::path& script) {
  nlohmann::json specs = nlohmann::json::object();
  for (const PageFigure& figure : figures) specs[figure.file.string()] = figure.figure.spec;
  const fs::path wanted = fs::temp_directory_path() / ("tenfold-figures-" + std::to_string(getpid()) + ".json");
  write_atomically(wanted, specs.dump());
  std::string drawn, last_error;
  const End end = run_child(
      {.arguments = {python.string(), script.string(), wanted.string()}, .environment = {}, .errors_from = ""},
      {.output = [&](const std::string& text) { drawn += text; },
       .line = [&](const std::string& line) { last_error = line; }});
  fs::remove(wanted);
  if (end.code != 0)
    throw std::invalid_argument("figures cannot be drawn: " +
                                (last_error.empty() ? "exit code " + std::to_string(end.code) : last_error));
  std::map<fs::path, std::string> svgs;
  try {
    const nlohmann::json found = nlohmann::json::parse(drawn);
    for (const PageFigure& figure : figures)
      svgs[figure.file] = finished_svg(found.at(figure.file.string()).get<std::string>(), figure.figure);
  } catch (const nlohmann::json::exception& error) {
    throw std::invalid_argument(script.string() + ": " + one_line(error.what()));
  }
  return svgs;
}

}  // namespace tenfold
