#include "common/pages/rows/kernel_rows.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "common/base/files.h"

#include "tests/support/support.h"

namespace tenfold {
namespace {

using Json = nlohmann::ordered_json;

/// As bench/ladder_report.cpp writes a round: microseconds, with the rates of that round.
void add_rounds(Json& report, const std::string& name, double us, double bytes, double flops = 0) {
  for (int round = 0; round < 12; ++round) {
    const double time = us * (1 + 0.001 * (round % 3));
    Json run = {{"name", name},
                {"run_type", "iteration"},
                {"repetition_index", round},
                {"real_time", time},
                {"time_unit", "us"}};
    if (bytes > 0) run["bytes/s"] = bytes / (time * 1e-6);
    if (flops > 0) run["FLOP/s"] = flops / (time * 1e-6);
    report["benchmarks"].push_back(run);
  }
}

class KernelRows : public testing::Test {
 protected:
  std::vector<KernelRow> read(const Json& report) {
    test::write_text(file_, report.dump());
    return read_kernel_rows(file_);
  }
  static Json report(const std::string& gpu, double us) {
    Json json = {{"context", {{"machine", "m"}, {"commit", "abc"}}}, {"benchmarks", Json::array()}};
    if (!gpu.empty()) json["context"]["gpu"] = gpu;
    add_rounds(json, "softmax, Float, 8 x 8/rung 3/cold", us, 1e9);
    add_rounds(json, "softmax, Float, 8 x 8/rung 3/hot", us / 2, 1e9);
    add_rounds(json, "softmax, Float, 8 x 8/copy/cold", us * 0.9, 1e9);
    return json;
  }
  test::Scratch scratch_;
  std::filesystem::path file_ = scratch_.path() / "softmax.json";
};

TEST_F(KernelRows, AreReadRoundByRound) {
  const std::vector<KernelRow> rows = read(report("NVIDIA H100 80GB HBM3", 400));
  ASSERT_EQ(rows.size(), 3U);
  EXPECT_EQ(rows[0].label(), "softmax: softmax, Float, 8 x 8, rung 3, cold");
  EXPECT_EQ(rows[0].seconds.size(), 12U);
  EXPECT_NEAR(rows[0].bytes, 1e9, 1);
  ASSERT_EQ(rows[0].of_copy.size(), 12U);
  EXPECT_NEAR(rows[0].of_copy[0], 0.9, 1e-9);
  EXPECT_TRUE(is_bench_report(test::read_text(file_)));
  EXPECT_FALSE(is_bench_report("{}"));
}

TEST_F(KernelRows, HaveTheShareOfTheMakersFigureThatIsLarger) {
  const std::vector<KernelRow> known = read(report("NVIDIA H100 80GB HBM3", 400));
  EXPECT_EQ(share_of_ceiling(known[0]), "DRAM 75 %") << "1 GB in 400 us of 3.35 TB/s";
  Json compute = report("NVIDIA H100 80GB HBM3", 400);
  compute["benchmarks"].clear();
  add_rounds(compute, "hgemm, Half, 8 x 8/rung 3/cold", 400, 1e6, 200e9);
  EXPECT_EQ(share_of_ceiling(read(compute)[0]), "tensor 50 %");
  const std::vector<KernelRow> unknown = read(report("Sample GPU", 400));
  EXPECT_EQ(share_of_ceiling(unknown[0]), "0.900x [0.900, 0.900] of copy");
  EXPECT_EQ(share_of_ceiling(unknown[2]), "") << "the copy is its own ceiling";
}

TEST_F(KernelRows, OfTwoSidesHaveARatioWithItsInterval) {
  const std::vector<KernelRow> slow = read(report("Tesla T4", 400)), fast = read(report("NVIDIA H200", 100));
  const ComparedKernels compared = compare_kernels(slow, fast);
  ASSERT_EQ(compared.rows.size(), 3U);
  EXPECT_NEAR(compared.rows[0].speed.middle, 4, 1e-6);
  EXPECT_GE(compared.rows[0].speed.coverage, 0.95);
  const Cells cells = kernel_cells(compared.rows, kAB);
  EXPECT_EQ(cells[1][3].rfind("4.00x [", 0), 0U) << cells[1][3];
}

TEST_F(KernelRows, UnlikeOnesAreRefused) {
  const std::vector<KernelRow> rows = read(report("Tesla T4", 400));
  const auto reason = [&](auto change) {
    std::vector<KernelRow> others = rows;
    change(others);
    const ComparedKernels compared = compare_kernels(rows, others);
    return compared.refused.empty() ? "" : compared.refused[0].reason;
  };
  EXPECT_EQ(reason([](auto& other) { other[0].bytes *= 2; }), "a launch needs other bytes or FLOPs in A");
  EXPECT_EQ(reason([](auto& other) { other.push_back(other[0]); }),
            "occurs more than once on one side; name single files");
  EXPECT_EQ(reason([](auto& other) { other[0].ladder = "softmax, Half, 8 x 8"; }), "only in B");
}

TEST_F(KernelRows, AReportWithoutAGpuHasNone) {
  EXPECT_TRUE(read({{"context", {{"machine", "m"}}}, {"benchmarks", Json::array()}}).empty());
  Json other = report("", 400);
  other["benchmarks"].clear();
  add_rounds(other, "png/workers:0/real_time", 1, 1);
  EXPECT_TRUE(read(other).empty()) << "a loader's benchmark is no kernel's";
}

TEST_F(KernelRows, ADamagedReportIsNamed) {
  for (const char* text : {"{", R"({"context": {}})", R"({"context": {}, "benchmarks": [{}]})"}) {
    test::write_text(file_, text);
    EXPECT_NE(test::message_of<FileError>([&] { read_kernel_rows(file_); }).find("softmax.json"), std::string::npos)
        << text;
  }
}

}  // namespace
}  // namespace tenfold
