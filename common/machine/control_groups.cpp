#include "common/machine/control_groups.h"

#include <algorithm>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace tenfold {
namespace {

namespace fs = std::filesystem;

template <class Number>
void narrow(std::optional<Number>& limit, Number value) {
  if (value > 0 && (!limit || value < *limit)) limit = value;
}

/// The first number of a file; empty for "max", for anything else that is none, and without the file.
std::optional<double> number_in(const fs::path& file) {
  std::ifstream text(file);
  double number = 0;
  return text >> number ? std::optional(number) : std::nullopt;
}

void read_version_2(const fs::path& group, GroupLimits& limits) {
  if (const auto bytes = number_in(group / "memory.max")) narrow(limits.memory_bytes, static_cast<int64_t>(*bytes));
  std::ifstream file(group / "cpu.max");
  double quota = 0, period = 0;  // microseconds
  if (file >> quota >> period && period > 0) narrow(limits.cores, quota / period);
}

void read_version_1(const fs::path& group, GroupLimits& limits) {
  if (const auto bytes = number_in(group / "memory.limit_in_bytes"); bytes && *bytes < 0x1p62)
    narrow(limits.memory_bytes, static_cast<int64_t>(*bytes));
  const auto quota = number_in(group / "cpu.cfs_quota_us"), period = number_in(group / "cpu.cfs_period_us");
  if (quota && period && *period > 0) narrow(limits.cores, *quota / *period);  // -1: no quota
}

/// The group's folder and all above it, up to where the hierarchy is mounted.
std::vector<fs::path> folders_up(const fs::path& mounted, const std::string& group) {
  std::vector<fs::path> folders = {mounted};
  for (const fs::path& part : fs::path(group).relative_path()) folders.push_back(folders.back() / part);
  return folders;
}

}  // namespace

GroupLimits control_group_limits(const fs::path& root) {
  GroupLimits limits;
  const fs::path mounted = root / "sys/fs/cgroup";
  std::ifstream groups(root / "proc/self/cgroup");
  // "0::/user.slice" for version 2; "4:cpu,cpuacct:/docker/1f" for each hierarchy of version 1.
  for (std::string line; std::getline(groups, line);) {
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1), group = line.substr(second + 1);
    if (controllers.empty()) {
      for (const fs::path& place : {mounted, mounted / "unified"}) {
        for (const fs::path& folder : folders_up(place, group)) read_version_2(folder, limits);
      }
      continue;
    }
    std::vector<std::string> names = {controllers};
    std::istringstream each(controllers);
    for (std::string name; std::getline(each, name, ',');) names.push_back(name);
    for (const std::string& name : names) {
      for (const fs::path& folder : folders_up(mounted / name, group)) read_version_1(folder, limits);
    }
  }
  return limits;
}

}  // namespace tenfold
