// dry: a program on a card that is not there.

#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <vector>

#include "sandbox.h"

namespace tenfold {
namespace {

namespace fs = std::filesystem;

class Dry : public Sandbox {
 protected:
  void SetUp() override {
    if (!fs::exists(test::build_folder() / "common/dry_gpu/libtenfold_dry_cudart.so"))
      GTEST_SKIP() << "no dry GPU is built";
    fs::create_directories(root_ / "build/common");
    fs::create_directory_symlink(test::build_folder() / "common/dry_gpu", root_ / "build/common/dry_gpu");
  }
  /// One that allocates 3 MiB through the runtime, among other things.
  std::string program() const {
    return (test::build_folder() / "tests/dry_gpu_test").string() + " --gtest_filter=Memory.KnowsItsAddresses";
  }
};

TEST_F(Dry, SaysWhatTheProgramAskedOfTheCard) {
  const Ran ran = tenfold("dry --gpu t4 --gpus 2 -- " + program());
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_TRUE(has(ran.out, "PASSED")) << "its own output: " << ran.out;
  EXPECT_TRUE(has(ran.err, "dry GPU Tesla T4: no such card is here, nothing is computed, and no time is measured"))
      << ran.err;
  EXPECT_TRUE(has(ran.err, "dry GPU 0 (T4): peak 4.00 MiB of 14.8 GiB reserved")) << ran.err;
  EXPECT_TRUE(has(ran.err, "dry GPU 1 (T4): peak 0 B")) << ran.err;
  EXPECT_TRUE(has(ran.err, "1 allocation\n")) << ran.err;
}

TEST_F(Dry, ListsItsCards) {
  EXPECT_TRUE(has(tenfold("dry --list").out, "NVIDIA H100 80GB HBM3"));
  std::map<std::string, nlohmann::json> cards;
  for (const auto& card : nlohmann::json::parse(tenfold("dry --list --json").out)) cards[card.at("card")] = card;
  EXPECT_EQ(cards.at("A100").at("name"), "NVIDIA A100-SXM4-80GB");
  EXPECT_EQ(cards.at("A100").at("capability"), "8.0");
  EXPECT_EQ(cards.at("A100").at("ceilings").at("fp16_per_s"), 312e12) << "the maker's, not a share of it";
  EXPECT_EQ(cards.at("A100-40").at("ceilings").at("bytes_per_s"), 1555e9);
  EXPECT_EQ(cards.at("T4").at("ceilings").at("tf32_per_s"), 0);
  EXPECT_FALSE(cards.at("B200").contains("ceilings"));
}

TEST_F(Dry, TellsHowLongTheCardWouldHaveBeenBusy) {
  const Ran ran = tenfold("dry --gpu t4 --time -- " + program());
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_TRUE(has(ran.err, "nothing is computed, and its time is modelled")) << ran.err;
  EXPECT_TRUE(has(ran.err, "\nmodelled: the card was busy for ")) << ran.err;
}

TEST_F(Dry, AReportThatCannotBeReadHidesNoOther) {
  const Ran ran = tenfold("dry -- sh -c 'echo {broken >>$TENFOLD_DRY_REPORT; exec " + program() + "'");
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_TRUE(has(ran.err, "what one process has done cannot be read: ")) << ran.err;
  EXPECT_TRUE(has(ran.err, "1 allocation\n")) << ran.err;
}

TEST_F(Dry, TheExitCodeIsTheProgramsAndWhoAsksForNoGpuIsTold) {
  const Ran ran = tenfold("dry -- sh -c 'exit 7'");
  EXPECT_EQ(ran.code, 7);
  EXPECT_TRUE(has(ran.err, "sh asked for no GPU through CUDA 13's runtime")) << ran.err;
}

TEST_F(Dry, WhoOnlyReadsWhatTheCardIsHasAskedForOne) {
  const Ran ran = tenfold("dry --gpu H100 -- " + (test::build_folder() / "tests/dry_gpu_test").string() +
                          " --gtest_filter=Devices.BadOnesAreRefused");
  EXPECT_EQ(ran.code, 0) << ran.out << ran.err;
  EXPECT_TRUE(has(ran.err, "dry GPU 0 (H100): peak 0 B")) << ran.err;
  EXPECT_FALSE(has(ran.err, "asked for no GPU")) << ran.err;
}

TEST_F(Dry, BadInputIsOneLine) {
  for (const auto& [flags, part] : {std::pair("", "what is to run?"),
                                    {"--gpu V100 -- true", "--gpu: 'V100' is no dry GPU; known: T4, "},
                                    {"--gpus 0 -- true", "--gpus 0: expected 1 to 64"},
                                    {"--json -- true", "--json goes with --list"},
                                    {"--time --arithmetic late -- true", "--time and --arithmetic: "},
                                    {"--gpu B200 --time -- true", "--time: no time is modelled for B200"},
                                    {"true", "unknown argument 'true'"},
                                    {"-- /no/such/program", "cannot be started"}}) {
    const Ran ran = tenfold(std::string("dry ") + flags);
    EXPECT_EQ(ran.code, 2) << flags;
    EXPECT_TRUE(has(ran.err, part)) << ran.err;
    EXPECT_EQ(std::count(ran.err.begin(), ran.err.end(), '\n'), 1) << ran.err;
  }
  fs::remove(root_ / "build/common/dry_gpu");
  EXPECT_TRUE(has(tenfold("dry -- true").err, "libtenfold_dry_cudart.so is not built"));
}

class DryLesson : public Sandbox {
 protected:
  /// One that notes how it was started, and hands out what the order's file holds.
  void add_noting_lesson(bool side_streams) {
    const std::string io = (root_ / "io").string();
    add_lesson("30_little", "echo \"[$TENFOLD_DRY_ARITHMETIC] $all\" >>'" + io + "/calls'; cp '" + io +
                                "/30_little'$TENFOLD_DRY_ARITHMETIC.json \"$json\"");
    Result late = result_of("30_little");
    if (side_streams) late.cases[0].variants[0].counted["side streams"] = 1;
    for (const char* order : {"late", "early"})
      write_result(root_ / "io" / ("30_little" + std::string(order) + ".json"), late);
  }
  std::vector<std::string> calls() const {
    std::vector<std::string> lines;
    std::istringstream text(read("io/calls"));
    for (std::string line; std::getline(text, line);) lines.push_back(line);
    return lines;
  }
};

TEST_F(DryLesson, RunsForMemoryAndForAgreementInBothOrdersOfStreams) {
  add_noting_lesson(/*side_streams=*/true);
  const Ran ran = tenfold("run 30 --device dry:h100 --preset quick");
  EXPECT_EQ(ran.code, 0) << ran.err;
  const auto starts = calls();
  ASSERT_EQ(starts.size(), 3u) << read("io/calls");
  EXPECT_TRUE(has(starts[0], "[] --device dry:h100")) << starts[0];
  EXPECT_FALSE(has(starts[0], "--size")) << "the card's own";
  EXPECT_TRUE(has(starts[0], "--preset quick")) << "its time is modelled: " << starts[0];
  EXPECT_TRUE(has(starts[1], "[late]") && has(starts[1], "--size cpu")) << starts[1];
  EXPECT_TRUE(has(starts[2], "[early]") && has(starts[2], "--preset check")) << starts[2];
  EXPECT_NO_THROW(read_result(root_ / "out/dry-h100/30_little.json")) << "apart from this machine's";
  EXPECT_FALSE(fs::exists(out_ / "30_little.json"));
  EXPECT_EQ(std::string(ran.out).find("Case "), ran.out.rfind("Case ")) << "one table: " << ran.out;
}

TEST_F(DryLesson, OneOrderWillDoWhereThereIsOneStream) {
  add_noting_lesson(/*side_streams=*/false);
  EXPECT_EQ(tenfold("run 30 --device dry:t4").code, 0);
  EXPECT_EQ(calls().size(), 2u) << read("io/calls");
  EXPECT_EQ(tenfold("run 30 --device dry:t4 --preset build").code, 0);
  EXPECT_EQ(calls().size(), 3u) << "nothing is compared: " << read("io/calls");
}

TEST_F(DryLesson, WhatCannotBeIsRefusedInALine) {
  add_noting_lesson(false);
  for (const auto& [flags, part] : {std::pair("30 --device dry:V100", "--device: 'V100' is no dry GPU; known: T4, "),
                                    {"30 --device dry:", "--device dry:: expected auto, cpu, cuda or dry:CARD"},
                                    {"30 --device dry:T4 --trace f", "--trace: a dry GPU has no times to trace"}}) {
    const Ran ran = tenfold(std::string("run ") + flags);
    EXPECT_EQ(ran.code, 2) << flags;
    EXPECT_TRUE(has(ran.err, part)) << ran.err;
  }
  EXPECT_FALSE(fs::exists(root_ / "io/calls"));
}

}  // namespace
}  // namespace tenfold
