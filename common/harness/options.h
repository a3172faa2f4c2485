#pragma once
// What the flags of a lesson mean to it; common/base/flags.h has their names and their help. They are frozen: scripts
// rely on them.

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/base/flags.h"
#include "common/base/part_choice.h"
#include "common/harness/lesson.h"
#include "common/harness/lesson_parts.h"

namespace tenfold {

/// How long a lesson measures.
struct Preset {
  std::string name;
  double case_seconds = 0;      ///< for all passes of one case
  double lesson_seconds = 0;    ///< for the whole lesson at most; 0: only case_seconds bounds it
  int rounds = 0;               ///< of the time pass, at least
  int builds = 1;               ///< of each variant among them, while building takes less than a third of the time
  double block_seconds = 0;     ///< shortest block; 0: one step
  int updates = 0;              ///< compared by the agreement check; 0: variants are built, and nothing more
  int seeds = 1;                ///< that a training's variants are trained with
  double training_seconds = 0;  ///< for one training, all seeds; what is over is not begun beyond kFewestSeeds
  int64_t fewer_updates = 1;    ///< a training's setting "updates" is divided by it, unless --set gives one
  bool timed = true;            ///< false: of cases agreement and memory, of surveys those of memory, no trainings

  /// Whether verdicts on speed are drawn: a block of one step says nothing.
  bool claims_speed() const { return block_seconds > 0; }
};

struct Sweep {
  std::string setting;
  std::vector<SettingValue> values;
};

struct Options {
  GivenFlags given;  ///< as they were typed
  Preset preset;
  std::optional<Size> size;
  std::string device = "auto";  ///< auto, cpu or cuda
  std::string dry_card;         ///< of --device dry:CARD, its key; the device is then "cuda"
  PartChoice choice;
  std::map<std::string, SettingValue> set;
  std::optional<Sweep> sweep;
  std::optional<int> rounds;
  uint64_t seed = 1234;
  int threads = 1;
  std::vector<int> ranks;  ///< of --ranks
  std::string json, trace;
  bool resume = false, describe = false;
  std::string serve;  ///< the variant that this process runs for another one, which has started it; else empty

  /// Names of the settings of --set and --sweep.
  std::set<std::string> typed_settings() const;
};

/// A part to measure, with what --set and --sweep make of it.
struct Chosen {
  Part part;
  std::string name;                         ///< the part's: "gpt", or of a sweep's point "gpt layers=4"
  std::map<std::string, SettingValue> set;  ///< by --set and --sweep
  std::optional<SweepPoint> sweep;          ///< what it should show is not stated point by point

  /// The values that its variants read where they are not the declared ones.
  std::map<std::string, SettingValue> settings(Size size) const;
  /// The same for a training: with as few of its updates as the preset takes.
  std::map<std::string, SettingValue> settings_of_training(Size size, const Preset& preset) const;
};

/// Parses argv. Returns nothing after --help (which it has printed). Throws UsageError.
std::optional<Options> parse_options(int argc, char** argv, const Lesson& lesson);

/// Of "cpu", "gpu8" and "gpu80".
Size size_named(const std::string& name);

/// "build", "check", "smoke", "quick" or "full"; throws UsageError.
Preset preset_named(const std::string& name);

/// What of a lesson runs in this process, and what needs another.
struct ChosenParts {
  std::vector<Chosen> here;
  std::vector<std::string> other_ranks;        ///< need another number of ranks
  std::vector<std::string> other_environment;  ///< need another environment
  /// Of which --only leaves nothing: surveys without a look, cases and trainings without anything to compare. A
  /// baseline that --only names stays by itself.
  std::vector<std::string> emptied;

  std::vector<std::string> elsewhere() const;  ///< the names of the two before
};

/// The parts chosen by --case, without those that --only leaves nothing of, multiplied out by --sweep. Throws
/// UsageError when --case names none of the lesson's, and when --ranks names what none of them takes.
ChosenParts chosen_parts(const Lesson& lesson, const Options& options, int ranks);

/// Tries the files of --json, which rank 0 writes, and of --trace, which every rank does, and leaves nothing of that.
/// What is wrong, in one line; empty when they can be written.
std::string unwritable_file(const Options& options, int rank);

}  // namespace tenfold
