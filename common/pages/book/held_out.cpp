#include "common/pages/book/held_out.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "common/base/files.h"
#include "common/base/text.h"
#include "common/pages/rows/markdown_table.h"
#include "common/result/statistics.h"

namespace tenfold {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;
using Row = std::vector<std::string>;

constexpr const char* kPublished = "common/dry_gpu/held_out/published.json";
constexpr const char* kScored = "results/dry_held_out.json";

Json read(const fs::path& file) {
  try {
    return Json::parse(read_text(file));
  } catch (const Json::exception& error) {
    throw FileError(file.string() + ": " + one_line(error.what()));
  }
}

/// Steps per second over the published ones: above 1 the model is too fast.
std::optional<double> speed_ratio(const Json& published, const Json& came) {
  if (!came.contains("value")) return std::nullopt;
  const double ratio = came.at("value").get<double>() / published.at("value").get<double>();
  return published.at("what") == "ms/step" ? 1 / ratio : ratio;
}

/// By which unit most of a row's products are made.
std::string arithmetic_of(const Json& published) {
  const std::string precision = published.at("precision");
  if (precision == "fp32") return "fp32";
  if (precision == "tf32") return "TF32";
  return "16 bits";
}

std::string card_name(const std::string& card) { return card == "A100-40" ? "A100 40 GB" : card; }

/// "https://x/y @ commit ..." as a link to what can be opened.
std::string link_of(const std::string& source) {
  const std::string address = source.substr(0, source.find(' '));
  const size_t host = address.find("//");
  return host == std::string::npos ? markdown_cell(source) : "[" + address.substr(host + 2) + "](" + address + ")";
}

std::string range_text(const std::vector<double>& ratios) {
  return human_ratio(*std::ranges::min_element(ratios)) + " to " + human_ratio(*std::ranges::max_element(ratios));
}

std::string within_text(const std::vector<double>& ratios, double factor) {
  const auto inside =
      std::ranges::count_if(ratios, [factor](double ratio) { return ratio <= factor && ratio >= 1 / factor; });
  return std::to_string(inside) + " of " + std::to_string(ratios.size());
}

Row summary_row(const std::string& name, const std::vector<double>& ratios) {
  return {name,
          std::to_string(ratios.size()),
          human_ratio(median(ratios)),
          range_text(ratios),
          within_text(ratios, 1.25),
          within_text(ratios, 2)};
}

}  // namespace

std::string held_out_markdown(const fs::path& root) {
  const Json published = read(root / kPublished);
  if (!fs::exists(root / kScored)) return "Not scored yet.\n";
  const Json scored = read(root / kScored);
  try {
    std::map<std::string, const Json*> came;
    for (const Json& row : scored.at("rows")) came[row.at("id")] = &row;
    std::vector<double> all;
    std::vector<std::pair<std::string, std::vector<double>>> groups = {{"fp32", {}}, {"TF32", {}}, {"16 bits", {}}};
    std::vector<Row> rows = {{"step", "card", "batch", "arithmetic", "published", "modelled", "modelled / published"}};
    std::vector<std::string> left_out, sources;
    for (const Json& row : published) {
      const auto found = came.find(row.at("id"));
      const std::optional<double> ratio = found == came.end() ? std::nullopt : speed_ratio(row, *found->second);
      if (!ratio) {
        left_out.push_back(row.at("id").get<std::string>() + ": " +
                           (found == came.end() ? "not run" : found->second->value("failed", "no time")));
        continue;
      }
      all.push_back(*ratio);
      std::ranges::find(groups, arithmetic_of(row), &std::pair<std::string, std::vector<double>>::first)
          ->second.push_back(*ratio);
      const std::string unit = " " + row.at("what").get<std::string>();
      const Json& batch = row.at("batch");
      rows.push_back({row.at("model").get<std::string>() + ", " + row.at("shape").get<std::string>() +
                          (found->second->contains("stands_in") ? " (*)" : ""),
                      card_name(row.at("card")), batch.is_string() ? batch.get<std::string>() : batch.dump(),
                      row.at("precision"), human_number(row.at("value").get<double>()) + unit,
                      human_number(found->second->at("value").get<double>()) + unit, human_ratio(*ratio)});
      const std::string link = link_of(row.at("source"));
      if (std::ranges::find(sources, link) == sources.end()) sources.push_back(link);
    }
    if (all.empty()) return "Not scored yet.\n";
    std::vector<Row> summary = {
        {"products in", "rows", "median of modelled / published speed", "range", "within 1.25x", "within 2x"}};
    for (const auto& [name, ratios] : groups) {
      if (!ratios.empty()) summary.push_back(summary_row(name, ratios));
    }
    summary.push_back(summary_row("all", all));
    std::string text =
        markdown_table_of_texts(summary) + "\nScored " + scored.at("scored_at").get<std::string>().substr(0, 10) +
        " at commit " + scored.at("commit").get<std::string>().substr(0, 10) +
        (scored.at("dirty").get<bool>() ? " with uncommitted changes" : "") + "; the host's part is that of " +
        scored.at("host").get<std::string>() + ".\n\n<details><summary>Every row</summary>\n\n" +
        markdown_table_of_texts(rows) +
        "\n(*): Something of the published step is stood in for: `common/dry_gpu/held_out/steps.py` says what.\n";
    if (!left_out.empty()) text += "\nNot scored:\n\n";
    for (const std::string& line : left_out) text += "- " + markdown_cell(line) + "\n";
    return text + "\nSources: " + joined(sources) + ".\n\n</details>\n";
  } catch (const Json::exception& error) {
    throw FileError((root / kScored).string() + ": " + one_line(error.what()));
  }
}

}  // namespace tenfold
