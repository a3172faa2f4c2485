#include "common/pages/rows/case_words.h"

#include <algorithm>
#include <numeric>

#include "common/base/text.h"
#include "common/result/judge.h"

namespace tenfold {

std::string settings_text(const CaseResult& c, const std::string& left_out) {
  std::string out;
  for (const auto& [name, value] : c.settings) {
    if (name == left_out) continue;
    const std::string setting = name + "=" + to_string(value);
    if ((" " + c.name + " ").find(" " + setting + " ") != std::string::npos) continue;
    out += (out.empty() ? "" : ", ") + setting;
  }
  return out;
}

std::string case_text(const CaseResult& c) {
  std::string text = c.device + ", " + c.dtype + ", size " + c.size + ", " + std::to_string(c.threads) +
                     (c.threads == 1 ? " thread" : " threads");
  if (c.ranks > 1) text += ", " + std::to_string(c.ranks) + " ranks" + (c.backend.empty() ? "" : " over " + c.backend);
  if (const std::string settings = settings_text(c); !settings.empty()) text += ", " + settings;
  text += "; " + c.preset + ", seed " + std::to_string(c.seed);
  if (const std::string rounds = rounds_text(c); !rounds.empty()) text += ", " + rounds;
  return text;
}

std::string rounds_text(const CaseResult& c) {
  const int rounds = rounds_of(c), builds = builds_of(c), seeds = seeds_of(c);
  const std::string by = c.device == "dry"
                             ? " by the card's modelled clock"
                             : " by " + to_string(c.clock) + (c.clock == Clock::processor ? " time" : " clock");
  if (seeds > 0) return std::to_string(seeds) + (seeds == 1 ? " seed" : " seeds") + by;
  if (rounds == 0) return "";
  return std::to_string(rounds) + (rounds == 1 ? " round in " : " rounds in ") + std::to_string(builds) +
         (builds == 1 ? " build" : " builds") + by;
}

double items_per_second(const VariantResult& variant) {
  double ns = 0, items = 0;
  for (const Blocks& blocks : variant.blocks) {
    // Processor time may decide a verdict; how fast something is, is a question to the clock on the wall.
    const std::vector<int64_t>& times = blocks.ns(blocks.device_ns.empty() ? Clock::wall : Clock::device);
    ns = std::accumulate(times.begin(), times.end(), ns);
    items += static_cast<double>(blocks.items) * static_cast<double>(times.size());
  }
  return ns > 0 ? 1e9 * items / ns : 0;
}

std::string peak_text(const VariantResult& variant) {
  const auto peak = variant.peak();
  if (!peak) return "-";
  return (variant.environment.contains(kPeakAtLeast) ? "at least " : "") + human_bytes(static_cast<double>(*peak)) +
         (variant.judged_peak ? " " + *variant.judged_peak : "");
}

bool has_times(const Result& result) {
  return std::ranges::any_of(result.cases, [](const CaseResult& c) { return rounds_of(c) > 0; });
}

bool has_peak_at_least(const Result& result) {
  return std::ranges::any_of(result.cases, [](const CaseResult& c) {
    return std::ranges::any_of(c.variants, [](const VariantResult& variant) {
      return variant.peak().has_value() && variant.environment.contains(kPeakAtLeast);
    });
  });
}

std::vector<std::string> split_heading(const std::string& of) {
  std::vector<std::string> cells = {of, "step"};
  for (const SplitPart& part : kSplitParts) cells.emplace_back(part.name);
  return cells;
}

std::vector<std::string> split_cells(const Split& split) {
  const double step = step_seconds(split);
  std::vector<std::string> cells = {human_seconds(step)};
  for (const SplitPart& part : kSplitParts) {
    const double seconds = split.*part.seconds;
    cells.push_back(step > 0 && seconds > 0 ? human_percent(seconds / step) : "-");
  }
  return cells;
}

bool is_on_gpu(const CaseResult& c) { return c.device.starts_with("cuda"); }

std::string machine_text(const Machine& machine) {
  std::string out = machine.cpu + ", " + std::to_string(machine.cores) + (machine.cores == 1 ? " core" : " cores");
  if (machine.gpus.empty()) return out;
  const std::string count = machine.gpus.size() > 1 ? std::to_string(machine.gpus.size()) + " x " : "";
  return (is_dry(machine) ? "dry " : "") + count + machine.gpus.front().name + "; " + out;
}

}  // namespace tenfold
