#include "common/harness/dry_start.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <iostream>

#include "common/base/built_in.h"
#include "common/base/launchers.h"
#include "common/base/text.h"
#include "common/dry_gpu/card.h"
#include "common/dry_gpu/preload.h"
#include "common/dry_gpu/rates.h"
#include "common/measure/dry.h"

namespace tenfold {
namespace {

std::string from_environment(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace

void start_on_dry_gpu(const Options& options, int gpus, int ranks, char** argv) {
  if (options.dry_card.empty()) return;
  const std::string flag = "--device dry:" + options.dry_card + ": ";
  if (const auto card = dry_card()) {
    if (*card == options.dry_card) return;
    throw UsageError(flag + "this program was started on a dry " + *card);
  }
  if (from_environment("LD_PRELOAD").find("libtenfold_dry_cudart") != std::string::npos)
    throw UsageError(flag + "CUDA's stand-ins were not loaded; the loader may not preload them here");
  try {
    const dry::Start start{
        .gpu = options.dry_card,
        .gpus = std::max({gpus, ranks, static_cast<int>(number_of_environment("TENFOLD_DRY_GPUS", {1, 64}, 1))}),
        .arithmetic = from_environment("TENFOLD_DRY_ARITHMETIC"),
        .timed = options.preset.timed && from_environment("TENFOLD_DRY_ARITHMETIC").empty() &&
                 dry::rates_of(dry::card_named(options.dry_card)).has_value(),
        .report = from_environment("TENFOLD_DRY_REPORT")};
    for (const auto& [name, value] : dry::environment(start, folder_of_build()))
      setenv(name.c_str(), value.c_str(), /*replace=*/1);
  } catch (const std::runtime_error& error) {
    throw UsageError(flag + error.what());
  }
  execv("/proc/self/exe", argv);
  throw UsageError(flag + "the program cannot be started again: " + std::strerror(errno));
}

void limit_to_dry_gpu(Options& options, const std::string& lesson, const Ranks& started) {
  if (!dry_card() || options.device == "cpu") return;
  if (!options.trace.empty()) throw UsageError("--trace: a dry GPU has no times to trace");
  if (options.preset.timed && !dry_times().modelled) {
    if (options.given.contains("--preset") && started.rank == 0) {
      const char* const where = memory_only() ? "for this card" : "where the CPU computes";
      std::cerr << lesson << ": no time is modelled " << where << "; --preset check instead of " << options.preset.name
                << "\n";
    }
    options.preset = preset_named("check");
  }
}

void name_dry_machine(Machine& machine) {
  const auto key = dry_card();
  if (!key) return;
  const dry::Card& card = dry::card_named(*key);
  machine.id = dry::machine_id(card.key);
  machine.gpus = {{.name = card.name, .memory_bytes = card.memory_bytes}};
  machine.driver.clear();
  machine.ceilings.clear();  // nothing was measured on it
}

}  // namespace tenfold
