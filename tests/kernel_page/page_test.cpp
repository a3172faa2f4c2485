// The page of a kernel: tables, JSON, pictures and the model, on reports made by hand; and its flags.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <iomanip>
#include <limits>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>

#include "common/base/files.h"
#include "common/base/flags.h"
#include "common/base/text.h"
#include "common/kernel_page/kernel_page.h"
#include "common/kernel_page/picture.h"
#include "common/kernel_page/report_text.h"
#include "common/machine/gpu_ceilings.h"
#include "kernels/hgemm/hgemm_tma.h"

#include "tests/support/support.h"

namespace tenfold::simt {
namespace {

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

size_t count_of(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

/// Tags that open and close in order, quotes around every attribute, no stray < or &: enough for what we write.
bool well_formed(const std::string& xml) {
  const std::regex tag(R"(^<(/?)([a-z]+)((?: [a-zA-Z0-9:-]+="[^"<]*")*)(/?)>)"),
      entity(R"(^&(amp|lt|gt|quot|apos|#[0-9]+);)");
  std::vector<std::string> open;
  for (size_t at = 0; at < xml.size(); ++at) {
    std::smatch match;
    const auto begin = xml.begin() + static_cast<std::ptrdiff_t>(at);
    if (xml[at] == '&') {
      if (!std::regex_search(begin, xml.end(), entity)) return false;
    } else if (xml[at] == '<') {
      if (!std::regex_search(begin, xml.end(), match, tag)) return false;
      if (match[1] == "/") {
        if (open.empty() || open.back() != match[2]) return false;
        open.pop_back();
      } else if (match[4] != "/") {
        open.push_back(match[2]);
      }
      at += static_cast<size_t>(match.length()) - 1;
    } else if (open.empty() && !std::isspace(static_cast<unsigned char>(xml[at]))) {
      return false;
    }
  }
  return open.empty();
}

/// Lane i at `start + i * stride` bytes, for the first `active` lanes.
std::array<int64_t, 32> lanes(int64_t start, int64_t stride, int active = 32) {
  std::array<int64_t, 32> offsets{};
  for (int64_t lane = 0; lane < 32; ++lane)
    offsets[static_cast<size_t>(lane)] = lane < active ? start + lane * stride : -1;
  return offsets;
}

Access global_access(int line, Kind kind, const std::string& buffer, int64_t requests, int64_t sectors,
                     const std::array<int64_t, 32>& example) {
  return {.where = {"kernels/flip/flip.cuh", line},
          .space = Space::global,
          .kind = kind,
          .bytes = 4,
          .buffer = buffer,
          .requests = requests,
          .lanes = requests * 32,
          .sectors = sectors,
          .example = example};
}

Access shared_access(int line, int64_t requests, int64_t wavefronts, int ways, const std::array<int64_t, 32>& example) {
  return {.where = {"kernels/flip/flip.cuh", line},
          .space = Space::shared,
          .kind = Kind::load,
          .bytes = 4,
          .requests = requests,
          .lanes = requests * 32,
          .wavefronts = wavefronts,
          .ideal_wavefronts = requests,
          .worst_ways = ways,
          .example = example};
}

/// A transpose of 1024 x 1024 floats without a tile: coalesced loads, strided stores.
Report naive_report() {
  Report report;
  report.accesses = {global_access(2, Kind::load, "in", 32768, 131072, lanes(0, 4)),
                     global_access(3, Kind::store, "out", 32768, 1048576, lanes(0, 4096)),
                     shared_access(4, 1000, 32000, 32, lanes(0, 128))};
  report.accesses[0].lines = 32768, report.accesses[1].lines = 1048576;
  report.launches = 1, report.blocks = 1024, report.threads = 1048576, report.barriers = 1024;
  report.unique_bytes_read = report.unique_bytes_written = 4194304;
  return report;
}

KernelCase sample_case() {
  return {.name = "flip",
          .title = "Flip a matrix",
          .shape = {{"rows", 1024}, {"columns", 1000}},
          .rungs = {{"naive", "one thread for each element"}, {"tiled", "through shared memory"}}};
}

PageRun sample_run(Device&, const Shape&, int) { return {0.25, {1e6, 8388608}}; }

RungResult sample_result(int rung = 0) {
  return {.rung = rung, .run = {0.25, {1048576, 8388608}}, .report = naive_report()};
}

Race sample_race() {
  return {.first = {"kernels/flip/flip.cuh", 3},
          .second = {"kernels/flip/flip.cuh", 4},
          .buffer = "",
          .offset = 128,
          .first_thread = {{2, 0, 0}, {1, 0, 0}},
          .second_thread = {{2, 0, 0}, {33, 0, 0}},
          .count = 7};
}

class Page : public testing::Test {
 protected:
  Page() {
    test::write_text(scratch_.path() / "kernels/flip/flip.cuh",
                     "void flip() {\n  float v = in[i];\n    out[j] = v;  // <here>\n}\n");
    setenv("TENFOLD_SOURCE_DIR", scratch_.path().c_str(), 1);
  }
  ~Page() override { unsetenv("TENFOLD_SOURCE_DIR"); }

  /// What the page's program prints for these flags, and its exit code.
  struct Ran {
    int code;
    std::string out, err;
  };
  Ran run(std::vector<std::string> flags, const PageBody& body = sample_run,
          const KernelCase& about = sample_case()) const {
    flags.insert(flags.begin(), "flip");
    std::vector<char*> argv;
    for (std::string& flag : flags) argv.push_back(flag.data());
    testing::internal::CaptureStdout();
    testing::internal::CaptureStderr();
    const int code = show(static_cast<int>(argv.size()), argv.data(), about, body);
    return {code, testing::internal::GetCapturedStdout(), testing::internal::GetCapturedStderr()};
  }
  test::Scratch scratch_;
};

void expect_width(const std::string& text) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(display_width(line), 120u) << line;
}

/// The cells of the table's row that begins with `first` and has `what` in it.
std::vector<std::string> row_of(const std::string& table, const std::string& first, const std::string& what) {
  std::istringstream lines(table);
  for (std::string line; std::getline(lines, line);) {
    if (!has(line, first) || !has(line, what)) continue;
    std::vector<std::string> cells;
    const std::regex gap(" {2,}");
    for (std::sregex_token_iterator cell(line.begin(), line.end(), gap, -1), end; cell != end; ++cell) {
      if (!cell->str().empty()) cells.push_back(*cell);
    }
    return cells;
  }
  return {};
}

TEST_F(Page, ARungShowsEachAccessWithItsNumbersAndItsSource) {
  const std::string text = format_rung(sample_case(), {}, sample_result());
  using Cells = std::vector<std::string>;
  EXPECT_EQ(row_of(text, "flip.cuh:2", "global"),
            (Cells{"flip.cuh:2", "global load", "in", "4", "32,768", "32.0", "4.00 (4.00)", "1.00", "-", "-"}))
      << text;
  EXPECT_EQ(row_of(text, "flip.cuh:3", "global"),
            (Cells{"flip.cuh:3", "global store", "out", "4", "32,768", "32.0", "32.00 (4.00)", "32.00", "-", "-"}))
      << text;
  EXPECT_EQ(row_of(text, "flip.cuh:4", "shared"),
            (Cells{"flip.cuh:4", "shared load", "-", "4", "1,000", "32.0", "-", "-", "32.00 (1.00)", "32-way"}))
      << text;
  for (const char* part :
       {"flip: Flip a matrix", "rung 0 of 0 to 1, naive: one thread for each element", "rows=1024, columns=1000",
        "1 launch, 1,024 blocks, 1,048,576 threads", "float v = in[i];", "out[j] = v;  // <here>", "result: right",
        "0 races, 0 faults", "0.125 flop for each DRAM byte"}) {
    EXPECT_TRUE(has(text, one_line(part)) || has(text, part)) << part << "\n" << text;
  }
  EXPECT_EQ(row_of(text, "asked for", "by the lanes")[1], "8.00 MiB") << text;
  EXPECT_EQ(row_of(text, "moved", "sectors of all")[1], "36.0 MiB") << text;
  EXPECT_EQ(row_of(text, "DRAM", "each touched")[1], "8.00 MiB") << text;
  expect_width(text);
}

TEST_F(Page, RacesAndFaultsNameBothLines) {
  RungResult result = sample_result();
  result.report.races = {sample_race()};
  const Fault fault{FaultKind::out_of_bounds, {"kernels/flip/flip.cuh", 2}, "reads 4 bytes behind the end of 'in'.", 3};
  result.report.faults.push_back(fault);
  EXPECT_FALSE(result.good());
  for (const std::string& text : {format_rung(sample_case(), {}, result), format_ladder(sample_case(), {}, {result})}) {
    const std::string line = one_line(text);
    EXPECT_TRUE(has(line, "RACE: store at flip.cuh:3 and load at flip.cuh:4 touch the same word of shared memory"))
        << text;
    EXPECT_TRUE(has(line, "7 times, first at byte 128: thread (1,0,0) and thread (33,0,0) of block (2,0,0)")) << text;
    EXPECT_TRUE(has(line, "FAULT, out of bounds at flip.cuh:2: reads 4 bytes behind the end of 'in'. (3 times)"))
        << text;
    EXPECT_TRUE(has(line, "flip.cuh:3 out[j] = v;")) << text;
    expect_width(text);
  }
}

TEST_F(Page, TheLadderHasALineForEachRung) {
  RungResult tiled = sample_result(1);
  tiled.report.accesses[1].sectors = 131072;
  tiled.report.accesses[2].wavefronts = 1000;
  const std::string text = format_ladder(sample_case(), {{"rows", 7}}, {sample_result(), tiled});
  using Cells = std::vector<std::string>;
  EXPECT_EQ(row_of(text, "0 naive", "right"),
            (Cells{"0 naive", "right", "4.00 (4.00)", "32.00 (4.00)", "32.00 (1.00)", "36.0 MiB", "4.50x"}))
      << text;
  EXPECT_EQ(row_of(text, "1 tiled", "right"),
            (Cells{"1 tiled", "right", "4.00 (4.00)", "4.00 (4.00)", "1.00 (1.00)", "8.00 MiB", "1.00x"}))
      << text;
  EXPECT_TRUE(has(text, "rows=7, columns=1000")) << text;
  EXPECT_FALSE(has(text, " atomic ") || has(text, "atomic:")) << text;
  tiled.report.accesses[1].kind = Kind::atomic;
  const std::string with_atomics = format_ladder(sample_case(), {}, {sample_result(), tiled});
  EXPECT_EQ(row_of(with_atomics, "1 tiled", "right")[4], "4.00 (4.00)") << with_atomics;
  EXPECT_TRUE(has(with_atomics, " atomic ")) << with_atomics;
  expect_width(text);
  expect_width(with_atomics);
}

TEST_F(Page, AWrongResultStandsOut) {
  for (const double error : {1.5, std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    RungResult result = sample_result();
    result.run.worst_error = error;
    EXPECT_FALSE(result.good());
    EXPECT_TRUE(has(format_rung(sample_case(), {}, result), "result: WRONG"));
    EXPECT_TRUE(has(format_ladder(sample_case(), {}, {result}), "WRONG, largest error"));
    const std::string json = format_json(sample_case(), {}, {result});
    EXPECT_EQ(nlohmann::json::parse(json)["rungs"][0]["worst_error"].is_null(), !std::isfinite(error)) << json;
  }
}

TEST_F(Page, ACopyThatHasNotLandedIsNamed) {
  RungResult result = sample_result(1);
  result.report.races = {sample_race()};
  result.report.races[0].in_flight = true;
  result.report.matrix_multiplies = 1;
  const std::string text = one_line(format_rung(sample_case(), {}, result));
  EXPECT_TRUE(has(text,
                  "RACE: the asynchronous copy that begins at flip.cuh:3 may not have landed when load at flip.cuh:4 "
                  "touches the same "
                  "word of shared memory; 7 times"))
      << text;
  EXPECT_TRUE(has(text, "1 mma, ")) << text;
  EXPECT_FALSE(has(one_line(format_rung(sample_case(), {}, sample_result(1))), "mma"));
}

TEST_F(Page, IdealSectors) {
  Access access = global_access(1, Kind::load, "in", 10, 320, lanes(0, 128));
  EXPECT_DOUBLE_EQ(ideal_sectors_per_request(access), 4);
  access.bytes = 16;
  EXPECT_DOUBLE_EQ(ideal_sectors_per_request(access), 16);
  access.bytes = 4, access.lanes = 10;
  EXPECT_DOUBLE_EQ(ideal_sectors_per_request(access), 1) << "one lane needs a whole sector";
  access.requests = 0;
  EXPECT_DOUBLE_EQ(ideal_sectors_per_request(access), 0);
}

TEST_F(Page, SourceLines) {
  EXPECT_EQ(source_line({"kernels/flip/flip.cuh", 2}), "float v = in[i];");
  EXPECT_EQ(source_line({(scratch_.path() / "kernels/flip/flip.cuh").string(), 1}), "void flip() {");
  EXPECT_EQ(source_line({"kernels/flip/flip.cuh", 99}), "");
  EXPECT_EQ(source_line({"kernels/flip/flip.cuh", 0}), "");
  EXPECT_EQ(source_line({"kernels/none.cuh", 1}), "");
}

TEST_F(Page, JsonKeepsEveryField) {
  RungResult result = sample_result(1);
  result.report.races = {sample_race()};
  const Fault fault{FaultKind::deadlock, {"f.cuh", 9}, "two warps wait for each other.", 1};
  result.report.faults.push_back(fault);
  result.report.warp_operations = 5, result.report.lane_accesses = 6, result.report.largest_shared_bytes = 4224;
  result.report.unique_bytes_read = 64;
  result.report.matrix_multiplies = 3, result.report.tensor_flops = 12288;
  result.report.seconds = 12.5;
  const std::string text = format_json(sample_case(), {{"rows", 3}}, {result});
  const auto json = nlohmann::ordered_json::parse(text);
  EXPECT_EQ(json["schema"], "tenfold.microscope/1");
  EXPECT_EQ(json["kernel"], "flip");
  EXPECT_EQ(json["shape"].dump(), R"({"rows":3,"columns":1000})");
  const auto& rung = json["rungs"].at(0);
  EXPECT_EQ(rung["rung"], 1);
  EXPECT_EQ(rung["name"], "tiled");
  EXPECT_EQ(rung["right"], true);
  EXPECT_EQ(rung["worst_error"], 0.25);
  EXPECT_EQ(rung["least_bytes"], 8388608);
  const auto& report = rung["report"];
  EXPECT_EQ(report["threads"], 1048576);
  EXPECT_EQ(report["barriers"], 1024);
  EXPECT_EQ(report["warp_operations"], 5);
  EXPECT_EQ(report["matrix_multiplies"], 3);
  EXPECT_EQ(report["tensor_flops"], 12288);
  EXPECT_EQ(report["lane_accesses"], 6);
  EXPECT_EQ(report["largest_shared_bytes"], 4224);
  EXPECT_EQ(report["unique_bytes_read"], 64);
  EXPECT_EQ(report["unique_bytes_written"], 4194304);
  EXPECT_FALSE(has(text, "12.5")) << "the file must not change from run to run";
  const auto& store = report["accesses"].at(1);
  EXPECT_EQ(store["where"].dump(), R"({"file":"kernels/flip/flip.cuh","line":3})");
  EXPECT_EQ(store["source"], "out[j] = v; // <here>");
  EXPECT_EQ(store["space"], "global");
  EXPECT_EQ(store["kind"], "store");
  EXPECT_EQ(store["buffer"], "out");
  EXPECT_EQ(store["requests"], 32768);
  EXPECT_EQ(store["lanes"], 1048576);
  EXPECT_EQ(store["sectors"], 1048576);
  EXPECT_EQ(store["lines"], 1048576);
  EXPECT_EQ(store["ideal_sectors_per_request"], 4.0);
  EXPECT_EQ(store["example"].size(), 32u);
  EXPECT_EQ(store["example"][31], 31 * 4096);
  const auto& load = report["accesses"].at(2);
  EXPECT_EQ(load["wavefronts"], 32000);
  EXPECT_EQ(load["ideal_wavefronts"], 1000);
  EXPECT_EQ(load["worst_ways"], 32);
  const auto& race = report["races"].at(0);
  EXPECT_EQ(race["first"]["line"], 3);
  EXPECT_EQ(race["second_kind"], "load");
  EXPECT_EQ(race["second_thread"].dump(), R"({"block":[2,0,0],"thread":[33,0,0]})");
  EXPECT_EQ(race["count"], 7);
  EXPECT_EQ(race["in_flight"], false);
  EXPECT_EQ(report["faults"].at(0)["kind"], "deadlock");
}

// --- what GPUs can do --------------------------------------------------------------------------------------------

TEST(GpuCeilings, PublishedFiguresFitEachOther) {
  ASSERT_GE(known_gpus().size(), 4u);
  for (const GpuCeilings& gpu : known_gpus()) {
    const double lanes_per_clock = gpu.flops_per_s / (2 * gpu.sms * gpu.clock_hz);  // 64 or 128 float32 units in an SM
    const double nearest = lanes_per_clock < 96 ? 64 : 128;
    EXPECT_NEAR(lanes_per_clock / nearest, 1, 0.02) << gpu.key;
    const double tensor_lanes =
        std::log2(gpu.tensor_flops_per_s / (gpu.sms * gpu.clock_hz));  // a power of two, at the boost clock
    EXPECT_NEAR(tensor_lanes, std::round(tensor_lanes), 0.12) << gpu.key;
    const double at_model_clock = std::log2(gpu.tensor_flops_per_s / (gpu.sms * gpu.model_clock_hz()));
    EXPECT_NEAR(at_model_clock, std::round(at_model_clock), 0.01) << gpu.key << ": one clock for all figures";
    EXPECT_EQ(gpu.l2_bytes_per_clock > 0, !gpu.l2_source.empty()) << gpu.key;
    EXPECT_TRUE(gpu.l2_bytes_per_clock == 0 || gpu.l2_bytes_per_s() > gpu.dram_bytes_per_s) << gpu.key;
    EXPECT_EQ(&gpu_named(gpu.key), &gpu);
  }
  EXPECT_EQ(gpu_named("h100").key, "H100");
  EXPECT_TRUE(has(test::message_of<std::invalid_argument>([] { gpu_named("H999"); }), "there are: T4,"));
}

// A page that explains GPUs must not say other figures than the model computes with.
TEST(GpuCeilings, ThePageThatExplainsGpusHasTheSameFigures) {
  const std::string page = read_text(test::source_folder() / "docs" / "a_gpu_in_ten_minutes.md");
  const auto trimmed = [](double value) {
    std::ostringstream text;
    text << value;
    return text.str();
  };
  size_t found = 0;
  for (const GpuCeilings& gpu : known_gpus()) {
    const std::string row = "| " + gpu.name + " | " + std::to_string(gpu.sms) + " | " + trimmed(gpu.clock_hz / 1e9) +
                            " GHz | " + trimmed(gpu.flops_per_s / 1e12) + " | " +
                            trimmed(gpu.tensor_flops_per_s / 1e12) + " | " + trimmed(gpu.dram_bytes_per_s / 1e9) +
                            " GB/s | " + trimmed(std::round(gpu.tensor_flops_per_s / gpu.dram_bytes_per_s)) + " |";
    if (!has(page, "| " + gpu.name + " |")) continue;
    ++found;
    EXPECT_TRUE(has(page, row)) << "docs/a_gpu_in_ten_minutes.md: expected the row " << row;
  }
  EXPECT_GE(found, 3U) << "GPUs of gpu_ceilings.cpp in the page's table";
}

TEST(GpuCeilings, HoppersRungsByFormulaAreAsTheirPageSays) {
  const GpuCeilings& h100 = gpu_named("H100");
  constexpr double kSide = 8192, kFlops = 2 * kSide * kSide * kSide;
  const double stages = kSide / kernels::kHopperRows * kSide / kernels::kHopperColumns * kSide / kernels::kHopperDepth;
  const double products = kFlops / h100.tensor_flops_per_s,
               copies = stages * (kernels::kHopperBytesOfA + kernels::kHopperBytesOfB) / h100.l2_bytes_per_s(),
               shared = stages * (kernels::kHopperBytesOfA + kernels::kHopperBytesOfB / 2.0) / h100.l2_bytes_per_s();
  const std::string page = read_text(test::source_folder() / "kernels" / "hgemm" / "README.md");
  const auto says = [&](double value, int digits, const std::string& unit) {
    std::ostringstream text;
    text << std::fixed << std::setprecision(digits) << value << " " << unit;
    EXPECT_TRUE(has(page, text.str())) << text.str();
  };
  for (const double seconds : {products, copies, shared}) says(seconds * 1e3, 2, "ms");
  says(kFlops / (products + copies) / 1e12, 0, "TFLOP/s");
  says(kFlops / copies / 1e12, 0, "TFLOP/s");
}

// --- pictures -----------------------------------------------------------------------------------------------------

TEST(Picture, CoalescedLoadTouchesFourSectors) {
  const Access access = global_access(2, Kind::load, "in", 1, 4, lanes(256, 4));
  const std::string svg = picture(access, "a < b & \"c\"", "v = in[i] && x<y;");
  EXPECT_TRUE(well_formed(svg));
  EXPECT_EQ(sectors_of_example(access), 4);
  EXPECT_EQ(count_of(svg, "class=\"column\""), 4u);
  EXPECT_EQ(count_of(svg, "class=\"touched\""), 32u);
  EXPECT_EQ(count_of(svg, "class=\"lane\""), 8u) << "every fourth lane has its number";
  EXPECT_EQ(count_of(svg, "class=\"off\""), 0u);
  EXPECT_EQ(count_of(svg, "class=\"jump\""), 0u);
  EXPECT_TRUE(has(svg, ">256<") && has(svg, ">352<")) << "columns carry their byte offsets";
  EXPECT_TRUE(has(svg, "touch 4 sectors; side by side they would touch 4"));
  EXPECT_TRUE(has(svg, "prefers-color-scheme:dark"));
  EXPECT_EQ(count_of(svg, "http"), 1u) << "only the name space: nothing is fetched";
}

TEST(Picture, StridedStoreTouchesASectorForEachLaneAndMarksTheJumps) {
  const Access access = global_access(3, Kind::store, "out", 1, 32, lanes(0, 4096));
  const std::string svg = picture(access, "t", "");
  EXPECT_TRUE(well_formed(svg));
  EXPECT_EQ(sectors_of_example(access), 32);
  EXPECT_EQ(count_of(svg, "class=\"column\""), 32u);
  EXPECT_EQ(count_of(svg, "class=\"touched\""), 32u);
  EXPECT_EQ(count_of(svg, "class=\"jump\""), 31u);
  EXPECT_TRUE(has(svg, "touch 32 sectors; side by side they would touch 4"));
}

TEST(Picture, LanesThatTakeNoPartAreOff) {
  const std::string svg = picture(global_access(2, Kind::load, "in", 1, 2, lanes(0, 4, 12)), "t", "");
  EXPECT_EQ(count_of(svg, "class=\"touched\""), 12u);
  EXPECT_EQ(count_of(svg, "class=\"off\""), 20u);
  EXPECT_TRUE(has(svg, "struck through: the lane takes no part"));
  EXPECT_TRUE(has(svg, "12 lanes of 4 B touch 2 sectors; side by side they would touch 2"));
  EXPECT_TRUE(well_formed(picture(global_access(2, Kind::load, "in", 0, 0, lanes(0, 4, 0)), "t", "")));
}

TEST(Picture, AnUnalignedWideLaneLiesInTwoSectors) {
  Access access = global_access(2, Kind::load, "in", 1, 2, lanes(24, 0, 1));
  access.bytes = 16;
  const std::string svg = picture(access, "t", "");
  EXPECT_EQ(count_of(svg, "class=\"touched\""), 2u);
  EXPECT_EQ(sectors_of_example(access), 2);
}

TEST(Picture, BankConflictsAreColouredAndHollow) {
  const std::string column = picture(shared_access(4, 1, 32, 32, lanes(0, 128)), "t", "");
  EXPECT_TRUE(well_formed(column));
  EXPECT_EQ(count_of(column, "class=\"column\""), 32u);
  EXPECT_EQ(count_of(column, "class=\"touched conflict\""), 32u);
  EXPECT_EQ(count_of(column, "class=\"touched\""), 0u);
  EXPECT_EQ(count_of(column, "class=\"conflict-bytes\""), 32u);
  EXPECT_TRUE(has(column, ".conflict-bytes{fill:none")) << "not by colour alone";
  EXPECT_TRUE(has(column, "hollow: ")) << column;
  EXPECT_FALSE(has(column, "filled: ")) << "the legend names what is drawn";
  EXPECT_TRUE(has(column, "32 words in the worst bank"));

  const std::string padded = picture(shared_access(4, 1, 1, 1, lanes(0, 132)), "t", "");
  EXPECT_EQ(count_of(padded, "class=\"touched\""), 32u);
  EXPECT_TRUE(has(padded, "no bank conflict"));
  EXPECT_TRUE(has(picture(shared_access(4, 1, 1, 1, lanes(64, 0)), "t", ""), "no bank conflict"))
      << "one word for all is a broadcast";
}

TEST(Picture, WideSharedAccessesConflictWithinTheirPassOnly) {
  Access access = shared_access(4, 1, 4, 1, lanes(0, 16));
  access.bytes = 16;
  const std::string svg = picture(access, "t", "");
  EXPECT_EQ(count_of(svg, "class=\"touched\""), 128u) << "four banks for each lane";
  EXPECT_TRUE(has(svg, "no bank conflict"));
  access.example = lanes(0, 32);
  EXPECT_TRUE(has(picture(access, "t", ""), "2 words in the worst bank"));
}

/// The numbers that follow `before` in an SVG.
std::vector<double> numbers_after(const std::string& svg, const std::string& before) {
  std::vector<double> found;
  for (size_t at = svg.find(before); at != std::string::npos; at = svg.find(before, at + 1))
    found.push_back(std::stod(svg.substr(at + before.size())));
  return found;
}

// Pages show pictures 400 pixels wide: letters of 11 pixels, and nothing that is cut off.
TEST(Picture, CanBeReadAt400Pixels) {
  Access wide = global_access(2, Kind::load, "a_buffer_with_a_long_name", 1, 64, lanes(24, 4096));
  wide.bytes = 16;  // in two sectors each: no request touches more
  const std::string words(300, 'w'), sentence = "a kernel of many words, rung 3 of a long name: global load at x.cuh:1";
  const std::vector<std::string> pictures = {
      picture(wide, sentence, "out[column * rows + row] = tile[threadIdx.x][threadIdx.y + i] + a * b[threadIdx.x];"),
      picture(wide, words, words), picture(shared_access(4, 1, 32, 32, lanes(0, 128)), sentence, ""),
      picture(global_access(2, Kind::load, "in", 1, 2, lanes(0, 4, 12)), "t", "")};
  EXPECT_EQ(sectors_of_example(wide), 64);
  for (const std::string& svg : pictures) {
    EXPECT_TRUE(well_formed(svg));
    const double width = numbers_after(svg, "viewBox=\"0 0 ").at(0);
    const std::vector<double> sizes = numbers_after(svg, "font-size:");
    ASSERT_FALSE(sizes.empty());
    EXPECT_GE(std::ranges::min(sizes) * 400 / width, 11);
    const std::vector<double> x = numbers_after(svg, "<rect x=\""), wide_by = numbers_after(svg, "\" width=\"");
    ASSERT_EQ(wide_by.size(), x.size() + 1) << "one for the picture itself, before all others";
    for (size_t i = 0; i < x.size(); ++i) {
      EXPECT_GT(wide_by[i + 1], 0);
      EXPECT_LE(x[i] + wide_by[i + 1], width);
    }
    // Columns keep their order, and no number stands on its neighbour.
    const std::vector<double> turned = numbers_after(svg, "rotate(-90 ");
    for (size_t i = 2; i < turned.size(); ++i) EXPECT_GE(turned[i] - turned[i - 1], 15);
    std::istringstream lines(svg.substr(svg.find("class=\"bg\"")));
    for (std::string line; std::getline(lines, line);) {
      if (has(line, "class=\"title\"") || has(line, "class=\"code\"")) EXPECT_LE(line.size(), 150u) << line;
    }
  }
  EXPECT_TRUE(has(pictures[1], "www...</text>")) << "what has no space is cut where the margin is";
  EXPECT_EQ(count_of(pictures[0], "class=\"title\""), 2u) << "a long title goes on in the next line";
}

// --- the program --------------------------------------------------------------------------------------------------

TEST_F(Page, TheProgramRunsOneRungOrAll) {
  const Ran all = run({});
  EXPECT_EQ(all.code, 0) << all.err;
  EXPECT_TRUE(has(all.out, "0 naive") && has(all.out, "1 tiled")) << all.out;
  for (const std::string rung : {"1", "tiled"}) {
    const Ran one = run({"--rung", rung, "--shape", "columns=3"});
    EXPECT_EQ(one.code, 0) << one.err;
    EXPECT_TRUE(has(one.out, "rung 1 of 0 to 1, tiled") && has(one.out, "rows=1024, columns=3")) << one.out;
  }
}

TEST_F(Page, DescribeRunsNothing) {
  const PageBody body = [](Device&, const Shape&, int) -> PageRun { throw std::runtime_error("must not run"); };
  const Ran ran = run({"--describe"}, body);
  EXPECT_EQ(ran.code, 0);
  const auto json = nlohmann::ordered_json::parse(ran.out);
  EXPECT_EQ(json["kernel"], "flip");
  EXPECT_EQ(json["shape"].dump(), R"({"rows":1024,"columns":1000})");
  EXPECT_EQ(json["rungs"][1]["name"], "tiled");
  EXPECT_EQ(json["passes"].dump(), "[]");
}

/// A flip that is timed and modelled; `launched` is where it says what it was asked to launch.
KernelCase timed_case(std::string& launched) {
  KernelCase flip = sample_case();
  flip.passes = {{.name = "flip_backward",
                  .rungs = {"tiled", "wide"},
                  .shape = {{"rows", 8192}, {"columns", 300}},
                  .peak = Peak::tensor_cores,
                  .work =
                      [](const Shape& shape, int64_t value_bytes) {
                        return Work{.flops = 2.0 * static_cast<double>(shape.at("rows")),
                                    .least_bytes = shape.at("columns") * value_bytes};
                      },
                  .sampled_blocks = 64,
                  .launch =
                      [&launched](Device&, const Shape& shape, int rung) {
                        launched = std::to_string(rung);
                        for (const auto& [name, value] : shape) launched += " " + name + "=" + std::to_string(value);
                      }}};
  return flip;
}

TEST_F(Page, DescribesWhatTheModelNeeds) {
  std::string launched;
  const Ran ran = run({"--describe"}, sample_run, timed_case(launched));
  const auto passes = nlohmann::ordered_json::parse(ran.out).at("passes");
  EXPECT_EQ(passes.dump(), R"([{"name":"flip_backward","rungs":["tiled","wide"],"type":"bfloat16",)"
                           R"("shape":{"rows":8192,"columns":300},"flops":16384.0,"least_bytes":600,)"
                           R"("peak":"tensor_flops_per_s","sampled_blocks":64}])");
  EXPECT_EQ(launched, "");
}

TEST_F(Page, CountsLaunchARungOfAPassAtItsShape) {
  std::string launched;
  const KernelCase flip = timed_case(launched);
  EXPECT_EQ(run({"counts", "flip_backward", "1", "rows=0"}, sample_run, flip).out, "[]\n");
  EXPECT_EQ(launched, "1 columns=300 rows=0") << "sizes that are not named are the timed ones";
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{"counts"}, "usage: flip counts PASS RUNG NAME=N,NAME=N [BLOCKS]"},
      {{"counts", "flip", "0", "rows=1"}, "flip has no such pass, only flip_backward"},
      {{"counts", "flip_backward", "2", "rows=1"}, "rung 2 is not in 0 .. 1"},
      {{"counts", "flip_backward", "0", "rows=1", "-3"}, "BLOCKS -3 is not in 0 .. "},
      {{"counts", "flip_backward", "0", "depth=1"}, "there is no 'depth'; this kernel has: rows=8192,columns=300"},
      {{"counts", "flip_backward", "0", "rows=x"}, "rows must be a whole number from 0"},
  };
  for (const auto& [words, said] : cases) {
    const Ran ran = run(words, sample_run, flip);
    EXPECT_EQ(ran.code, 2) << said;
    EXPECT_EQ(ran.out, "") << said;
    EXPECT_TRUE(has(ran.err, said)) << ran.err;
    EXPECT_EQ(count_of(ran.err, "\n"), 1u) << ran.err;
  }
}

TEST(KernelCase, RepeatedValuesAreNormalToTheLastOne) {
  Device device;
  const auto values = device.buffer<float>("values", (1 << 16) + 3), few = device.buffer<float>("few", 3);
  fill_repeating({values, few});
  EXPECT_TRUE(std::equal(few.begin(), few.end(), values.begin())) << "each buffer begins anew";
  EXPECT_TRUE(std::equal(few.begin(), few.end(), values.end() - 3));
  EXPECT_TRUE(std::all_of(values.begin(), values.end(), [](float value) { return std::isfinite(value); }));
}

TEST_F(Page, FilesAreWritten) {
  const auto file = scratch_.path() / "new" / "flip.json";
  const Ran ran = run({"--json", file.string()});
  EXPECT_EQ(ran.code, 0) << ran.err;
  const auto json = nlohmann::json::parse(test::read_text(file));
  EXPECT_EQ(json["rungs"].size(), 2u);
  EXPECT_EQ(json["rungs"][0]["flops"], 1e6);
}

TEST_F(Page, FilesThatCannotBeWrittenAreRefusedBeforeAnythingRuns) {
  const PageBody body = [](Device&, const Shape&, int) -> PageRun { throw std::runtime_error("must not run"); };
  for (const std::string flag : {"--json", "--pictures"}) {
    const Ran ran = run({flag, "/proc/none/flip"}, body);
    EXPECT_EQ(ran.code, 2);
    EXPECT_EQ(ran.out, "");
    EXPECT_TRUE(has(ran.err, flag + " /proc/none/flip: cannot be written: ")) << ran.err;
    EXPECT_EQ(count_of(ran.err, "\n"), 1u) << ran.err;
  }
}

TEST_F(Page, ThePageAndTheDriverSayTheSameOfAFlag) {
  const auto page = test::flags_of_help(run({"--help"}).out);
  EXPECT_EQ(page.size(), kernel_flags().size() + 1) << "the rows, and --help";
  EXPECT_EQ(test::flags_of_help(test::help_of_driver("kernel")), page);
}

TEST_F(Page, ExitCodes) {
  PageBody body = [](Device&, const Shape&, int rung) { return PageRun{rung == 1 ? 2.0 : 0.5, {1, 1}}; };
  EXPECT_EQ(run({}, body).code, 1);
  EXPECT_EQ(run({"--rung", "0"}, body).code, 0);
  EXPECT_EQ(run({"--rung", "1"}, body).code, 1);
  body = [](Device&, const Shape&, int) -> PageRun { throw std::invalid_argument("rows must be\na multiple of 4"); };
  const Ran ran = run({}, body);
  EXPECT_EQ(ran.code, 2);
  EXPECT_EQ(ran.err, "rows must be a multiple of 4\n");
  for (const bool length : {false, true}) {
    body = [length](Device&, const Shape&, int) -> PageRun {
      if (length) throw std::length_error("vector::_M_default_append");
      throw std::bad_alloc();
    };
    EXPECT_EQ(run({}, body).code, 2);
    EXPECT_EQ(run({}, body).err, "there is not enough memory for this shape; name a smaller one with --shape\n");
  }
}

TEST_F(Page, BadFlagsAreOneLine) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{"--rung", "2"}, "--rung 2: no such rung; this kernel has: 0 naive, 1 tiled"},
      {{"--rung", "-1"}, "no such rung"},
      {{"--rung", "1x"}, "no such rung"},
      {{"--shape", "rows"}, "expected NAME=N"},
      {{"--shape", "depth=3"}, "there is no 'depth'; this kernel has: rows=1024,columns=1000"},
      {{"--shape", "rows=0"}, "rows must be a whole number from 1"},
      {{"--shape", "rows=2.5"}, "rows must be a whole number from 1"},
      {{"--shape", "rows=99999999999999999999"}, "rows must be a whole number from 1"},
      {{"--shape", "rows=2147483647,columns=2147483647"},
       "more than the microscope can hold; the kernel's own shape is rows=1024"},
      {{"--shape", "rows=9223372036854775807,columns=2"}, "more than the microscope can hold"},
      {{"--rnug", "1"}, "see --help"},
  };
  for (const auto& [flags, said] : cases) {
    const Ran ran = run(flags);
    EXPECT_EQ(ran.code, 2) << said;
    EXPECT_EQ(ran.out, "") << said;
    EXPECT_TRUE(has(ran.err, said)) << ran.err;
    EXPECT_EQ(count_of(ran.err, "\n"), 1u) << ran.err;
  }
}

}  // namespace
}  // namespace tenfold::simt
