#include "common/pages/figures/work_points.h"

#include <numeric>

#include "common/base/text.h"
#include "common/pages/rows/case_words.h"
#include "common/pages/rows/rows.h"

namespace tenfold {
namespace {

/// Seconds of one step over all blocks; 0 without any.
double step_seconds(const VariantResult& variant) {
  double ns = 0, steps = 0;
  for (const Blocks& blocks : variant.blocks) {
    const std::vector<int64_t>& times = blocks.ns(blocks.device_ns.empty() ? Clock::wall : Clock::device);
    ns = std::accumulate(times.begin(), times.end(), ns);
    steps += static_cast<double>(blocks.steps) * static_cast<double>(times.size());
  }
  return steps > 0 ? 1e-9 * ns / steps : 0;
}

std::optional<WorkPoint> noted_point(const VariantResult& variant, const std::string& name) {
  const auto intensity = variant.notes.find(kIntensityNote);
  const double rate = items_per_second(variant);
  if (variant.status != "ok" || intensity == variant.notes.end() || !(intensity->second.value > 0) || !(rate > 0))
    return std::nullopt;
  return WorkPoint{name, intensity->second.value, rate};
}

std::optional<WorkPoint> counted_point(const VariantResult& variant, const std::string& name) {
  const auto flops = variant.counted.find("flops"), bytes = variant.counted.find("operator_bytes");
  const double seconds = step_seconds(variant);
  if (flops == variant.counted.end() || bytes == variant.counted.end() || !(flops->second > 0) ||
      !(bytes->second > 0) || !(seconds > 0))
    return std::nullopt;
  return WorkPoint{name, flops->second / bytes->second, flops->second / seconds};
}

}  // namespace

std::optional<WorkRoof> work_roof(const Machine& machine, bool all_cores) {
  const std::string cores = all_cores ? "cpu_all_cores_" : "cpu_";
  const auto flops = machine.ceilings.find(cores + "flops_per_s"),
             bytes = machine.ceilings.find(cores + "copy_bytes_per_s");
  if (flops == machine.ceilings.end() || bytes == machine.ceilings.end() || !(flops->second > 0) ||
      !(bytes->second > 0))
    return std::nullopt;
  return WorkRoof{flops->second, bytes->second};
}

WorkPoints work_points(const std::vector<Result>& results) {
  WorkPoints found;
  for (const Result& result : results) {
    for (const CaseResult& c : result.cases) {
      if (!rows_of(c).has(Column::agreement) || c.variants.empty()) continue;
      const std::string where = number_of_name(result.lesson) + " " + result.title + ", " + c.name + ", ";
      std::vector<WorkPoint> points;
      if (c.device == "cpu" && c.ranks == 1 && c.threads == 1 && work_roof(result.machine) &&
          result.machine.id == results.front().machine.id) {
        for (const VariantResult& variant : c.variants) {
          if (const auto point = noted_point(variant, where + variant.name)) points.push_back(*point);
        }
        const VariantResult& baseline = c.variants.front();
        if (const auto point = counted_point(baseline, where + baseline.name); point && points.empty())
          points.push_back(*point);
      }
      found.left_out += points.empty() ? 1 : 0;
      found.points.insert(found.points.end(), points.begin(), points.end());
    }
  }
  return found;
}

}  // namespace tenfold
