#include "common/pages/book/published_peers.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
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

constexpr const char* kPeers = "docs/published_steps/peers.json";
constexpr const char* kScored = "docs/published_steps/modelled.json";
constexpr const char* kDryGpu = "Tenfold's dry GPU";
constexpr double kGib = 1024.0 * 1024 * 1024;

/// Their keys in peers.json, and what the page calls them.
const std::vector<std::pair<std::string, std::string>>& time_predictors() {
  static const std::vector<std::pair<std::string, std::string>> all = {
      {"runtime_estimator", "PyTorch's RuntimeEstimator"},
      {"runtime_estimator_without_device", "the same, without reads of a tensor's device"},
      {"by_operator", "roofline of each operator, summed"},
      {"whole_step", "roofline of the whole step"}};
  return all;
}

/// A published row, what other predictors say of it, and what the dry GPU says: both empty where nobody was asked.
struct Step : PublishedRow {
  const Json& peers;
  const Json& modelled;

  /// Predicted / published speed: above 1 the predictor is too fast.
  std::optional<double> ratio(const std::string& predictor) const {
    const Json& values = predictor == kDryGpu ? modelled : peers.value("values", Json::object());
    const char* const key = predictor == kDryGpu ? "value" : predictor.c_str();
    if (!values.contains(key)) return std::nullopt;
    return faster(values.at(key), published.at("value"));
  }
};

std::vector<Step> steps_of(const Json& published, const Json& peers, const Json& modelled) {
  static const Json kNothing = Json::object();
  std::vector<Step> steps;
  for (const Json& row : published) {
    const Json* const by_peers = row_of(peers, row.at("id"));
    const Json* const by_us = row_of(modelled, row.at("id"));
    steps.push_back({{row}, by_peers == nullptr ? kNothing : *by_peers, by_us == nullptr ? kNothing : *by_us});
  }
  return steps;
}

/// The larger of a ratio and its inverse.
double factor_off(double ratio) { return std::max(ratio, 1 / ratio); }

std::vector<double> ratios_of(const std::vector<Step>& steps, const std::string& predictor,
                              const std::string& arithmetic) {
  std::vector<double> ratios;
  for (const Step& step : steps) {
    const auto ratio = step.ratio(predictor);
    if (ratio && (arithmetic.empty() || step.arithmetic() == arithmetic)) ratios.push_back(*ratio);
  }
  return ratios;
}

/// Name, steps, median factor off, within 1.25x, within 2x.
Row score_row(const std::string& name, const std::vector<double>& ratios) {
  if (ratios.empty()) return {name, "0", "", "", ""};
  std::vector<double> factors(ratios.size());
  std::ranges::transform(ratios, factors.begin(), factor_off);
  return {name, std::to_string(ratios.size()), human_ratio(median(factors)), within(ratios, 1.25), within(ratios, 2)};
}

std::vector<std::pair<std::string, std::string>> all_predictors() {
  auto all = time_predictors();
  all.emplace_back(kDryGpu, kDryGpu);
  return all;
}

std::string score_table(const std::vector<Step>& steps) {
  std::vector<Row> rows = {{"predictor", "matmuls in", "steps", "factor off, median", "within 1.25x", "within 2x"}};
  for (const auto& [key, name] : all_predictors()) {
    for (const std::string arithmetic : {kArithmetics[0], kArithmetics[1], kArithmetics[2], ""}) {
      Row row = score_row(name, ratios_of(steps, key, arithmetic));
      row.insert(row.begin() + 1, arithmetic.empty() ? "all" : arithmetic);
      rows.push_back(std::move(row));
    }
  }
  return markdown_table_of_texts(rows);
}

/// Of the steps that every predictor can run; empty where these are all.
std::string common_table(const std::vector<Step>& steps) {
  std::vector<Step> common;
  for (const Step& step : steps) {
    if (std::ranges::all_of(all_predictors(), [&](const auto& named) { return step.ratio(named.first).has_value(); }))
      common.push_back(step);
  }
  if (common.empty() || common.size() == steps.size()) return "";
  std::vector<Row> rows = {{"predictor", "steps", "factor off, median", "within 1.25x", "within 2x"}};
  for (const auto& [key, name] : all_predictors()) rows.push_back(score_row(name, ratios_of(common, key, "")));
  return "\nThe steps that each of them can run:\n\n" + markdown_table_of_texts(rows);
}

/// Of the steps whose source says what the allocator reserved; empty without one.
std::string memory_table(const std::vector<Step>& steps) {
  std::vector<Row> rows = {{"step", "reserved, published", "PyTorch's MemTracker", "error", "dry GPU", "error"}};
  for (const Step& step : steps) {
    const Json gib = step.peers.value("gib", Json::object());
    if (!step.published.contains("reserved_gib") || !gib.contains("mem_tracker")) continue;
    const double reserved = step.published.at("reserved_gib");
    const auto shown = [&](const Json& value) {
      return std::pair(human_bytes(value.get<double>() * kGib),
                       human_percent(value.get<double>() / reserved - 1, /*sign=*/true));
    };
    const auto [tracked, its_error] = shown(gib.at("mem_tracker"));
    const auto [counted, our_error] = step.modelled.contains("reserved_gib") ? shown(step.modelled.at("reserved_gib"))
                                                                             : std::pair<std::string, std::string>();
    rows.push_back({step.text("id"), human_bytes(reserved * kGib), tracked, its_error, counted, our_error});
  }
  return rows.size() == 1 ? ""
                          : "\nMemory, where the source says what was reserved:\n\n" + markdown_table_of_texts(rows);
}

/// "\nNot run:\n\n- runtime_estimator: why (12 steps)\n"
std::string not_run(const std::vector<Step>& steps) {
  std::map<std::string, int> reasons;
  for (const Step& step : steps) {
    const Json failed = step.peers.value("failed", Json::object());
    for (const auto& [predictor, why] : failed.items()) ++reasons[predictor + ": " + why.get<std::string>()];
  }
  std::string lines;
  for (const auto& [reason, count] : reasons)
    lines += "- " + markdown_cell(reason) + " (" + std::to_string(count) + (count == 1 ? " step" : " steps") + ")\n";
  return lines.empty() ? "" : "\nNot run:\n\n" + lines;
}

/// "at commit 0123456789"; of several how many, since each row's own is in the file: "at 8 commits, 2 steps with
/// uncommitted changes".
std::string commits_text(const Json& peers) {
  std::set<std::string> commits;
  size_t dirty = 0;
  for (const Json& row : peers) {
    commits.insert(row.at("commit").get<std::string>().substr(0, 10));
    if (row.at("dirty").get<bool>()) ++dirty;
  }
  return (commits.size() == 1 ? "at commit " + *commits.begin() : "at " + std::to_string(commits.size()) + " commits") +
         (dirty == 0 ? ""
                     : ", " + std::to_string(dirty) + (dirty == 1 ? " step" : " steps") + " with uncommitted changes");
}

/// Of how many steps, when, with what and at which commits; rows may come from several calls.
std::string provenance(const std::vector<Step>& steps, const Json& peers) {
  std::set<std::string> days, torch;
  for (const Json& row : peers) {
    days.insert(row.at("ran_at").get<std::string>().substr(0, 10));
    torch.insert(row.at("versions").at("torch").get<std::string>());
  }
  const auto asked =
      static_cast<size_t>(std::ranges::count_if(steps, [](const Step& step) { return !step.peers.empty(); }));
  const auto listed = [](const std::set<std::string>& words) {
    return joined(std::vector<std::string>(words.begin(), words.end()));
  };
  return "The others were asked about " + std::to_string(asked) + " of " + std::to_string(steps.size()) + " steps, " +
         listed(days) + ", with PyTorch " + listed(torch) + ", " + commits_text(peers) + ".\n";
}

}  // namespace

std::string published_peers_markdown(const fs::path& root) {
  if (!fs::exists(root / kPeers)) return "Not scored yet.\n";
  const Json published = read_rows(root / kPublishedRows), peers = read_rows(root / kPeers);
  const Json modelled = fs::exists(root / kScored) ? read_rows(root / kScored) : Json{{"rows", Json::array()}};
  try {
    const std::vector<Step> steps = steps_of(published, peers.at("rows"), modelled.at("rows"));
    return score_table(steps) + "\n" + provenance(steps, peers.at("rows")) + common_table(steps) + memory_table(steps) +
           not_run(steps);
  } catch (const Json::exception& error) {
    throw FileError((root / kPeers).string() + ", " + kScored + " or " + kPublishedRows + ": " +
                    one_line(error.what()));
  }
}

}  // namespace tenfold
