#pragma once
// What the model of a kernel's time says of ladders that others have timed: docs/published_ladders/NAME.json beside
// results/compiler/ladder_times.json, and beside what it said before it was changed because of them.

#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace tenfold {

/// Kendall's rank correlation of modelled and published times, in which pairs that were published within 15 % of each
/// other do not count and equal modelled times are no agreement; and how far the modelled times are off, as the larger
/// over the smaller.
struct LadderAgreement {
  int pairs = 0, agree = 0, disagree = 0;
  double tau = 0;
  double median_factor = 1, worst_factor = 1;
  std::vector<std::pair<size_t, size_t>> wrong = {};  ///< pairs that stand in the other order, by their place
};
LadderAgreement ladder_agreement(const std::vector<double>& published, const std::vector<double>& modelled);

/// Of one ladder: before the model was changed, and now; what is not written is left out.
struct LadderErrors {
  std::string name;
  bool held_out = false;  ///< the model was not looked at beside it before it was frozen
  std::optional<LadderAgreement> frozen, now;
};
/// All ladders, by name. `root` is the checkout. Throws FileError with one line on a missing or damaged file.
std::vector<LadderErrors> ladder_errors(const std::filesystem::path& root);

/// One ladder, a row for each rung: published and modelled time, and the agreement.
std::string published_ladder_markdown(const std::filesystem::path& root, const std::string& name);

/// How near a published time must be to the longest bound to confirm it. That the time lies between it and the sum of
/// all bounds is not enough: of up to ten, the sum has been 3.5 times as long.
inline constexpr double kConfirmingFactor = 1.3;

/// {bound, GPU of the pages}: a bound that was the longest of a rung whose published time, on that GPU or the one that
/// it is nearest to, was within kConfirmingFactor of it. What the model says of another pair, nobody's measurement
/// confirms. Nothing where no ladder has been modelled.
std::optional<std::set<std::pair<std::string, std::string>>> validated_bounds(const std::filesystem::path& root);

/// {operation, GPU of the pages, rung}: the median seconds of this code there on empty caches, at the type and shape
/// that the pages model.
using OwnTimes = std::map<std::tuple<std::string, std::string, size_t>, double>;
/// Of one operation, "softmax_backward", of `type` "float" and `shape` as results/compiler/kernel_times.json names
/// them.
OwnTimes own_times(const std::filesystem::path& root, const std::string& operation, const std::string& type,
                   const std::string& shape);

/// A sentence for each pair of a kernel's rungs that a published ladder has more than 15 % apart and `seconds` in the
/// other order; one line each, empty without any. `seconds`: of a rung on a GPU of the pages; 0 where it has none.
std::string order_remarks(const std::filesystem::path& root, const std::string& kernel,
                          const std::function<double(size_t rung, const std::string& gpu)>& seconds);

/// All ladders, a row for each: rank correlation, factors, pairs in the wrong order; frozen and now.
std::string published_ladders_markdown(const std::filesystem::path& root);

}  // namespace tenfold
