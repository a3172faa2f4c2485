#pragma once
// What the flags of a lesson mean to it; <tenfold/flags.h> has their names and their help. They are frozen: scripts rely on them.

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include <tenfold/lesson.h>

namespace tenfold {

/// How long a lesson measures.
struct Preset {
  std::string name;
  double case_seconds = 0;    ///< for all passes of one case
  double lesson_seconds = 0;  ///< for the whole lesson at most; 0: only case_seconds bounds it
  int rounds = 0;             ///< of the time pass, at least
  int builds = 1;             ///< of each variant among them, while building takes less than a third of the time
  double block_seconds = 0;   ///< shortest block; 0: one step, and no claim
  int updates = 0;            ///< compared by the agreement check
};

struct Sweep {
  std::string setting;
  std::vector<double> values;
};

struct Options {
  Preset preset;
  std::optional<Size> size;
  std::string device = "auto";
  std::vector<std::string> cases, only;
  Settings set;
  std::optional<Sweep> sweep;
  std::optional<int> rounds;
  uint64_t seed = 1234;
  int threads = 1;
  std::string json, trace;
  bool describe = false;
};

/// Bad usage: one line that says what is wrong and what to do; exit code 2.
struct UsageError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Parses argv. Returns nothing after --help (which it has printed). Throws UsageError.
std::optional<Options> parse_options(int argc, char** argv, const Lesson& lesson);

/// "smoke", "quick" or "full"; throws UsageError.
Preset preset_named(const std::string& name);
std::string to_string(Size size);

/// The cases to run: those chosen by --case, with --set applied, multiplied out by --sweep. Throws UsageError.
std::vector<Case> chosen_cases(const Lesson& lesson, const Options& options);

/// Tries the files of --json, which rank 0 writes, and of --trace, which every rank does, and leaves nothing of that. What is
/// wrong, in one line; empty when they can be written.
std::string unwritable_file(const Options& options, int rank);

/// The device that --device means here. Throws UsageError when it asks for one that is not there.
torch::Device chosen_device(const Options& options, int local_rank);

}  // namespace tenfold
