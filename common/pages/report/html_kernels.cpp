#include "common/pages/report/html_kernels.h"

#include <algorithm>
#include <map>
#include <regex>
#include <set>
#include <utility>

#include "common/base/text.h"
#include "common/pages/report/html_cells.h"
#include "common/pages/rows/case_words.h"
#include "common/pages/rows/note_words.h"
#include "common/pages/rows/rows.h"

namespace tenfold {
namespace {

/// "LayerNorm, rung 2" is ("rung 2", "LayerNorm"), "rung 0, T = 64: requests" is ("rung 0", "T = 64: requests"): rungs
/// stand below each other, and next to what other variants noted of the same thing.
std::pair<std::string, std::string> split_rung(const std::string& thing) {
  static const std::regex last(R"(^(.+), (rung \d+[^,]*)$)"), first(R"(^(rung \d+[^,]*), (.+)$)");
  std::smatch match;
  if (std::regex_match(thing, match, last)) return {match[2], match[1]};
  if (std::regex_match(thing, match, first)) return {match[1], match[2]};
  return {"", thing};
}

struct Counts {
  std::vector<std::string> rows, columns;  ///< in the order in which they were met
  std::map<std::pair<std::string, std::string>, Note> notes;
  std::map<std::string, std::set<std::string>> units;  ///< of a column

  explicit Counts(const CaseResult& c) {
    for (const VariantResult& variant : c.variants) {
      if (variant.status != "ok") continue;
      for (const auto& [name, note] : variant.notes) {
        const auto [rung, column] = split_rung(without_line(name));
        const std::string row = variant.name + (rung.empty() ? "" : ", " + rung);
        keep(rows, row);
        keep(columns, column);
        units[column].insert(note.unit);
        const auto [place, is_new] = notes.try_emplace({row, column}, note);
        if (!is_new && note.value > place->second.value) place->second = note;
      }
    }
  }

  std::string heading(const std::string& column) const {
    const std::string unit = common_unit(column);
    return unit.empty() || column.find(unit) != std::string::npos ? column : column + ", " + unit;
  }
  std::string value(const std::string& row, const std::string& column) const {
    const auto found = notes.find({row, column});
    if (found == notes.end()) return "";
    return common_unit(column).empty() ? note_text(found->second) : human_number(found->second.value);
  }

 private:
  static void keep(std::vector<std::string>& all, const std::string& one) {
    if (std::find(all.begin(), all.end(), one) == all.end()) all.push_back(one);
  }
  /// The unit for a column's heading; none where units differ, or where a number is scaled together with its unit.
  std::string common_unit(const std::string& column) const {
    static const std::set<std::string> scaled = {"bytes", "B", "s", "seconds"};
    const std::set<std::string>& found = units.at(column);
    return found.size() == 1 && !scaled.contains(*found.begin()) ? *found.begin() : "";
  }
};

/// A heading that may break after "wavefronts/": these words decide how wide a column is.
std::string breakable(const std::string& text) {
  return std::regex_replace(escape_html(text), std::regex("/"), "/<wbr>");
}

std::string table(const Result& result, const CaseResult& c) {
  const Counts counts(c);
  if (counts.rows.empty()) return "";
  const std::string caption = number_of_name(result.lesson) + " " + result.title + ", " + c.name;
  std::string out = "<div class=\"wide\" tabindex=\"0\" role=\"region\" aria-label=\"" + escape_html(caption) +
                    "\"><table class=\"counts\"><caption><a href=\"#" + escape_html(result.lesson) + "\">" +
                    escape_html(number_of_name(result.lesson) + " " + result.title) + "</a>, " + escape_html(c.name) +
                    "<br>" + escape_html(settings_text(c)) +
                    "</caption><thead><tr><th scope=\"col\">kernel or rung</th>";
  for (const std::string& column : counts.columns)
    out += "<th scope=\"col\" class=\"n\">" + breakable(counts.heading(column)) + "</th>";
  out += "</tr></thead><tbody>";
  for (const std::string& row : counts.rows) {
    out += "<tr><th scope=\"row\">" + escape_html(row) + "</th>";
    for (const std::string& column : counts.columns) out += cell(counts.value(row, column), "n");
    out += "</tr>";
  }
  return out + "</tbody></table></div>";
}

}  // namespace

std::string kernels_section(const std::vector<Result>& results) {
  std::string tables;
  for (const Result& result : results) {
    if (!result.lesson.starts_with("4")) continue;  // the chapter about kernels
    for (const CaseResult& c : result.cases) {
      if (!rows_of(c).judged) tables += table(result, c);
    }
  }
  if (tables.empty())
    return "<p class=\"dim\">No lesson about kernels was measured. Count one's accesses with: ./tenfold run 40</p>";
  return "<p>The kernels ran unchanged on the CPU, where each access of each thread is counted; instructions are those "
         "of "
         "the compiled machine code. No number here is a GPU's measured time. A request of a warp that reads "
         "neighbouring "
         "floats costs 4 sectors of 32 bytes, the worst one 32. A request to shared memory takes one wavefront without "
         "bank conflicts, and up to 32 with them. Where a kernel has several loads or stores, the worst line counts. "
         "What "
         "is <em>modelled</em> is a lower bound from these counts and the documented rates of that GPU. To see each "
         "access "
         "as a picture: <code>./tenfold kernel transpose --rung 0 --pictures out/pictures</code>.</p>" +
         tables;
}

}  // namespace tenfold
