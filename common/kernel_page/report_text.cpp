#include "common/kernel_page/report_text.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>

#include "common/base/text.h"

namespace tenfold::simt {
namespace {

using Rows = std::vector<std::vector<std::string>>;

constexpr size_t kWidth = 120;

std::string fixed(double value, int digits = 2) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "%.*f", digits, value);
  return text.data();
}

/// 81920 as "81,920": counts are exact, so no digit is dropped.
std::string grouped(int64_t count) {
  std::string text = std::to_string(count);
  for (auto at = static_cast<int64_t>(text.size()) - 3; at > (count < 0 ? 1 : 0); at -= 3)
    text.insert(static_cast<size_t>(at), ",");
  return text;
}

std::string counted(int64_t count, const std::string& word) {
  return grouped(count) + " " + word + (count == 1 ? "" : word.ends_with("ch") ? "es" : "s");
}

std::string cut(const std::string& text, size_t width) {
  return text.size() <= width ? text : text.substr(0, width - 3) + "...";
}

std::string shape_text(const KernelCase& page, const Shape& shape) {
  std::string text;
  for (const auto& [name, otherwise] : page.shape) {
    const auto chosen = shape.find(name);
    text +=
        (text.empty() ? "" : ", ") + name + "=" + std::to_string(chosen == shape.end() ? otherwise : chosen->second);
  }
  return text;
}

std::string thread_text(const std::array<uint32_t, 3>& id) {
  return "(" + std::to_string(id[0]) + "," + std::to_string(id[1]) + "," + std::to_string(id[2]) + ")";
}

std::string place_text(const std::string& buffer) { return buffer.empty() ? "shared memory" : "'" + buffer + "'"; }

/// The races and faults, a sentence each, with the lines of source that they name.
std::string format_problems(const Report& report) {
  std::string out;
  const auto say = [&](const std::string& text) { out += "  " + wrap_text(text, kWidth - 2, 4) + "\n"; };
  const auto quote = [&](const Where& where) {
    const std::string code = source_line(where);
    if (!code.empty()) out += "      " + cut(short_text_of(where) + "  " + code, kWidth - 6) + "\n";
  };
  for (const Race& race : report.races) {
    const bool one_block = race.first_thread.block == race.second_thread.block;
    const std::string what =
        race.in_flight && race.first_kind == Kind::load
            ? "the product that begins at " + short_text_of(race.first) + " may still read when " +
                  name_of(race.second_kind) + " at " + short_text_of(race.second) + " touches the same word of "
        : race.in_flight
            ? "the asynchronous copy that begins at " + short_text_of(race.first) + " may not have landed when " +
                  name_of(race.second_kind) + " at " + short_text_of(race.second) + " touches the same word of "
            : std::string(name_of(race.first_kind)) + " at " + short_text_of(race.first) + " and " +
                  name_of(race.second_kind) + " at " + short_text_of(race.second) + " touch the same word of ";
    say("RACE: " + what + place_text(race.buffer) + (race.in_flight ? "; " : " and nothing orders them; ") +
        counted(race.count, "time") + ", first at byte " + std::to_string(race.offset) + ": thread " +
        thread_text(race.first_thread.thread) + (one_block ? "" : " of block " + thread_text(race.first_thread.block)) +
        " and thread " + thread_text(race.second_thread.thread) + " of block " + thread_text(race.second_thread.block));
    quote(race.first);
    if (race.second != race.first) quote(race.second);
  }
  for (const Fault& fault : report.faults) {
    say("FAULT, " + std::string(name_of(fault.kind)) + " at " + short_text_of(fault.where) + ": " + fault.text + " (" +
        counted(fault.count, "time") + ")");
    quote(fault.where);
  }
  return out;
}

std::string result_text(const RungResult& result) {
  if (!result.right()) return "WRONG";
  if (!result.report.faults.empty()) return "FAULT";
  return result.report.races.empty() ? "right" : "RACE";
}

Rows access_rows(const Report& report) {
  Rows rows = {
      {"where", "what", "buffer", "B/lane", "requests", "lanes", "sectors", "lines", "wavefronts", "conflict"}};
  for (const Access& access : report.accesses) {
    const bool shared = access.space == Space::shared;
    const double requests = static_cast<double>(std::max<int64_t>(access.requests, 1));
    rows.push_back(
        {short_text_of(access.where), std::string(name_of(access.space)) + " " + name_of(access.kind),
         shared ? "-" : access.buffer, std::to_string(access.bytes), grouped(access.requests),
         fixed(static_cast<double>(access.lanes) / requests, 1),
         shared ? "-" : fixed(access.sectors_per_request()) + " (" + fixed(ideal_sectors_per_request(access)) + ")",
         shared ? "-" : fixed(static_cast<double>(access.lines) / requests),
         !shared ? "-"
                 : fixed(access.wavefronts_per_request()) + " (" +
                       fixed(static_cast<double>(access.ideal_wavefronts) / requests) + ")",
         !shared                  ? "-"
         : access.worst_ways <= 1 ? "none"
                                  : std::to_string(access.worst_ways) + "-way"});
    const std::string code = source_line(access.where);
    if (!code.empty()) rows.push_back({cut(code, kWidth - 8)});
  }
  return rows;
}

/// What a mean request of one space and kind moves, and in brackets what it need not exceed; "-" when there is none.
std::string per_request(const Report& report, Space space, std::optional<Kind> kind) {
  int64_t requests = 0;
  double units = 0, ideal = 0;
  for (const Access& access : report.accesses) {
    if (access.space != space || (kind && access.kind != *kind)) continue;
    const bool shared = space == Space::shared;
    requests += access.requests;
    units += static_cast<double>(shared ? access.wavefronts : access.sectors);
    ideal += shared ? static_cast<double>(access.ideal_wavefronts)
                    : ideal_sectors_per_request(access) * static_cast<double>(access.requests);
  }
  if (requests == 0) return "-";
  const auto count = static_cast<double>(requests);
  return fixed(units / count) + " (" + fixed(ideal / count) + ")";
}

}  // namespace

std::string source_line(const Where& where) {
  std::filesystem::path path = where.file;
  const char* folder = std::getenv("TENFOLD_SOURCE_DIR");
  if (path.is_relative() && folder && *folder) path = std::filesystem::path(folder) / path;
  std::ifstream file(path);
  std::string line;
  for (int i = 0; i < where.line; ++i) {
    if (!std::getline(file, line)) return "";
  }
  return where.line > 0 ? one_line(line) : "";
}

double ideal_sectors_per_request(const Access& access) {
  if (access.requests == 0) return 0;
  return std::max(1.0, static_cast<double>(access.bytes_asked()) / 32 / static_cast<double>(access.requests));
}

std::string format_rung(const KernelCase& page, const Shape& shape, const RungResult& result) {
  const Report& report = result.report;
  const Rung& rung = page.rungs[static_cast<size_t>(result.rung)];
  std::string out = page.name + ": " + page.title + "\n";
  out += wrap_text("rung " + std::to_string(result.rung) + " of 0 to " + std::to_string(page.rungs.size() - 1) + ", " +
                       rung.name + ": " + rung.idea,
                   kWidth, 2) +
         "\n";
  out += "shape: " + shape_text(page, shape) + "\n";
  out += wrap_text("ran as: " + counted(report.launches, "launch") + ", " + counted(report.blocks, "block") + ", " +
                       counted(report.threads, "thread") + "; " + counted(report.barriers, "barrier") + ", " +
                       counted(report.warp_operations, "warp operation") + ", " +
                       (report.matrix_multiplies != 0 ? counted(report.matrix_multiplies, "mma") + ", " : "") +
                       human_bytes(static_cast<double>(report.largest_shared_bytes)) + " of dynamic shared memory",
                   kWidth, 2) +
         "\n";
  out += std::string("result: ") + (result.right() ? "right" : "WRONG") + ", largest error " +
         human_number(result.run.worst_error) + " of the tolerance; " +
         counted(static_cast<int64_t>(report.races.size()), "race") + ", " +
         counted(static_cast<int64_t>(report.faults.size()), "fault") + "\n\n";

  out += format_columns(access_rows(report), "lllrrrrrrr", kWidth);
  out += "  " +
         wrap_text(
             "A request is one instruction of one warp. What follows is of a request: lanes, active threads of the 32; "
             "sectors, the 32-byte pieces of global memory that it moves, in brackets what the same lanes need side by "
             "side (less where they share an address); lines, those of 128 bytes that L1 looks up for it, one in a "
             "clock; wavefronts, passes over the 32 banks of shared memory, in brackets without conflicts. conflict: "
             "the worst of all requests.",
             kWidth - 4, 2) +
         "\n\n";
  if (const std::string problems = format_problems(report); !problems.empty()) out += problems + "\n";

  const auto asked = static_cast<double>(report.bytes_asked()), moved = static_cast<double>(report.sectors()) * 32;
  const auto dram = static_cast<double>(report.unique_bytes_read + report.unique_bytes_written);
  const auto ratio = [](double a, double b) { return b > 0 ? human_ratio(a / b) : std::string("-"); };
  out += format_columns(
      {{"global memory", "bytes", ""},
       {"asked for", human_bytes(asked), "by the lanes"},
       {"moved", human_bytes(moved), "sectors of all requests; " + ratio(moved, asked) + " what was asked for"},
       {"DRAM", human_bytes(dram),
        "each touched sector once; the operation needs at least " +
            human_bytes(static_cast<double>(result.run.work.least_bytes)) + " (" +
            ratio(dram, static_cast<double>(result.run.work.least_bytes)) + ")"},
       {"arithmetic", human_number(result.run.work.flops) + " flop",
        "intensity " + human_number(dram > 0 ? result.run.work.flops / dram : 0) + " flop for each DRAM byte"}},
      "lrl", kWidth);
  return out;
}

std::string format_ladder(const KernelCase& page, const Shape& shape, const std::vector<RungResult>& results) {
  std::string out = page.name + ": " + page.title + "\nshape: " + shape_text(page, shape) + "\n\n";
  const bool atomics = std::any_of(results.begin(), results.end(), [](const RungResult& result) {
    return per_request(result.report, Space::global, Kind::atomic) != "-";
  });
  Rows rows = {{"rung", "result", "load", "store", "atomic", "shared", "moved", "of least"}};
  for (const RungResult& result : results) {
    const Report& report = result.report;
    const double moved = static_cast<double>(report.sectors()) * 32,
                 least = static_cast<double>(result.run.work.least_bytes);
    const Rung& rung = page.rungs[static_cast<size_t>(result.rung)];
    rows.push_back({std::to_string(result.rung) + " " + rung.name, result_text(result),
                    per_request(report, Space::global, Kind::load), per_request(report, Space::global, Kind::store),
                    per_request(report, Space::global, Kind::atomic), per_request(report, Space::shared, std::nullopt),
                    human_bytes(moved), least > 0 ? human_ratio(moved / least) : "-"});
    rows.push_back({rung.idea});
  }
  if (!atomics) {
    for (auto& row : rows) {
      if (row.size() > 1) row.erase(row.begin() + 4);
    }
  }
  out += format_columns(rows, atomics ? "llrrrrrr" : "llrrrrr", kWidth);
  out +=
      "  " +
      wrap_text(
          "load, store" + std::string(atomics ? ", atomic" : "") +
              ": 32-byte sectors of global memory for each request (one instruction of one warp); in brackets what the "
              "same lanes need side by side. shared: passes over the banks for each request to shared memory; in "
              "brackets "
              "without conflicts. moved: sectors of all requests; of least: beside what the operation needs.",
          kWidth - 4, 2) +
      "\n";
  for (const RungResult& result : results) {
    const std::string problems = format_problems(result.report);
    if (!problems.empty()) out += "\nrung " + std::to_string(result.rung) + ":\n" + problems;
    if (!result.right()) {
      out += "\nrung " + std::to_string(result.rung) + ": WRONG, largest error " +
             human_number(result.run.worst_error) + " of the tolerance\n";
    }
  }
  return out;
}

}  // namespace tenfold::simt
