#include "common/machine/fingerprint.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <thread>

#include "common/base/files.h"
#include "common/machine/nvml.h"

#include "tests/support/support.h"

namespace tenfold {
namespace {

namespace fs = std::filesystem;

TEST(Fingerprint, DescribesThisMachine) {
  const Machine machine = fingerprint();
  EXPECT_FALSE(machine.cpu.empty());
  EXPECT_FALSE(machine.os.empty());
  EXPECT_GE(machine.cores, 1);
  EXPECT_LE(machine.cores, static_cast<int>(std::thread::hardware_concurrency()));
  EXPECT_GT(machine.ram_bytes, int64_t{100} << 20);
  EXPECT_LE(machine.ram_bytes, static_cast<int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE));
}

TEST(Fingerprint, TheIdIsAFolderNameThatStays) {
  const std::string id = fingerprint().id;
  EXPECT_EQ(id, fingerprint().id);
  EXPECT_TRUE(std::all_of(id.begin(), id.end(), [](unsigned char c) {
    return std::islower(c) || std::isdigit(c) || c == '-';
  })) << id;
  EXPECT_NE(id.front(), '-');
  std::array<char, 256> host{};
  gethostname(host.data(), host.size() - 1);
  if (std::string(host.data()).size() > 3) {
    EXPECT_EQ(id.find(host.data()), std::string::npos) << "the id gives the host's name away";
  }
}

// Two generations of one maker, as virtual machines name them: only one has AVX-512.
TEST(CpuName, ANameWithoutANumberIsFollowedByFamilyAndModel) {
  const auto name = [](const std::string& text) {
    std::istringstream cpuinfo(text);
    return cpu_name(cpuinfo);
  };
  EXPECT_EQ(name("processor\t: 0\ncpu family\t: 26\nmodel\t\t: 2\nmodel name\t: AMD EPYC\n\nmodel\t\t: 3\n"),
            "AMD EPYC (family 26, model 2)");
  EXPECT_EQ(name("cpu family\t: 25\nmodel\t\t: 1\nmodel name\t: AMD EPYC 7763 64-Core Processor\n"),
            "AMD EPYC 7763 64-Core Processor");
  EXPECT_EQ(name("Model\t\t: Raspberry Pi\n"), "Raspberry Pi");
  EXPECT_EQ(name("processor\t: 0\n"), "");
}

// Pinning this process to one core is what `taskset` does to a user's run.
TEST(Fingerprint, CountsOnlyCoresThatMayBeUsed) {
  cpu_set_t before, one;
  ASSERT_EQ(sched_getaffinity(0, sizeof(before), &before), 0);
  CPU_ZERO(&one);
  for (int cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&one) == 0; ++cpu) {
    if (CPU_ISSET(cpu, &before)) CPU_SET(cpu, &one);
  }
  ASSERT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
  const int cores = fingerprint().cores;
  sched_setaffinity(0, sizeof(before), &before);
  EXPECT_EQ(cores, 1);
}

TEST(ReadGpus, AnAbsentDriverIsNoError) {
  const GpuReport report = read_gpus();
  EXPECT_EQ(report.gpus.size(), report.capabilities.size());
  if (report.driver.empty()) {
    EXPECT_TRUE(report.gpus.empty());
  }
  for (const Gpu& gpu : report.gpus) {
    EXPECT_FALSE(gpu.name.empty());
    EXPECT_GT(gpu.memory_bytes, int64_t{1} << 30);
  }
}

class Cache : public testing::Test {
 protected:
  Cache() { setenv("TENFOLD_CACHE", folder_.c_str(), 1); }
  ~Cache() override { unsetenv("TENFOLD_CACHE"); }
  std::string complaint(const std::string& text) {
    write_atomically(ceilings_file("m"), text);
    return test::message_of<FileError>([] { read_ceilings("m"); });
  }
  test::Scratch scratch_;
  fs::path folder_ = scratch_.path();
};

TEST_F(Cache, FolderComesFromTheEnvironment) {
  EXPECT_EQ(cache_folder(), folder_);
  unsetenv("TENFOLD_CACHE");
  setenv("XDG_CACHE_HOME", "/x", 1);
  EXPECT_EQ(cache_folder(), fs::path("/x/tenfold"));
  unsetenv("XDG_CACHE_HOME");
  EXPECT_EQ(cache_folder().filename(), "tenfold");
}

TEST_F(Cache, CeilingsAreReadStrictly) {
  EXPECT_TRUE(read_ceilings("m").empty()) << "never probed is no error";
  EXPECT_EQ(complaint(R"({"cpu_copy_bytes_per_s": 1e10})"), "");
  EXPECT_EQ(read_ceilings("m").at("cpu_copy_bytes_per_s"), 1e10);
  for (const char* text : {"", "[]", R"({"a": "b"})", R"({"a": -1})", R"({"a": 0})", R"({"a": 1)"}) {
    EXPECT_NE(complaint(text).find("m.json"), std::string::npos) << text;
    EXPECT_NE(complaint(text).find("tenfold probe"), std::string::npos) << text;
  }
}

}  // namespace
}  // namespace tenfold
