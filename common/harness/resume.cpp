#include "common/harness/resume.h"

#include <algorithm>
#include <iostream>
#include <iterator>

#include "common/base/text.h"
#include "common/machine/hardware.h"
#include "common/result/judge.h"

namespace tenfold {
namespace {

bool holds(const std::vector<CaseResult>& cases, const std::string& name) {
  return std::ranges::any_of(cases, [&](const CaseResult& c) { return c.name == name; });
}

bool wrote(const std::string& file, const Result& result) {
  try {
    write_result(file, result);
    return true;
  } catch (const FileError&) {
    return false;
  }
}

}  // namespace

namespace fs = std::filesystem;

Kept kept_of(const fs::path& file, const Result& now, int ranks, const fs::path& program) {
  Kept kept;
  if (file.empty() || !fs::exists(file)) return kept;
  Result before;
  try {
    before = read_result(file);
  } catch (const std::runtime_error& error) {
    kept.why_none = one_line(error.what());
    return kept;
  }
  std::error_code unknown;
  if (before.code_hash != now.code_hash || before.commit != now.commit || before.dirty != now.dirty ||
      before.lesson_version != now.lesson_version ||
      fs::last_write_time(file, unknown) < fs::last_write_time(program, unknown)) {
    kept.why_none = "it is of other code";
  } else if (before.argv != now.argv) {
    kept.why_none = "it is of other flags" + (before.argv.empty() ? ": none" : ": " + joined(before.argv, " "));
  } else if (before.machine.id != now.machine.id || !same_hardware(before.machine, now.machine)) {
    kept.why_none = "it is of another machine";
  } else {
    for (CaseResult& c : before.cases) {
      if (c.ranks == ranks) kept.cases.push_back(std::move(c));
    }
  }
  return kept;
}

FinishedParts::FinishedParts(const std::vector<Chosen>& parts, const Options& options, const World& world,
                             Result& result)
    : parts_(parts), file_(world.ranks.rank == 0 ? options.json : ""), rank_(world.ranks.rank), result_(result) {
  if (options.resume && rank_ == 0) {
    Kept kept = kept_of(file_, result, world.ranks.world_size, "/proc/self/exe");
    kept_parts_ = std::move(kept.cases);
    written_ = kept_parts_.size();
    if (!kept.why_none.empty()) {
      std::cerr << result.lesson << ": --resume: nothing of " << file_ << " is kept, since " << kept.why_none << "\n";
    }
  }
  for (const Chosen& part : parts) {
    const bool is_kept = options.resume && world.from_rank_0(holds(kept_parts_, part.name) ? 1 : 0) > 0;
    if (is_kept) kept_.push_back(part.name);
    if (!is_kept) left_.push_back(part);
  }
}

std::vector<CaseResult> FinishedParts::with(const std::vector<CaseResult>& measured) const {
  std::vector<CaseResult> cases;
  for (const Chosen& part : parts_) {
    for (const std::vector<CaseResult>* const some : {&kept_parts_, &measured})
      std::ranges::copy_if(*some, std::back_inserter(cases), [&](const CaseResult& c) { return c.name == part.name; });
  }
  judge_by_trainings(cases, result_.machine.cores);
  return cases;
}

void FinishedParts::write(const std::vector<CaseResult>& measured) {
  result_.cases = with(measured);
  if (!file_.empty() && wrote(file_, result_)) written_ = result_.cases.size();
}

std::string FinishedParts::in_words() const {
  const size_t count = rank_ == 0 ? written_ : result_.cases.size();
  if (count == 0) return "nothing was written";
  return std::to_string(count) + " of " + std::to_string(parts_.size()) + " parts were finished" +
         (rank_ == 0 ? " and written; --resume goes on with the others" : "");
}

}  // namespace tenfold
