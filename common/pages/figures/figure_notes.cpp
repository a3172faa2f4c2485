#include "common/pages/figures/figure_notes.h"

#include <algorithm>
#include <map>

#include "common/base/text.h"
#include "common/pages/figures/figure_style.h"
#include "common/pages/rows/note_words.h"

namespace tenfold {
namespace {

using namespace figure;

struct Bar {
  std::string name;
  Note note;
};

/// The notes of a look that share the unit which most of them have.
std::vector<Bar> bars_of_look(const VariantResult& look) {
  std::map<std::string, size_t> units;
  for (const auto& [name, note] : look.notes) ++units[note.unit];
  const auto most = std::max_element(units.begin(), units.end(),
                                     [](const auto& one, const auto& other) { return one.second < other.second; });
  std::vector<Bar> bars;
  for (const auto& [name, note] : look.notes) {
    if (note.unit == most->first) bars.push_back({name, note});
  }
  return bars;
}

std::vector<Bar> bars_of_note(const CaseResult& survey, const std::string& name) {
  std::vector<Bar> bars;
  for (const VariantResult& look : survey.variants) {
    if (const auto note = look.notes.find(name); note != look.notes.end()) bars.push_back({look.name, note->second});
  }
  return bars;
}

Json column(std::vector<Json> values, const Json& y, const Json& x, bool bold) {
  return {{"data", rows(std::move(values))},
          {"mark", text_mark("left", kInk, bold)},
          {"encoding", {{"x", x}, {"y", y}, {"text", {{"field", "text"}, {"type", "nominal"}}}}}};
}

}  // namespace

std::optional<Figure> notes_figure(const CaseResult& survey, const std::string& what) {
  constexpr double kRow = 36, kGap = 12;
  const VariantResult* look = variant_of(survey, what);
  const std::vector<Bar> bars =
      look != nullptr && !look->notes.empty() ? bars_of_look(*look) : bars_of_note(survey, what);
  if (bars.empty()) return std::nullopt;
  double most = 0, names_width = 0, numbers_width = 0;
  std::string alt;
  std::vector<Json> boxes, names, numbers;
  for (const Bar& bar : bars) {
    const auto row = static_cast<double>(names.size());
    const std::string number = bar.note.unit == "bytes" ? note_text(bar.note) : human_number(bar.note.value);
    most = std::max(most, bar.note.value);
    names_width = std::max(names_width, text_width(bar.name));
    numbers_width = std::max(numbers_width, text_width(number));
    boxes.push_back({{"x", 0}, {"x2", bar.note.value}, {"y", row + 0.18}, {"y2", row + 0.82}});
    names.push_back({{"y", row + 0.5}, {"text", bar.name}});
    numbers.push_back({{"y", row + 0.5}, {"x", bar.note.value}, {"text", number}});
    alt += (alt.empty() ? "" : "; ") + bar.name + " " + number;
  }
  const std::string& unit = bars.front().note.unit;
  const Json y = quantity("y", {{"domain", {0, bars.size()}}, {"reverse", true}, {"nice", false}}, nullptr);
  const Json x = quantity("x",
                          {{"domain", {0, most > 0 ? most : 1}},
                           {"nice", false},
                           {"range", {names_width * 1.08 + kGap, kFigureWidth - numbers_width - kGap}}},
                          nullptr);
  Json spec = start(what == survey.name ? what : survey.name + ": " + what, unit);
  spec["width"] = kFigureWidth, spec["height"] = kRow * static_cast<double>(bars.size());
  spec["layer"] = {{{"data", rows(boxes)},
                    {"mark", {{"type", "rect"}, {"color", kBlue.plain}}},
                    {"encoding", {{"x", x}, {"x2", {{"field", "x2"}}}, {"y", y}, {"y2", {{"field", "y2"}}}}}},
                   column(names, y, {{"value", 0}}, true),
                   column(numbers, y, x, false)};
  spec["layer"][2]["mark"]["dx"] = kGap / 2;
  const std::string measure = unit.empty() ? what : what + " (" + unit + ")";
  return Figure{rounded(spec), measure + " in survey " + survey.name + ": " + alt};
}

}  // namespace tenfold
