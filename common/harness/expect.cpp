#include "common/harness/expect.h"

namespace tenfold {

std::string to_string(expect::Speed speed) {
  switch (speed) {
    case expect::Speed::faster:
      return "FASTER";
    case expect::Speed::slower:
      return "SLOWER";
    case expect::Speed::same:
      return "SAME";
    case expect::Speed::any:
      break;
  }
  return "ANY";
}

std::string to_string(expect::Memory memory) {
  switch (memory) {
    case expect::Memory::smaller:
      return "SMALLER";
    case expect::Memory::larger:
      return "LARGER";
    case expect::Memory::same:
      return "SAME";
    case expect::Memory::any:
      break;
  }
  return "ANY";
}

std::string to_string(expect::Quality quality) {
  switch (quality) {
    case expect::Quality::not_worse:
      return "NOT WORSE";
    case expect::Quality::worse:
      return "WORSE";
    case expect::Quality::any:
      break;
  }
  return "ANY";
}

std::string to_string(expect::Kind kind) {
  switch (kind) {
    case expect::Kind::mistake:
      return "mistake";
    case expect::Kind::trap:
      return "trap";
    case expect::Kind::exceeds:
      return "exceeds";
    case expect::Kind::technique:
      break;
  }
  return "technique";
}

}  // namespace tenfold
