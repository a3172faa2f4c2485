// The table of what every kernel asks of a GPU, and whether one has run it.
#include "common/pages/book/kernel_resources.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "common/base/files.h"
#include "common/base/sha256.h"
#include "common/result/result.h"
#include "kernels/cross_entropy/cross_entropy.h"

#include "tests/support/support.h"

namespace tenfold {
namespace {

class KernelResources : public testing::Test {
 protected:
  KernelResources() {
    test::write_text(root() / "kernels/copy/copy.cuh", kSource);
    write("7.5", sha256("copy.cuh\n__global__ void copy_rows(); "));
  }
  std::filesystem::path root() const { return scratch_.path(); }
  void write(const std::string& arch, const std::string& sources) const {
    test::write_text(root() / "results/compiler/kernel_resources.json",
                     R"({"schema": "tenfold.kernel_resources/1", "nvcc": "13", "date": "2026-01-02",
      "architectures": [")" +
                         arch + R"(", "9.0"], "kernels": [{"kernel": "copy", "sources": ")" + sources +
                         R"(", "functions": {"copy_rows": {")" + arch +
                         R"(": {"registers": 40, "shared_bytes": 2048, "spill_bytes": 16}}}}]})");
  }
  std::string table() const { return kernel_resources_markdown(root()); }
  bool has(const std::string& row) const { return table().find(row) != std::string::npos; }

  static constexpr const char* kSource = "__global__ void copy_rows();\n";
  test::Scratch scratch_;
};

TEST_F(KernelResources, ARowForEachFunction) {
  EXPECT_TRUE(has("No kernel was timed on a GPU yet.")) << table();
  EXPECT_TRUE(has("| kernel | function | 7.5 | 9.0 |\n")) << table();
  EXPECT_TRUE(has("| copy | `copy_rows` | 40, 2.00 KiB, **spills 16 B** | - |\n")) << table();
}

TEST_F(KernelResources, ChangedSourcesAreStale) {
  write("7.5", sha256("what it was"));
  EXPECT_TRUE(has("| copy *stale* |")) << table();
}

TEST_F(KernelResources, CommentsAndBlanksAreNoCode) {
  test::write_text(root() / "kernels/copy/copy.cuh", "/* of rows */ __global__  void\n copy_rows(); // one a block\n");
  EXPECT_TRUE(has("| copy *stale* |")) << "a blank at the beginning is one";
  test::write_text(root() / "kernels/copy/copy.cuh", "__global__ /* of rows */  void\n copy_rows(); // one a block\n");
  EXPECT_TRUE(has("| copy | `copy_rows` |")) << table();
}

TEST_F(KernelResources, AModelIsItsPrograms) {
  for (const char* file : {"gpu_model.py", "kernel_time.py", "machine_code.py", "warp_model.py"})
    test::write_text(root() / "kernels/model" / file, "RATE = 1  # a clock\n");
  test::write_text(root() / "common/machine/gpu_ceilings.cpp", "");
  const std::string before = kernel_model_hash(root());
  test::write_text(root() / "kernels/model/gpu_model.py", "RATE = 1  # of each clock\n");
  EXPECT_EQ(kernel_model_hash(root()), before) << "a comment";
  test::write_text(root() / "kernels/model/gpu_model.py", "RATE = 2  # a clock\n");
  EXPECT_NE(kernel_model_hash(root()), before);
}

TEST_F(KernelResources, ABenchmarkSaysWhereItRan) {
  test::write_text(root() / "results/h100/bench/copy.json", R"({"context": {}, "benchmarks": []})");
  EXPECT_TRUE(has("No kernel was timed on a GPU yet.")) << "nothing was timed\n" << table();
  test::write_text(root() / "results/h100/bench/copy.json",
                   R"({"context": {}, "benchmarks": [{"name": "copy/rung 0/cold"}]})");
  test::write_text(root() / "results/a100/bench/copy.json",
                   R"({"context": {}, "benchmarks": [{"name": "copy/rung 0/cold"}]})");
  test::write_text(root() / "results/l4/bench/other.json",
                   R"({"context": {}, "benchmarks": [{"name": "other/rung 0/cold"}]})");
  EXPECT_TRUE(has("| kernel | function | 7.5 | 9.0 | run on a GPU |")) << table();
  EXPECT_TRUE(has("| - | a100, h100 |")) << table();
}

TEST_F(KernelResources, DamagedFilesAreNamed) {
  test::write_text(root() / "results/h100/bench/copy.json", "{");
  EXPECT_NE(test::message_of<FileError>([&] { table(); }).find("is damaged"), std::string::npos);
  test::write_text(root() / "results/compiler/kernel_resources.json", "{");
  EXPECT_NE(test::message_of<FileError>([&] { table(); }).find("kernel_resources.json"), std::string::npos);
  std::filesystem::remove(root() / "results/compiler/kernel_resources.json");
  EXPECT_NE(test::message_of<FileError>([&] { table(); }).find("is missing"), std::string::npos);
}

// What the launcher takes a block's own shared memory for: if it were more, a row that just fits would be refused.
TEST(PublishedKernelResources, CrossEntropysBlocksTakeWhatTheLauncherThinks) {
  const auto all = nlohmann::json::parse(read_text(test::source_folder() / "results/compiler/kernel_resources.json"));
  int found = 0;
  for (const auto& kernel : all.at("kernels")) {
    for (const auto& [function, of_architectures] : kernel.at("functions").items()) {
      if (!function.starts_with("cross_entropy_held")) continue;
      for (const auto& [architecture, used] : of_architectures.items()) {
        EXPECT_EQ(used.at("shared_bytes"), kernels::kCrossEntropyOwnShared) << function << " on " << architecture;
        ++found;
      }
    }
  }
  EXPECT_GE(found, 9);
}

}  // namespace
}  // namespace tenfold
