#pragma once
// What a lesson consists of: its cases, trainings and surveys, all with one head.

#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "common/harness/lesson.h"
#include "common/result/result.h"

namespace tenfold {

/// A case, a training or a survey. It refers to the lesson, which must live as long.
struct Part {
  std::string name;
  Workload workload;                      ///< its own, or the lesson's
  std::vector<DeclaredSetting> declared;  ///< what its variants may read: of its workload, and the lesson's
  std::vector<Assignment> settings;
  Place place;
  std::vector<std::string> variants;  ///< names of what it compares or looks at, the baseline first
  std::variant<const Survey*, const Case*, const Training*> body;

  /// That its mesh has places for.
  RankNumbers ranks() const { return rank_numbers(place.mesh); }
  /// Has a baseline: a survey has none.
  bool compares() const;
  /// "case", "training" or "survey", for messages.
  std::string kind() const;
};

/// Of a lesson, in the order in which they run. Surveys come first: one may look at what a program does when it has
/// just begun.
std::vector<Part> parts_of(const Lesson& lesson);

/// A part that trains the lesson's workload of this name, with nothing else of its own: what is built for it reads what
/// it would read in any of the lesson's parts that do.
Part part_on(const Lesson& lesson, const std::string& workload);

/// GPUs of one process that the part needs which needs most.
int most_devices(const Lesson& lesson);

/// A setting that parts of a lesson have.
struct SettingOfParts {
  DeclaredSetting declared;
  std::string workload;  ///< whose it is, where several workloads have one of this name with other defaults; else empty
};
/// In the order in which help and list name them, those of one name together.
std::vector<SettingOfParts> settings_of(const Lesson& lesson);

/// A case compares the techniques that it states something of, or all if it states nothing.
bool compares(const Case& compared, const std::string& technique);
/// A training compares its runs with the first.
bool compares(const Training& training, const std::string& technique);

/// What the case states of a technique on this device.
std::optional<Expected> expected_of(const Case& compared, const std::string& technique, torch::Device device);

/// What the training states of one of its runs on this device; nothing of the baseline.
std::optional<Expected> expected_of(const Training& training, const Run& run, torch::Device device);

/// Names of the variables of a place's environment that this process has otherwise.
std::vector<std::string> missing_here(const Place& place);

}  // namespace tenfold
