// What is sent of a result: fields of a list, and no path, host or user name in them.
#include "common/result/submission.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "tests/support/sample.h"
#include "tests/support/support.h"

namespace tenfold {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

std::vector<Result> published() {
  std::vector<Result> results;
  for (const auto& entry : fs::recursive_directory_iterator(test::source_folder() / "results")) {
    if (entry.path().extension() != ".json" || entry.path().string().find("/bench/") != std::string::npos ||
        entry.path().string().find("/compiler/") != std::string::npos)
      continue;
    results.push_back(read_result(entry.path()));
  }
  return results;
}

Submission submission_of(const std::vector<Result>& results) {
  Submission submission{.commit = results[0].commit, .preset = "quick", .machine = results[0].machine.id};
  for (const Result& result : results) submission.results.push_back(sendable(result));
  submission.self_test = self_test(submission.results);
  return submission;
}

// The schema and the list know the same fields: a new one must be put on it, or be named here as not sent.
TEST(Submission, EveryFieldOfTheSchemaIsOnTheList) {
  for (Result result : {sample_result(), sample_training()}) {
    result.headline = Headline{"R2 batch=4", "accumulate"};
    result.machine.os = "Sample OS";
    for (CaseResult& c : result.cases) {
      c.sweep = SweepPoint{"batch", int64_t{4}};
      c.budget = Budget{1 << 20, "batch"};
      for (VariantResult& variant : c.variants) {
        variant.environment = {{"malloc", "fixed"}};
        variant.timeline = Timeline{{1, 2}, {"forward", "backward"}, std::vector<int64_t>{0, 1}, 1};
        variant.budget_value = int64_t{8};
      }
    }
    std::vector<std::string> left_out;
    EXPECT_EQ(format_result(sendable(result, &left_out)), format_result(result));
    EXPECT_TRUE(left_out.empty()) << left_out.front();
  }
}

TEST(Submission, ThePublishedResultsLoseAKernelsNameAndPartsOfReasons) {
  const std::vector<Result> results = published();
  ASSERT_GT(results.size(), 40U);
  for (const Result& result : results) {
    std::vector<std::string> left_out;
    const Result sent = sendable(result, &left_out);
    std::erase(left_out, "machine.os: the kernel's own name");
    std::erase_if(left_out, [](const std::string& line) { return line.starts_with("cases[].variants[].reason: "); });
    EXPECT_TRUE(left_out.empty()) << result.lesson << ": " << left_out.front();
    EXPECT_EQ(sent.machine.os.find("fc-v"), std::string::npos) << sent.machine.os;
    EXPECT_EQ(format_result(sendable(sent)), format_result(sent)) << "twice is once";
  }
}

TEST(Submission, PathsAndNamesDoNotLeave) {
  Result result = sample_result();
  result.argv = {"--preset", "quick",       "--json",  "/home/jane/out.json", "--case", "R2",
                 "--jane",   "secret.host", "--trace", "../jane.json"};
  result.machine.os = "Debian GNU/Linux 12 (bookworm), Linux 6.1.0-jane-at-secret.host";
  VariantResult& trap = result.cases[0].variants[2];
  VariantResult& skipped = result.cases[0].variants[3];
  trap.failure = "error", trap.reason = "Connection to jane@secret.host (10.1.2.3) refused";
  result.cases[0].variants[1].environment = {{"malloc", "fixed"}, {"HOSTNAME", "secret.host"}, {"USER", "jane"}};
  for (const std::string path :
       {"/home/jane/data", "~/jane", "~jane/x", "../jane", "file:///home/jane", "'/root/jane'", "cache=/var/jane",
        "(/home/jane/a b)", "C:\\Users\\jane", "[/mnt/jane]", "/s/jane", "/s-of-jane"}) {
    skipped.reason = "there are no shards in " + path + "; ./tenfold setup 13 makes them";
    std::vector<std::string> left_out;
    Result sent = sendable(result, &left_out);
    const std::string text = format_result(sent);
    EXPECT_EQ(text.find("jane"), std::string::npos) << path << ": " << sent.cases[0].variants[3].reason;
    EXPECT_EQ(text.find("secret"), std::string::npos) << path;
    EXPECT_EQ(text.find("10.1.2.3"), std::string::npos);
    EXPECT_EQ(sent.argv, (std::vector<std::string>{"--preset", "quick", "--case", "R2"}));
    EXPECT_EQ(sent.machine.os, "Debian GNU/Linux 12 (bookworm), Linux 6.1.0");
    EXPECT_EQ(sent.cases[0].variants[1].environment, (std::map<std::string, std::string>{{"malloc", "fixed"}}));
    for (const char* part : {"argv: --json", "argv: --trace", "argv: what is no flag of a lesson", "machine.os",
                             "cases[].variants[].environment.HOSTNAME", "cases[].variants[].environment.USER",
                             "cases[].variants[].reason: the text of an error", "cases[].variants[].reason: a path"}) {
      EXPECT_TRUE(std::any_of(left_out.begin(), left_out.end(), [&](const std::string& line) {
        return line.starts_with(part);
      })) << part;
    }
  }
}

TEST(Submission, WhatOnlyLooksLikeAPathStays) {
  Result result = sample_result();
  std::string& reason = result.cases[0].variants[3].reason;
  for (const std::string text : {"1000 items/s", "kernels/rows.cuh:12 reads it", "and/or", "a / b", "1/2 of it", "n/a",
                                 "TCP/IP", "needs a CUDA device: 3.5 GB"}) {
    reason = text;
    EXPECT_EQ(sendable(result).cases[0].variants[3].reason, text);
  }
}

TEST(Submission, IsReadAsItWasWritten) {
  const Submission submission = submission_of({sample_result(), sample_training()});
  const std::string text = format_submission(submission);
  const Submission again = parse_submission(text, "a file");
  EXPECT_EQ(format_submission(again), text);
  EXPECT_EQ(again.results.size(), 2U);
  EXPECT_EQ(again.commit, std::string(40, 'b'));
  EXPECT_EQ(Json::parse(text).at("self_test").at("cases"), 1);
}

TEST(Submission, WhatWasEditedIsRefused) {
  const Json good = Json::parse(format_submission(submission_of({sample_result()})));
  const auto refusal = [&](auto&& edit) {
    Json json = good;
    edit(json);
    return test::message_of<FileError>([&] { parse_submission(json.dump(), "a file"); });
  };
  EXPECT_EQ(refusal([](Json&) {}), "");
  EXPECT_EQ(refusal([](Json& json) { json["schema"] = "tenfold.send/2"; }),
            "a file: schema: is 'tenfold.send/2', this program reads 'tenfold.send/1'");
  EXPECT_EQ(refusal([](Json& json) { json["host"] = "secret"; }), "a file: host: is not a field of tenfold.send/1");
  EXPECT_EQ(refusal([](Json& json) { json.erase("commit"); }), "a file: commit: is missing or no text");
  EXPECT_EQ(refusal([](Json& json) { json["results"] = Json::array(); }), "a file: results: is missing or empty");
  EXPECT_NE(refusal([](Json& json) { json["results"][0]["user"] = "jane"; }).find("user: is not a field of"),
            std::string::npos);
  EXPECT_NE(refusal([](Json& json) {
              json["results"][0]["argv"] = {"--json", "/home/jane/x"};
            }).find("a file: results[0]: holds what is not sent (argv: --json)"),
            std::string::npos);
  // A faster block, and a self-test that somebody wrote by hand.
  const auto no_follow = "a file: self_test: does not follow from the rounds; the file was edited";
  EXPECT_EQ(refusal([](Json& json) {
              for (auto& ns : json["results"][0]["cases"][0]["variants"][0]["blocks"][1]["wall_ns"]) ns = 50'000'000;
            }),
            no_follow);
  EXPECT_EQ(refusal([](Json& json) { json["self_test"]["found"] = 9; }), no_follow);
  EXPECT_EQ(refusal([](Json& json) { json.erase("self_test"); }), no_follow);
  EXPECT_EQ(test::message_of<FileError>([&] { parse_submission(good.dump().substr(0, 900), "a file"); }),
            "a file: is no JSON object; was it cut short?");
  for (const char* text : {"", "[]", "null", "{}", "{\"schema\": 1}"})
    EXPECT_NE(test::message_of<FileError>([&] { parse_submission(text, "a file"); }), "") << text;
}

// A file that went through another program, or another machine's mathematical library.
TEST(Submission, OrderOfFieldsAndTheLastDigitDoNotMatter) {
  const std::string text = format_submission(submission_of({sample_result()}));
  EXPECT_NO_THROW(parse_submission(nlohmann::json::parse(text).dump(), "sorted"));
  Json json = Json::parse(text);
  Json& ratio = json["self_test"]["rows"][0]["ratio"];
  ratio = std::nextafter(ratio.get<double>(), 2);
  EXPECT_NO_THROW(parse_submission(json.dump(), "another machine's"));
  ratio = ratio.get<double>() * 1.001;
  EXPECT_THROW(parse_submission(json.dump(), "edited"), FileError);
}

// What the page says is sent is what is sent.
TEST(Submission, ItsPageNamesEveryField) {
  const std::string page = test::read_text(test::source_folder() / "docs" / "sending_results.md");
  for (std::string field : sendable_fields()) {
    if (field.ends_with(".*")) field.resize(field.size() - 2);
    const std::string leaf = field.substr(field.find_last_of('.') + 1);
    EXPECT_NE(page.find("`" + leaf + "`"), std::string::npos) << "docs/sending_results.md does not name " << field;
  }
}

}  // namespace
}  // namespace tenfold
