// reproduce: a published set of results measured again, and what changed.

#include <algorithm>
#include <iostream>

#include "common/base/process.h"
#include "common/base/text.h"
#include "common/cli/commands.h"
#include "common/cli/compare_set.h"
#include "common/cli/paths.h"
#include "common/cli/result_folders.h"
#include "common/cli/run_lesson.h"
#include "common/cli/this_machine.h"
#include "common/pages/rows/case_words.h"
#include "common/pages/rows/compare_sweeps.h"
#include "common/pages/rows/comparison_text.h"
#include "common/pages/rows/quality_words.h"
#include "common/pages/rows/sweeps.h"
#include "common/pages/rows/verdict_words.h"
#include "common/result/compare_results.h"

namespace tenfold::cli {
namespace {

namespace fs = std::filesystem;

/// As --device names it.
std::string device_of(const Result& result) {
  if (!is_dry(result.machine)) return result.cases.front().device;
  return "dry:" + result.machine.id.substr(std::string(kDryMachine).size());
}

/// The part of the lesson that a case is of; nullptr when the lesson has it no more.
const LessonPart* part_of(const std::vector<LessonPart>& parts, const CaseResult& c) {
  const auto found = std::ranges::find(parts, c.sweep ? swept_case(c) : c.name, &LessonPart::name);
  return found == parts.end() ? nullptr : &*found;
}

/// "1,2,4" of the cases that take as many ranks as there are; empty when none does.
std::string ranks_of(const DescribedLesson& lesson, const Result& result) {
  const std::vector<LessonPart> parts = lesson.parts();
  std::vector<std::string> numbers;
  for (const CaseResult& c : result.cases) {
    const LessonPart* const part = part_of(parts, c);
    const std::string number = std::to_string(c.ranks);
    if (part != nullptr && part->ranks.as_many && std::ranges::find(numbers, number) == numbers.end())
      numbers.push_back(number);
  }
  return joined(numbers, ",");
}

/// The flags that repeat a result: what selects cases and settings comes from its command line, the rest from what was
/// recorded, since defaults may have been chosen by the machine.
GivenFlags flags_of(const DescribedLesson& lesson, const Result& result) {
  GivenFlags flags;
  for (size_t i = 0; i + 1 < result.argv.size(); ++i) {
    for (const char* name : {"--case", "--only", "--set", "--sweep", "--rounds"}) {
      if (result.argv[i] == name) flags[name].push_back(result.argv[i + 1]);
    }
  }
  const CaseResult& c = result.cases.front();
  for (const auto& [name, value] :
       std::vector<std::pair<std::string, std::string>>{{"--preset", c.preset},
                                                        {"--size", c.size},
                                                        {"--device", device_of(result)},
                                                        {"--seed", std::to_string(c.seed)},
                                                        {"--ranks", ranks_of(lesson, result)},
                                                        {"--threads", std::to_string(c.threads)}}) {
    if (!value.empty()) flags[name] = {value};
  }
  return flags;
}

/// Why nothing of a published result can run here, known before its lesson is started; empty when it may run.
std::string cannot_reproduce(const Result& theirs, const Machine& here) {
  if (theirs.cases.front().device == "cuda" && here.gpus.empty())
    return "it was measured on a CUDA device and this machine has none";
  return "";
}

/// Why a lesson that ended with "nothing can run here" says so: its baseline's reason, when it wrote one.
std::string why_nothing_ran(const fs::path& file) {
  if (fs::exists(file)) {
    const Result ours = read_result(file);
    for (const CaseResult& c : ours.cases) {
      for (const VariantResult& variant : c.variants) {
        if (!variant.reason.empty()) return variant.reason;
      }
    }
  }
  return meaning_of(kNothingRan);
}

/// FASTER against SLOWER; memory likewise; a run that was valid for one and not for the other; else whether both
/// intervals of the speed ratio can be of one truth.
std::string change_of(const Verdict& theirs, const Verdict& ours) {
  const auto opposite = [](const std::string& x, const std::string& y, const char* one, const char* other) {
    return (x == one && y == other) || (x == other && y == one);
  };
  if (opposite(theirs.speed.label, ours.speed.label, "FASTER", "SLOWER")) return "SIGN CHANGED";
  if (opposite(theirs.memory.label, ours.memory.label, "SMALLER", "LARGER")) return "SIGN CHANGED (memory)";
  if (theirs.quality && ours.quality && opposite(theirs.quality->label, ours.quality->label, "NOT WORSE", "WORSE"))
    return "SIGN CHANGED (quality)";
  if ((theirs.speed.label == "INVALID") != (ours.speed.label == "INVALID") && ours.speed.label != "SKIPPED" &&
      theirs.speed.label != "SKIPPED")
    return "VALIDITY CHANGED";
  const bool trained = theirs.quality && ours.quality;
  const auto &low = trained ? theirs.quality->low : theirs.speed.low,
             &high = trained ? theirs.quality->high : theirs.speed.high,
             &own_low = trained ? ours.quality->low : ours.speed.low,
             &own_high = trained ? ours.quality->high : ours.speed.high;
  if (!low || !own_low || !high || !own_high) return "";
  const bool meet = *low <= *own_high && *own_low <= *high;
  return meet ? "intervals meet" : *high < *own_low ? "yours is higher" : "yours is lower";
}

/// A case may have been measured on several numbers of ranks.
bool same_case(const CaseResult& a, const CaseResult& b) { return a.name == b.name && a.ranks == b.ranks; }

/// Which part makes a verdict's rows unlike, other than the lesson's version, which is said once; empty for none.
std::string unlike(const Result& theirs, const CaseResult& c, const Result& ours, const CaseResult& own,
                   const std::string& technique) {
  const std::vector<IdentityPart> left = identity_parts(theirs, c, technique),
                                  right = identity_parts(ours, own, technique);
  for (size_t i = 0; i < left.size(); ++i) {
    if (left[i].name != "lesson version" && left[i].value != right[i].value)
      return "not compared: " + left[i].name + " " + left[i].value + ", yours " + right[i].value;
  }
  return "";
}

/// change_of() for rows that are alike, else why they are not.
std::string change_of_rows(const Result& theirs, const CaseResult& c, const Result& ours, const CaseResult& own,
                           const std::string& technique) {
  const std::string reason = unlike(theirs, c, ours, own, technique);
  return reason.empty() ? change_of(*verdict_of(c, technique), *verdict_of(own, technique)) : reason;
}

/// What both noted; the crossovers of a sweep. Returns how many counts are not equal.
int print_notes_beside(const Result& theirs, const Result& ours) {
  static const Sides kSides = {"theirs", "yours"};
  const Comparison comparison = compare_results({theirs}, {ours});
  if (const std::string text = in_columns(noted_cells(comparison.noted, kSides)); !text.empty())
    std::cout << text << "\n";
  const CaseResult& first = theirs.cases.front();
  if (first.sweep) {
    for (const Verdict& verdict : first.verdicts) {
      std::cout << "  " << verdict.technique << " crosses its baseline: theirs "
                << crossover_text(theirs.cases, verdict.technique) << "; yours "
                << crossover_text(ours.cases, verdict.technique) << "\n";
    }
    std::cout << "\n";
  }
  return unequal_counts(comparison.noted);
}

/// Both verdicts of every technique. Returns how many have changed.
int print_beside(const Result& theirs, const Result& ours) {
  std::vector<std::vector<std::string>> rows = {
      {"technique", "case", "theirs", "yours", "memory, theirs", "yours", "change"}};
  int changed = 0;
  for (const CaseResult& c : theirs.cases) {
    const auto mine = std::ranges::find_if(ours.cases, [&](const CaseResult& other) { return same_case(other, c); });
    for (const Verdict& verdict : c.verdicts) {
      const Verdict* own = mine == ours.cases.end() ? nullptr : verdict_of(*mine, verdict.technique);
      const auto text = [&](const Verdict& one) {
        return one.quality ? quality_verdict_text(*one.quality, c.metric->better) : speed_text(one.speed);
      };
      const std::string change = own ? change_of_rows(theirs, c, ours, *mine, verdict.technique) : "";
      if (change.find("CHANGED") != std::string::npos) ++changed;
      rows.push_back({verdict.technique, c.name + (c.ranks > 1 ? ", " + std::to_string(c.ranks) + " ranks" : ""),
                      text(verdict), own ? text(*own) : "not run", memory_text(verdict.memory),
                      own ? memory_text(own->memory) : "-", change});
    }
  }
  if (rows.size() > 1) std::cout << format_columns(rows, "lllllll", 140) << "\n";
  return changed;
}

/// A sweep's among sweeps, since one lesson may have several.
fs::path file_below(const fs::path& out, const Result& result) {
  return is_sweep(result) ? out / kSweepsFolder / sweep_file(result) : out / (result.lesson + ".json");
}

}  // namespace

int reproduce(const std::string& path, const std::string& out_option) {
  const ComparedSet set = read_set(path);
  std::vector<Result> published = set.results;
  published.insert(published.end(), set.sweeps.begin(), set.sweeps.end());
  if (published.empty())
    throw UsageError(path + ": holds times of kernels alone; measure your own with: ./tenfold bench --peers");
  const std::vector<DescribedLesson> lessons = find_lessons();
  std::vector<const DescribedLesson*> chosen;
  for (const Result& theirs : published) {
    if (theirs.cases.empty())
      throw UsageError(path + ": " + theirs.lesson + " holds no case; there is nothing to reproduce");
    chosen.push_back(&resolve_lesson(lessons, theirs.lesson));
  }
  const fs::path out = out_option.empty() ? out_folder("") / kReproducedFolder : fs::absolute(out_option);
  require_writable_folder(out);
  const Machine& here = this_machine();
  if (!out_option.empty()) require_own_folder(out, here);
  fs::create_directories(out);
  Display display;
  int worst = 0;
  int changes = 0, counts = 0;
  size_t skipped = 0;
  for (size_t i = 0; i < published.size() && !asked_to_stop(); ++i) {
    const Result& theirs = published[i];
    const fs::path file = file_below(out, theirs);
    std::error_code ignored;
    fs::create_directories(file.parent_path());
    fs::remove(file, ignored);
    const auto print_theirs = [&] {
      std::cout << theirs.lesson << "\n  theirs: " << machine_text(theirs.machine) << ", "
                << theirs.started_at.substr(0, 10) << "\n";
    };
    const auto skip = [&](const std::string& why) {
      print_theirs();
      std::cout << "  yours:  skipped: " << why << "\n\n";
      ++skipped;
    };
    if (const std::string why = cannot_reproduce(theirs, here); !why.empty()) {
      skip(why);
      continue;
    }
    LessonStart start;
    start.flags = flags_of(*chosen[i], theirs);
    start.flags["--json"] = {file.string()};
    start.output_file = fs::path(file).replace_extension(".log");
    start.errors_to_file = true;
    start.from = static_cast<double>(i) / static_cast<double>(published.size()),
    start.to = static_cast<double>(i + 1) / static_cast<double>(published.size());
    start.label = theirs.lesson + ": ";
    const LessonEnd end = run_lesson(*chosen[i], start, display);
    display.clear();
    if (end.code == kNothingRan) {
      skip(why_nothing_ran(file));
      continue;
    }
    print_theirs();
    if (!fs::exists(file)) {
      std::cout << "  yours:  not run: " << (end.problem.empty() ? meaning_of(end.code) : end.problem) << "\n\n";
      worst = kInvalid;
      continue;
    }
    const Result ours = read_result(file);
    std::cout << "  yours:  " << machine_text(ours.machine) << ", " << ours.started_at.substr(0, 10) << "\n";
    if (theirs.lesson_version != ours.lesson_version || theirs.code_hash != ours.code_hash)
      std::cout << "  the lesson's code has changed since theirs was measured\n";
    changes += print_beside(theirs, ours);
    counts += print_notes_beside(theirs, ours);
    if (end.code == kInvalid || end.code > 130) worst = kInvalid;
  }
  if (skipped == published.size()) {
    std::cout << "nothing of it can run on this machine\n";
    return kNothingRan;
  }
  if (skipped > 0) std::cout << skipped << " of " << published.size() << " results skipped; ";
  std::cout << (changes == 0 ? "no verdict changed its sign"
                             : std::to_string(changes) + (changes == 1 ? " verdict" : " verdicts") + " changed")
            << (counts == 0
                    ? ""
                    : "; " + std::to_string(counts) + (counts == 1 ? " count is" : " counts are") + " not equal")
            << "; your results: " << shown(out) << "\n";
  return asked_to_stop() ? kInterrupted : worst;
}

}  // namespace tenfold::cli
