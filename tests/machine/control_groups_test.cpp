// Limits as kernels and container engines lay them out, in a folder of our own; and those of this process.
#include "common/machine/control_groups.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/support/support.h"

namespace tenfold {
namespace {

constexpr int64_t kGib = int64_t{1} << 30;

class ControlGroups : public testing::Test {
 protected:
  void write(const std::string& file, const std::string& text) { test::write_text(root_ / file, text); }
  GroupLimits limits() const { return control_group_limits(root_); }

  test::Scratch scratch_;
  std::filesystem::path root_ = scratch_.path();
};

TEST_F(ControlGroups, WithoutAnyThereIsNoLimit) {
  EXPECT_FALSE(limits().memory_bytes || limits().cores);
  write("proc/self/cgroup", "0::/\n");
  write("sys/fs/cgroup/memory.max", "max\n");
  write("sys/fs/cgroup/cpu.max", "max 100000\n");
  EXPECT_FALSE(limits().memory_bytes || limits().cores);
  write("proc/self/cgroup", "4:memory:/\n2:cpu,cpuacct:/\n1:name=systemd:/\nnonsense\n");
  write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  write("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n");
  write("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
  EXPECT_FALSE(limits().memory_bytes || limits().cores);
}

TEST_F(ControlGroups, Version2IsAsNarrowAsTheNarrowestGroupAbove) {
  write("proc/self/cgroup", "0::/system.slice/job.scope/step\n");
  write("sys/fs/cgroup/system.slice/memory.max", std::to_string(8 * kGib) + "\n");
  write("sys/fs/cgroup/system.slice/job.scope/memory.max", std::to_string(4 * kGib) + "\n");
  write("sys/fs/cgroup/system.slice/job.scope/step/memory.max", "max\n");
  write("sys/fs/cgroup/system.slice/cpu.max", "150000 100000\n");
  write("sys/fs/cgroup/system.slice/job.scope/cpu.max", "max 100000\n");
  write("sys/fs/cgroup/other.slice/cpu.max", "1000 100000\n");
  EXPECT_EQ(limits().memory_bytes, 4 * kGib);
  EXPECT_EQ(limits().cores, 1.5);
}

TEST_F(ControlGroups, Version1OfABatchJob) {
  write("proc/self/cgroup", "9:memory:/slurm/uid_1/job_2\n3:cpuacct,cpu:/slurm/uid_1\n");
  write("sys/fs/cgroup/memory/slurm/uid_1/job_2/memory.limit_in_bytes", std::to_string(2 * kGib) + "\n");
  write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  // The hierarchy is mounted as cpu,cpuacct, and each name is a link to it.
  write("sys/fs/cgroup/cpu/slurm/cpu.cfs_quota_us", "300000\n");
  write("sys/fs/cgroup/cpu/slurm/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(limits().memory_bytes, 2 * kGib);
  EXPECT_EQ(limits().cores, 3);
}

// The engine shows the container its own group as the root, and /proc still names the host's path.
TEST_F(ControlGroups, AContainerThatSeesNoPath) {
  write("proc/self/cgroup", "9:memory:/docker/1f2e\n3:cpu,cpuacct:/docker/1f2e\n0::/docker/1f2e\n");
  write("sys/fs/cgroup/memory/memory.limit_in_bytes", std::to_string(kGib) + "\n");
  write("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "50000\n");
  write("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(limits().memory_bytes, kGib);
  EXPECT_EQ(limits().cores, 0.5);
}

TEST_F(ControlGroups, BothVersionsAtOnce) {
  write("proc/self/cgroup", "5:memory:/a\n0::/b\n");
  write("sys/fs/cgroup/memory/a/memory.limit_in_bytes", std::to_string(3 * kGib) + "\n");
  write("sys/fs/cgroup/unified/b/cpu.max", "200000 100000\n");
  EXPECT_EQ(limits().memory_bytes, 3 * kGib);
  EXPECT_EQ(limits().cores, 2);
}

TEST_F(ControlGroups, OfThisProcessAreNoMoreThanNothing) {
  const GroupLimits own = control_group_limits();
  if (own.memory_bytes) EXPECT_GT(*own.memory_bytes, 0);
  if (own.cores) EXPECT_GT(*own.cores, 0);
}

}  // namespace
}  // namespace tenfold
