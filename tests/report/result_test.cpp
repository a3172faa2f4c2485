// Result files: what is written is read back, and nothing else is.
#include <tenfold/result.h>

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "sample.h"
#include "support.h"

namespace tenfold {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

/// The message of the ResultError that reading this text raises; empty when it is read.
std::string complaint(const std::string& text) {
  return test::message_of<ResultError>([&] { parse_result(text, "file.json"); });
}

TEST(ResultFile, RoundTrip) {
  const std::string text = format_result(sample_result());
  const Result back = parse_result(text, "file.json");
  EXPECT_EQ(format_result(back), text);
  EXPECT_EQ(back.cases[0].variants[1].predicted.speed_ratio, 0.82);
  EXPECT_EQ(back.cases[0].verdicts[0].speed.label, "SLOWER");
  EXPECT_EQ(back.machine.gpus[0].memory_bytes, int64_t{80} << 30);
}

// Absent in a file and absent in memory are the same thing.
const std::set<std::string> kOptional = {"power_limit_w", "split", "bytes_sent", "speed_ratio", "expected",    "worst", "power",
                                         "ratio",         "low",   "high",       "agreement",   "as_expected", "noise"};
// Objects whose keys are names that a lesson chose, so that one less is not a missing field. A variant's peak_bytes is
// one; that of its prediction is a number.
const std::set<std::string> kMaps = {"clocks", "ceilings", "settings", "quality", "notes", "environment", "prediction_error", "peak_bytes"};

struct Walk {
  const Json whole = Json::parse(format_result(sample_result()));
  int removed = 0, retyped = 0, added = 0;

  void visit(const Json::json_pointer& at, const std::string& name) {
    const Json& here = whole.at(at);
    if (here.is_object()) visit_object(at, name);
    if (here.is_array()) {
      for (size_t i = 0; i < here.size(); ++i) visit(at / i, "");
    }
    // No field takes each of these; whatever its type, the others are wrong.
    for (const Json& other :
         {Json("text"), Json(1.5), Json(true), Json(nullptr), Json::array({Json::array()}), Json{{"a", Json::array({true})}}}) {
      const bool number = here.is_number() && other.is_number();  // a double that happens to be whole is written like an integer
      if (other.type() == here.type() || number) continue;
      Json changed = whole;
      changed.at(at) = other;
      const std::string message = complaint(changed.dump());
      EXPECT_NE(message, "") << at.to_string() << " was read as " << other.dump();
      EXPECT_EQ(message.find('\n'), std::string::npos);
      ++retyped;
    }
  }

  void visit_object(const Json::json_pointer& at, const std::string& name) {
    const Json& here = whole.at(at);
    const bool map = kMaps.contains(name);
    if (!map) {
      Json more = whole;
      more.at(at)["surplus"] = 1;
      EXPECT_NE(complaint(more.dump()).find("surplus"), std::string::npos) << at.to_string() << ": an unknown field was read";
      ++added;
    }
    for (const auto& [key, value] : here.items()) {
      const bool optional = map || kOptional.contains(key) || (key == "peak_bytes" && name == "predicted");
      Json less = whole;
      less.at(at).erase(key);
      const std::string message = complaint(less.dump());
      if (optional) {
        EXPECT_EQ(message, "") << at.to_string() << "/" << key;
      } else {
        EXPECT_NE(message.find(key), std::string::npos) << at.to_string() << "/" << key << " may be missing: '" << message << "'";
        EXPECT_EQ(message.rfind("file.json: ", 0), 0u) << message;
        ++removed;
      }
      visit(at / key, key);
    }
  }
};

TEST(ResultFile, EveryFieldIsNeededAndTyped) {
  Walk walk;
  walk.visit(Json::json_pointer(""), "");
  EXPECT_GT(walk.removed, 150) << "the walk did not reach the fields";
  EXPECT_GT(walk.retyped, 1000);
  EXPECT_GT(walk.added, 50);
}

TEST(ResultFile, IntegersAreNotRounded) {
  for (const char* field :
       {"/cases/0/world_size", "/cases/0/threads", "/cases/0/seed", "/lesson_version", "/machine/cores", "/machine/ram_bytes",
        "/cases/0/variants/0/rounds/0/items", "/cases/0/variants/0/peak_bytes/allocated", "/cases/0/variants/0/bytes_sent"}) {
    Json json = Json::parse(format_result(sample_result()));
    json.at(Json::json_pointer(field)) = 1.5;
    EXPECT_NE(complaint(json.dump()).find("expected an integer"), std::string::npos) << field;
  }
}

TEST(ResultFile, OtherSchemasAndTexts) {
  EXPECT_NE(complaint("").find("is not JSON"), std::string::npos);
  EXPECT_NE(complaint("{}").find("schema: is missing"), std::string::npos);
  EXPECT_NE(complaint("[1]").find("expected an object"), std::string::npos);
  EXPECT_NE(complaint(R"({"schema":"tenfold.result/2"})").find("'tenfold.result/2'"), std::string::npos);
}

TEST(ResultFile, TruncatedAnywhere) {
  const std::string text = format_result(sample_result());
  for (size_t length = 0; length + 2 < text.size(); length += 97) {
    const std::string message = complaint(text.substr(0, length));
    EXPECT_NE(message, "") << "the first " << length << " bytes were read";
    EXPECT_EQ(message.find('\n'), std::string::npos);
  }
}

TEST(ResultFile, UnknownLabelsAndStates) {
  Result result = sample_result();
  result.cases[0].verdicts[0].speed.label = "QUICKER";
  EXPECT_NE(complaint(format_result(result)).find("QUICKER"), std::string::npos);
  result = sample_result();
  result.cases[0].variants[1].status = "fine";
  EXPECT_NE(complaint(format_result(result)).find("'fine'"), std::string::npos);
}

TEST(ResultFile, NoNanAndNoInfinity) {
  for (const double bad : {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    Result result = sample_result();
    result.cases[0].variants[0].losses[1] = bad;
    const std::string message = test::message_of<ResultError>([&] { format_result(result); });
    EXPECT_NE(message.find("cases[0].variants[0].losses[1]"), std::string::npos) << message;
  }
  std::string text = format_result(sample_result());
  const size_t at = text.find("4.5");
  EXPECT_NE(complaint(text.replace(at, 3, "1e999")).find("file.json"), std::string::npos) << "infinity came in by the back door";
}

class Writing : public testing::Test {
 protected:
  size_t files() const { return static_cast<size_t>(std::distance(fs::directory_iterator(folder_), fs::directory_iterator())); }
  test::Scratch scratch_;
  fs::path folder_ = scratch_.path();
};

TEST_F(Writing, MakesFoldersAndLeavesOneFile) {
  const fs::path file = folder_ / "a" / "b.json";
  write_result(file, sample_result());
  EXPECT_EQ(format_result(read_result(file)), format_result(sample_result()));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_ / "a"), fs::directory_iterator()), 1);
}

TEST_F(Writing, AResultThatCannotBeWrittenChangesNothing) {
  const fs::path file = folder_ / "r.json";
  write_atomically(file, "old");
  Result result = sample_result();
  result.cases[0].noise = std::numeric_limits<double>::quiet_NaN();
  EXPECT_THROW(write_result(file, result), ResultError);
  EXPECT_EQ(test::read_text(file), "old");
  EXPECT_EQ(files(), 1u);
}

// A limit on file size fails in the middle of writing, as a full disk does.
TEST_F(Writing, TheOldFileSurvivesAFullDisk) {
  const fs::path file = folder_ / "r.json";
  write_atomically(file, "old");
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit small = before;
  small.rlim_cur = 1000;
  setrlimit(RLIMIT_FSIZE, &small);
  const std::string message = test::message_of<ResultError>([&] { write_atomically(file, std::string(100'000, 'x')); });
  setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_NE(message.find("r.json: cannot be written"), std::string::npos) << message;
  EXPECT_EQ(test::read_text(file), "old");
  EXPECT_EQ(files(), 1u) << "half a file was left behind";
}

TEST_F(Writing, AFolderInTheWay) {
  fs::create_directories(folder_ / "r.json");
  EXPECT_THROW(write_atomically(folder_ / "r.json", "text"), ResultError);
  EXPECT_EQ(files(), 1u);
}

TEST_F(Writing, MissingFile) {
  const std::string message = test::message_of<ResultError>([&] { read_result(folder_ / "none.json"); });
  EXPECT_NE(message.find("none.json: No such file"), std::string::npos) << message;
}

TEST_F(Writing, TextIsReadWholeAndAFolderIsNone) {
  const std::string text("a\0\r\nb", 5);
  test::write_text(folder_ / "text", text);
  EXPECT_EQ(read_text(folder_ / "text"), text);
  test::write_text(folder_ / "empty", "");
  EXPECT_EQ(read_text(folder_ / "empty"), "");
  EXPECT_NE(test::message_of<ResultError>([&] { read_text(folder_); }).find(": Is a directory"), std::string::npos);
}

TEST(Judge, ComesFromTheRoundsAlone) {
  Result result = sample_result();
  for (Verdict& verdict : result.cases[0].verdicts) verdict.speed = {"FASTER", 99.0, 98.0, 100.0}, verdict.memory = {"LARGER", 5.0};
  judge(result.cases[0]);
  EXPECT_EQ(format_result(result), format_result(sample_result()));
}

TEST(Judge, WhatDidNotRunRightGetsNoRatio) {
  const CaseResult c = sample_result().cases[0];
  EXPECT_EQ(c.verdicts[1].speed.label, "INVALID");
  EXPECT_EQ(c.verdicts[2].speed.label, "SKIPPED");
  for (const size_t i : {1u, 2u}) {
    EXPECT_FALSE(c.verdicts[i].speed.ratio.has_value());
    EXPECT_FALSE(c.verdicts[i].memory.ratio.has_value());
  }
  EXPECT_EQ(c.verdicts[1].as_expected, true) << "the trap was caught";
  EXPECT_FALSE(c.verdicts[2].as_expected.has_value()) << "a skipped variant neither meets nor breaks an expectation";
}

TEST(Judge, ATrapThatRunsIsNotAsExpected) {
  CaseResult c = sample_result().cases[0];
  c.variants[1].expected->validity = "INVALID";
  judge(c);
  EXPECT_EQ(c.verdicts[0].as_expected, false);
}

TEST(Judge, AnInvalidBaselineCarriesNoClaim) {
  CaseResult c = sample_result().cases[0];
  c.variants[0].status = "invalid";
  judge(c);
  EXPECT_EQ(c.verdicts[0].speed.label, "INVALID");
  EXPECT_FALSE(c.verdicts[0].speed.ratio.has_value());
}

TEST(RowIdentity, NamesTheMeasurementAndNotTheMachineOrTheDay) {
  const Result result = sample_result();
  const std::string identity = row_identity(result, result.cases[0], "accumulate");
  Result other = result;
  other.machine.id = "elsewhere", other.started_at = "2027-01-01T00:00:00Z", other.cases[0].preset = "full", other.cases[0].seed = 9;
  EXPECT_EQ(row_identity(other, other.cases[0], "accumulate"), identity);
  const auto differs = [&](auto change) {
    Result changed = result;
    change(changed, changed.cases[0]);
    return row_identity(changed, changed.cases[0], "accumulate") != identity;
  };
  EXPECT_TRUE(differs([](Result& r, CaseResult&) { r.lesson_version = 2; }));
  EXPECT_TRUE(differs([](Result& r, CaseResult&) { r.lesson = "x"; }));
  EXPECT_TRUE(differs([](Result&, CaseResult& c) { c.settings["batch"] = 8; }));
  EXPECT_TRUE(differs([](Result&, CaseResult& c) { c.size = "gpu8"; }));
  EXPECT_TRUE(differs([](Result&, CaseResult& c) { c.device = "cuda"; }));
  EXPECT_TRUE(differs([](Result&, CaseResult& c) { c.dtype = "bfloat16"; }));
  EXPECT_TRUE(differs([](Result&, CaseResult& c) { c.world_size = 2; }));
  EXPECT_TRUE(differs([](Result&, CaseResult& c) { c.backend = "nccl"; }));
  EXPECT_TRUE(differs([](Result&, CaseResult& c) { c.threads = 2; }));
  EXPECT_TRUE(differs([](Result&, CaseResult& c) { c.name = "wide"; }));
}

}  // namespace
}  // namespace tenfold
