// Result files: what is written is read back, and nothing else is.
#include "common/result/result.h"
#include "common/base/files.h"
#include "common/result/timeline_json.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cmath>
#include <csignal>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "tests/support/sample.h"
#include "tests/support/support.h"

namespace tenfold {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

/// The message of the FileError that reading this text raises; empty when it is read.
std::string complaint(const std::string& text) {
  return test::message_of<FileError>([&] { parse_result(text, "file.json"); });
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
const std::set<std::string> kOptional = {"power_limit_w", "cpu_mhz", "split", "speed_ratio", "expected",  "worst",
                                         "power",         "ratio",   "low",   "high",        "agreement", "speed",
                                         "memory",        "caught",  "valid", "noise",       "margin"};
// Objects whose keys are names that a lesson chose, so that one less is not a missing field. A variant's peak_bytes is
// one; that of its prediction is a number.
const std::set<std::string> kMaps = {"clocks", "ceilings",    "settings",         "flags",
                                     "mesh",   "quality",     "counted",          "sent_bytes",
                                     "notes",  "environment", "prediction_error", "peak_bytes"};

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
    for (const Json& other : {Json("text"), Json(1.5), Json(true), Json(nullptr), Json::array({Json::array()}),
                              Json{{"a", Json::array({true})}}}) {
      const bool number =
          here.is_number() && other.is_number();  // a double that happens to be whole is written like an integer
      if (at.parent_pointer() == Json::json_pointer("/cases/0/settings") && !other.is_null() && !other.is_structured())
        continue;
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
      EXPECT_NE(complaint(more.dump()).find("surplus"), std::string::npos)
          << at.to_string() << ": an unknown field was read";
      ++added;
    }
    for (const auto& [key, value] : here.items()) {
      // A verdict's speed and memory are needed; whether they were as expected may be open.
      const bool verdict = here.contains("technique") && here.contains("prediction_error");
      const bool optional = map || (kOptional.contains(key) && !verdict && name != "expected") ||
                            (key == "peak_bytes" && name == "predicted") || (verdict && key == "agreement");
      Json less = whole;
      less.at(at).erase(key);
      const std::string message = complaint(less.dump());
      if (optional) {
        EXPECT_EQ(message, "") << at.to_string() << "/" << key;
      } else {
        EXPECT_NE(message.find(key), std::string::npos)
            << at.to_string() << "/" << key << " may be missing: '" << message << "'";
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
  EXPECT_GT(walk.added, 30);
}

TEST(ResultFile, IntegersAreNotRounded) {
  for (const char* field :
       {"/cases/0/ranks", "/cases/0/threads", "/cases/0/seed", "/lesson_version", "/machine/cores",
        "/machine/ram_bytes", "/cases/0/variants/0/blocks/0/items", "/cases/0/variants/0/blocks/1/wall_ns/3",
        "/cases/0/variants/0/peak_bytes/allocated", "/cases/0/variants/0/sent_bytes/all-reduce"}) {
    Json json = Json::parse(format_result(sample_result()));
    json.at(Json::json_pointer(field)) = 1.5;
    EXPECT_NE(complaint(json.dump()).find("expected an integer"), std::string::npos) << field;
  }
}

TEST(ResultFile, OtherSchemasAndTexts) {
  EXPECT_NE(complaint("").find("is not JSON"), std::string::npos);
  EXPECT_NE(complaint("{}").find("schema: is missing"), std::string::npos);
  EXPECT_NE(complaint("[1]").find("expected an object"), std::string::npos);
  EXPECT_NE(complaint(R"({"schema":"tenfold.result/1"})").find("'tenfold.result/1'"), std::string::npos);
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
  result = sample_result();
  result.cases[0].variants[1].expected->kind = "VALID";
  EXPECT_NE(complaint(format_result(result)).find("'VALID' is none of technique, mistake, trap, exceeds"),
            std::string::npos);
  result = sample_result();
  result.cases[0].variants[1].blocks[0].wall_ns.pop_back();
  EXPECT_NE(complaint(format_result(result)).find("variants[1].blocks[0]: its columns are not equally long"),
            std::string::npos);
  Json json = Json::parse(format_result(sample_result()));
  json["cases"][0]["clock"] = "sundial";
  EXPECT_NE(complaint(json.dump()).find("'sundial' is none of wall, processor, device"), std::string::npos);
}

TEST(ResultFile, SettingsKeepTheirTypes) {
  Result result = sample_result();
  result.cases[0].settings = {{"a", true}, {"b", int64_t{3}}, {"c", 0.25}, {"d", std::string("causal")}};
  const Result back = parse_result(format_result(result), "file.json");
  EXPECT_EQ(back.cases[0].settings, result.cases[0].settings);
  EXPECT_EQ(to_string(back.cases[0].settings.at("a")) + to_string(back.cases[0].settings.at("c")), "true0.25");
}

// The fields that a lesson fills only where they apply.
TEST(ResultFile, OptionalPartsSurvive) {
  Result result = sample_result();
  result.headline = Headline{"R2 batch=4", "accumulate"};
  CaseResult& c = result.cases[0];
  c.sweep = SweepPoint{"length", int64_t{64}};
  c.budget = Budget{1 << 30, "batch"};
  c.variants[1].budget_value = int64_t{32};
  c.variants[1].timeline = Timeline{{1, 5, 3}, {"", "forward", ""}, std::vector<int64_t>{0, 0, 1}, 1};
  c.verdicts[0].quality = QualityResult{"NOT WORSE", 0.1, -0.2, 0.4, 1, 6, 6};
  const std::string text = format_result(result);
  EXPECT_EQ(format_result(parse_result(text, "file.json")), text);
  for (const char* part : {"headline", "sweep", "budget", "budget_value", "timeline", "NOT WORSE"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part;
  }
}

TEST(ResultFile, ATimelineGoesAloneFromOneProcessToAnother) {
  for (const Timeline& timeline :
       {Timeline{{1, 5}, {"", "forward"}, std::vector<int64_t>{0, 1}, 1}, Timeline{{}, {}}}) {
    const Timeline back = timeline_in(json_of(timeline));
    EXPECT_EQ(back.bytes, timeline.bytes);
    EXPECT_EQ(back.region, timeline.region);
    EXPECT_EQ(back.gradients, timeline.gradients);
    EXPECT_EQ(back.states, timeline.states);
  }
  nlohmann::json json = json_of(Timeline{{1}, {""}});
  json["wrong"] = 1;
  EXPECT_NE(test::message_of<FileError>([&] { timeline_in(json); }).find("timeline.wrong"), std::string::npos);
  json.erase("wrong");
  json.erase("bytes");
  EXPECT_NE(test::message_of<FileError>([&] { timeline_in(json); }).find("timeline.bytes: is missing"),
            std::string::npos);
}

TEST(ResultFile, AColumnOfBlocksIsALine) {
  const std::string text = format_result(sample_result());
  EXPECT_NE(text.find("\"build\": [0,0,1,1,2,2,3,3,4,4,5,5]"), std::string::npos) << text.substr(0, 2000);
}

TEST(ResultFile, NoNanAndNoInfinity) {
  for (const double bad : {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    Result result = sample_result();
    result.cases[0].variants[0].losses[1] = bad;
    const std::string message = test::message_of<FileError>([&] { format_result(result); });
    EXPECT_NE(message.find("cases[0].variants[0].losses[1]"), std::string::npos) << message;
  }
  std::string text = format_result(sample_result());
  const size_t at = text.find("4.5");
  EXPECT_NE(complaint(text.replace(at, 3, "1e999")).find("file.json"), std::string::npos)
      << "infinity came in by the back door";
}

class Writing : public testing::Test {
 protected:
  size_t files() const {
    return static_cast<size_t>(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()));
  }
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
  EXPECT_THROW(write_result(file, result), FileError);
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
  const std::string message = test::message_of<FileError>([&] { write_atomically(file, std::string(100'000, 'x')); });
  setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_NE(message.find("r.json: cannot be written"), std::string::npos) << message;
  EXPECT_EQ(test::read_text(file), "old");
  EXPECT_EQ(files(), 1u) << "half a file was left behind";
}

TEST_F(Writing, AFolderInTheWay) {
  fs::create_directories(folder_ / "r.json");
  EXPECT_THROW(write_atomically(folder_ / "r.json", "text"), FileError);
  EXPECT_EQ(files(), 1u);
}

TEST_F(Writing, MissingFile) {
  const std::string message = test::message_of<FileError>([&] { read_result(folder_ / "none.json"); });
  EXPECT_NE(message.find("none.json: No such file"), std::string::npos) << message;
}

TEST_F(Writing, TextIsReadWholeAndAFolderIsNone) {
  const std::string text("a\0\r\nb", 5);
  test::write_text(folder_ / "text", text);
  EXPECT_EQ(read_text(folder_ / "text"), text);
  test::write_text(folder_ / "empty", "");
  EXPECT_EQ(read_text(folder_ / "empty"), "");
  EXPECT_NE(test::message_of<FileError>([&] { read_text(folder_); }).find(": Is a directory"), std::string::npos);
}

TEST(Judge, ComesFromTheBlocksAlone) {
  Result result = sample_result();
  for (Verdict& verdict : result.cases[0].verdicts)
    verdict.speed = {"FASTER", 99.0, 98.0, 100.0}, verdict.memory = {"LARGER", 5.0};
  judge(result.cases[0]);
  EXPECT_EQ(format_result(result), format_result(sample_result()));
}

TEST(Judge, RanksThatTakeTurnsGetNoVerdictOnSpeed) {
  CaseResult c = sample_result().cases[0];
  const CaseResult as_it_was = c;
  c.ranks = 4;
  judge(c, 4);
  EXPECT_EQ(c.verdicts[0].speed.label, as_it_was.verdicts[0].speed.label);
  judge(c, 2);
  EXPECT_EQ(c.verdicts[0].speed.label, "UNDECIDED");
  EXPECT_FALSE(c.verdicts[0].speed.ratio || c.verdicts[0].as_expected.speed);
  EXPECT_EQ(c.verdicts[0].memory.label, as_it_was.verdicts[0].memory.label);
  EXPECT_EQ(speed_withheld(c, 2), "no verdict on speed: 4 ranks take turns on 2 cores");
  for (VariantResult& variant : c.variants) variant.environment[kRanksHere] = "2";  // on two machines
  EXPECT_EQ(speed_withheld(c, 2), "");
  c.device = "cuda";
  EXPECT_EQ(speed_withheld(c, 1), "");
  c.device = "dry";
  c.variants.front().environment[kNotModelled] = "threads load";
  EXPECT_EQ(speed_withheld(c, 2), "speed not modelled: threads load");
  EXPECT_FALSE(ranks_took_turns(c, 2));
}

TEST(Judge, WhatDidNotRunRightGetsNoRatio) {
  const CaseResult c = sample_result().cases[0];
  EXPECT_EQ(c.verdicts[1].speed.label, "INVALID");
  EXPECT_EQ(c.verdicts[2].speed.label, "SKIPPED");
  for (const size_t i : {1u, 2u}) {
    EXPECT_FALSE(c.verdicts[i].speed.ratio.has_value());
    EXPECT_FALSE(c.verdicts[i].memory.ratio.has_value());
  }
  EXPECT_EQ(c.verdicts[1].as_expected.caught, true);
  const AsExpected& skipped = c.verdicts[2].as_expected;
  EXPECT_FALSE(skipped.speed || skipped.memory || skipped.caught || skipped.valid)
      << "it neither meets nor breaks an expectation";
  EXPECT_TRUE(all_well(c));
}

TEST(Judge, ATrapThatRunsIsNotCaught) {
  CaseResult c = sample_result().cases[0];
  c.variants[1].expected = Expected{"trap"};
  judge(c);
  EXPECT_EQ(c.verdicts[0].as_expected.caught, false);
  EXPECT_FALSE(all_well(c));
}

// A typo in a file name, a missing file, no memory: whatever else ends a trap proves nothing about the check.
TEST(Judge, ATrapIsCaughtOnlyByWhatItWasPlantedFor) {
  const auto caught = [](const char* kind, const char* failure) {
    CaseResult c = sample_result().cases[0];
    c.variants[2].expected = Expected{kind};
    c.variants[2].failure = failure;
    judge(c);
    EXPECT_EQ(all_well(c), *c.verdicts[1].as_expected.caught);
    return *c.verdicts[1].as_expected.caught;
  };
  EXPECT_TRUE(caught("trap", "disagrees"));
  EXPECT_TRUE(caught("trap", "not_finite"));
  EXPECT_FALSE(caught("trap", "error"));
  EXPECT_FALSE(caught("trap", "out_of_memory"));
  EXPECT_FALSE(caught("trap", "void_check"));
  EXPECT_TRUE(caught("exceeds", "out_of_memory"));
  EXPECT_FALSE(caught("exceeds", "disagrees"));
  EXPECT_FALSE(caught("exceeds", "error"));
}

TEST(Judge, AMistakeIsMeasuredLikeATechnique) {
  CaseResult c = sample_result().cases[0];
  c.variants[1].expected = Expected{"mistake", "SLOWER", "ANY"};
  judge(c);
  EXPECT_EQ(c.verdicts[0].as_expected.speed, true);
  c.variants[1].status = "invalid";
  judge(c);
  EXPECT_EQ(c.verdicts[0].as_expected.valid, false) << "wrong results are no mistake of speed";
}

TEST(Judge, AsExpectedIsSaidOfWhatWasStatedAndDecided) {
  CaseResult c = sample_result().cases[0];
  const auto came = [&](const char* speed, const char* memory) {
    c.variants[1].expected = Expected{"technique", speed, memory};
    judge(c);
    return c.verdicts[0].as_expected;
  };
  EXPECT_EQ(came("SLOWER", "LARGER").speed, true);
  EXPECT_EQ(came("SLOWER", "LARGER").memory, false);
  EXPECT_FALSE(came("ANY", "ANY").speed || came("ANY", "ANY").memory) << "nothing was stated";
  c.variants[1].peak_bytes.clear();
  EXPECT_FALSE(came("SLOWER", "SMALLER").memory) << "memory was not measured";
  EXPECT_EQ(came("SLOWER", "SMALLER").speed, true);
}

Result with_peak_of_kind(const std::string& kind) {
  Result result = sample_result();
  result.cases[0].variants[1].judged_peak = kind;
  return result;
}

// On a GPU the allocator's slack depends on what it has cached; what a step requests does not.
TEST(Judge, MemoryIsWhatWasRequestedWhereThatIsKnown) {
  CaseResult c = sample_result().cases[0];
  c.variants[0].peak_bytes = {{"allocated", 1100}, {"requested", 1000}, {"reserved", 4000}};
  c.variants[1].peak_bytes = {{"allocated", 1050}, {"requested", 1000}, {"reserved", 2000}};
  judge(c);
  EXPECT_EQ(c.verdicts[0].memory.label, "SAME");
  for (VariantResult& variant : c.variants) variant.judged_peak = "reserved";
  judge(c);
  EXPECT_EQ(c.verdicts[0].memory.ratio, 0.5) << "the case names another kind";
  EXPECT_EQ(complaint(format_result(with_peak_of_kind("reserved"))), "");
  EXPECT_NE(complaint(format_result(with_peak_of_kind("live"))).find("judged_peak: 'live' is none of"),
            std::string::npos);
  c.variants[1].judged_peak.reset();
  c.variants[1].peak_bytes.erase("requested");
  EXPECT_EQ(c.variants[1].peak(), 1050);
  c.variants[1].peak_bytes.clear();
  EXPECT_FALSE(c.variants[1].peak());
}

TEST(Judge, PredictionsAreOffBeyondAQuarter) {
  Verdict verdict;
  verdict.prediction_error = {{"speed", std::log(1.24)}, {"peak", -0.24}};
  EXPECT_TRUE(predictions_off(verdict).empty());
  verdict.prediction_error = {{"speed", -std::log(1.26)}, {"peak", 0.26}};
  const auto off = predictions_off(verdict);
  EXPECT_NEAR(off.at("speed"), 1 / 1.26 - 1, 1e-9);
  EXPECT_NEAR(off.at("peak"), 0.26, 1e-12);
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
  other.machine.id = "elsewhere", other.started_at = "2027-01-01T00:00:00Z", other.cases[0].preset = "full",
  other.cases[0].seed = 9;
  EXPECT_EQ(row_identity(other, other.cases[0], "accumulate"), identity);
  const auto differs = [&](auto change) {
    Result changed = result;
    change(changed, changed.cases[0]);
    return row_identity(changed, changed.cases[0], "accumulate") != identity;
  };
  EXPECT_TRUE(differs([](Result& r, CaseResult&) { r.lesson_version = 2; }));
  EXPECT_TRUE(differs([](Result& r, CaseResult&) { r.lesson = "x"; }));
  EXPECT_TRUE(differs([](Result&, CaseResult& c) { c.settings["batch"] = int64_t{8}; }));
  EXPECT_TRUE(differs([](Result&, CaseResult& c) { c.size = "gpu8"; }));
  EXPECT_TRUE(differs([](Result&, CaseResult& c) { c.device = "cuda"; }));
  EXPECT_TRUE(differs([](Result&, CaseResult& c) { c.dtype = "bfloat16"; }));
  EXPECT_TRUE(differs([](Result&, CaseResult& c) { c.ranks = 2; }));
  EXPECT_TRUE(differs([](Result&, CaseResult& c) { c.backend = "nccl"; }));
  EXPECT_TRUE(differs([](Result&, CaseResult& c) { c.threads = 2; }));
  EXPECT_TRUE(differs([](Result&, CaseResult& c) { c.name = "wide"; }));
}

}  // namespace
}  // namespace tenfold
