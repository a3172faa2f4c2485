#include "common/result/check_result.h"

#include <algorithm>
#include <optional>
#include <stdexcept>
#include <vector>

#include "common/base/files.h"
#include "common/base/text.h"

namespace tenfold {
namespace {

using Words = std::vector<std::string>;

void check_word(const std::string& where, const std::string& word, const Words& allowed) {
  if (std::find(allowed.begin(), allowed.end(), word) != allowed.end()) return;
  std::string all;
  for (const std::string& one : allowed) all += (all.empty() ? "" : ", ") + (one.empty() ? "\"\"" : one);
  throw FileError(where + ": '" + one_line(word) + "' is none of " + all);
}

void check_variant(const std::string& where, const VariantResult& variant) {
  check_word(where + ".status", variant.status, {"ok", "skipped", "invalid"});
  check_word(where + ".failure", variant.failure,
             {"", "disagrees", "not_finite", "void_check", "out_of_memory", "error"});
  if (variant.judged_peak) check_word(where + ".judged_peak", *variant.judged_peak, kPeakKinds);
  if (variant.expected) {
    check_word(where + ".expected.kind", variant.expected->kind, {"technique", "mistake", "trap", "exceeds"});
    check_word(where + ".expected.speed", variant.expected->speed, {"ANY", "FASTER", "SLOWER", "SAME"});
    check_word(where + ".expected.memory", variant.expected->memory, {"ANY", "SMALLER", "LARGER", "SAME"});
    check_word(where + ".expected.quality", variant.expected->quality.value_or("ANY"), {"ANY", "NOT WORSE", "WORSE"});
  }
  for (size_t i = 0; i < variant.blocks.size(); ++i) {
    const Blocks& blocks = variant.blocks[i];
    for (const auto* column : {&blocks.position, &blocks.wall_ns, &blocks.processor_ns, &blocks.device_ns}) {
      const bool may_lack = column == &blocks.processor_ns || column == &blocks.device_ns;
      if (column->size() != blocks.size() && !(may_lack && column->empty())) {
        throw FileError(where + ".blocks[" + std::to_string(i) + "]: its columns are not equally long");
      }
    }
  }
}

/// A training says what its quality is measured in, and of each variant that is ok one curve and one final quality for
/// each seed.
void check_training(const std::string& where, const CaseResult& c) {
  if (!c.metric) throw FileError(where + ".metric: is missing");
  std::optional<size_t> seeds;
  for (size_t i = 0; i < c.variants.size(); ++i) {
    const VariantResult& variant = c.variants[i];
    if (variant.status != "ok" || c.variants.front().status != "ok") continue;
    const std::string at = where + ".variants[" + std::to_string(i) + "]";
    const auto quality = variant.quality.find(c.metric->name);
    if (quality == variant.quality.end() || !variant.curves)
      throw FileError(at + ": has no curves, or no quality '" + one_line(c.metric->name) + "'");
    if (variant.curves->size() != quality->second.size() ||
        seeds.value_or(variant.curves->size()) != quality->second.size())
      throw FileError(at + ": has another number of seeds");
    seeds = variant.curves->size();
    for (const Curve& curve : *variant.curves) {
      if (curve.quality.empty() || curve.wall_ns.size() != curve.quality.size() ||
          curve.processor_ns.size() != curve.quality.size())
        throw FileError(at + ".curves: columns that are empty or not equally long");
    }
  }
}

}  // namespace

void check_result(const Result& result, const std::string& name) {
  for (size_t i = 0; i < result.cases.size(); ++i) {
    const CaseResult& c = result.cases[i];
    const std::string at = name + ": cases[" + std::to_string(i) + "]";
    check_word(at + ".kind", c.kind, {"comparison", "training", "survey"});
    if (c.kind == "training") check_training(at, c);
    for (size_t j = 0; j < c.variants.size(); ++j)
      check_variant(at + ".variants[" + std::to_string(j) + "]", c.variants[j]);
    for (size_t j = 0; j < c.verdicts.size(); ++j) {
      try {
        speed_from(c.verdicts[j].speed.label);
        memory_from(c.verdicts[j].memory.label);
        if (c.verdicts[j].quality) quality_from(c.verdicts[j].quality->label);
      } catch (const std::invalid_argument& error) {
        throw FileError(at + ".verdicts[" + std::to_string(j) + "]: " + one_line(error.what()));
      }
    }
  }
}

}  // namespace tenfold
