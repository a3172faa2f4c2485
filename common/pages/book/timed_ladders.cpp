#include "common/pages/book/timed_ladders.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "common/base/files.h"
#include "common/base/text.h"
#include "common/pages/book/bench_report.h"
#include "common/pages/book/kernel_times.h"
#include "common/pages/rows/comparison_text.h"
#include "common/pages/rows/kernel_rows.h"
#include "common/pages/rows/markdown_table.h"
#include "common/result/statistics.h"

namespace tenfold {
namespace {

namespace fs = std::filesystem;
using Row = std::vector<std::string>;

constexpr const char* kRung = "rung ";

/// A contestant's rounds, on empty caches and on warm ones; nullptr where it was not timed so.
struct Contestant {
  std::string name;
  const KernelRow *cold = nullptr, *hot = nullptr;
  bool is_rung() const { return name.starts_with(kRung); }
};

struct Ladder {
  std::string name;  ///< "softmax backward, Float, 8192 x 8192"
  std::vector<Contestant> contestants;
};

/// In the order of the report.
std::vector<Ladder> ladders_of(const std::vector<KernelRow>& rows) {
  std::vector<Ladder> ladders;
  for (const KernelRow& row : rows) {
    auto ladder = std::ranges::find(ladders, row.ladder, &Ladder::name);
    if (ladder == ladders.end()) ladder = ladders.insert(ladders.end(), {row.ladder, {}});
    auto of = std::ranges::find(ladder->contestants, row.name, &Contestant::name);
    if (of == ladder->contestants.end()) of = ladder->contestants.insert(of, {row.name});
    (row.caches == "cold" ? of->cold : of->hot) = &row;
  }
  return ladders;
}

std::string time_text(const KernelRow* row) { return row ? human_seconds(median(row->seconds)) : "-"; }

std::string speed_text_over(const KernelRow* row, const KernelRow* other) {
  if (!row || !other || row == other) return "-";
  return interval_text(median_interval(speeds_over(*row, *other)));
}

/// `clocks`: a paragraph above the table, or nothing.
std::string table_of(const fs::path& root, const std::string& program, const Ladder& ladder,
                     const std::string& clocks) {
  const std::string operation = ladder.name.substr(0, ladder.name.find(','));
  const Row names = rung_names(root, program + (operation.ends_with(" backward") ? "_backward" : ""));
  std::vector<const Contestant*> others;
  for (const Contestant& contestant : ladder.contestants) {
    if (!contestant.is_rung()) others.push_back(&contestant);
  }
  std::vector<Row> table = {{"", "empty caches", "warm caches", "of the card"}};
  for (const Contestant* other : others) table[0].push_back("speed over " + other->name);
  for (const Contestant& contestant : ladder.contestants) {
    std::string name = contestant.name;
    const size_t rung = contestant.is_rung() ? std::stoul(name.substr(std::string(kRung).size())) : names.size();
    if (rung < names.size()) name += ", " + names[rung];
    table.push_back({name, time_text(contestant.cold), time_text(contestant.hot),
                     contestant.cold ? share_of_ceiling(*contestant.cold) : "-"});
    for (const Contestant* other : others) table.back().push_back(speed_text_over(contestant.cold, other->cold));
  }
  return "**" + markdown_cell(ladder.name) + "**\n\n" + clocks + markdown_table_of_texts(table);
}

/// "SM at 1,515 to 1,965 MHz, 517 to 646 W.": over all rounds of the ladder, each looked at once for all contestants.
/// Empty where the report does not say it.
std::string clocks_text(const nlohmann::json& report, const std::string& ladder) {
  const auto range = [&](const char* name) {
    double low = 0, high = 0;
    for (const auto& round : report.at("benchmarks")) {
      if (!round.at("name").get<std::string>().starts_with(ladder + "/") || !round.contains(name)) continue;
      const double value = round.at(name);
      low = high == 0 ? value : std::min(low, value), high = std::max(high, value);
    }
    const std::string most = std::to_string(std::lround(high));
    return high == 0                               ? ""
           : std::lround(low) == std::lround(high) ? most
                                                   : std::to_string(std::lround(low)) + " to " + most;
  };
  const std::string mhz = range("sm_mhz"), watts = range("power_w");
  return mhz.empty() || watts.empty() ? "" : "SM at " + mhz + " MHz, " + watts + " W.\n\n";
}

struct Report {
  fs::path file;
  std::vector<KernelRow> rows;  ///< one at least, of a GPU
};

/// By machine.
std::map<std::string, Report> reports_of(const fs::path& root, const std::string& program) {
  std::map<std::string, Report> reports;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(root / "results", none)) {
    const fs::path file = entry.path() / "bench" / (program + ".json");
    if (!fs::exists(file)) continue;
    std::vector<KernelRow> rows = read_kernel_rows(file);
    if (!rows.empty() && !rows.front().gpu.empty()) reports[entry.path().filename().string()] = {file, std::move(rows)};
  }
  return reports;
}

}  // namespace

std::vector<std::string> gpus_that_timed(const fs::path& root, const std::string& program) {
  std::vector<std::string> machines;
  for (const auto& [machine, report] : reports_of(root, program)) machines.push_back(machine);
  return machines;
}

std::string timed_ladders_markdown(const fs::path& root, const std::string& program) {
  std::string out;
  for (const auto& [machine, timed] : reports_of(root, program)) {
    const std::vector<KernelRow>& rows = timed.rows;
    const BenchReport report = read_bench_report(timed.file);
    out += (out.empty() ? "" : "\n") + ("**" + markdown_cell(machine) + "**: " + markdown_cell(rows.front().gpu)) +
           "; " + report.date.substr(0, 10) + ", commit " + report.commit.substr(0, 10) + ", " +
           std::to_string(rows.front().seconds.size()) + " rounds. *Of the card*: bytes or FLOP a second on empty " +
           "caches, as a share of the maker's figure.\n\n";
    const auto json = nlohmann::json::parse(read_text(timed.file));  // which read_kernel_rows() could read
    const std::vector<Ladder> ladders = ladders_of(rows);
    for (size_t i = 0; i < ladders.size(); ++i) {
      if (i == 1) out += "\n<details><summary>Other types and sizes</summary>\n";
      out += (i > 0 ? "\n" : "") + table_of(root, program, ladders[i], clocks_text(json, ladders[i].name));
    }
    if (ladders.size() > 1) out += "\n</details>\n";
  }
  return out.empty() ? "No GPU has timed it yet.\n" : out;
}

}  // namespace tenfold
