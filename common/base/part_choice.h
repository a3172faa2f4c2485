#pragma once
// Which parts of a lesson --case and --only choose: asked by the driver, which starts a program for each place, and
// again by the program.

#include <algorithm>
#include <string>
#include <vector>

#include "common/base/flags.h"

namespace tenfold {

struct PartChoice {
  std::vector<std::string> cases, only;  ///< of --case and --only; empty without the flag

  static PartChoice of(const GivenFlags& given) { return {values_of(given, "--case"), values_of(given, "--only")}; }

  /// By --case.
  bool takes(const std::string& part) const { return cases.empty() || std::ranges::find(cases, part) != cases.end(); }
  /// By --only, which says nothing of a baseline.
  bool wants(const std::string& variant) const {
    return only.empty() || std::ranges::find(only, variant) != only.end();
  }
  /// --only leaves nothing of a part that has these variants.
  bool empties(const std::vector<std::string>& variants) const {
    return !variants.empty() && std::ranges::none_of(variants, [this](const std::string& name) { return wants(name); });
  }

  /// Of these parts, which have `name` and `variants`, those that run.
  template <class Part>
  std::vector<Part> chosen(std::vector<Part> parts) const {
    std::erase_if(parts, [this](const Part& part) { return !takes(part.name) || empties(part.variants); });
    return parts;
  }
  /// Names of the parts that --case chose and --only empties.
  template <class Part>
  std::vector<std::string> emptied(const std::vector<Part>& parts) const {
    std::vector<std::string> names;
    for (const Part& part : parts) {
      if (takes(part.name) && empties(part.variants)) names.push_back(part.name);
    }
    return names;
  }
};

/// A sweep varies one part: the first that compares something. There must be a part.
template <class Parts, class Compares>
auto& swept_among(Parts& chosen, const Compares& compares) {
  const auto swept = std::ranges::find_if(chosen, compares);
  return swept == chosen.end() ? chosen.front() : *swept;
}

}  // namespace tenfold
