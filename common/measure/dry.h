#pragma once
// Whether this process runs on a card that is not there (common/dry_gpu), and what the stand-ins know of it.

#include <optional>
#include <string>
#include <vector>

#include "common/base/dry_counts.h"

namespace tenfold {

/// The card's key, "H100"; nothing on a real device and on a CPU.
std::optional<std::string> dry_card();

/// The order in which streams do their work, "late" or "early"; empty where nothing is computed, or there is no dry
/// GPU.
std::string dry_order();

/// On a dry GPU that computes nothing: memory and launches are what a card would see, numbers mean nothing.
bool memory_only();

/// From now on a dry GPU's cards hold so many bytes, fewer or more than the card that they are by name. What they hold
/// already they keep. Does nothing where there is no dry GPU.
void limit_dry_memory(int64_t bytes);

/// Nothing counted where there is no dry GPU.
DryCounts dry_counts();

/// What the clock of a dry GPU says, where its time is modelled.
DryTimes dry_times();
/// Its clock goes on to this time, unless it is there already.
void dry_wait_until(double time);

/// Kernels that were launched since the last call, and of which nobody says how long they last. Empty where no time is
/// modelled.
std::vector<std::string> taken_without_price();

/// Functions of CUDA that were called since the process began, and are not stood in for.
std::vector<std::string> refused_functions();

/// Operators and kernels that were launched since the last call and that nobody computed, where arithmetic was asked
/// for: numbers that they made are none. Empty on a real device.
std::vector<std::string> taken_without_arithmetic();

/// Uses of the same memory by two streams, or by a stream and the CPU, that nothing orders: a line for each pair of
/// places, since the last call. Where arithmetic was asked for; empty on a real device.
std::vector<std::string> taken_races();

}  // namespace tenfold
