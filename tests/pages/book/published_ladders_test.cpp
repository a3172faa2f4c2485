// The model's times beside those that others have published: order, factors, what is missing or damaged; and what
// docs/kernel_time.md promises of them.
#include "common/pages/book/published_ladders.h"

#include <gtest/gtest.h>

#include <array>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>

#include "common/base/files.h"
#include "common/result/result.h"

#include "tests/support/support.h"

namespace tenfold {
namespace {

TEST(Ladder, OrderAndFactors) {
  const LadderAgreement same = ladder_agreement({4, 2, 1}, {8, 4, 2});
  EXPECT_EQ(same.tau, 1);
  EXPECT_EQ(same.median_factor, 2);
  EXPECT_EQ(ladder_agreement({4, 2, 1}, {1, 2, 4}).tau, -1);
  EXPECT_EQ(ladder_agreement({4, 2, 1.9}, {4, 1, 2}).tau, 1) << "the last two were published within 15 %";
  const LadderAgreement tied = ladder_agreement({4, 2, 1}, {4, 2, 2});
  EXPECT_EQ((std::array{tied.pairs, tied.agree, tied.disagree}), (std::array{3, 2, 0}));
  EXPECT_NEAR(tied.tau, 2.0 / 3, 1e-12) << "the same time is no agreement";
  const LadderAgreement turned = ladder_agreement({4, 2, 1}, {2, 2, 3});
  EXPECT_EQ(turned.worst_factor, 3);
  EXPECT_EQ(turned.wrong, (std::vector<std::pair<size_t, size_t>>{{0, 2}, {1, 2}}));
}

class Ladders : public testing::Test {
 protected:
  Ladders() {
    ladder("copy_T4", R"("held_out": true, "bytes": 2e9, "rungs": [{"name": "a", "gbytes_per_s": 1, "ours": 1},
      {"name": "b", "seconds": 1, "ours": 0}])");
    times("ladder_times_frozen.json", R"("commit": "abc", )", {1, 3});
  }
  std::filesystem::path root() const { return scratch_.path(); }
  void ladder(const std::string& name, const std::string& rest) const {
    test::write_text(root() / "docs/published_ladders" / (name + ".json"),
                     R"({"schema": "tenfold.published_ladder/3", "kernel": "copy", "shape": "count=8", "gpu": "T4",
      "source": "somebody", "url": "https://example.org", "date": "2026-01-02", )" +
                         rest + "}");
  }
  /// `seconds` of each rung, of which DRAM takes all and issue half.
  void times(const std::string& file, const std::string& more, const std::vector<double>& seconds) const {
    std::ostringstream rungs;
    for (const double of : seconds)
      rungs << (rungs.str().empty() ? "" : ", ") << R"({"seconds": )" << of
            << R"(, "bound": "DRAM", "bounds": {"DRAM": )" << of << R"(, "issue": )" << of / 2 << "}}";
    test::write_text(root() / "results/compiler" / file, R"({"schema": "tenfold.ladder_times/1", )" + more +
                                                             R"("ladders": {"copy_T4": {"rungs": [)" + rungs.str() +
                                                             "]}}}");
  }
  test::Scratch scratch_;
};

TEST_F(Ladders, ARateIsATime) {
  const std::string text = published_ladder_markdown(root(), "copy_T4");
  EXPECT_NE(text.find("| a | 1 | 2.0 s | 1.0 s | 0.500x |"), std::string::npos) << text;
  EXPECT_NE(text.find("| b | 0 | 1.0 s | 3.0 s | 3.00x |"), std::string::npos) << text;
}

TEST_F(Ladders, HeldOutAndFrozenStandInTheTable) {
  const std::string text = published_ladders_markdown(root());
  EXPECT_NE(text.find("[somebody](https://example.org), 2026-01-02 | held out | 2 | -1"), std::string::npos) << text;
  EXPECT_NE(text.find("| 1 and 0 |"), std::string::npos) << "the pair in the wrong order:\n" << text;
  EXPECT_NE(text.find("Frozen: the model at commit abc"), std::string::npos) << text;
  EXPECT_EQ(text.find("now:"), std::string::npos) << text;
}

TEST_F(Ladders, BothModelsStandSideBySide) {
  times("ladder_times.json", "", {2, 1});
  const std::vector<LadderErrors> errors = ladder_errors(root());
  ASSERT_EQ(errors.size(), 1u);
  EXPECT_TRUE(errors[0].held_out);
  EXPECT_EQ(errors[0].frozen->worst_factor, 3);
  EXPECT_EQ(errors[0].now->worst_factor, 1);
  EXPECT_NE(published_ladders_markdown(root()).find("now: tau"), std::string::npos);
}

TEST_F(Ladders, AMeasurementNearTheLongestBoundValidatesIt) {
  EXPECT_FALSE(validated_bounds(root())) << "nothing is modelled";
  times("ladder_times.json", "", {3, 2});
  EXPECT_TRUE(validated_bounds(root())->empty()) << "both were faster than their bound";
  times("ladder_times.json", "", {1.5, 2});
  EXPECT_TRUE(validated_bounds(root())->empty()) << "2 s lie in 1.5 .. 2.25, but are a third more than the bound";
  times("ladder_times.json", "", {1.6, 2});
  EXPECT_EQ(*validated_bounds(root()), (std::set<std::pair<std::string, std::string>>{{"DRAM", "T4"}}))
      << "2 s are a quarter more than the bound";
  EXPECT_NE(published_ladders_markdown(root()).find("| 1 of 2 |"), std::string::npos);
  EXPECT_NE(published_ladder_markdown(root(), "copy_T4").find("| DRAM | 2.4 s |"), std::string::npos);
}

TEST_F(Ladders, APairInTheOtherOrderHasARemark) {
  const auto ours = [](size_t rung, const std::string& gpu) { return gpu != "T4" ? 0 : rung == 1 ? 1.0 : 2.0; };
  const std::string remark = order_remarks(root(), "copy", ours);  // published: rung 1 took twice as long
  EXPECT_NE(remark.find("rung 1 took 2.00x the time of rung 0 on T4"), std::string::npos) << remark;
  EXPECT_EQ(order_remarks(root(), "other", ours), "");
  EXPECT_EQ(order_remarks(root(), "copy", [](size_t rung, const std::string&) { return rung == 1 ? 2.0 : 1.0; }), "");
  EXPECT_EQ(order_remarks(root(), "copy", [](size_t, const std::string&) { return 0.0; }), "")
      << "it has no such column";
}

TEST_F(Ladders, OfOurOwnCodeTheReportHasTheTimes) {
  nlohmann::json report = {
      {"context", {{"gpu", "NVIDIA T4"}, {"commit", "265cce0b5f774d23"}, {"date", "2026-11-29T22:30:21"}}},
      {"benchmarks", nlohmann::json::array()}};
  const auto add = [&report](const std::string& name, double us) {
    report["benchmarks"].push_back({{"name", "copy, Float, 8/" + name},
                                    {"run_type", "iteration"},
                                    {"real_time", us},
                                    {"time_unit", "us"},
                                    {"bytes/s", 1e9}});
  };
  for (const double us : {4e6, 2e6, 3e6}) add("rung 0/cold", us);
  add("rung 1/cold", 1e6), add("rung 1/hot", 5e6);
  test::write_text(root() / "results/t4/bench/copy.json", report.dump());
  const auto own = [&](const std::string& rungs) {
    test::write_text(root() / "docs/published_ladders/copy_T4.json",
                     R"({"schema": "tenfold.published_ladder/3", "kernel": "copy", "shape": "count=8", "gpu": "T4",
      "report": "results/t4/bench/copy.json", "ladder": "copy, Float, 8", "held_out": true, "rungs": )" +
                         rungs + "}");
  };
  own("[0, 1]");
  times("ladder_times.json", "", {2, 1});
  const std::string text = published_ladder_markdown(root(), "copy_T4");
  EXPECT_NE(text.find("| rung 0 | 0 | 3.0 s |"), std::string::npos) << "the median:\n" << text;
  EXPECT_NE(text.find("| rung 1 | 1 | 1.0 s |"), std::string::npos) << "on empty caches:\n" << text;
  EXPECT_NE(text.find("this code, commit 265cce0b5f, `results/t4/bench/copy.json`, 2026-11-29"), std::string::npos)
      << text;
  const auto ours = [](size_t rung, const std::string&) { return rung == 0 ? 1.0 : 2.0; };
  EXPECT_NE(order_remarks(root(), "copy", ours).find("Measured in the other order: rung 0 took 3.00x"),
            std::string::npos);
  own("[0, 2]");
  EXPECT_NE(test::message_of<FileError>([&] { ladder_errors(root()); }).find("has no rung 2 of 'copy, Float, 8'"),
            std::string::npos);
}

TEST_F(Ladders, AFrozenModelIsNotAskedForYoungerLadders) {
  times("ladder_times_frozen.json", R"("commit": "abc", )", {1, 3});
  times("ladder_times.json", "", {2, 1});
  std::filesystem::rename(root() / "docs/published_ladders/copy_T4.json", root() / "docs/published_ladders/young.json");
  const std::string now = read_text(root() / "results/compiler/ladder_times.json");
  test::write_text(root() / "results/compiler/ladder_times.json",
                   std::regex_replace(now, std::regex("copy_T4"), "young"));
  EXPECT_NE(published_ladders_markdown(root()).find("| 2 | - | - | - | - | 1 |"), std::string::npos)
      << published_ladders_markdown(root());
}

TEST_F(Ladders, FilesOfOtherRungsAndDamagedOnesAreNamed) {
  times("ladder_times_frozen.json", R"("commit": "abc", )", {1});
  EXPECT_NE(test::message_of<FileError>([&] { published_ladders_markdown(root()); }).find("the rungs of copy_T4"),
            std::string::npos);
  test::write_text(root() / "results/compiler/ladder_times_frozen.json", "{");
  EXPECT_NE(test::message_of<FileError>([&] { ladder_errors(root()); }).find("ladder_times_frozen.json is damaged"),
            std::string::npos);
  std::filesystem::remove(root() / "results/compiler/ladder_times_frozen.json");
  EXPECT_NE(test::message_of<FileError>([&] { ladder_errors(root()); }).find("ladder_times.py --write"),
            std::string::npos);
}

// What docs/kernel_time.md promises.
TEST(Ladder, TheModelIsAsItWasPublished) {
  for (const LadderErrors& ladder : ladder_errors(test::source_folder())) {
    for (const auto& errors : {ladder.frozen, ladder.now}) {
      if (!errors || ladder.held_out) continue;
      if (ladder.frozen) EXPECT_GE(errors->tau, 0.8) << ladder.name;  // younger ones have three or four rungs
      EXPECT_LE(errors->median_factor, 1.3) << ladder.name;
      EXPECT_LE(errors->worst_factor, 2) << ladder.name;
    }
    if (ladder.held_out && ladder.frozen && ladder.now)
      EXPECT_LE(ladder.now->disagree, ladder.frozen->disagree) << ladder.name;
  }
}

}  // namespace
}  // namespace tenfold
