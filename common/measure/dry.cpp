#include "common/measure/dry.h"

#include <dlfcn.h>

#include <sstream>

namespace tenfold {
namespace {

/// A function of the stand-ins, which are there only where the process was started with them; else nullptr.
template <class Function>
Function* stand_in(const char* name) {
  // Asked once: where there are none, each search would go through all of LibTorch's libraries in vain.
  static const bool started_with_them = dlsym(RTLD_DEFAULT, "tenfold_dry_card") != nullptr;
  return started_with_them ? reinterpret_cast<Function*>(dlsym(RTLD_DEFAULT, name)) : nullptr;
}

std::optional<std::string> text_of(const char* name) {
  auto* const text = stand_in<const char*()>(name);
  return text == nullptr ? std::nullopt : std::optional<std::string>(text());
}

std::vector<std::string> lines_of(const char* name) {
  std::istringstream text(text_of(name).value_or(""));
  std::vector<std::string> lines;
  for (std::string line; std::getline(text, line);) lines.push_back(line);
  return lines;
}

}  // namespace

std::optional<std::string> dry_card() { return text_of("tenfold_dry_card"); }

std::string dry_order() { return text_of("tenfold_dry_order").value_or(""); }

bool memory_only() { return dry_card() && dry_order().empty(); }

void limit_dry_memory(int64_t bytes) {
  if (auto* const limit = stand_in<void(int64_t)>("tenfold_dry_limit_memory")) limit(bytes);
}

DryCounts dry_counts() {
  DryCounts counts;
  if (auto* const read = stand_in<void(DryCounts*)>("tenfold_dry_counts")) read(&counts);
  return counts;
}

DryTimes dry_times() {
  DryTimes times;
  static auto* const read = stand_in<void(DryTimes*)>("tenfold_dry_times");
  if (read != nullptr) read(&times);
  return times;
}

void dry_wait_until(double time) {
  if (auto* const wait = stand_in<void(double)>("tenfold_dry_wait_until")) wait(time);
}

std::vector<std::string> taken_without_price() { return lines_of("tenfold_dry_take_without_price"); }

std::vector<std::string> refused_functions() { return lines_of("tenfold_dry_refused"); }

std::vector<std::string> taken_without_arithmetic() { return lines_of("tenfold_dry_take_without_arithmetic"); }

std::vector<std::string> taken_races() { return lines_of("tenfold_dry_take_races"); }

}  // namespace tenfold
