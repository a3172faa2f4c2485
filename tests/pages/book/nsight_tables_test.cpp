// What Nsight Compute should report, and loads on their way: rows, what is stale, missing or damaged.
#include "common/pages/book/nsight_tables.h"

#include <gtest/gtest.h>

#include "common/pages/book/kernel_resources.h"
#include "common/result/result.h"

#include "tests/support/support.h"

namespace tenfold {
namespace {

class NsightTables : public testing::Test {
 protected:
  NsightTables() {
    test::write_text(root() / "kernels/copy/copy.cuh", kSource);
    write(kernel_sources_hash(root(), "copy"));
  }
  std::filesystem::path root() const { return scratch_.path(); }
  void write(const std::string& sources) const {
    const std::string kernel = R"("kernels": [{"kernel": "copy", "operation": "copy_backward", "sources": ")" +
                               sources + R"(", "type": "float", "shape": "count=8", "rungs": [)";
    test::write_text(root() / "results/compiler/nsight_compute.json",
                     R"({"schema": "tenfold.nsight_compute/1", "date": "2026-01-02", "nvcc": "13.0", "gpu": "H100",
      "metrics": [{"name": "dram__bytes_read.sum", "ours": "bytes", "section": "Memory", "rule": "equal", "why": "L2"}], )" +
                         kernel + R"({"name": "slow", "launches": [
        {"symbol": "a", "values": {"gpu__time_duration.sum": 10, "smsp__inst_executed.sum": 5}},
        {"symbol": "b", "values": {"gpu__time_duration.sum": 2000, "smsp__inst_executed.sum": 7, "dram__bytes_read.sum": 2048}}]}]}]})");
    test::write_text(root() / "results/compiler/loads_in_flight.json",
                     R"({"schema": "tenfold.loads_in_flight/1", "date": "2026-01-02", "nvcc": "13.0", "gpu": "H100",
      "dram_latency": 500, "bytes_needed_on_sm": 4096, "example": {"operation": "copy", "rung": 1, "times": 64,
      "lines": ["address stall", "0x10 4"]}, "checked": {"kernels": 3, "loads": 40, "uses": 50, "overwrites": 6, "wrong_uses": 1,
      "wrong_overwrites": 2, "chains": 70, "short_chains": 5, "clocks": 4}, )" +
                         kernel +
                         R"({"name": "slow", "loads": 2, "bytes_of_warp": 256, "warps_on_sm": 8, "bytes_on_sm": 2048},
        {"name": "fast", "loads": 4, "bytes_of_warp": 512, "warps_on_sm": 8, "bytes_on_sm": 4096}]}]})");
  }

  static constexpr const char* kSource = "__global__ void copy_rows();\n";
  test::Scratch scratch_;
};

TEST_F(NsightTables, EachMetricBesideOurs) {
  EXPECT_NE(nsight_metrics_markdown(root()).find("| bytes | `dram__bytes_read.sum` | Memory | equal | L2 |"),
            std::string::npos);
}

TEST_F(NsightTables, TheLongestKernelOfEachRung) {
  const std::string text = nsight_sheet_markdown(root());
  EXPECT_NE(text.find("| copy backward | 0 slow | 7 | - | - | - | - | - | 2.00 KiB | - | - | - | 2.00 us |"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("*DRAM read* `dram__bytes_read.sum`"), std::string::npos) << text;
}

TEST_F(NsightTables, TooFewBytesOnTheirWayAreBold) {
  const std::string text = loads_in_flight_markdown(root());
  EXPECT_NE(text.find("| copy backward | 0 slow | 2 | 256 B | 8 | **2.00 KiB** |"), std::string::npos) << text;
  EXPECT_NE(text.find("| copy backward | 1 fast | 4 | 512 B | 8 | 4.00 KiB |"), std::string::npos) << text;
  EXPECT_NE(text.find("less than the 4.00 KiB"), std::string::npos) << text;
}

TEST_F(NsightTables, TheExampleAsItWasPrinted) {
  EXPECT_NE(control_bits_markdown(root()).find("```text\naddress stall\n0x10 4\n```\n"), std::string::npos);
}

TEST_F(NsightTables, WhatTheDecodingWasHeldAgainst) {
  const std::string text = control_bits_check_markdown(root());
  EXPECT_NE(text.find("In 3 kernels for an H100"), std::string::npos) << text;
  EXPECT_NE(text.find("that one of 40 loads fills has waited | 50 | 1 |"), std::string::npos) << text;
  EXPECT_NE(text.find("add up to 4 or more | 70 | 5 |"), std::string::npos) << text;
}

TEST_F(NsightTables, AChangedKernelIsStale) {
  write("0123");
  EXPECT_NE(nsight_sheet_markdown(root()).find("| copy backward *stale* |"), std::string::npos);
  EXPECT_NE(loads_in_flight_markdown(root()).find("| copy backward *stale* |"), std::string::npos);
}

TEST_F(NsightTables, MissingAndDamaged) {
  test::write_text(root() / "results/compiler/nsight_compute.json", R"({"schema": "tenfold.nsight_compute/1"})");
  EXPECT_NE(test::message_of<FileError>([&] { nsight_metrics_markdown(root()); }).find("is damaged"),
            std::string::npos);
  test::write_text(root() / "results/compiler/nsight_compute.json", R"({"schema": "other"})");
  EXPECT_NE(test::message_of<FileError>([&] { nsight_sheet_markdown(root()); }).find("unknown schema"),
            std::string::npos);
  std::filesystem::remove(root() / "results/compiler/loads_in_flight.json");
  EXPECT_NE(test::message_of<FileError>([&] { control_bits_markdown(root()); }).find("kernels/model/listing.py"),
            std::string::npos);
}

}  // namespace
}  // namespace tenfold
