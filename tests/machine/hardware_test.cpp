#include "common/machine/hardware.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "common/machine/fingerprint.h"

namespace tenfold {
namespace {

Machine node() {
  Machine machine;
  machine.id = "2x-h100", machine.cpu = "AMD EPYC", machine.cores = 16, machine.ram_bytes = int64_t{128} << 30;
  machine.gpus = {{.name = "NVIDIA H100", .memory_bytes = int64_t{80} << 30},
                  {.name = "NVIDIA H100", .memory_bytes = int64_t{80} << 30}};
  return machine;
}

TEST(Hardware, IsCpuCoresMemoryAndGpus) {
  EXPECT_EQ(hardware_text(node()), "AMD EPYC, 16 cores, 128 GiB memory; 2 x NVIDIA H100, 80 GiB");
  const auto differs = [](auto change) {
    Machine other = node();
    change(other);
    return !same_hardware(node(), other) && own_id(node()) != own_id(other);
  };
  EXPECT_TRUE(differs([](Machine& m) { m.cpu = "AMD EPYC 9654"; }));
  EXPECT_TRUE(differs([](Machine& m) { m.cores = 8; }));
  EXPECT_TRUE(differs([](Machine& m) { m.ram_bytes = int64_t{64} << 30; }));
  EXPECT_TRUE(differs([](Machine& m) { m.gpus.pop_back(); }));
  EXPECT_TRUE(differs([](Machine& m) { m.gpus[1].name = "NVIDIA A100"; }));
  EXPECT_TRUE(differs([](Machine& m) { m.gpus[0].memory_bytes = int64_t{40} << 30; }));
}

TEST(Hardware, StaysTheSameUnderAnotherKernelOrDriver) {
  Machine later = node();
  later.ram_bytes -= int64_t{300} << 20;
  later.os = "another", later.driver = "590", later.cpu_mhz = 1234;
  later.gpus[0].clocks["sm"] = 300;
  EXPECT_TRUE(same_hardware(node(), later));
}

TEST(Hardware, ItsOwnIdIsTakenFromTheEnvironmentOnThisHardwareOnly) {
  const Machine plain = fingerprint();
  Machine other = plain;
  other.ram_bytes *= 2;
  setenv(kOwnId, own_id(plain).c_str(), 1);
  EXPECT_EQ(fingerprint().id, own_id(plain));
  setenv(kOwnId, own_id(other).c_str(), 1);
  EXPECT_EQ(fingerprint().id, plain.id) << "a launcher carried it to another machine";
  unsetenv(kOwnId);
}

}  // namespace
}  // namespace tenfold
