#include "common/cli/run_dry.h"

#include <algorithm>
#include <cstdio>
#include <optional>

#include "common/base/files.h"
#include "common/base/launchers.h"
#include "common/base/process.h"
#include "common/base/text.h"
#include "common/cli/paths.h"
#include "common/cli/run_start.h"
#include "common/dry_gpu/card.h"
#include "common/dry_gpu/preload.h"
#include "common/pages/table.h"
#include "common/result/dry_agreement.h"
#include "common/result/judge.h"

namespace tenfold::cli {
namespace {

namespace fs = std::filesystem;

/// One start of the lesson's program on the dry card, and what it wrote.
struct Part {
  LessonEnd end;
  std::optional<Result> result;
};

/// Shares of the progress: most lessons are small at size cpu.
constexpr double kMemoryShare = 0.5;

bool uses_side_streams(const Result& result) {
  return std::ranges::any_of(result.cases, [](const CaseResult& c) {
    return std::ranges::any_of(c.variants, [](const VariantResult& variant) {
      const auto count = variant.counted.find("side streams");
      return count != variant.counted.end() && count->second > 0;
    });
  });
}

}  // namespace

fs::path dry_out_folder(const std::string& card, const std::string& chosen) {
  return chosen.empty() ? source_folder() / "out" / dry::machine_id(card) : fs::absolute(chosen);
}

LessonEnd run_dry_lesson(const Lesson& lesson, const LessonStart& start, Display& display) {
  try {
    dry::card_named(dry::card_of_device(value_of(start.flags, "--device", "")));
  } catch (const std::invalid_argument& error) {
    throw UsageError(std::string("--device: ") + error.what());
  }
  if (launched()) throw UsageError("--device dry:CARD is one process, and a launcher started this one");
  if (start.flags.contains("--trace")) throw UsageError("--trace: a dry GPU has no times to trace");
  std::vector<RanksStart> starts = starts_of(lesson, start.flags);
  std::erase_if(starts, [](const RanksStart& ranks) { return ranks.ranks > 1; });
  if (starts.empty()) {
    display.say(lesson.name + ": all of it runs on several ranks, and NCCL is not stood in for on a dry GPU");
    return {.code = kNothingRan};
  }
  const std::string json = value_of(start.flags, "--json", "");
  if (!json.empty()) require_writable(json, "--json " + json, "name another file");
  const TemporaryFolder folder;
  LessonEnd whole;
  std::vector<int> codes;
  const auto run = [&](const std::string& name, const std::string& order, double from, double to) {
    Part part;
    const fs::path file = folder.path / (name + ".json");
    LessonStart own = start;
    own.label += name + ": ";
    own.from = start.from + (start.to - start.from) * from;
    own.to = start.from + (start.to - start.from) * to;
    own.environment["TENFOLD_DRY_ARITHMETIC"] = order;
    own.environment["TENFOLD_DRY_QUIET"] = "1";
    own.flags = starts.front().flags;
    own.flags["--json"] = {file.string()};
    if (value_of(start.flags, "--preset", "") != "build") own.flags["--preset"] = {"check"};
    if (!order.empty()) own.flags["--size"] = {"cpu"};
    const Sink table(folder.path / (name + ".txt"));
    part.end = run_start(lesson, {.flags = own.flags}, own, table.file, display, nullptr);
    whole.seconds += part.end.seconds;
    if (fs::exists(file)) part.result = read_result(file);
    // Whether traps were caught is known when all is joined; what stopped a start is known now.
    if (part.end.code != 1 || !part.result) codes.push_back(part.end.code);
    if (combined(codes) == part.end.code && part.end.code != 0) whole.problem = part.end.problem;
    return part;
  };

  const Part memory = run("memory", "", 0, kMemoryShare);
  Checked checked;
  const bool computes =
      value_of(start.flags, "--preset", "") != "build" && memory.result &&
      std::ranges::any_of(memory.result->cases, [](const CaseResult& c) { return c.kind == "comparison"; });
  if (computes && !asked_to_stop()) {
    const Part late = run("late", "late", kMemoryShare, 0.5 + kMemoryShare / 2);
    if (late.result) checked.emplace_back("late", *late.result);
    if (late.result && uses_side_streams(*late.result) && !asked_to_stop()) {
      const Part early = run("early", "early", 0.5 + kMemoryShare / 2, 1);
      if (early.result) checked.emplace_back("early", *early.result);
    }
  }
  if (memory.result && (memory.end.code == 0 || memory.end.code == 1)) {
    Result all = with_agreement(*memory.result, checked);
    all.argv = recorded_flags(start.flags);
    if (!std::ranges::all_of(all.cases, all_well)) codes.push_back(1);
    if (!json.empty()) write_result(json, all);
    const Sink table(start.output_file);
    if (table.file == stdout) display.clear();
    std::fputs(format_table(all).c_str(), table.file);
    std::fflush(table.file);
  }
  whole.code = combined(codes);
  if (whole.code == 1 && whole.problem.empty()) whole.problem = meaning_of(1);
  if (whole.code == 0) whole.problem.clear();
  return whole;
}

}  // namespace tenfold::cli
