#pragma once
// Results of one case measured at several values of one setting: their files, and their points in order.

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "common/result/result.h"

namespace tenfold {

/// A sweep's file in a folder of sweeps: "30_length_model_states.json". Several cases may be swept over one setting.
std::string sweep_file(const std::string& lesson, const std::string& setting, const std::string& case_name);

/// All that the result holds are points of a sweep.
bool is_sweep(const Result& result);
/// The file of a result that is_sweep().
std::string sweep_file(const Result& result);

/// The case that a point of a sweep varies: "model states" of "model states length=8".
std::string swept_case(const CaseResult& point);

/// Every .json in `folder`, by name; none where there is no such folder. Throws FileError for a damaged one, and for
/// one that holds anything but points of a sweep.
std::vector<Result> sweeps_in(const std::filesystem::path& folder);

/// Those in results/<machine>/sweeps below `root`.
std::vector<Result> published_sweeps(const std::filesystem::path& root, const std::string& machine);

/// The value as a number; none of a word or a flag.
std::optional<double> number_of(const SettingValue& value);

/// The points, lowest value first; words keep the order in which they were swept.
std::vector<const CaseResult*> points_of(const Result& sweep);

/// A technique at one point of a sweep, as ratios to the baseline.
struct SweptPoint {
  std::string value;  ///< as text
  double number = 0;  ///< the value; of a word its place in the sweep
  std::optional<double> speed, low, high, memory, predicted;
};

/// The technique's points with a ratio, lowest value first; words in their order. `numbers`: whether all are numbers.
std::vector<SweptPoint> swept_points(const std::vector<CaseResult>& cases, const std::string& technique, bool* numbers);

/// The values are drawn on an axis of logarithms, between whose points the eye and crossover() interpolate.
bool spans_logs(const std::vector<SweptPoint>& points);

struct Crossover {
  double at = 0;        ///< the setting's value
  bool rising = false;  ///< the technique is faster behind it, else before it
};
/// Where the speed passes 1, between two neighbours on both sides of it; nothing unless the intervals of some points
/// decide for either side.
std::optional<Crossover> crossover(const std::vector<SweptPoint>& points);

/// From which point on, or up to which, all intervals are above 1: between two points nothing was measured.
std::string decided_text(const std::vector<SweptPoint>& points, bool rising);

}  // namespace tenfold
