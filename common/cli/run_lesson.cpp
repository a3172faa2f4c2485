#include "common/cli/run_lesson.h"

#include <algorithm>
#include <filesystem>
#include <numeric>
#include <optional>
#include <set>

#include "common/base/files.h"
#include "common/base/launchers.h"
#include "common/base/process.h"
#include "common/base/text.h"
#include "common/cli/paths.h"
#include "common/cli/run_dry.h"
#include "common/cli/run_start.h"
#include "common/dry_gpu/preload.h"
#include "common/result/judge.h"

namespace tenfold::cli {

namespace fs = std::filesystem;

namespace {

/// "2 ranks: ", with what its environment has besides.
std::string label_of(const ProgramStart& program) {
  std::string label = std::to_string(program.ranks) + (program.ranks == 1 ? " rank" : " ranks");
  for (const auto& [name, value] : program.environment) label += ", " + name + "=" + value;
  return label + ": ";
}

/// For --resume: what an earlier run with these flags has written to `json`, in a file for each start, as that start
/// would have written it.
void put_earlier(const fs::path& json, const std::vector<fs::path>& files, const std::vector<ProgramStart>& starts,
                 const GivenFlags& flags) {
  if (json.empty() || !fs::exists(json)) return;
  const Result earlier = read_result(json);
  for (size_t i = 0; i < starts.size(); ++i) {
    Result own = earlier;
    const std::vector<std::string> parts = values_of(starts[i].flags, "--case");
    std::erase_if(own.cases, [&](const CaseResult& c) {
      return c.ranks != starts[i].ranks || std::ranges::find(parts, c.name) == parts.end();
    });
    if (own.cases.empty()) continue;
    if (earlier.argv == recorded_flags(flags)) own.argv = recorded_flags(starts[i].flags);
    write_result(files[i], own);
    fs::last_write_time(files[i], fs::last_write_time(json));  // the program compares it with its own
  }
}

std::vector<Result> results_in(const std::vector<fs::path>& files) {
  std::vector<Result> results;
  for (const fs::path& file : files) {
    if (fs::exists(file)) results.push_back(read_result(file));
  }
  return results;
}

}  // namespace

std::string meaning_of(int code) {
  switch (code) {
    case 0:
      return "";
    case 1:
      return "a run was not valid, or a trap was not caught";
    case kBadUsage:
      return "the lesson refused its flags";
    case 3:
      return "stopped on an error";
    case kNothingRan:
      return "nothing of it can run on this machine";
    case kInterrupted:
      return "interrupted; what was done is kept";
    default:
      return "crashed with exit code " + std::to_string(code) +
             (code > 128 && code < 160 ? ", " + signal_name(code - 128) : "");
  }
}

int combined(const std::vector<int>& codes) {
  if (std::find(codes.begin(), codes.end(), kInterrupted) != codes.end()) return kInterrupted;
  int worst = kNothingRan;
  for (const int code : codes) {
    if (worst == kNothingRan || (code != kNothingRan && weight(code) > weight(worst))) worst = code;
  }
  return worst;
}

LessonEnd run_lesson(const DescribedLesson& lesson, const LessonStart& start, Display& display) {
  const bool runs = !start.flags.contains("--describe");
  if (runs && !dry::card_of_device(value_of(start.flags, "--device", "")).empty())
    return run_dry_lesson(lesson, start, display);
  std::vector<ProgramStart> starts =
      launched() ? std::vector<ProgramStart>{{.flags = start.flags}} : starts_of(lesson, start.flags);
  const Sink sink(start.output_file);
  if (starts.size() == 1) return run_start(lesson, starts[0], {start}, sink.file, display, nullptr);

  const std::string json = value_of(start.flags, "--json", "");
  if (!json.empty()) require_writable(json, "--json " + json, "name another file");
  const TemporaryFolder folder;
  const size_t parts = std::accumulate(starts.begin(), starts.end(), size_t{0},
                                       [](size_t sum, const ProgramStart& program) { return sum + program.parts; });
  const std::string was_there = json.empty() || !fs::exists(json) ? "" : read_text(json);
  LessonEnd whole;
  std::vector<int> codes;
  std::vector<fs::path> files;
  for (size_t i = 0; i < starts.size(); ++i) files.push_back(folder.path / (std::to_string(i) + ".json"));
  if (start.flags.contains("--resume")) {
    try {
      put_earlier(json, files, starts, start.flags);
    } catch (const FileError& error) {
      display.say(lesson.name + ": --resume: nothing is kept: " + one_line(error.what()));
    }
  }
  std::vector<Result> results;
  std::optional<std::set<std::string>> unread;  // by every start until now
  size_t done = 0;
  for (size_t i = 0; i < starts.size(); ++i) {
    const ProgramStart& program = starts[i];
    const auto share = [&](size_t before) {
      return start.from + (start.to - start.from) * static_cast<double>(before) / static_cast<double>(parts);
    };
    LessonStart part = start;
    part.flags = program.flags;
    if (!json.empty()) part.flags["--json"] = {files[i].string()};
    part.from = share(done);
    part.to = share(done += program.parts);
    part.label += label_of(program);
    std::set<std::string> unread_here;
    const LessonEnd end = run_start(lesson, program, part, sink.file, display, &unread_here);
    if (unread) std::erase_if(*unread, [&](const std::string& name) { return !unread_here.contains(name); });
    if (!unread) unread = unread_here;
    whole.seconds += end.seconds;
    codes.push_back(end.code);
    if (combined(codes) == end.code && !end.problem.empty()) whole.problem = end.problem;
    results = results_in(files);
    if (!results.empty()) write_result(json, merged(lesson, results, start.flags));  // stays, however the next one ends
    if (asked_to_stop() || end.code == kInterrupted || end.code == kBadUsage) break;
  }
  whole.code = combined(codes);
  // A training may judge what another start has timed.
  if (whole.code == 0 && !results.empty() && !std::ranges::all_of(merged(lesson, results, start.flags).cases, all_well))
    whole.code = kInvalid;
  const bool all_started = codes.size() == starts.size();
  // One start that failed leaves what the others measured; refused flags leave what was there.
  if (!results.empty() && whole.code == kBadUsage) {
    if (was_there.empty()) fs::remove(json);
    if (!was_there.empty()) write_atomically(json, was_there);
  }
  // Only now is it known that no start reads a setting; what was measured without it stays.
  if (all_started && !unread->empty() && whole.code != kBadUsage) {
    whole.code = kBadUsage;
    whole.problem = "setting " + joined({unread->begin(), unread->end()}) + ": nothing that was chosen reads it; " +
                    (results.empty() ? "what was measured is above" : "what was measured is written");
    if (start.output_file.empty()) display.say(lesson.name + ": " + whole.problem);
  }
  return whole;
}

}  // namespace tenfold::cli
