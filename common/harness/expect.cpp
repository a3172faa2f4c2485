#include "common/harness/expect.h"

#include "common/base/labels.h"

namespace tenfold {

std::string to_string(expect::Speed speed) {
  using expect::Speed;
  static const LabelNames<Speed> names = {
      {Speed::any, "ANY"}, {Speed::faster, "FASTER"}, {Speed::slower, "SLOWER"}, {Speed::same, "SAME"}};
  return names.at(speed);
}

std::string to_string(expect::Memory memory) {
  using expect::Memory;
  static const LabelNames<Memory> names = {
      {Memory::any, "ANY"}, {Memory::smaller, "SMALLER"}, {Memory::larger, "LARGER"}, {Memory::same, "SAME"}};
  return names.at(memory);
}

std::string to_string(expect::Quality quality) {
  using expect::Quality;
  static const LabelNames<Quality> names = {
      {Quality::any, "ANY"}, {Quality::not_worse, "NOT WORSE"}, {Quality::worse, "WORSE"}};
  return names.at(quality);
}

std::string to_string(expect::Kind kind) {
  using expect::Kind;
  static const LabelNames<Kind> names = {
      {Kind::technique, "technique"}, {Kind::mistake, "mistake"}, {Kind::trap, "trap"}, {Kind::exceeds, "exceeds"}};
  return names.at(kind);
}

}  // namespace tenfold
