#include "common/microscope/report.h"

#include <filesystem>

namespace tenfold::simt {

const char* name_of(Space space) { return space == Space::global ? "global" : "shared"; }

const char* name_of(Kind kind) {
  switch (kind) {
    case Kind::load:
      return "load";
    case Kind::store:
      return "store";
    case Kind::atomic:
      return "atomic";
  }
  return "?";
}

const char* name_of(FaultKind kind) {
  switch (kind) {
    case FaultKind::out_of_bounds:
      return "out of bounds";
    case FaultKind::misaligned:
      return "misaligned";
    case FaultKind::divergent_barrier:
      return "divergent barrier";
    case FaultKind::warp_mismatch:
      return "warp mismatch";
    case FaultKind::deadlock:
      return "deadlock";
    case FaultKind::in_flight:
      return "in flight";
    case FaultKind::mbarrier:
      return "mbarrier";
    case FaultKind::bad_operand:
      return "bad operand";
    case FaultKind::cluster:
      return "cluster";
    case FaultKind::block_ended:
      return "block ended";
  }
  return "?";
}

std::string text_of(const Where& where) { return where.file + ":" + std::to_string(where.line); }

std::string short_text_of(const Where& where) {
  return std::filesystem::path(where.file).filename().string() + ":" + std::to_string(where.line);
}

}  // namespace tenfold::simt
