#pragma once
// Enumerations with names, as files and pages write them.

#include <map>
#include <stdexcept>
#include <string>

namespace tenfold {

template <class Label>
using LabelNames = std::map<Label, std::string>;

/// The label of this name. Throws std::invalid_argument when there is none.
template <class Label>
Label label_named(const LabelNames<Label>& names, const std::string& text) {
  for (const auto& [label, name] : names) {
    if (name == text) return label;
  }
  throw std::invalid_argument("unknown label '" + text + "'");
}

}  // namespace tenfold
