// The model's table: shares, bounds, what is stale.
#include "common/pages/book/kernel_times.h"

#include <gtest/gtest.h>

#include "common/base/files.h"
#include "common/base/sha256.h"
#include "common/pages/book/kernel_resources.h"
#include "common/result/result.h"

#include "tests/support/support.h"

namespace tenfold {
namespace {

class KernelTimes : public testing::Test {
 protected:
  KernelTimes() {
    test::write_text(root() / "kernels/copy/copy.cuh", kSource);
    for (const char* file : {"gpu_model.py", "kernel_time.py", "machine_code.py", "warp_model.py"})
      test::write_text(root() / "kernels/model" / file, "");
    test::write_text(root() / "common/machine/gpu_ceilings.cpp", "");
    write(kernel_sources_hash(root(), "copy"));
  }
  std::filesystem::path root() const { return scratch_.path(); }
  void write(const std::string& sources) const {
    test::write_text(
        root() / "results/compiler/kernel_times.json",
        R"({"schema": "tenfold.kernel_times/2", "gpus": {"T4": "a T4", "H100": "an H100"},
      "kernels": [{"kernel": "copy", "operation": "copy", "date": "2026-01-02", "sources": ")" +
            sources + R"(", "model": ")" + kernel_model_hash(root()) +
            R"(", "type": "float", "shape": "count=8", "least_seconds": {"T4": 1e-3, "H100": 1e-4}, "rungs": [
        {"name": "slow", "gpus": {"T4": {"seconds": 4e-3, "bound": "issue"}}},
        {"name": "fast", "gpus": {"T4": {"seconds": 1e-3, "bound": "DRAM", "bounds": {"DRAM": 1e-3, "issue": 5e-4},
          "instructions": 3000, "dram_bytes": 2048, "registers": 50, "blocks_on_sm": 1}, "H100": {"seconds": 2e-4, "bound": "L2", "bounds": {"DRAM": 1e-4, "L2": 2e-4},
          "instructions": 2000, "dram_bytes": 1024, "registers": 40, "blocks_on_sm": 2}}}]},
        {"kernel": "copy", "operation": "copy_backward", "date": "2026-01-03", "sources": ")" +
            sources + R"(", "model": ")" + kernel_model_hash(root()) +
            R"(", "type": "bfloat16", "shape": "count=16", "least_seconds": {"T4": 1e-3}, "rungs": [
        {"name": "back", "gpus": {"T4": {"seconds": 2e-3, "bound": "L2"}}}]}]})");
  }

  static constexpr const char* kSource = "__global__ void copy_rows();\n";
  test::Scratch scratch_;
};

TEST_F(KernelTimes, ARowForEachRung) {
  const std::string all = kernel_times_markdown(root()), one = kernel_times_markdown(root(), "copy");
  EXPECT_NE(all.find("| copy | 0 slow | 25 %, issue | - |"), std::string::npos) << all;
  EXPECT_NE(all.find("| copy | 1 fast | 100 %, DRAM | 50 %, L2 |"), std::string::npos) << all;
  EXPECT_NE(all.find("| copy backward | 0 back | 50 %, L2 | - |"), std::string::npos) << all;
  EXPECT_NE(all.find("Shapes: copy float, count=8; copy backward bfloat16, count=16."), std::string::npos) << all;
  EXPECT_NE(one.find("*Modelled*, 2026-01-03, copy backward, bfloat16, count=16"), std::string::npos) << one;
  EXPECT_NE(one.find("| 0 back | - | - | 50 %, L2 | - |"), std::string::npos) << one;
  EXPECT_NE(one.find("| 1 fast | 2000 | 1.00 KiB | 100 %, DRAM | 50 %, L2 |"), std::string::npos) << one;
  EXPECT_NE(one.find("*Modelled*, 2026-01-02, float, count=8"), std::string::npos) << one;
  EXPECT_THROW(kernel_times_markdown(root(), "other"), FileError);
}

TEST_F(KernelTimes, WhatNobodyHasMeasuredBesideStandsInBrackets) {
  EXPECT_EQ(kernel_times_markdown(root()).find("(100 %, DRAM)"), std::string::npos) << "no ladder is modelled";
  test::write_text(root() / "docs/published_ladders/copy_T4.json",
                   R"({"schema": "tenfold.published_ladder/3", "kernel": "copy", "shape": "count=8", "gpu": "T4",
      "source": "somebody", "url": "https://example.org", "date": "2026-01-02", "held_out": true,
      "rungs": [{"name": "fast", "seconds": 2.4e-3, "ours": 0}, {"name": "slow", "seconds": 4e-3, "ours": 1}]})");
  test::write_text(root() / "results/compiler/ladder_times.json",
                   R"({"schema": "tenfold.ladder_times/1", "ladders": {"copy_T4": {"rungs": [
      {"seconds": 2e-3, "bound": "issue", "bounds": {"issue": 2e-3, "DRAM": 2e-3}},
      {"seconds": 1e-3, "bound": "DRAM", "bounds": {"DRAM": 1e-3}}]}}})");
  const std::string all = kernel_times_markdown(root());
  EXPECT_NE(all.find("| 25 %, issue |"), std::string::npos) << all;
  EXPECT_NE(all.find("| (100 %, DRAM) |"), std::string::npos) << all;
  EXPECT_NE(all.find("In brackets: "), std::string::npos) << all;
  for (const std::string& text : {all, kernel_times_markdown(root(), "copy"), kernel_times_text(root(), "copy")})
    EXPECT_NE(text.find("rung 1 took 1.67x the time of rung 0 on T4"), std::string::npos) << text;
}

// The model must not stand alone where this code has been timed.
TEST_F(KernelTimes, WhatThisCodeReachedStandsBehindTheModelsShare) {
  const auto report = [&](const std::string& type) {
    std::string rounds;
    for (int round = 0; round < 12; ++round) {
      rounds += (round == 0 ? "" : ", ") + (R"({"name": "copy, )" + type) +
                R"(, 8/rung 0/cold", "run_type": "iteration", "real_time": 5, "time_unit": "ms", "bytes/s": 1})";
    }
    test::write_text(root() / "results/t4/bench/copy.json",
                     R"({"context": {"gpu": "T4", "commit": "1", "date": "2"}, "benchmarks": [)" + rounds + "]}");
    test::write_text(root() / "docs/published_ladders/copy_own.json",
                     R"({"schema": "tenfold.published_ladder/3", "kernel": "copy", "gpu": "T4", "shape": "count=8",
      "report": "results/t4/bench/copy.json", "ladder": "copy, )" +
                         type + R"(, 8", "held_out": true, "rungs": [0]})");
  };
  report("Float");
  const std::string all = kernel_times_markdown(root()), one = kernel_times_markdown(root(), "copy");
  for (const std::string& text : {all, one}) {
    EXPECT_NE(text.find("| 25 %, issue; measured 20 % |"), std::string::npos) << text;
    EXPECT_NE(text.find("*Measured*: the share"), std::string::npos) << text;
    EXPECT_NE(text.find("| 100 %, DRAM |"), std::string::npos) << "that rung was not timed: " << text;
  }
  report("BFloat16");
  EXPECT_EQ(kernel_times_markdown(root()).find("measured 20 %"), std::string::npos) << "another type is another time";
}

TEST_F(KernelTimes, WhereAResourceHasNoFigureThereIsNoShare) {
  const std::filesystem::path file = kernel_times_file(root());
  std::string text = read_text(file);
  const std::string slow = R"({"seconds": 4e-3, "bound": "issue")";
  ASSERT_NE(text.find(slow), std::string::npos);
  text.insert(text.find(slow) + slow.size(), R"(, "unknown": "L2")");
  test::write_text(file, text);
  EXPECT_NE(kernel_times_markdown(root()).find("| copy | 0 slow | -, L2 unknown | - |"), std::string::npos);
}

TEST_F(KernelTimes, OnATerminalOnlyWhatIsModelled) {
  EXPECT_NE(kernel_times_text(root(), "copy").find("1 fast"), std::string::npos);
  const std::string text = kernel_times_text(root(), "copy");
  EXPECT_NE(text.find("modelled backward rung"), std::string::npos) << text;
  EXPECT_NE(text.find("  at float, count=8\n"), std::string::npos) << text;
  EXPECT_NE(text.find("  at bfloat16, count=16\n"), std::string::npos) << text;
  EXPECT_EQ(kernel_times_text(root(), "other"), "");
}

TEST_F(KernelTimes, OfOneRungWhatHoldsItUp) {
  const std::string text = kernel_bounds_text(root(), "copy", "1");
  EXPECT_EQ(kernel_bounds_text(root(), "copy", "fast"), text);
  for (const char* part : {"DRAM", "1.00 ms *", "L2", "200 us *", "issue", "3000", "registers of a thread"})
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  EXPECT_EQ(kernel_bounds_text(root(), "copy", "7"), "");
  EXPECT_EQ(kernel_bounds_text(root(), "other", "1"), "");
}

TEST_F(KernelTimes, ChangedSourcesAreStale) {
  write(sha256("what it was"));
  EXPECT_NE(kernel_times_markdown(root()).find("| copy *stale* |"), std::string::npos);
  EXPECT_NE(kernel_times_text(root(), "copy").find("--write copy copy_backward"), std::string::npos);
}

TEST_F(KernelTimes, DamagedFilesAreNamed) {
  test::write_text(root() / "results/compiler/kernel_times.json", "{");
  EXPECT_NE(test::message_of<FileError>([&] { kernel_times_markdown(root()); }).find("kernel_times.json"),
            std::string::npos);
  std::filesystem::remove(root() / "results/compiler/kernel_times.json");
  EXPECT_THROW(kernel_times_text(root(), "copy"), FileError);
}

}  // namespace
}  // namespace tenfold
