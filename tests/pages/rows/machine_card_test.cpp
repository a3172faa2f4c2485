#include "common/pages/rows/machine_card.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "common/machine/makers_share.h"

namespace tenfold {
namespace {

Machine with_gpu(const std::string& name) {
  Machine machine;
  machine.id = "x", machine.cpu = "AMD EPYC", machine.cores = 16, machine.ram_bytes = int64_t{64} << 30;
  machine.gpus = {{.name = name, .memory_bytes = int64_t{80} << 30}};
  machine.ceilings = {{"cuda_copy_bytes_per_s", 2.68e12},  // 80 % of 3.35 TB/s
                      {"cuda_flops_fp32", 33.45e12},
                      {"cuda_flops_bf16", 494.7e12},
                      {"cuda_launch_seconds", 4e-6},
                      {"cpu_copy_bytes_per_s", 2e10}};
  return machine;
}

std::vector<std::string> row_named(const Cells& cells, const std::string& name) {
  const auto found = std::ranges::find_if(cells, [&](const auto& row) { return row[0] == name; });
  return found == cells.end() ? std::vector<std::string>{} : *found;
}

TEST(MachineCard, CeilingsAreSharesOfTheMakersFigures) {
  const Cells cells = machine_cells(with_gpu("NVIDIA H100 80GB HBM3"), with_gpu("NVIDIA H100 80GB HBM3"));
  using Row = std::vector<std::string>;
  EXPECT_EQ(row_named(cells, "cuda copy"), (Row{"cuda copy", "2.68 TB/s", "80 %", "2.68 TB/s", "80 %", "1.00x"}));
  EXPECT_EQ(row_named(cells, "cuda flops fp32")[2], "50 %");
  EXPECT_EQ(row_named(cells, "cuda flops bf16")[2], "50 %");
  EXPECT_EQ(row_named(cells, "cuda launch"), (Row{"cuda launch", "4.00 us", "-", "4.00 us", "-", "1.00x"}));
  EXPECT_EQ(row_named(cells, "cpu copy")[2], "-") << "of CPUs none is stated";
  EXPECT_NE(makers_text(with_gpu("NVIDIA H100 80GB HBM3"), {}).find("NVIDIA H100 Tensor Core GPU data sheet"),
            std::string::npos);
}

TEST(MachineCard, GuessesNoFigure) {
  // Half the memory at another rate: no name that begins alike may stand for it.
  for (const char* name : {"NVIDIA A100-SXM4-40GB", "NVIDIA H100 PCIe", "Sample GPU"}) {
    EXPECT_FALSE(share_of_makers(with_gpu(name), "cuda_copy_bytes_per_s", 1e12)) << name;
    EXPECT_NE(makers_text(with_gpu(name), {}).find(std::string("No figure is known of ") + name), std::string::npos);
  }
  EXPECT_FALSE(share_of_makers(with_gpu("Tesla T4"), "cuda_flops_bf16", 1e12)) << "its tensor cores know no bf16";
  Machine dry = with_gpu("NVIDIA H100 80GB HBM3");
  dry.id = "dry-h100";
  EXPECT_FALSE(share_of_makers(dry, "cuda_copy_bytes_per_s", 1e12)) << "nothing was measured on it";
}

TEST(MachineCard, ShowsWhatOneSideAloneMeasured) {
  Machine bare = with_gpu("NVIDIA H200");
  bare.ceilings.clear();
  const Cells cells = machine_cells(with_gpu("Tesla T4"), bare);
  EXPECT_EQ(row_named(cells, "cpu copy")[3], "-");
  EXPECT_EQ(row_named(cells, "cpu copy")[5], "-");
  EXPECT_EQ(row_named(cells, "GPUs")[3], "NVIDIA H200, 80.0 GiB");
}

TEST(GpuOfDriver, EveryCardOfTheTableHasANameAndASource) {
  for (const simt::GpuCeilings& gpu : simt::known_gpus()) {
    ASSERT_FALSE(gpu.driver_names.empty()) << gpu.key;
    EXPECT_EQ(simt::gpu_of_driver(gpu.driver_names.front()), &gpu) << "two cards of one name";
    EXPECT_FALSE(gpu.source.empty()) << gpu.key;
  }
}

}  // namespace
}  // namespace tenfold
