#include "common/pages/book/bench_report.h"

#include <nlohmann/json.hpp>

#include "common/base/files.h"
#include "common/base/text.h"
#include "common/pages/rows/markdown_table.h"
#include "common/result/result.h"
#include "common/result/statistics.h"

namespace tenfold {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

Json parsed(const fs::path& file) {
  try {
    return Json::parse(read_text(file));
  } catch (const Json::exception& error) {
    throw FileError(file.string() + ": is damaged: " + one_line(error.what()));
  }
}

double median_rate(const Json& rounds, const char* side) {
  std::vector<double> rates;
  for (const Json& round : rounds) rates.push_back(round.at(side));
  return rates.empty() ? 0 : median(std::move(rates));
}

PeerRatio ratio_of(const Json& row, bool best) {
  PeerRatio ratio;
  ratio.best = best;
  ratio.label = row.at(best ? "label" : "name");
  ratio.ours = best ? row.at("program").get<std::string>() : ratio.label;
  ratio.theirs = best ? row.at("peer").get<std::string>() : ratio.label;
  ratio.bytes = row.at("unit") == "bytes";
  ratio.our_rate = median_rate(row.at("rounds"), "program");
  ratio.their_rate = median_rate(row.at("rounds"), "peer");
  ratio.ratio = row.at("ratio"), ratio.low = row.at("low"), ratio.high = row.at("high");
  ratio.covered = row.at("covered");
  return ratio;
}

std::string rate_text(double rate, bool bytes) {
  if (!bytes) return human_number(rate) + "/s";
  return rate < 1e9 ? human_number(rate / 1e6) + " MB/s" : human_number(rate / 1e9) + " GB/s";
}

std::string ratio_text(const PeerRatio& ratio) {
  return human_ratio(ratio.ratio, ratio.low, ratio.high) + (ratio.covered ? "" : ", range of too few rounds");
}

}  // namespace

BenchReport read_bench_report(const fs::path& file) {
  const Json json = parsed(file);
  try {
    BenchReport report{.name = file.stem().string()};
    const Json& context = json.at("context");
    report.machine = context.value("machine", "");
    report.hardware = context.value("hardware", "");
    report.commit = context.value("commit", "");
    report.date = context.value("date", "").substr(0, 10);
    report.dirty = context.value("dirty", "no") != "no";
    if (!json.contains("peer")) return report;
    const Json& peer = json.at("peer");
    report.cores = static_cast<int64_t>(peer.at("cores").size());
    for (const auto& [library, version] : peer.at("libraries").items()) report.libraries.emplace_back(library, version);
    for (const Json& row : peer.at("benchmarks")) report.ratios.push_back(ratio_of(row, /*best=*/false));
    for (const Json& row : peer.at("best")) report.ratios.push_back(ratio_of(row, /*best=*/true));
    for (const Json& row : peer.value("sizes", Json::array()))
      report.sizes.push_back({row.at("name"), row.at("program"), row.at("peer")});
    return report;
  } catch (const Json::exception& error) {
    throw FileError(file.string() + ": is no benchmark report: " + one_line(error.what()));
  }
}

std::vector<BenchReport> read_bench_reports(const fs::path& folder) {
  std::vector<BenchReport> reports;
  for (const fs::path& file : json_files_in(folder)) reports.push_back(read_bench_report(file));
  return reports;
}

std::string publishable_bench_report(const fs::path& file, const std::string& machine) {
  Json json = parsed(file);
  json.at("context")["machine"] = machine;
  for (const char* key : {"host_name", "executable", "answer_near"}) json.at("context").erase(key);
  return json.dump(1) + "\n";
}

std::string peer_ratios_markdown(const std::vector<BenchReport>& reports) {
  std::vector<std::vector<std::string>> rows = {{"benchmark", "what", "this suite", "the other", "ratio"}};
  std::string measured;
  for (const BenchReport& report : reports) {
    if (report.ratios.empty()) continue;
    measured += "- " + report.name + ": against ";
    for (size_t i = 0; i < report.libraries.size(); ++i)
      measured += (i > 0 ? ", " : "") + report.libraries[i].first + " " + report.libraries[i].second;
    measured += "; " + std::to_string(report.cores) + (report.cores == 1 ? " core" : " cores") + "; " + report.date +
                ", commit " + report.commit.substr(0, 10) + ".\n";
    for (const PeerRatio& ratio : report.ratios) {
      const auto side = [&](const std::string& name, double rate) {
        return rate_text(rate, ratio.bytes) + (ratio.best ? " (" + name + ")" : "");
      };
      rows.push_back({report.name, ratio.best ? "best: " + ratio.label : ratio.label, side(ratio.ours, ratio.our_rate),
                      side(ratio.theirs, ratio.their_rate), ratio_text(ratio)});
    }
    for (const PeerSize& size : report.sizes) {
      rows.push_back({report.name, size.label, human_bytes(size.ours), human_bytes(size.theirs),
                      human_ratio(static_cast<double>(size.ours) / static_cast<double>(size.theirs))});
    }
  }
  return measured.empty() ? "" : measured + "\n" + markdown_table_of_texts(rows);
}

}  // namespace tenfold
