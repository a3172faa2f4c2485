#include "common/pages/book/published_steps.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "common/base/files.h"
#include "common/base/text.h"
#include "common/pages/book/published_rows.h"
#include "common/pages/rows/markdown_table.h"
#include "common/result/statistics.h"

namespace tenfold {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;
using Row = std::vector<std::string>;

constexpr const char* kScored = "docs/published_steps/modelled.json";
// What the model said before anything was added to it for which the published steps had been read.
constexpr const char* kFrozen = "docs/published_steps/modelled_frozen.json";
constexpr double kGib = 1024.0 * 1024 * 1024;

/// A row of kPublished, and what came of it.
struct Step : PublishedRow {
  const Json& came;

  bool has_time() const { return came.contains("value"); }
  /// The model has not been changed since this row's time was held against it.
  bool held_out() const { return published.value("held_out", false); }
  /// Above 1 the model is too fast.
  double ratio() const { return faster(came.at("value"), published.at("value")); }
};

std::vector<Step> steps_of(const Json& published, const Json& scored) {
  static const Json kNotRun = {{"failed", "not run"}};
  std::vector<Step> steps;
  for (const Json& row : published) {
    const Json* const came = row_of(scored, row.at("id"));
    steps.push_back({{row}, came == nullptr ? kNotRun : *came});
  }
  return steps;
}

Row summary_row(const std::string& name, const std::vector<double>& ratios) {
  return {name,
          std::to_string(ratios.size()),
          human_ratio(median(ratios)),
          human_ratio(*std::ranges::min_element(ratios)) + " to " + human_ratio(*std::ranges::max_element(ratios)),
          within(ratios, 1.25),
          within(ratios, 2)};
}

std::vector<double> ratios_of(const std::vector<Step>& steps, bool held_out) {
  std::vector<double> ratios;
  for (const Step& step : steps) {
    if (step.has_time() && step.held_out() == held_out) ratios.push_back(step.ratio());
  }
  return ratios;
}

/// `frozen`: the same steps as the model had them at first. Those held out have a row of their own, and are in no
/// other.
std::string summary_table(const std::vector<Step>& steps, const std::vector<Step>& frozen) {
  std::vector<Row> rows = {
      {"steps with matmuls in", "steps", "modelled / published speed, median", "range", "within 1.25x", "within 2x"}};
  const std::vector<double> all = ratios_of(steps, false), held_out = ratios_of(steps, true),
                            before = ratios_of(frozen, false);
  if (all.empty()) return "No step has a time.\n";
  for (const char* const arithmetic : kArithmetics) {
    std::vector<double> ratios;
    for (const Step& step : steps) {
      if (step.arithmetic() == arithmetic && step.has_time() && !step.held_out()) ratios.push_back(step.ratio());
    }
    if (!ratios.empty()) rows.push_back(summary_row(arithmetic, ratios));
  }
  rows.push_back(summary_row("all", all));
  if (!before.empty()) rows.push_back(summary_row("all, by the model as it was frozen", before));
  if (!held_out.empty()) rows.push_back(summary_row("held out: collected after that, any", held_out));
  return markdown_table_of_texts(rows);
}

/// Of the steps whose source says what the allocator reserved; empty without one.
std::string reserved_table(const std::vector<Step>& steps) {
  std::vector<Row> rows = {{"step", "card", "arithmetic", "reserved, published", "reserved, counted", "error"}};
  for (const Step& step : steps) {
    if (!step.published.contains("reserved_gib") || !step.came.contains("reserved_gib")) continue;
    const double there = step.published.at("reserved_gib"), here = step.came.at("reserved_gib");
    rows.push_back({step.text("id"), step.card(), step.text("precision"), human_bytes(there * kGib),
                    human_bytes(here * kGib), human_percent(here / there - 1, /*sign=*/true)});
  }
  if (rows.size() == 1) return "";
  return "\nWhat LibTorch's allocator reserved, where the source says it:\n\n" + markdown_table_of_texts(rows);
}

/// Of the steps that change one thing of another; empty without one.
std::string gains_table(const std::vector<Step>& steps) {
  std::vector<Row> rows = {{"step", "after", "gain, published", "gain, modelled"}};
  for (const Step& step : steps) {
    const std::string after = step.published.value("after", "");
    const auto before =
        std::ranges::find_if(steps, [&](const Step& other) { return !after.empty() && other.text("id") == after; });
    if (before == steps.end() || !step.has_time() || !before->has_time()) continue;
    const double gain = step.faster(step.published.at("value"), before->published.at("value"));
    rows.push_back({step.text("id"), after, human_ratio(gain), human_ratio(gain * step.ratio() / before->ratio())});
  }
  return rows.size() == 1 ? "" : "\nWhat one change brings:\n\n" + markdown_table_of_texts(rows);
}

std::string every_step(const std::vector<Step>& steps) {
  std::vector<Row> rows = {{"step", "card", "batch", "arithmetic", "published", "modelled", "modelled / published"}};
  for (const Step& step : steps) {
    if (!step.has_time()) continue;
    const std::string unit = " " + step.text("what");
    rows.push_back({step.text("model") + ", " + step.text("shape") + (step.came.contains("stands_in") ? " (*)" : "") +
                        (step.held_out() ? " (held out)" : ""),
                    step.card(), step.published.at("batch").dump(), step.text("precision"),
                    human_number(step.published.at("value").get<double>()) + unit,
                    human_number(step.came.at("value").get<double>()) + unit, human_ratio(step.ratio())});
  }
  return markdown_table_of_texts(rows);
}

/// "\nNot scored:\n\n- ROW: why\n"
std::string not_scored(const std::vector<Step>& steps) {
  std::string lines;
  for (const Step& step : steps) {
    if (!step.has_time())
      lines += "- " + markdown_cell(step.text("id") + ": " + step.came.value("failed", "no time")) + "\n";
  }
  return lines.empty() ? "" : "\nNot scored:\n\n" + lines;
}

/// Each address once, as a link.
std::string sources(const std::vector<Step>& steps) {
  std::vector<std::string> links;
  for (const Step& step : steps) {
    const std::string source = step.text("source"), address = source.substr(0, source.find(' '));
    const size_t host = address.find("//");
    const std::string link =
        host == std::string::npos ? address : "[" + address.substr(host + 2) + "](" + address + ")";
    if (std::ranges::find(links, link) == links.end()) links.push_back(link);
  }
  return joined(links);
}

/// "2026-11-27 at commit 7bf73567c9; the host's part is that of HOST"
std::string scored_by(const Json& scored, const std::set<std::string>& earlier_models) {
  const auto commit = scored.at("commit").get<std::string>();
  return scored.at("scored_at").get<std::string>().substr(0, 10) + " at commit " + commit.substr(0, 10) +
         (earlier_models.contains(commit) ? " (earlier model)" : "") +
         (scored.at("dirty").get<bool>() ? " with uncommitted changes" : "") + "; the host's part is that of " +
         scored.at("host").get<std::string>();
}

/// Of the rows that ran after the others: "ID, ID: scored ...", a line for each code.
std::string scored_later(const std::vector<Step>& steps, const std::set<std::string>& earlier_models) {
  std::map<std::string, std::vector<std::string>> later;
  for (const Step& step : steps) {
    if (step.came.contains("commit")) later[scored_by(step.came, earlier_models)].push_back(step.text("id"));
  }
  std::string lines;
  for (const auto& [when, ids] : later) lines += "\nScored later, " + when + ": " + markdown_cell(joined(ids)) + ".\n";
  return lines;
}

}  // namespace

std::string published_steps_markdown(const fs::path& root, const std::set<std::string>& earlier_models) {
  if (!fs::exists(root / kScored)) return "Not scored yet.\n";
  const Json published = read_rows(root / kPublishedRows), scored = read_rows(root / kScored);
  try {
    const Json frozen = fs::exists(root / kFrozen) ? read_rows(root / kFrozen) : Json{{"rows", Json::array()}};
    const std::vector<Step> steps = steps_of(published, scored.at("rows"));
    return summary_table(steps, steps_of(published, frozen.at("rows"))) + "\nScored " +
           scored_by(scored, earlier_models) + ".\n" + scored_later(steps, earlier_models) + reserved_table(steps) +
           gains_table(steps) + "\n<details><summary>Every step</summary>\n\n" + every_step(steps) +
           "\n(*): Something of the published step is stood in for: `STANDS_IN` in "
           "`bench/published_steps/steps.py` says what.\n" +
           not_scored(steps) + "\nSources: " + sources(steps) + ".\n\n</details>\n";
  } catch (const Json::exception& error) {
    throw FileError((root / kScored).string() + " or " + kPublishedRows + ": " + one_line(error.what()));
  }
}

std::set<std::string> commits_of_scores(const fs::path& root) {
  std::set<std::string> commits;
  if (!fs::exists(root / kScored)) return commits;
  const Json scored = read_rows(root / kScored);
  try {
    commits.insert(scored.at("commit").get<std::string>());
    for (const Json& row : scored.at("rows")) {
      if (row.contains("commit")) commits.insert(row.at("commit").get<std::string>());
    }
  } catch (const Json::exception& error) {
    throw FileError((root / kScored).string() + ": " + one_line(error.what()));
  }
  return commits;
}

}  // namespace tenfold
