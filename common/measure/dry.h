#pragma once
// Whether this process runs on a card that is not there (./tenfold dry, common/dry_gpu), and what of it was no
// arithmetic.

#include <optional>
#include <string>
#include <vector>

namespace tenfold {

/// The card's name as the driver would say it; nothing on a real device and on a CPU.
std::optional<std::string> dry_card();

/// Operators and kernels that were launched since the last call and that nobody computed, where arithmetic was asked
/// for: numbers that they made are none. Empty on a real device.
std::vector<std::string> taken_without_arithmetic();

/// Uses of the same memory by two streams, or by a stream and the CPU, that nothing orders: a line for each pair of
/// places, since the last call. Where arithmetic was asked for; empty on a real device.
std::vector<std::string> taken_races();

}  // namespace tenfold
