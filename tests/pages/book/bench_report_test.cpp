// Reports of benchmark programs, as compare.py writes them.
#include "common/pages/book/bench_report.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "common/base/files.h"
#include "common/result/result.h"

#include "tests/support/support.h"

namespace tenfold {
namespace {

using Json = nlohmann::json;

class BenchReports : public testing::Test {
 protected:
  static Json row(double program, double peer) {
    return {{"unit", "bytes"},
            {"ratio", program / peer},
            {"low", program / peer - 0.125},
            {"high", program / peer + 0.125},
            {"covered", true},
            {"rounds", {{{"program", 0.5 * program}, {"peer", peer}}, {{"program", 1.5 * program}, {"peer", peer}}}}};
  }
  static Json report() {
    Json pair = row(6e6, 2e6), best = row(400, 100);
    pair["name"] = "decode/png";
    best.update({{"label", "whole loader"},
                 {"program", "png/workers:2"},
                 {"peer", "png/workers:4"},
                 {"own", false},
                 {"unit", "items"}});
    return {{"context",
             {{"date", "2026-11-22T03:52:28+00:00"},
              {"host_name", "secret"},
              {"executable", "/home/secret/bench"},
              {"answer_near", "1 2 3"},
              {"machine", "2x-sample"},
              {"commit", std::string(40, 'a')},
              {"dirty", "no"}}},
            {"benchmarks", Json::array()},
            {"peer",
             {{"cores", {0, 1}},
              {"libraries", {{"Pillow", "13"}, {"Python", "3.11"}}},
              {"benchmarks", {pair}},
              {"best", {best}}}}};
  }
  void write(const Json& json, const std::string& name = "loader.json") const {
    test::write_text(folder() / name, json.dump());
  }
  std::filesystem::path folder() const { return scratch_.path() / "bench"; }

  test::Scratch scratch_;
};

TEST_F(BenchReports, SayWhereTheyWereMade) {
  write(report());
  const BenchReport read = read_bench_report(folder() / "loader.json");
  EXPECT_EQ(read.name, "loader");
  EXPECT_EQ(read.machine, "2x-sample");
  EXPECT_EQ(read.commit, std::string(40, 'a'));
  EXPECT_EQ(read.date, "2026-11-22");
  EXPECT_FALSE(read.dirty);
  ASSERT_EQ(read.ratios.size(), 2u);
  EXPECT_EQ(read.ratios[0].our_rate, 6e6) << "the median of both rounds";
  EXPECT_FALSE(read.ratios[0].best);
  EXPECT_EQ(read.ratios[1].theirs, "png/workers:4");
}

TEST_F(BenchReports, BecomeATable) {
  write(report());
  const std::string table = peer_ratios_markdown(read_bench_reports(folder()));
  for (const std::string part :
       {"- loader: against Pillow 13, Python 3.11; 2 cores; 2026-11-22, commit aaaaaaaaaa.",
        "| loader | decode/png | 6 MB/s | 2 MB/s | 3.00x [2.88, 3.12] |",
        "| loader | best: whole loader | 400/s (png/workers:2) | 100/s (png/workers:4) | 4.00x [3.88, 4.12] |"})
    EXPECT_NE(table.find(part), std::string::npos) << part << "\n" << table;

  Json fast = report();
  fast["peer"]["benchmarks"][0]["rounds"] = {{{"program", 5.45e10}, {"peer", 1e9}}};
  write(fast);
  EXPECT_NE(peer_ratios_markdown(read_bench_reports(folder())).find("| 54.5 GB/s | 1 GB/s |"), std::string::npos);

  Json short_run = report();
  short_run["peer"]["benchmarks"][0]["covered"] = false;
  write(short_run);
  EXPECT_NE(peer_ratios_markdown(read_bench_reports(folder())).find("range of too few rounds"), std::string::npos);
}

TEST_F(BenchReports, WithoutATwinHaveNoRow) {
  Json alone = report();
  alone.erase("peer");
  write(alone);
  EXPECT_EQ(read_bench_reports(folder()).size(), 1u);
  EXPECT_EQ(peer_ratios_markdown(read_bench_reports(folder())), "");
  EXPECT_TRUE(read_bench_reports(folder() / "nowhere").empty());
}

TEST_F(BenchReports, ArePublishedWithoutHostAndPaths) {
  write(report());
  const std::string text = publishable_bench_report(folder() / "loader.json", "sample-machine-1");
  EXPECT_EQ(text.find("secret"), std::string::npos) << text;
  EXPECT_EQ(text.find("answer_near"), std::string::npos);
  Json kept = Json::parse(text);
  EXPECT_EQ(kept.at("peer"), report().at("peer"));
  EXPECT_EQ(kept.at("context").at("machine"), "sample-machine-1") << "the folder that it goes to";
}

TEST_F(BenchReports, DamagedOnesAreNamed) {
  const auto complaint = [&] {
    return test::message_of<FileError>([&] { read_bench_report(folder() / "loader.json"); });
  };
  EXPECT_NE(complaint().find("loader.json"), std::string::npos) << "missing: " << complaint();
  test::write_text(folder() / "loader.json", R"({"context": {)");
  EXPECT_NE(complaint().find("loader.json: is damaged"), std::string::npos) << complaint();
  Json without = report();
  without["peer"].erase("libraries");
  write(without);
  EXPECT_NE(complaint().find("loader.json: is no benchmark report"), std::string::npos) << complaint();
}

}  // namespace
}  // namespace tenfold
