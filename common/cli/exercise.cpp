// exercise: a task with a starter to edit, a build, the checks that pass or are left, and help for who is stuck.

#include <algorithm>
#include <iostream>

#include "common/base/files.h"
#include "common/base/process.h"
#include "common/base/text.h"
#include "common/cli/commands.h"
#include "common/cli/exercise_task.h"
#include "common/cli/paths.h"
#include "common/pages/book/line_diff.h"

namespace tenfold::cli {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMostSaid = 1 << 20;  // bytes: an answer that prints for ever fills no memory and is ended
constexpr int kMostLines = 40;         // of one check

/// Runs a step quietly; its output is shown when it fails. `said` gets the first kMostSaid bytes; who says more is
/// ended.
End quietly(const std::vector<std::string>& arguments, std::string& said, double limit_s = 0) {
  bool too_much = false;
  const auto keep = [&](const std::string& text) {
    too_much = too_much || said.size() + text.size() > kMostSaid;
    said += text.substr(0, kMostSaid - said.size());
  };
  Listener listener{.output = keep, .line = [&](const std::string& line) { keep(line + "\n"); }};
  listener.give_up = [&] { return too_much; };
  return run_child({arguments, {}, "", limit_s}, listener);
}

struct Checks {
  std::vector<std::string> failed;
  std::vector<std::pair<std::string, std::string>> passed;  ///< with its lines that begin with "note: "
  std::string hints;
};

/// "TwoNumbersAreAdded" as "Two numbers are added".
std::string in_words(std::string name) {
  for (size_t i = 1; i < name.size(); ++i) {
    if (std::isupper(static_cast<unsigned char>(name[i])) && std::islower(static_cast<unsigned char>(name[i - 1]))) {
      name[i] = static_cast<char>(std::tolower(static_cast<unsigned char>(name[i])));
      name.insert(i++, " ");
    }
  }
  std::replace(name.begin(), name.end(), '_', ' ');
  return name;
}

/// RUN, OK or FAILED and the check's name from "[       OK ] Suite.Name (3 ms)"; two empty words for any other line.
std::pair<std::string, std::string> state_of_check(const std::string& line) {
  const size_t close = line.find(" ] "), dot = line.find('.', close);
  if (!line.starts_with("[ ") || close == std::string::npos || dot == std::string::npos) return {};
  const size_t begin = line.find_first_not_of(' ', 1);
  std::string state = line.substr(begin, line.find(' ', begin) - begin);
  if (state != "RUN" && state != "OK" && state != "FAILED") return {};
  return {std::move(state), line.substr(dot + 1, line.find(" (", dot) - dot - 1)};
}

/// What GoogleTest printed, as a reader of a lesson wants it: names and messages, no brackets. `end` is said of a check
/// that the program did not survive.
Checks read_checks(const std::string& output, const std::string& end) {
  Checks checks;
  std::istringstream lines(output);
  std::string name, message, notes;
  int count = 0;
  bool inside = false;
  for (std::string line; std::getline(lines, line);) {
    const auto [state, check] = state_of_check(line);
    if (state == "RUN" || (inside && !state.empty())) {
      name = in_words(check);
      inside = state == "RUN";
      if (inside) {
        message.clear();
        notes.clear();
        count = 0;
      } else if (state == "OK") {
        checks.passed.emplace_back(name, notes);
      } else {
        checks.failed.push_back(name);
        checks.hints += "  left    " + name + "\n" + message;
      }
    } else if (inside && !line.empty()) {
      if (count <= kMostLines) message += "            " + (count < kMostLines ? line : "...") + "\n";
      ++count;
      if (line.starts_with("note: ")) notes += "            " + line + "\n";
    }
  }
  if (inside) {
    checks.failed.push_back(name);
    checks.hints += "  left    " + name + "\n" + message + "            " + end + "\n";
  }
  return checks;
}

int list_exercises() {
  std::vector<std::vector<std::string>> rows = {{"exercise", "what", "difficulty", "minutes", ""}};
  for (const Exercise& one : exercises()) {
    const Task task = one.task();
    const bool begun = fs::exists(source_folder() / "exercises" / one.name / "exercise.h");
    rows.push_back({one.number(), task.title, task.difficulty, task.minutes, begun ? "begun" : ""});
  }
  if (rows.size() == 1) throw UsageError("there are no exercises in " + shown(source_folder() / "lessons"));
  std::cout << format_columns(rows, "lllrl") << "\nBegin one with: ./tenfold exercise " << rows[1][0] << "\n";
  return 0;
}

int print_hint(const Exercise& exercise) {
  const std::string hint = exercise.task().hint;
  if (hint.empty()) {
    throw UsageError("exercise " + exercise.name + " has no second hint; its solution: ./tenfold exercise " +
                     exercise.number() + " --solution");
  }
  std::cout << hint << "\n";
  return 0;
}

int print_solution(const Exercise& exercise, const fs::path& own) {
  const fs::path solution = exercise.given / "solution.h";
  if (!fs::exists(solution)) throw UsageError("exercise " + exercise.name + " has no " + shown(solution));
  std::cout << "A solution: " << shown(solution) << "\n";
  if (fs::exists(own)) {
    std::cout << "Compared with " << shown(own) << "; lines with - are yours, lines with + the solution's:\n\n"
              << line_diff(read_text(own), read_text(solution));
  }
  return 0;
}

}  // namespace

int exercise(const ExerciseOptions& options) {
  if (options.exercise.empty()) {
    if (options.reset || options.hint || options.solution)
      throw UsageError("which exercise? e.g. ./tenfold exercise 30 --hint; without a flag all are listed");
    return list_exercises();
  }
  const Exercise exercise = resolve_exercise(options.exercise);
  const auto& [name, given] = exercise;
  const fs::path own = source_folder() / "exercises" / name / "exercise.h";
  if (options.hint) return print_hint(exercise);
  if (options.solution) return print_solution(exercise, own);

  if (options.reset && fs::exists(own)) {
    fs::path aside;
    for (int i = 1; aside.empty() || fs::exists(aside); ++i)
      aside = own.parent_path() / ("exercise.before-reset-" + std::to_string(i) + ".h");
    fs::rename(own, aside);
    std::cout << "your answer so far is kept in " << shown(aside) << "\n";
  }
  const bool first = !fs::exists(own);
  if (first) {
    write_atomically(own, read_text(given / "starter.h"));
    const std::string task = exercise.task().text;
    if (!task.empty()) std::cout << task << "\n\n";
    std::cout << "Edit:  " << shown(own) << "\nCheck: ./tenfold exercise " << exercise.number() << "\n\n";
  }

  const std::string target = name + "_exercise";
  const fs::path tools = source_folder() / ".venv" / "bin";
  std::string said;
  std::cout << "building ..." << std::endl;
  if ((first || !fs::exists(build_folder() / "exercises" / target)) &&
      quietly({(tools / "cmake").string(), build_folder().string()}, said).code != 0) {
    throw UsageError("the build folder " + shown(build_folder()) + " cannot be configured: " +
                     one_line(said.substr(said.size() - std::min<size_t>(said.size(), 300))) +
                     "; set up with: ./tenfold setup");
  }
  said.clear();
  const int built = quietly({(tools / "ninja").string(), "-C", build_folder().string(), target}, said).code;
  if (asked_to_stop()) return kInterrupted;
  if (built != 0) {
    std::cout << said
              << "\nYour answer does not compile yet; the compiler's first message above is the one to read. File: "
              << shown(own) << "\n";
    return kInvalid;
  }
  said.clear();
  const fs::path program = build_folder() / "exercises" / target;
  std::cout << "checking ..." << std::endl;
  const End end = quietly({program.string(), "--gtest_color=no"}, said, options.limit_s);
  if (asked_to_stop()) return kInterrupted;
  const std::string ended = end.timed_out && said.size() == kMostSaid
                                ? "stopped after it had printed " + human_bytes(kMostSaid) + ": which loop never ends?"
                            : end.timed_out   ? "stopped after " + human_number(options.limit_s) +
                                                    " s: which loop never ends, or who waits for what nobody does?"
                            : end.signal != 0 ? "the program ended here with " + signal_name(end.signal)
                                              : "the program ended here with exit code " + std::to_string(end.code);
  const Checks checks = read_checks(said, ended);
  const size_t count = checks.passed.size() + checks.failed.size();
  std::cout << "\n" << name << ": " << checks.passed.size() << " of " << count << " checks pass\n";
  for (const auto& [passed, notes] : checks.passed) std::cout << "  passes  " << passed << "\n" << notes;
  std::cout << checks.hints;
  if (end.code == 0 && checks.failed.empty() && count > 0) {
    std::cout << "\nAll of it works. A solution to compare with: " << shown(given / "solution.h") << "\n";
    return 0;
  }
  if (checks.failed.empty()) std::cout << said.substr(0, 4000) << "\nBefore its checks were done: " << ended << "\n";
  std::cout << "\nEdit " << shown(own) << " and call again: ./tenfold exercise " << exercise.number()
            << "\nStuck? Call it with --hint, then with --solution.\n";
  return kInvalid;
}

}  // namespace tenfold::cli
