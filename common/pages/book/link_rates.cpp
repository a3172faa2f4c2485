#include "common/pages/book/link_rates.h"

#include <algorithm>
#include <charconv>
#include <vector>

#include "common/base/files.h"
#include "common/base/text.h"
#include "common/pages/rows/case_words.h"
#include "common/pages/rows/markdown_table.h"
#include "common/result/code_hash.h"
#include "common/result/result.h"

namespace tenfold {
namespace {

namespace fs = std::filesystem;

/// A rate as `tc` writes it: "50mbit".
struct Rate {
  int number = 0;
  std::string unit;

  double bits() const { return number * (unit == "gbit" ? 1e9 : unit == "mbit" ? 1e6 : 1e3); }
  std::string words() const {
    return std::to_string(number) + (unit == "gbit" ? " Gbit/s" : unit == "mbit" ? " Mbit/s" : " kbit/s");
  }
};

struct Measured {
  Rate rate;
  Result result;
};

Rate rate_of(const fs::path& file) {
  const std::string stem = file.stem().string();
  Rate rate;
  const auto [end, error] = std::from_chars(stem.data(), stem.data() + stem.size(), rate.number);
  rate.unit = end;
  if (error != std::errc() || (rate.unit != "gbit" && rate.unit != "mbit" && rate.unit != "kbit"))
    throw FileError(file.string() + ": its name is no rate, e.g. 50mbit.json");
  return rate;
}

std::vector<Measured> measured_in(const fs::path& folder) {
  std::vector<Measured> all;
  if (!fs::exists(folder)) return all;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() != ".json") continue;
    all.push_back({rate_of(entry.path()), read_result(entry.path())});
    const Result& result = all.back().result;
    if (result.cases.size() != 1 || result.cases[0].name != all[0].result.cases[0].name)
      throw FileError(entry.path().string() + ": expected the one case that the others are of");
  }
  std::ranges::sort(all, {}, [](const Measured& measured) { return measured.rate.bits(); });
  return all;
}

}  // namespace

std::string link_rates_markdown(const fs::path& root, const std::string& lesson) {
  const std::vector<Measured> all = measured_in(root / "docs" / "links" / lesson);
  if (all.empty()) return "Not measured yet.\n";
  const CaseResult& first = all[0].result.cases[0];
  std::vector<std::vector<std::string>> rows = {{"link"}};
  for (const VariantResult& variant : first.variants) {
    if (!variant.blocks.empty()) rows[0].push_back(variant.name);
  }
  for (const auto& [rate, result] : all) {
    const std::vector<VariantResult>& variants = result.cases[0].variants;
    const double baseline = items_per_second(variants[0]);
    rows.push_back({rate.words()});
    for (size_t i = 1; i < rows[0].size(); ++i) {
      const auto variant = std::ranges::find(variants, rows[0][i], &VariantResult::name);
      if (variant == variants.end() || variant->blocks.empty()) {
        rows.back().push_back("-");
        continue;
      }
      const double speed = items_per_second(*variant);
      rows.back().push_back(human_number(speed) + (i == 1 ? "" : ", " + human_ratio(speed / baseline)));
    }
  }
  const Machine& machine = all[0].result.machine;
  const bool stale = all[0].result.code_hash != code_hash(root / "lessons" / lesson);
  return markdown_table_of_texts(rows) + "\n" + first.items.value_or("items") + "/s, and over those of " +
         first.variants[0].name + "; case `" + first.name + "`, one rank on each of two hosts that share " +
         markdown_cell(machine.cpu) + "; " + all[0].result.started_at.substr(0, 10) + ", commit " +
         all[0].result.commit.substr(0, 10) + (all[0].result.dirty ? " with uncommitted changes" : "") + ", preset " +
         first.preset + (stale ? "; *stale: the lesson's code has changed since*" : "") + ".\n";
}

}  // namespace tenfold
