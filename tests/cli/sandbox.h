#pragma once
// A source tree and a build folder of a test's own, with little lessons in them, and the real driver run on both.

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>

#include "common/base/files.h"
#include "common/machine/fingerprint.h"
#include "common/result/code_hash.h"
#include "common/result/result.h"

#include "tests/support/sample.h"
#include "tests/support/support.h"

namespace tenfold {

struct Ran {
  int code = 0;
  std::string out, err;
};

class Sandbox : public testing::Test {
 protected:
  Sandbox() {
    std::filesystem::create_directories(root_ / "build" / "lessons");
    std::filesystem::create_directories(root_ / "io");
    out_ = root_ / "out" / fingerprint().id;
  }

  void write(const std::string& name, const std::string& text) const { test::write_text(root_ / name, text); }
  std::string read(const std::filesystem::path& name) const { return test::read_text(root_ / name); }

  /// A result that the little lesson will hand out, with the code hash of its source.
  Result result_of(const std::string& lesson) const {
    Result result = sample_result();
    result.lesson = lesson;
    result.code_hash = code_hash(root_ / "lessons" / lesson);
    result.machine.id = "sample-machine";
    return result;
  }

  /// A lesson: a shell script that knows --json, and its description, with a case for each number of ranks: the first
  /// is called R2, the others by their ranks. `body` runs last; $json is the file to write, `hand_out` writes it:
  /// several ranks may, at the same time.
  void add_lesson(const std::string& name, const std::string& body, const std::vector<int>& ranks = {1},
                  bool core = true) {
    write("lessons/" + name + "/lesson.cpp", "// " + name + "\n");
    std::string cases;
    for (const int one : ranks) {
      cases += (cases.empty() ? R"({"name":"R2)" : R"(,{"name":"on )" + std::to_string(one)) + R"(","ranks":)" +
               std::to_string(one) + R"(,"settings":{}})";
    }
    write_result(root_ / "io" / (name + ".json"), result_of(name));
    write("build/lessons/" + name,
          "#!/bin/sh\nall=\"$*\"\nwhile [ $# -gt 0 ]; do [ \"$1\" = --json ] && json=$2; shift; done\n"
          "hand_out() { mkdir -p \"$(dirname \"$json\")\" && cp '" +
              (root_ / "io" / (name + ".json")).string() + "' \"$json.$$\" && mv \"$json.$$\" \"$json\"; }\n" + body +
              "\n");
    std::filesystem::permissions(root_ / "build/lessons" / name, std::filesystem::perms::owner_all);
    write("build/lessons/" + name + ".describe.json",
          R"({"lesson":")" + name + R"(","title":"Title of )" + name +
              R"(","question":"Why?","workload":"R2","version":1,"core":)" + (core ? "true" : "false") +
              R"(,"baseline":"b","techniques":["t"],)" + R"("surveys":[],"settings":[],"cases":[)" + cases + "]}");
  }

  /// Runs the driver in the sandbox; `before` may be a wrapper such as "timeout 1".
  Ran tenfold(const std::string& arguments, const std::string& before = "", const std::string& redirect = "") const {
    const std::string out = (root_ / "io" / "stdout").string(), err = (root_ / "io" / "stderr").string();
    const std::string command = "cd '" + root_.string() + "' && TENFOLD_SOURCE_DIR='" + root_.string() +
                                "' TENFOLD_BUILD_DIR='" + (root_ / "build").string() + "' TENFOLD_CACHE='" +
                                (root_ / "cache").string() + "' " + before + " " +
                                (test::build_folder() / "tenfold-driver").string() + " " + arguments + " >" +
                                (redirect.empty() ? out : redirect) + " 2>" + err;
    const int status = std::system(command.c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), redirect.empty() ? read("io/stdout") : "",
            read("io/stderr")};
  }

  /// Every file below the root with its content, without what the sandbox itself needs.
  std::map<std::string, std::string> snapshot() const {
    std::map<std::string, std::string> files;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(root_)) {
      const std::string name = entry.path().lexically_relative(root_).string();
      if (!name.starts_with("io")) files[name] = entry.is_regular_file() ? read(name) : "";
    }
    return files;
  }

  test::Scratch scratch_;
  std::filesystem::path root_ = scratch_.path(), out_;
};

inline bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace tenfold
