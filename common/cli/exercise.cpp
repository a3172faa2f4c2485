// exercise: a starter to edit, a build, and the checks that pass or are left.

#include <algorithm>
#include <iostream>
#include <regex>

#include <tenfold/humanize.h>
#include <tenfold/result.h>

#include "commands.h"
#include "lessons.h"
#include "paths.h"
#include "process.h"

namespace tenfold::cli {
namespace {

namespace fs = std::filesystem;

/// Exercises are found in the sources: one can be done before its lesson is built.
std::string resolve_exercise(const std::string& word) {
  std::vector<std::string> names, found;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(source_folder() / "lessons", none)) {
    if (fs::exists(entry.path() / "exercise" / "starter.h")) names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  for (const std::string& name : names) {
    if (name == word || name.substr(0, 2) == word) return name;
    if (!word.empty() && name.find(word) != std::string::npos) found.push_back(name);
  }
  if (found.size() == 1) return found.front();
  std::string all;
  for (const std::string& name : names) all += (all.empty() ? "" : ", ") + name;
  throw UsageError("no exercise '" + word + "'; " + (all.empty() ? "there are none" : "there are: " + all));
}

/// Runs a build step quietly; its output is shown only when it fails.
int quietly(const std::vector<std::string>& arguments, std::string& said) {
  const auto keep = [&](const std::string& text) { said += text; };
  return run_child({arguments, {}, ""}, {keep, [&](const std::string& line) { said += line + "\n"; }}).code;
}

struct Checks {
  std::vector<std::string> passed, failed;
  std::string hints;
};

/// What GoogleTest printed, as a reader of a lesson wants it: names and messages, no brackets.
Checks read_checks(const std::string& output) {
  Checks checks;
  std::istringstream lines(output);
  const std::regex end(R"(\[ +(OK|FAILED) +\] (\w+)\.(\w+) \(.*)");
  std::string message;
  bool inside = false;
  for (std::string line; std::getline(lines, line);) {
    std::smatch match;
    if (line.starts_with("[ RUN ")) {
      inside = true, message.clear();
    } else if (inside && std::regex_match(line, match, end)) {
      inside = false;
      std::string name = match[3];
      for (size_t i = 1; i < name.size(); ++i) {
        if (std::isupper(static_cast<unsigned char>(name[i])) && std::islower(static_cast<unsigned char>(name[i - 1]))) {
          name[i] = static_cast<char>(std::tolower(static_cast<unsigned char>(name[i]))), name.insert(i++, " ");
        }
      }
      std::replace(name.begin(), name.end(), '_', ' ');
      if (match[1] == "OK") {
        checks.passed.push_back(name);
      } else {
        checks.failed.push_back(name);
        checks.hints += "  left    " + name + "\n" + message;
      }
    } else if (inside && !line.empty()) {
      message += "            " + line + "\n";
    }
  }
  if (inside)
    checks.failed.push_back("the program stopped in the middle of a check"),
        checks.hints += "  left    the program stopped here:\n" + message;
  return checks;
}

}  // namespace

int exercise(const std::string& word, bool reset) {
  const std::string name = resolve_exercise(word);
  const fs::path given = source_folder() / "lessons" / name / "exercise";
  const fs::path own = source_folder() / "exercises" / name / "exercise.h";

  if (reset && fs::exists(own)) {
    fs::path aside;
    for (int i = 1; aside.empty() || fs::exists(aside); ++i)
      aside = own.parent_path() / ("exercise.before-reset-" + std::to_string(i) + ".h");
    fs::rename(own, aside);
    std::cout << "your answer so far is kept in " << shown(aside) << "\n";
  }
  const bool first = !fs::exists(own);
  if (first) {
    write_atomically(own, read_text(given / "starter.h"));
    if (fs::exists(given / "README.md")) std::cout << read_text(given / "README.md") << "\n";
    std::cout << "Edit:  " << shown(own) << "\nCheck: ./tenfold exercise " << name.substr(0, 2) << "\n\n";
  }

  const std::string target = name + "_exercise";
  const fs::path tools = source_folder() / ".venv" / "bin";
  std::string said;
  std::cout << "building ..." << std::endl;
  if ((first || !fs::exists(build_folder() / "exercises" / target)) &&
      quietly({(tools / "cmake").string(), build_folder().string()}, said) != 0) {
    throw UsageError("the build folder " + shown(build_folder()) + " cannot be configured: " +
                     one_line(said.substr(said.size() - std::min<size_t>(said.size(), 300))) + "; set up with: ./tenfold setup");
  }
  said.clear();
  const int built = quietly({(tools / "ninja").string(), "-C", build_folder().string(), target}, said);
  if (interrupted()) return kInterrupted;
  if (built != 0) {
    std::cout << said << "\nYour answer does not compile yet; the compiler's first message above is the one to read. File: " << shown(own)
              << "\n";
    return 1;
  }
  said.clear();
  const fs::path program = build_folder() / "exercises" / target;
  const int code = quietly({program.string(), "--gtest_color=no"}, said);
  if (interrupted()) return kInterrupted;
  const Checks checks = read_checks(said);
  const size_t count = checks.passed.size() + checks.failed.size();
  std::cout << "\n" << name << ": " << checks.passed.size() << " of " << count << " checks pass\n";
  for (const std::string& passed : checks.passed) std::cout << "  passes  " << passed << "\n";
  std::cout << checks.hints;
  if (code == 0 && checks.failed.empty() && count > 0) {
    std::cout << "\nAll of it works. A solution to compare with: " << shown(given / "solution.h") << "\n";
    return 0;
  }
  if (checks.failed.empty()) std::cout << said << "\nThe check program ended with exit code " << code << " before its checks were done.\n";
  std::cout << "\nEdit " << shown(own) << " and call again: ./tenfold exercise " << name.substr(0, 2) << "\n";
  return 1;
}

}  // namespace tenfold::cli
