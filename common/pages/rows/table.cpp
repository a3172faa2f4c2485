#include "common/pages/rows/table.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <cstdio>
#include <numeric>
#include <sstream>
#include <utility>

#include "common/base/text.h"
#include "common/result/judge.h"
#include "common/result/statistics.h"

namespace tenfold {
namespace {

constexpr size_t kWidth = 120;

std::string short_number(double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.1e", value);
  return text.data();
}

std::string case_heading(const CaseResult& c, int64_t cores) {
  std::ostringstream out;
  out << "Case " << c.name << ": " << c.device << ", " << c.dtype << ", size " << c.size << ", " << c.threads
      << (c.threads == 1 ? " thread" : " threads");
  if (c.ranks > 1) out << ", " << c.ranks << " ranks" << (c.backend.empty() ? "" : " over " + c.backend);
  const std::string settings = settings_text(c);
  if (!settings.empty()) out << ", " << settings;
  out << "; " << c.preset << ", seed " << c.seed;
  if (const std::string rounds = rounds_text(c); !rounds.empty()) out << ", " << rounds;
  if (c.noise) out << ", noise " << human_percent(*c.noise);
  if (const std::string withheld = speed_withheld(c, cores); !withheld.empty()) out << "; " << withheld;
  return wrap_text(out.str(), kWidth, 2) + "\n";
}

std::string off_text(const Verdict& verdict, const char* of) {
  return predictions_off(verdict).contains(of) ? ", off" : "";
}

/// "batch=64, the largest in a budget of 24.0 MiB"; empty in a case without one.
std::string budget_remark(const CaseResult& c, const VariantResult& variant) {
  if (!c.budget || !variant.budget_value) return "";
  return c.budget->setting + "=" + to_string(*variant.budget_value) + ", the largest in a budget of " +
         human_bytes(static_cast<double>(c.budget->bytes));
}

std::string prediction_remark(const VariantResult& variant, const Verdict& verdict) {
  std::string out;
  if (variant.predicted.speed_ratio) out = "speed " + prediction_text(variant, verdict);
  if (variant.predicted.peak_bytes)
    out += (out.empty() ? "" : "; ") + ("peak " + predicted_peak_text(variant, verdict));
  return out.empty() ? out : "predicted: " + out;
}

std::string verdict_rows(const CaseResult& c) {
  std::vector<std::vector<std::string>> rows = {
      {"variant", "items/s", "peak", "speed", "memory", "agreement", "expected"}};
  for (const VariantResult& variant : c.variants) {
    const Verdict* verdict = verdict_of(c, variant.name);
    const double rate = items_per_second(variant);
    const std::string name = variant.name + (variant.source == "modelled" ? " (modelled)" : "");
    const std::string speed = rate > 0 ? human_number(rate) : "-";
    if (!verdict) {
      rows.push_back({name, speed, peak_text(variant),
                      variant.status == "ok" ? "baseline" : "baseline, " + variant.status,
                      c.device == "dry" ? "baseline" : "", "", ""});
      if (variant.predicted.peak_bytes) {
        Verdict own;  // a baseline has no verdict, but its peak is predicted all the same
        if (const auto peak = variant.peak(); peak && *variant.predicted.peak_bytes > 0) {
          own.prediction_error["peak"] =
              static_cast<double>(*peak) / static_cast<double>(*variant.predicted.peak_bytes) - 1;
        }
        rows.push_back({prediction_remark(variant, own)});
      }
    } else {
      rows.push_back({name, speed, peak_text(variant), speed_text(verdict->speed), memory_text(verdict->memory),
                      agreement_text(*verdict), expectation_text(variant, *verdict)});
      if (const std::string remark = prediction_remark(variant, *verdict); !remark.empty()) rows.push_back({remark});
    }
    if (const std::string remark = budget_remark(c, variant); !remark.empty()) rows.push_back({remark});
    if (!variant.reason.empty()) rows.push_back({variant.status + ": " + variant.reason});
  }
  if (c.device == "dry") {  // nothing was timed
    for (auto& row : rows) {
      if (row.size() > 1) row.erase(row.begin() + 3), row.erase(row.begin() + 1);
    }
    return format_columns(rows, "lrlll", kWidth);
  }
  return format_columns(rows, "lrrllll", kWidth);
}

std::string training_rows(const CaseResult& c) {
  const bool peaks = has_peaks(c);
  std::vector<std::vector<std::string>> rows = {
      {"variant", c.metric->name, "against the baseline", "time to its quality", "peak", "memory", "expected"}};
  for (const VariantResult& variant : c.variants) {
    const Verdict* verdict = verdict_of(c, variant.name);
    const auto quality = variant.quality.find(c.metric->name);
    // The line above says how many seeds there were.
    const std::string text = quality == variant.quality.end() ? "-" : quality_text(quality->second);
    const std::string first = text.substr(0, text.find(" of "));
    if (verdict) {
      rows.push_back({variant.name, first, agreement_text(*verdict), time_to_quality_text(*verdict), peak_text(variant),
                      memory_text(verdict->memory), expectation_text(variant, *verdict)});
    } else {
      rows.push_back({variant.name, first, variant.status == "ok" ? "baseline" : "baseline, " + variant.status, "",
                      peak_text(variant), "", ""});
    }
    if (!peaks) rows.back().erase(rows.back().begin() + 4, rows.back().begin() + 6);
    if (!variant.reason.empty()) rows.push_back({variant.status + ": " + variant.reason});
  }
  if (!peaks) rows.front().erase(rows.front().begin() + 4, rows.front().begin() + 6);
  return "  " + wrap_text(one_line(metric_text(c)), kWidth - 2, 4) + "\n" +
         format_columns(rows, peaks ? "llllrll" : "lllll", kWidth);
}

std::string split_rows(const CaseResult& c) {
  std::vector<std::vector<std::string>> rows = {
      {"where the time goes", "step", "data", "host", "device", "copy", "communication"}};
  for (const VariantResult& variant : c.variants) {
    if (const auto reason = variant.environment.find("split"); reason != variant.environment.end()) {
      rows.push_back({variant.name, "-", "-", "-", "-", "-", "-"});
      rows.push_back({reason->second});
    }
    if (!variant.split) continue;
    rows.push_back(split_cells(*variant.split));
    rows.back().insert(rows.back().begin(), variant.name);
  }
  return rows.size() > 1 ? format_columns(rows, "lrrrrrr", kWidth) : "";
}

std::string quality_and_notes(const CaseResult& c, const VariantResult& variant) {
  std::string out;
  const auto add = [&out](const std::string& text) { out += (out.empty() ? "" : "; ") + text; };
  for (const auto& [name, values] : variant.quality) {
    if (!c.metric || name != c.metric->name) add(name + " " + quality_text(values));
  }
  if (variant.curves) {
    const std::string rate = training_rate_text(c, variant);
    add("trained in " + training_time_text(c, variant) + (rate.empty() ? "" : " at " + rate + " items/s"));
  }
  for (const std::string& text : request_texts(variant)) add(text);
  for (const auto& [name, note] : variant.notes) add(name + " " + note_text(name, note));
  for (const auto& [name, value] : variant.environment) {
    if (name == kPeakAtLeast) continue;  // the peak says so itself
    // What all variants share tells them apart in nothing; the file keeps it.
    const bool shared = std::all_of(c.variants.begin(), c.variants.end(), [&](const VariantResult& other) {
      const auto found = other.environment.find(name);
      return found != other.environment.end() && found->second == value;
    });
    if (!shared) add(name + "=" + value);
  }
  return out;
}

std::string note_lines(const CaseResult& c) {
  std::string out;
  for (const VariantResult& variant : c.variants) {
    const std::string text = quality_and_notes(c, variant);
    if (!text.empty()) out += "  " + wrap_text(one_line(variant.name + ": " + text), kWidth - 2, 6) + "\n";
  }
  return out;
}

std::string survey_rows(const CaseResult& c) {
  std::vector<std::vector<std::string>> rows = {{"what was measured", "value"}};
  for (const VariantResult& variant : c.variants) {
    rows.push_back({variant.name + (variant.status == "ok" ? "" : ", " + variant.status), ""});
    if (const double rate = items_per_second(variant); rate > 0) rows.push_back({"    items/s", human_number(rate)});
    if (const auto peak = variant.peak()) rows.push_back({"    peak", human_bytes(static_cast<double>(*peak))});
    for (const auto& [name, values] : variant.quality) rows.push_back({"    " + name, quality_text(values)});
    for (const auto& [name, note] : variant.notes) rows.push_back({"    " + name, note_text(name, note)});
    if (!variant.reason.empty()) rows.push_back({variant.reason});
  }
  return format_columns(rows, "lr", kWidth);
}

}  // namespace

std::string rounds_text(const CaseResult& c) {
  const int rounds = rounds_of(c), builds = builds_of(c), seeds = seeds_of(c);
  const std::string by = " by " + to_string(c.clock) + (c.clock == Clock::processor ? " time" : " clock");
  if (seeds > 0) return std::to_string(seeds) + (seeds == 1 ? " seed" : " seeds") + by;
  if (rounds == 0) return "";
  return std::to_string(rounds) + (rounds == 1 ? " round in " : " rounds in ") + std::to_string(builds) +
         (builds == 1 ? " build" : " builds") + by;
}

std::string peak_text(const VariantResult& variant) {
  const auto peak = variant.peak();
  if (!peak) return "-";
  return (variant.environment.contains(kPeakAtLeast) ? "at least " : "") + human_bytes(static_cast<double>(*peak));
}

bool has_peak_at_least(const Result& result) {
  return std::ranges::any_of(result.cases, [](const CaseResult& c) {
    return std::ranges::any_of(c.variants, [](const VariantResult& variant) {
      return variant.peak().has_value() && variant.environment.contains(kPeakAtLeast);
    });
  });
}

std::string note_text(const Note& note) {
  if (note.unit == "bytes" || note.unit == "B") return human_bytes(note.value);
  if (note.unit == "s" || note.unit == "seconds") return human_seconds(note.value);
  return human_number(note.value) + (note.unit.empty() ? "" : " " + note.unit);
}

std::string note_text(const std::string& name, const Note& note) {
  const std::string text = note_text(note), unit = " " + note.unit;
  return has_word(name, note.unit) && text.ends_with(unit) ? text.substr(0, text.size() - unit.size()) : text;
}

bool has_word(const std::string& text, const std::string& word) {
  if (word.empty()) return true;
  const auto letter = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; };
  for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) {
    const size_t end = at + word.size();
    if ((at == 0 || !letter(text[at - 1])) && (end == text.size() || !letter(text[end]))) return true;
  }
  return false;
}

std::string speed_text(const SpeedResult& speed) {
  if (!speed.ratio) return speed.label;
  if (!speed.low || !speed.high) return speed.label + " " + human_ratio(*speed.ratio);
  return speed.label + " " + human_ratio(*speed.ratio, *speed.low, *speed.high);
}

std::string memory_text(const MemoryResult& memory) {
  return memory.ratio ? memory.label + " " + human_ratio(*memory.ratio) : "-";
}

std::string agreement_text(const Verdict& verdict) {
  if (verdict.quality) return quality_verdict_text(*verdict.quality);
  if (!verdict.agreement) return "-";
  const AgreementResult& agreement = *verdict.agreement;
  if (!agreement.worst) return agreement.pass ? "agrees" : "DIFFERS";
  if (agreement.pass && *agreement.worst == 0) return "exact";
  return (agreement.pass ? "agrees " : "DIFFERS ") + short_number(*agreement.worst);
}

std::string expectation_text(const VariantResult& variant, const Verdict& verdict) {
  const AsExpected& came = verdict.as_expected;
  if (came.caught)
    return !*came.caught                      ? "NOT CAUGHT"
           : variant.expected->kind == "trap" ? "trap caught"
                                              : "out of memory, as expected";
  if (!came.valid.value_or(true)) return "INVALID";
  if (!variant.expected || variant.status != "ok") return "-";
  // What was stated of speed and of memory, each with what became of it.
  std::vector<std::pair<std::string, std::string>> parts;
  const auto add = [&](const char* what, const std::string& stated, const std::optional<bool>& met) {
    if (stated != "ANY") parts.emplace_back(what, !met ? "open" : *met ? "as expected" : "SURPRISE");
  };
  add("quality", variant.expected->quality.value_or("ANY"), came.quality);
  if (variant.source != "dry") add("speed", variant.expected->speed, came.speed);  // of which nothing is known
  add("memory", variant.expected->memory, came.memory);
  if (parts.empty()) return "-";
  if (parts.size() == 2 && parts[0].second == parts[1].second) return parts[0].second;
  for (const auto& [what, became] : parts) {
    if (became == "SURPRISE") return "SURPRISE: " + what;
  }
  if (parts.size() == 1) return parts[0].first + " " + parts[0].second;
  return parts[0].first + " " + parts[0].second + ", " + parts[1].first + " " + parts[1].second;
}

std::string prediction_text(const VariantResult& variant, const Verdict& verdict) {
  if (!variant.predicted.speed_ratio) return "-";
  std::string out = human_ratio(*variant.predicted.speed_ratio);
  if (const auto error = verdict.prediction_error.find("speed"); error != verdict.prediction_error.end()) {
    out += ", error " + human_percent(std::expm1(error->second), true) +
           off_text(verdict, "speed");  // stored as a logarithm
  }
  return out;
}

std::string predicted_peak_text(const VariantResult& variant, const Verdict& verdict) {
  if (!variant.predicted.peak_bytes) return "-";
  std::string out = human_bytes(static_cast<double>(*variant.predicted.peak_bytes));
  if (const auto error = verdict.prediction_error.find("peak"); error != verdict.prediction_error.end())
    out += ", error " + human_percent(error->second, true) + off_text(verdict, "peak");
  return out;
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

std::string machine_text(const Machine& machine) {
  std::string out = machine.cpu + ", " + std::to_string(machine.cores) + (machine.cores == 1 ? " core" : " cores");
  if (machine.gpus.empty()) return out;
  const std::string count = machine.gpus.size() > 1 ? std::to_string(machine.gpus.size()) + " x " : "";
  return (is_dry(machine) ? "dry " : "") + count + machine.gpus.front().name + "; " + out;
}

std::string format_table(const Result& result) {
  std::string out =
      result.lesson + " - " + result.title + (result.workload.empty() ? "" : " (" + result.workload + ")") + "\n";
  std::string about = machine_text(result.machine);
  if (result.machine.ram_bytes > 0) about += ", " + human_bytes(static_cast<double>(result.machine.ram_bytes));
  if (!result.machine.libtorch.empty()) about += "; LibTorch " + result.machine.libtorch;
  if (!result.commit.empty())
    about += "; commit " + result.commit.substr(0, 10) + (result.dirty ? " with changes" : "");
  out += wrap_text(one_line(about + "; " + result.started_at), kWidth) + "\n";
  if (is_dry(result.machine))
    out += "A dry GPU: no such card is here. LibTorch's own allocator counted the memory; nothing was timed.\n";
  if (has_peak_at_least(result))
    out += "At least: what cuDNN would take for its workspaces is not known and not counted.\n";
  for (const CaseResult& c : result.cases) {
    out += "\n" + case_heading(c, result.machine.cores) +
           (c.kind == "survey"     ? survey_rows(c)
            : c.kind == "training" ? training_rows(c)
                                   : verdict_rows(c));
    if (const std::string split = split_rows(c); !split.empty()) out += "\n" + split;
    if (const std::string notes = c.kind == "survey" ? "" : note_lines(c); !notes.empty()) out += "\n" + notes;
  }
  return out;
}

std::string format_summary(const std::vector<Result>& results) {
  std::vector<std::vector<std::string>> rows = {{"technique", "speed", "memory", "agreement", "predicted", "expected"}};
  for (const Result& result : results) {
    for (const CaseResult& c : result.cases) {
      if (c.kind == "survey") continue;
      rows.push_back({number_of_name(result.lesson) + " " + result.title + ": " + c.name +
                          (c.kind == "training" ? " (time to an equal " + c.metric->name + ")" : ""),
                      ""});
      for (const Verdict& verdict : c.verdicts) {
        const VariantResult* variant = variant_of(c, verdict.technique);
        if (!variant) continue;
        std::string predicted = prediction_text(*variant, verdict);
        if (const size_t word = predicted.find(", error"); word != std::string::npos) predicted.replace(word, 7, "");
        const bool training = verdict.quality.has_value();
        rows.push_back({"   " + verdict.technique, training ? time_to_quality_text(verdict) : speed_text(verdict.speed),
                        memory_text(verdict.memory), agreement_text(verdict), predicted,
                        expectation_text(*variant, verdict)});
      }
    }
  }
  return rows.size() > 1 ? format_columns(rows, "llllll", kWidth) : "";
}

}  // namespace tenfold
