#include "common/cli/run_dry.h"

#include <algorithm>
#include <cstdio>
#include <optional>
#include <set>

#include "common/base/files.h"
#include "common/base/launchers.h"
#include "common/base/process.h"
#include "common/cli/paths.h"
#include "common/cli/run_start.h"
#include "common/dry_gpu/card.h"
#include "common/dry_gpu/preload.h"
#include "common/pages/rows/terminal_table.h"
#include "common/result/dry_agreement.h"
#include "common/result/dry_counted.h"
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
    return std::ranges::any_of(c.variants,
                               [](const VariantResult& variant) { return dry_count(variant, kSideStreams) > 0; });
  });
}

/// What the lesson's program measures in one place: its memory, then its agreement in each order.
class DryStart {
 public:
  DryStart(const DescribedLesson& lesson, const ProgramStart& place, const LessonStart& start, const fs::path& folder,
           bool one_of_several, Display& display)
      : lesson_(lesson),
        place_(place),
        start_(start),
        folder_(folder),
        one_of_several_(one_of_several),
        display_(display),
        builds_only_(value_of(start.flags, "--preset", "") == "build") {}

  std::optional<Result> measure() {
    const Part memory = run("memory", "", 0, kMemoryShare);
    Checked checked;
    const bool computes =
        !builds_only_ && memory.result &&
        std::ranges::any_of(memory.result->cases, [](const CaseResult& c) { return c.kind == "comparison"; });
    if (computes && !asked_to_stop()) {
      const Part late = run("late", "late", kMemoryShare, 0.5 + kMemoryShare / 2);
      if (late.result) checked.emplace_back("late", *late.result);
      // What NCCL's stand-in sends it reads at the call, in both orders: of several ranks one of them is enough.
      if (late.result && place_.ranks == 1 && uses_side_streams(*late.result) && !asked_to_stop()) {
        const Part early = run("early", "early", 0.5 + kMemoryShare / 2, 1);
        if (early.result) checked.emplace_back("early", *early.result);
      }
    }
    if (!memory.result || (memory.end.code != 0 && memory.end.code != 1)) return std::nullopt;
    return with_agreement(*memory.result, checked);
  }

  double seconds() const { return seconds_; }
  /// How its starts ended. Whether traps were caught is known when all is joined; what stopped a start is known now.
  const std::vector<LessonEnd>& ends() const { return ends_; }

 private:
  Part run(const std::string& name, const std::string& order, double from, double to) {
    Part part;
    const fs::path file = folder_ / (name + ".json");
    std::error_code none;
    fs::remove(file, none);  // of the place before
    LessonStart own = start_;
    own.label += name + ": ";
    own.from = start_.from + (start_.to - start_.from) * from;
    own.to = start_.from + (start_.to - start_.from) * to;
    own.environment["TENFOLD_DRY_ARITHMETIC"] = order;
    own.environment["TENFOLD_DRY_QUIET"] = "1";
    own.flags = place_.flags;
    own.flags["--json"] = {file.string()};
    if (!order.empty() && !builds_only_) own.flags["--preset"] = {"check"};
    if (!order.empty()) own.flags["--size"] = {"cpu"};
    const Sink table(folder_ / (name + ".txt"));
    std::set<std::string> unread;  // by this place: another may read it
    part.end = run_start(lesson_, place_, own, table.file, display_, one_of_several_ ? &unread : nullptr);
    seconds_ += part.end.seconds;
    if (fs::exists(file)) part.result = read_result(file);
    if (part.end.code != 1 || !part.result) ends_.push_back(part.end);
    return part;
  }

  const DescribedLesson& lesson_;
  const ProgramStart& place_;
  const LessonStart start_;
  const fs::path& folder_;
  const bool one_of_several_;
  Display& display_;
  const bool builds_only_;
  double seconds_ = 0;
  std::vector<LessonEnd> ends_;
};

}  // namespace

fs::path dry_out_folder(const std::string& card, const std::string& chosen) {
  return chosen.empty() ? source_folder() / "out" / dry::machine_id(card) : fs::absolute(chosen);
}

LessonEnd run_dry_lesson(const DescribedLesson& lesson, const LessonStart& start, Display& display) {
  try {
    dry::card_named(dry::card_of_device(value_of(start.flags, "--device", "")));
  } catch (const std::invalid_argument& error) {
    throw UsageError(std::string("--device: ") + error.what());
  }
  if (launched()) throw UsageError("--device dry:CARD is one process, and a launcher started this one");
  if (start.flags.contains("--trace")) throw UsageError("--trace: a dry GPU has no times to trace");
  if (start.flags.contains("--resume"))
    throw UsageError("--resume: what a dry GPU counts is put together at the end of a run; leave the flag out");
  const std::vector<ProgramStart> starts = starts_of(lesson, start.flags);
  const std::string json = value_of(start.flags, "--json", "");
  if (!json.empty()) require_writable(json, "--json " + json, "name another file");
  const TemporaryFolder folder;
  LessonEnd whole;
  std::vector<int> codes;
  std::vector<Result> results;
  for (size_t i = 0; i < starts.size() && !asked_to_stop(); ++i) {
    LessonStart own = start;
    const double share = (start.to - start.from) / static_cast<double>(starts.size());
    own.from = start.from + share * static_cast<double>(i);
    own.to = own.from + share;
    DryStart dry(lesson, starts[i], own, folder.path, starts.size() > 1, display);
    if (const auto result = dry.measure()) results.push_back(*result);
    whole.seconds += dry.seconds();
    for (const LessonEnd& end : dry.ends()) {
      codes.push_back(end.code);
      if (combined(codes) == end.code && end.code != 0) whole.problem = end.problem;
    }
  }
  if (!results.empty()) {
    const Result all = merged(lesson, results, start.flags);
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
