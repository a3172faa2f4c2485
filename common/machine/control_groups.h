#pragma once
// What a control group (a container, a batch job, a systemd slice) leaves of the machine.

#include <cstdint>
#include <filesystem>
#include <optional>

namespace tenfold {

struct GroupLimits {
  std::optional<int64_t> memory_bytes;
  std::optional<double> cores;  ///< processor time, in cores; may be a fraction
};

/// The narrowest limits of this process's groups and of all groups above them, for control groups of version 1, 2 and
/// both together. Where the group's own folder is not to be seen, as in many containers, those of the mounted root.
/// `root` is where /proc and /sys lie.
GroupLimits control_group_limits(const std::filesystem::path& root = "/");

}  // namespace tenfold
