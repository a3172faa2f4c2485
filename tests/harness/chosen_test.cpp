// What --case, --only, --set and --sweep leave of a lesson whose parts and variants read different settings.
#include "toy.h"

#include <gmock/gmock.h>

#include <map>
#include <memory>

#include "common/base/flags.h"
#include "common/measure/training_clock.h"

namespace {

using testing::HasSubstr;
using testing::Not;
using toy::Trial;
using Flags = std::vector<std::string>;

constexpr tenfold::Setting<int64_t> kScale{"scale", 8, "what only the scaled variants read"};
constexpr tenfold::Setting<int64_t> kThings{"things", 3, "what only a survey reads"};
constexpr tenfold::Setting<int64_t> kUpdates{"updates", 2, "what only the training reads"};
constexpr tenfold::Setting<int64_t> kUnread{"unread", 1, "what nothing reads"};
constexpr tenfold::Setting<std::string> kModel{"model", "small", "what all cases read", {"small", "large"}};

/// Counts what runs, by name.
using Calls = std::shared_ptr<std::map<std::string, int>>;

tenfold::Lesson lesson(const Calls& calls = std::make_shared<std::map<std::string, int>>()) {
  const auto plain = [calls](const Trial& trial) {
    trial.get(kModel);
    tenfold::Step step = toy::plain(trial);
    step.update = [calls, update = step.update] {
      ++(*calls)["updates"];
      return update();
    };
    return step;
  };
  const auto scaled = [plain](const Trial& trial) {
    trial.get(kScale);
    return plain(trial);
  };
  const auto count = [calls](const Trial& trial) {
    ++(*calls)["looks"];
    trial.note("things", static_cast<double>(trial.get(kThings)), "things");
  };
  const auto count_of_model = [count](const Trial& trial) {
    trial.get(kModel);
    count(trial);
  };
  const auto train = [calls](const Trial& trial) {
    ++(*calls)["seeds"];
    tenfold::TrainingClock clock(trial.device);
    for (int64_t update = 0; update < trial.get(kUpdates); ++update) clock.evaluate([] { return 0.5; });
    return clock.learned();
  };
  auto all = toy::lesson();
  all.settings.insert(all.settings.end(), {kScale, kThings, kUpdates, kUnread, kModel});
  all.baseline.build = plain;
  all.techniques = {{"twin", plain}, {"scaled", scaled}, {"scaled, wrong", scaled}};
  all.cases = {{.name = "toy", .expected = {{"twin", {}}}},
               {.name = "scaler", .settings = {kScale(4)}, .expected = {{"scaled", {}}, {"scaled, wrong", {}}}},
               {.name = "wide", .settings = {kModel("large")}, .expected = {{"twin", {}}}}};
  all.surveys = {{"counted", {{"first", count}, {"second", count}}, {kThings(5)}},
                 {"counted in large", {{"of model", count_of_model}}, {kModel("large")}}};
  all.trainings = {{.name = "quality",
                    .metric = {.name = "loss", .margin = 0.1},
                    .runs = {{"plain", train}, {"twin", train}, {"to the end", train}},
                    .settings = {kUpdates(3)}}};
  return all;
}

/// The parts of the result, each with its variants.
std::map<std::string, Flags> parts_of(const toy::Ran& ran) {
  std::map<std::string, Flags> parts;
  for (const auto& measured : ran.result.cases) {
    for (const auto& variant : measured.variants) parts[measured.name].push_back(variant.name);
  }
  return parts;
}

toy::Ran run(Flags flags, const Calls& calls = std::make_shared<std::map<std::string, int>>()) {
  flags.insert(flags.end(), {"--preset", "smoke"});
  return toy::run(lesson(calls), flags);
}

TEST(Only, LeavesOutPartsThatHaveNothingOfItAndSaysSo) {
  const std::vector<std::pair<Flags, std::map<std::string, Flags>>> expected = {
      {{"twin"}, {{"toy", {"plain", "twin"}}, {"wide", {"plain", "twin"}}, {"quality", {"plain", "twin"}}}},
      {{"scaled"}, {{"scaler", {"plain", "scaled"}}}},
      {{"scaled, wrong"}, {{"scaler", {"plain", "scaled, wrong"}}}},
      {{"second"}, {{"counted", {"second"}}}},
      {{"of model"}, {{"counted in large", {"of model"}}}},
      {{"to the end"}, {{"quality", {"plain", "to the end"}}}},
      {{"first", "scaled"}, {{"counted", {"first"}}, {"scaler", {"plain", "scaled"}}}},
      {{"plain"}, {{"toy", {"plain"}}, {"scaler", {"plain"}}, {"wide", {"plain"}}, {"quality", {"plain"}}}},
  };
  for (const auto& [only, parts] : expected) {
    Flags flags;
    for (const std::string& name : only) flags.insert(flags.end(), {"--only", name});
    const auto ran = run(flags);
    EXPECT_EQ(ran.code, 0) << only[0] << ": " << ran.err;
    EXPECT_EQ(parts_of(ran), parts) << only[0];
    for (const std::string part : {"toy", "scaler", "wide", "counted", "counted in large", "quality"}) {
      const size_t line = ran.out.find("not run, since --only leaves nothing of them: ");
      ASSERT_NE(line, std::string::npos) << only[0];
      const std::string said = ran.out.substr(line, ran.out.find('\n', line) - line) + ",";
      EXPECT_EQ(said.find(" '" + part + "',") != std::string::npos, !parts.contains(part)) << only[0] << ": " << said;
    }
  }
  EXPECT_THAT(run({}).out, Not(HasSubstr("not run")));
}

TEST(Only, ChoosesTheCaseThatASweepVaries) {
  const auto ran = run({"--only", "scaled", "--sweep", "scale=1,2"});
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_EQ(parts_of(ran), (std::map<std::string, Flags>{{"scaler scale=1", {"plain", "scaled"}},
                                                         {"scaler scale=2", {"plain", "scaled"}}}));
}

TEST(Only, OfNothingThatCaseNamesIsRefused) {
  const auto ran = run({"--case", "toy", "--case", "counted", "--only", "scaled"});
  EXPECT_EQ(ran.code, 2);
  EXPECT_EQ(ran.err, "--only scaled: nothing of it is in 'counted', 'toy'; --case names no other\n");
  EXPECT_FALSE(ran.wrote);
  const auto some = run({"--case", "toy", "--case", "scaler", "--only", "scaled"});
  EXPECT_EQ(some.code, 0) << some.err;
  EXPECT_EQ(parts_of(some), (std::map<std::string, Flags>{{"scaler", {"plain", "scaled"}}}));
  EXPECT_THAT(some.out, HasSubstr("--only leaves nothing of them: 'toy'\n"));
}

// A setting that the lesson gives to a case is read by variants that --only may leave out.
TEST(Only, DoesNotRefuseWhatNobodyTyped) {
  auto all = lesson();
  all.techniques[0].build = all.baseline.build;
  all.cases[0].settings = {kScale(2)};
  all.cases[0].expected = {};
  const auto ran = toy::run(all, {"--preset", "smoke", "--case", "toy", "--only", "twin"});
  EXPECT_EQ(ran.code, 0) << ran.err;
}

// What nobody leaves out and nothing reads is the lesson's mistake.
TEST(Settings, OfACaseThatNothingReadsAreTheLessonsMistake) {
  auto all = lesson();
  all.cases[2].settings.push_back(kUnread(2));
  const auto ran = toy::run(all, {"--preset", "smoke"});
  EXPECT_EQ(ran.code, 2);
  EXPECT_THAT(ran.err, HasSubstr("lesson: 'wide': gives setting unread, which nothing of it reads; it reads: "));
}

TEST(Set, IsReadByWhatReadsItAndTheOthersAreNamed) {
  const std::vector<std::tuple<std::string, Flags, std::string>> calls = {
      {"things=4",
       {"counted", "counted in large"},
       "setting things is not read by: 'toy', 'scaler', 'wide', 'quality'\n"},
      {"scale=2",
       {"scaler"},
       "setting scale is not read by: 'counted', 'counted in large', 'toy', 'wide', 'quality'\n"},
      {"updates=4",
       {"quality"},
       "setting updates is not read by: 'counted', 'counted in large', 'toy', 'scaler', 'wide'\n"},
      {"model=small", {"toy", "scaler", "wide"}, "setting model is not read by: 'counted', 'quality'\n"}};
  for (const auto& [set, readers, said] : calls) {
    const auto ran = run({"--set", set});
    EXPECT_EQ(ran.code, 0) << set << ": " << ran.err;
    EXPECT_EQ(ran.result.cases.size(), 6U) << set;
    EXPECT_THAT(ran.out, HasSubstr(said));
    const std::string name = set.substr(0, set.find('='));
    for (const auto& measured : ran.result.cases) {
      if (std::ranges::find(readers, measured.name) != readers.end()) EXPECT_TRUE(measured.settings.contains(name));
    }
  }
}

TEST(Set, OfWhatNothingReadsIsRefusedBeforeAnythingIsMeasured) {
  for (const Flags& flags :
       {Flags{"--case", "toy", "--set", "unread=2"}, Flags{"--case", "toy", "--set", "scale=2"},
        Flags{"--case", "toy", "--case", "wide", "--set", "updates=2"}, Flags{"--case", "toy", "--sweep", "unread=1,2"},
        Flags{"--case", "scaler", "--sweep", "unread=1,1", "--set", "scale=2"}}) {
    const auto calls = std::make_shared<std::map<std::string, int>>();
    const auto ran = run(flags, calls);
    EXPECT_EQ(ran.code, 2) << flags.back();
    EXPECT_THAT(ran.err, HasSubstr(" reads it; settings that are read: "));
    EXPECT_EQ(std::count(ran.err.begin(), ran.err.end(), '\n'), 1) << ran.err;
    EXPECT_FALSE(ran.wrote);
    EXPECT_EQ((*calls)["updates"], 0) << "something was trained first";
  }
}

TEST(Set, OfWhatNothingReadsKeepsWhatHadToBeMeasuredToKnow) {
  const auto calls = std::make_shared<std::map<std::string, int>>();
  const auto all = run({"--set", "unread=2"}, calls);
  EXPECT_EQ(all.code, 2);
  EXPECT_THAT(all.err, HasSubstr("setting unread: nothing in 'counted', 'counted in large', 'toy', 'scaler', 'wide', "
                                 "'quality' reads it; what was measured until then is written\n"));
  EXPECT_TRUE(all.wrote);
  EXPECT_EQ(all.result.cases.size(), 6U) << "the training is the last that could have read it";
  for (const auto& measured : all.result.cases) EXPECT_FALSE(measured.settings.contains("unread"));
  const auto surveys = run({"--case", "counted", "--case", "toy", "--set", "unread=2"});
  EXPECT_EQ(surveys.code, 2);
  EXPECT_EQ(parts_of(surveys), (std::map<std::string, Flags>{{"counted", {"first", "second"}}}))
      << "the case was built, and not measured";
  const auto survey = run({"--case", "counted", "--set", "scale=2"});
  EXPECT_EQ(survey.code, 2);
  EXPECT_EQ(survey.result.cases.size(), 1U);
}

// A sweep's points carry the value in their names.
TEST(Set, ASweepOfWhatNothingReadsLeavesNoPoints) {
  for (const std::string part : {"counted", "quality"}) {
    const auto calls = std::make_shared<std::map<std::string, int>>();
    const auto ran = run({"--case", part, "--sweep", "unread=1,2,3"}, calls);
    EXPECT_EQ(ran.code, 2) << part;
    EXPECT_FALSE(ran.wrote) << part;
    EXPECT_LE((*calls)["looks"] + (*calls)["seeds"], 3) << "more than the first point was run";
  }
}

// It may stop before it has read what it would read elsewhere.
TEST(Set, IsNotRefusedWhereTheBaselineCannotRun) {
  auto all = lesson();
  all.baseline.build = toy::skips;
  const auto ran = toy::run(all, {"--preset", "smoke", "--case", "toy", "--set", "unread=2"});
  EXPECT_EQ(ran.code, 0) << ran.err;
}

// Parts of other ranks may read it: the driver asks all before it refuses.
TEST(Set, IsLeftToTheDriverWhereItStartsSeveralPrograms) {
  setenv(tenfold::kOtherStarts, "1", 1);
  const auto ran = run({"--case", "toy", "--set", "unread=2", "--set", "repeat=1"});
  unsetenv(tenfold::kOtherStarts);
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_EQ(ran.err, "@unread unread\n");
  EXPECT_EQ(ran.result.cases.size(), 1U);
}

TEST(Settings, HelpAndDescriptionStateTheDefaultOfEachWorkload) {
  constexpr tenfold::Setting<int64_t> kImages{"batch", 32, "images in a batch"}, kTexts{"batch", {8, 8, 16}, "texts"};
  auto all = toy::lesson();
  all.workload.settings = {kImages};
  all.cases.push_back({.name = "texts", .workload = {.name = "gpt", .settings = {kTexts}}});
  const auto help = toy::run_plain(all, {"--help"});
  EXPECT_THAT(help.out, testing::ContainsRegex("batch +32 +mlp: images in a batch"));
  EXPECT_THAT(help.out, testing::ContainsRegex("batch +8, gpu8 8, gpu80 16 +gpt: texts"));
  const auto described = toy::run_plain(all, {"--describe"});
  EXPECT_THAT(described.out, testing::ContainsRegex("\"meaning\": \"texts\",[^}]*\"workload\": \"gpt\""));
  all.cases.back().workload.settings[0].value = tenfold::PerSize<tenfold::SettingValue>(tenfold::SettingValue{0.5});
  const auto refused = toy::run_plain(all, {"--preset", "smoke"});
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.err, HasSubstr("setting 'batch' of gpt has another type than that of another workload"));
}

// Both are called batch: whose default a variant reads is the part's, whichever declaration it reads through.
TEST(Settings, ThePartsWorkloadDecidesWhichDefaultIsRead) {
  constexpr tenfold::Setting<int64_t> kImages{"batch", 32, "images in a batch"}, kTexts{"batch", 8, "texts"};
  auto all = toy::lesson();
  all.workload.settings = {kImages};
  all.baseline.build = [kImages](const Trial& trial) {
    trial.note("batch", static_cast<double>(trial.get(kImages)), trial.workload.name);
    return toy::plain(trial);
  };
  all.cases.push_back({.name = "texts", .workload = {.name = "gpt", .settings = {kTexts}}});
  const auto ran = toy::run(all, {"--preset", "smoke"});
  ASSERT_EQ(ran.result.cases.size(), 2U) << ran.err;
  for (const auto& [index, value, workload] : {std::tuple(0, 32, "mlp"), std::tuple(1, 8, "gpt")}) {
    const auto& measured = ran.result.cases[static_cast<size_t>(index)];
    EXPECT_EQ(measured.workload, workload);
    EXPECT_EQ(measured.variants[0].notes.at("batch").value, value);
    EXPECT_EQ(measured.variants[0].notes.at("batch").unit, workload);
    EXPECT_EQ(std::get<int64_t>(measured.settings.at("batch")), value);
  }
}

// What a lesson declares itself goes before what its workload has of that name, and is named once.
TEST(Settings, ALessonsOwnGoesBeforeItsWorkloads) {
  constexpr tenfold::Setting<int64_t> kImages{"batch", 32, "images in a batch"}, kOwn{"batch", 5, "of all ranks"};
  auto all = toy::lesson();
  all.workload.settings = {kImages};
  all.settings.push_back(kOwn);
  const auto help = toy::run_plain(all, {"--help"});
  EXPECT_THAT(help.out, testing::ContainsRegex("batch +5 +of all ranks"));
  EXPECT_THAT(help.out, Not(HasSubstr("images in a batch")));
}

}  // namespace
