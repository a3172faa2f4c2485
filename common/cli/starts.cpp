#include "common/cli/starts.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "common/base/launchers.h"
#include "common/base/part_choice.h"
#include "common/base/rank_numbers.h"
#include "common/base/text.h"
#include "common/machine/nvml.h"
#include "common/result/judge.h"

namespace tenfold::cli {
namespace {

/// A sweep varies one case, as the program chooses it.
const LessonPart& swept(const std::vector<LessonPart>& chosen) {
  return swept_among(chosen, [](const LessonPart& part) { return !part.survey; });
}

/// GPUs that ranks would get, by --device and CUDA_VISIBLE_DEVICES.
size_t gpus_for(const GivenFlags& flags) {
  const std::string device = value_of(flags, "--device", "auto");
  if (device != "auto" && device != "cuda") return 0;
  const char* const visible = std::getenv("CUDA_VISIBLE_DEVICES");
  return visible == nullptr ? read_gpus().gpus.size() : std::min(read_gpus().gpus.size(), visible_among(visible));
}

}  // namespace

void check_several_ranks(const GivenFlags& flags) {
  if (ranks_given(flags).size() < 2) return;
  const std::string ranks = "--ranks " + value_of(flags, "--ranks", "");
  if (flags.contains("--sweep"))
    throw UsageError(ranks + " and --sweep: a sweep is of one number of ranks; sweep for each of them");
  if (flags.contains("--trace"))
    throw UsageError(ranks + " and --trace: the traces would have the same names; give one number");
}

std::string swept_part(const DescribedLesson& lesson, const GivenFlags& flags) {
  const std::vector<LessonPart> chosen = PartChoice::of(flags).chosen(lesson.parts());
  if (chosen.empty()) return joined(values_of(flags, "--case"), " ");
  const bool alike = std::ranges::all_of(chosen, [&](const LessonPart& p) { return p.ranks == chosen[0].ranks; });
  if (launched() && !alike)
    throw UsageError("--sweep within a launcher: the cases of " + lesson.name +
                     " need different numbers of ranks; name the one to sweep with --case");
  return swept(chosen).name;
}

std::vector<ProgramStart> starts_of(const DescribedLesson& lesson, const GivenFlags& flags) {
  const PartChoice choice = PartChoice::of(flags);
  const std::vector<LessonPart> all = lesson.parts();
  std::vector<LessonPart> chosen = choice.chosen(all);
  const bool all_known = std::ranges::all_of(choice.cases, [&](const std::string& name) {
    return std::ranges::find(all, name, &LessonPart::name) != all.end();
  });
  // What the program refuses or only describes, it does so alone.
  if (chosen.empty() || !all_known || flags.contains("--describe")) return {{.flags = flags}};
  if (flags.contains("--sweep")) {
    chosen = {swept(chosen)};
  }
  const std::vector<int> given = ranks_given(flags);
  std::vector<NamedRankNumbers> shapes;
  for (const LessonPart& part : chosen) shapes.push_back({part.name, part.ranks});
  check_ranks(given, shapes);
  const bool as_many = std::ranges::any_of(chosen, [](const LessonPart& part) { return part.ranks.as_many; });
  const size_t gpus = given.empty() && as_many ? gpus_for(flags) : 0;
  GivenFlags shared = flags;
  for (const char* own : {"--case", "--json", "--ranks"}) shared.erase(own);
  std::vector<ProgramStart> starts;
  for (const LessonPart& part : chosen) {
    std::vector<int> numbers = given;
    if (!part.ranks.as_many) numbers = {part.ranks.unit};
    if (numbers.empty()) numbers = {ranks_unless_given(part.ranks, gpus)};
    for (const int ranks : numbers) {
      const auto same = std::ranges::find_if(starts, [&](const ProgramStart& start) {
        return start.ranks == ranks && start.environment == part.environment;
      });
      ProgramStart& start =
          same == starts.end() ? starts.emplace_back(ProgramStart{ranks, part.environment, shared, 0}) : *same;
      start.flags["--case"].push_back(part.name);
      if (part.ranks.as_many && !given.empty()) start.flags["--ranks"] = {std::to_string(ranks)};
      ++start.parts;
    }
  }
  if (starts.size() == 1) {
    starts[0].flags = flags;
  } else {
    // The first says what is left out.
    for (const std::string& part : choice.emptied(all)) starts[0].flags["--case"].push_back(part);
  }
  return starts;
}

Result merged(const DescribedLesson& lesson, const std::vector<Result>& results, const GivenFlags& flags) {
  Result all = results.at(0);
  all.argv = recorded_flags(flags);
  for (size_t i = 1; i < results.size(); ++i)
    all.cases.insert(all.cases.end(), results[i].cases.begin(), results[i].cases.end());
  const std::vector<LessonPart> parts = lesson.parts();
  const auto place = [&](const CaseResult& c) {
    return std::find_if(parts.begin(), parts.end(), [&](const LessonPart& part) { return part.name == c.name; }) -
           parts.begin();
  };
  std::vector<std::pair<std::ptrdiff_t, size_t>> order;  // points of a sweep, which are no parts, stay as they were
  for (size_t i = 0; i < all.cases.size(); ++i) order.emplace_back(place(all.cases[i]), i);
  std::sort(order.begin(), order.end());
  std::vector<CaseResult> sorted;
  for (const auto& [part, i] : order) sorted.push_back(std::move(all.cases[i]));
  all.cases = std::move(sorted);
  judge_by_trainings(all.cases, all.machine.cores);
  return all;
}

}  // namespace tenfold::cli
