#include "toy.h"

#include <gmock/gmock.h>

#include <barrier>
#include <string>
#include <thread>
#include <vector>

#include "common/base/flags.h"
#include "common/harness/options.h"
#include "common/harness/passes.h"
#include "common/harness/timed_block.h"
#include "common/measure/shared_time.h"

#include "tests/support/support.h"

namespace {

using testing::HasSubstr;

constexpr tenfold::Setting<double> kShare{"share", 0.5, "of nothing in particular"};
constexpr tenfold::Setting<std::string> kWay{"way", "fast", "how it goes", {"fast", "slow"}};
constexpr tenfold::Setting<bool> kCold{"cold", {false, true, true}, "whether it is cold"};

tenfold::Lesson lesson_with_settings() {
  auto lesson = toy::lesson();
  lesson.settings.insert(lesson.settings.end(), {kShare, kWay, kCold});
  return lesson;
}

tenfold::Options parse(std::vector<std::string> words) {
  words.insert(words.begin(), "99_toy");
  std::vector<char*> argv;
  for (auto& word : words) argv.push_back(word.data());
  return tenfold::parse_options(static_cast<int>(argv.size()), argv.data(), lesson_with_settings()).value();
}

TEST(Options, Defaults) {
  const auto options = parse({});
  EXPECT_EQ(options.preset.name, "quick");
  EXPECT_EQ(options.threads, 1);
  EXPECT_EQ(options.seed, 1234U);
  EXPECT_FALSE(options.size);
  EXPECT_FALSE(options.rounds);
}

TEST(Options, AllFlags) {
  const auto options =
      parse({"--preset", "full",  "--size",    "gpu8",  "--device",  "cpu",     "--case",        "toy",      "--only",
             "twin",     "--set", "repeat=1",  "--set", "share=2.5", "--sweep", "way=fast,slow", "--rounds", "7",
             "--seed",   "9",     "--threads", "2",     "--json",    "x",       "--trace",       "y"});
  EXPECT_EQ(options.preset.name, "full");
  EXPECT_EQ(options.size, tenfold::Size::gpu8);
  EXPECT_EQ(options.set.at("repeat"), tenfold::SettingValue{int64_t{1}});
  EXPECT_EQ(options.set.at("share"), tenfold::SettingValue{2.5});
  EXPECT_EQ(options.sweep->values, (std::vector<tenfold::SettingValue>{std::string("fast"), std::string("slow")}));
  EXPECT_EQ(options.rounds, 7);
  EXPECT_EQ(options.json, "x");
  EXPECT_EQ(options.trace, "y");
}

// One row for both: the driver's help of a flag is the lesson's.
TEST(Options, ALessonAndTheDriverSayTheSameOfAFlag) {
  testing::internal::CaptureStdout();
  std::vector<std::string> words{"99_toy", "--help"};
  std::vector<char*> argv{words[0].data(), words[1].data()};
  EXPECT_FALSE(tenfold::parse_options(2, argv.data(), toy::lesson()));
  const auto lesson = tenfold::test::flags_of_help(testing::internal::GetCapturedStdout());
  auto driver = tenfold::test::flags_of_help(tenfold::test::help_of_driver("run"));
  EXPECT_EQ(lesson.size(), tenfold::lesson_flags().size() + 1) << "the rows, and --help";
  EXPECT_EQ(driver.erase("--out"), 1U);
  EXPECT_EQ(driver, lesson);
}

TEST(Options, TheHelpNamesEveryChoiceAndTheDefaults) {
  for (const auto& flag : tenfold::lesson_flags()) {
    for (const auto& choice : flag.choices) EXPECT_THAT(flag.help, HasSubstr(choice)) << flag.name;
  }
  const auto options = parse({});
  EXPECT_THAT(tenfold::lesson_flag("--preset").help, HasSubstr(options.preset.name + " (the default"));
  EXPECT_THAT(tenfold::lesson_flag("--device").help, HasSubstr(options.device + " (the default"));
  EXPECT_THAT(tenfold::lesson_flag("--seed").help, HasSubstr(std::to_string(options.seed) + " unless given"));
  EXPECT_THAT(tenfold::lesson_flag("--threads").help, HasSubstr(std::to_string(options.threads) + " unless given"));
  EXPECT_THAT(tenfold::lesson_flag("--rounds").help, HasSubstr("under " + std::to_string(tenfold::kFewestRounds)));
}

TEST(Options, EveryChoiceOfTheTableIsUnderstood) {
  for (const auto& name : tenfold::lesson_flag("--preset").choices)
    EXPECT_EQ(parse({"--preset", name}).preset.name, name);
  for (const auto& name : tenfold::lesson_flag("--size").choices)
    EXPECT_EQ(to_string(*parse({"--size", name}).size), name);
  for (const auto& name : tenfold::lesson_flag("--device").choices) {
    const bool dry = name == "dry:CARD";
    const auto options = parse({"--device", dry ? "dry:a100" : name});
    EXPECT_EQ(options.device, dry ? "cuda" : name);
    EXPECT_EQ(options.dry_card, dry ? "A100" : "");
  }
}

TEST(Options, ANameMayHoldACommaAndAFlagMayBeRepeated) {
  auto lesson = toy::lesson();
  lesson.techniques.push_back({"packed, one mask", toy::plain});
  std::vector<std::string> words{"99_toy", "--only", "packed, one mask", "--only", "twin",
                                 "--case", "a",      "--case",           "b, c"};
  std::vector<char*> argv;
  for (auto& word : words) argv.push_back(word.data());
  const auto options = tenfold::parse_options(static_cast<int>(argv.size()), argv.data(), lesson).value();
  EXPECT_EQ(options.choice.only, (std::vector<std::string>{"packed, one mask", "twin"}));
  EXPECT_EQ(options.choice.cases, (std::vector<std::string>{"a", "b, c"}));
}

TEST(Options, WhatIsExpectedIsSaidInNumbersThatOneReads) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> calls = {
      {{"--rounds", "0"}, "--rounds 0: expected 1 or more"},
      {{"--rounds", "-3"}, "--rounds -3: expected 1 or more"},
      {{"--rounds", "six"}, "--rounds six: expected a whole number, 1 or more"},
      {{"--rounds", "6.5"}, "--rounds 6.5: expected a whole number, 1 or more"},
      {{"--rounds", "2147483648"}, "--rounds 2147483648: expected 1 to 2147483647"},
      {{"--threads", "0"}, "--threads 0: expected 1 to 1024"},
      {{"--threads", "100000"}, "--threads 100000: expected 1 to 1024"},
      {{"--threads", "-99999999999999999999"}, "--threads -99999999999999999999: expected 1 to 1024"},
      {{"--seed", "-1"}, "--seed -1: expected 0 or more"},
      {{"--seed", "99999999999999999999"}, "--seed 99999999999999999999: expected 0 to 9223372036854775807"},
      {{"--size", "gpu9"}, "--size gpu9: expected cpu, gpu8 or gpu80; did you mean 'gpu8'?"},
      {{"--device", "tpu"}, "--device tpu: expected auto, cpu, cuda or dry:CARD; did you mean 'cpu'?"},
      {{"--ranks", "0"}, "--ranks 0: expected 1 to 64"},
      {{"--ranks", "-2"}, "--ranks -2: expected 1 to 64"},
      {{"--ranks", "1,65"}, "--ranks 65: expected 1 to 64"},
      {{"--ranks", "all"}, "--ranks all: expected a whole number, 1 to 64"},
      {{"--ranks", "1,,2"}, "--ranks : expected a whole number, 1 to 64"},
      {{"--ranks", "1, 2"}, "--ranks 2: expected a whole number, 1 to 64"},
      {{"--ranks", "2,1,2"}, "--ranks 2,1,2: 2 is there twice"},
      {{"--ranks", "1", "--ranks", "2"}, "--ranks: was given 2 times; give it once"},
      {{"--preset", "slow"}, "--preset slow: expected build, check, smoke, quick or full"},
      {{"--preset", "a\nb"}, "--preset a b: expected build, check, smoke, quick or full"},
      {{"--seed", "1", "--seed", "2"}, "--seed: was given 2 times; give it once"},
      {{"--json", ""}, "--json: its value is empty; expected FILE"},
      {{"--set", "way=slwo"}, "--set way=slwo: expected one of fast, slow; did you mean 'slow'?"},
      {{"--set", "cold=maybe"}, "--set cold=maybe: expected true or false"},
      {{"--set", "share=nan"}, "--set share=nan: expected a number"},
      {{"--set", "repeat=1e3"}, "--set repeat=1e3: expected a whole number, 1 or more"},
      {{"--set", "repeat=0"}, "--set repeat=0: expected a whole number, 1 or more"},
  };
  for (const auto& [words, said] : calls) {
    EXPECT_EQ(tenfold::test::message_of<tenfold::UsageError>([&] { parse(words); }), said);
  }
  EXPECT_EQ(parse({"--rounds", "2147483647"}).rounds, 2147483647);
  EXPECT_EQ(parse({"--seed", "9223372036854775807"}).seed, 9223372036854775807U);
  EXPECT_EQ(parse({"--seed", "0"}).seed, 0U);
}

TEST(Options, WhatWasGivenCanBeHandedOn) {
  const std::vector<std::string> words{"--case", "a, b", "--describe", "--set", "x=1", "--set", "y=2"};
  const tenfold::GivenFlags given{{"--set", {"x=1", "y=2"}}, {"--describe", {}}, {"--case", {"a, b"}}};
  EXPECT_EQ(tenfold::as_arguments(given), words);
}

TEST(Options, PresetsPromiseWhatTheMethodSays) {
  EXPECT_GE(tenfold::preset_named("quick").rounds, tenfold::kFullRounds);
  EXPECT_GE(tenfold::preset_named("full").rounds, tenfold::kFullRounds);
  EXPECT_LE(tenfold::preset_named("smoke").lesson_seconds, 5);
  EXPECT_LE(tenfold::preset_named("quick").lesson_seconds, 25);
  EXPECT_LE(tenfold::preset_named("full").case_seconds, 60);
  EXPECT_GE(tenfold::preset_named("quick").builds, tenfold::kFewestBuilds);
  EXPECT_EQ(tenfold::preset_named("full").builds, 2 * tenfold::kFewestBuilds);
  EXPECT_EQ(tenfold::preset_named("quick").block_seconds, 0.01);
}

TEST(Options, SetOverridesEveryCase) {
  auto lesson = toy::lesson();
  lesson.cases = {{"four", {toy::kRepeat(4)}}, {"eight", {toy::kRepeat(8)}}};
  const auto chosen = tenfold::chosen_parts(lesson, parse({"--set", "repeat=2"}), 1);
  ASSERT_EQ(chosen.here.size(), 2U);
  for (const auto& part : chosen.here)
    EXPECT_EQ(part.settings(tenfold::Size::cpu).at("repeat"), tenfold::SettingValue{int64_t{2}});
}

TEST(Options, ASmokeTrainingTakesAPartOfItsUpdatesUnlessSetGivesThem) {
  constexpr tenfold::Setting<int64_t> kUpdates{"updates", {240, 2000, 5000}, "updates of a training"};
  const auto smoke = tenfold::preset_named("smoke"), quick = tenfold::preset_named("quick");
  auto lesson = toy::lesson();
  lesson.settings.emplace_back(kUpdates);
  lesson.cases = {{"case"}};
  lesson.trainings = {{.name = "declared"}, {.name = "own", .settings = {kUpdates(64)}}};
  const auto parts = tenfold::chosen_parts(lesson, parse({}), 1).here;
  ASSERT_EQ(parts.size(), 3U);
  const auto updates_of = [](const tenfold::Chosen& part, const tenfold::Preset& preset) {
    return part.settings_of_training(tenfold::Size::cpu, preset)["updates"];
  };
  EXPECT_EQ(updates_of(parts[1], smoke), tenfold::SettingValue{int64_t{60}});
  EXPECT_EQ(updates_of(parts[2], smoke), tenfold::SettingValue{int64_t{16}});
  EXPECT_EQ(updates_of(parts[2], quick), tenfold::SettingValue{int64_t{64}});
  EXPECT_FALSE(parts[0].settings(tenfold::Size::cpu).contains("updates")) << "a case reads what is declared";
  tenfold::Chosen given = parts[1];
  given.set["updates"] = int64_t{7};
  EXPECT_EQ(updates_of(given, smoke), tenfold::SettingValue{int64_t{7}});
}

TEST(Options, PartsThatNeedOtherRanksAreLeftToOtherStarts) {
  auto lesson = toy::lesson();
  lesson.cases = {{"alone"},
                  {.name = "pair", .place = {.mesh = {{"dp", 2}}}},
                  {.name = "square", .place = {.mesh = {{"dp", 2}, {"tp", 2}}}}};
  lesson.surveys = {{.name = "a survey of a pair", .looks = {}, .place = {.mesh = {{"dp", 2}}}}};
  lesson.trainings = {{.name = "a training of four", .place = {.mesh = {{"dp", 4}}}}};
  const std::map<int, std::vector<std::string>> expected = {
      {1, {"alone"}}, {2, {"a survey of a pair", "pair"}}, {3, {}}, {4, {"square", "a training of four"}}};
  for (const auto& [ranks, names] : expected) {
    const auto chosen = tenfold::chosen_parts(lesson, parse({}), ranks);
    std::vector<std::string> here;
    for (const auto& part : chosen.here) here.push_back(part.name);
    EXPECT_EQ(here, names);
    EXPECT_EQ(chosen.other_ranks.size(), 5 - names.size());
  }
}

TEST(Options, PartsThatTakeAsManyRanksAsThereAre) {
  using tenfold::kAllRanks;
  auto lesson = toy::lesson();
  lesson.cases = {{"alone"},
                  {.name = "line", .place = {.mesh = {{"dp", kAllRanks}}}},
                  {.name = "plane", .place = {.mesh = {{"dp", kAllRanks}, {"tp", 2}}}}};
  lesson.surveys = {{.name = "a survey of a pair", .looks = {}, .place = {.mesh = {{"dp", 2}}}}};
  const auto here = [&](const std::vector<std::string>& flags, int ranks) {
    std::vector<std::string> names;
    for (const auto& part : tenfold::chosen_parts(lesson, parse(flags), ranks).here) names.push_back(part.name);
    return names;
  };
  EXPECT_EQ(here({}, 1), (std::vector<std::string>{"alone", "line"}));
  EXPECT_EQ(here({}, 2), (std::vector<std::string>{"a survey of a pair", "line", "plane"}));
  EXPECT_EQ(here({}, 3), (std::vector<std::string>{"line"}));
  EXPECT_EQ(here({"--case", "plane", "--ranks", "4"}, 4), (std::vector<std::string>{"plane"}));

  const auto refused = [&](const std::vector<std::string>& flags) {
    return tenfold::test::message_of<tenfold::UsageError>([&] { here(flags, 3); });
  };
  EXPECT_EQ(refused({"--ranks", "3"}), "--ranks 3: 'plane' needs a multiple of 2");
  EXPECT_EQ(refused({"--ranks", "3", "--case", "line"}), "");
  EXPECT_EQ(refused({"--ranks", "3", "--case", "alone"}),
            "--ranks: none of 'alone' runs on as many ranks as there are; leave the flag out");
}

// What a process reads once, when it starts, is a place of its own.
TEST(Options, PartsThatNeedAnotherEnvironmentAreLeftToOtherStarts) {
  auto lesson = toy::lesson();
  lesson.cases.resize(1);
  lesson.surveys = {{.name = "elsewhere", .looks = {}, .place = {.environment = {{"TENFOLD_TEST_PLACE", "there"}}}}};
  const auto names = [&] {
    const auto chosen = tenfold::chosen_parts(lesson, parse({}), 1);
    EXPECT_TRUE(chosen.other_ranks.empty());
    return std::pair(chosen.here.size(), chosen.other_environment);
  };
  unsetenv("TENFOLD_TEST_PLACE");
  EXPECT_EQ(names(), std::pair(size_t{1}, std::vector<std::string>{"elsewhere"}));
  setenv("TENFOLD_TEST_PLACE", "here", 1);
  EXPECT_EQ(names(), std::pair(size_t{1}, std::vector<std::string>{"elsewhere"}));
  setenv("TENFOLD_TEST_PLACE", "there", 1);
  EXPECT_EQ(names(), std::pair(size_t{2}, std::vector<std::string>{}));
  unsetenv("TENFOLD_TEST_PLACE");
}

TEST(Options, HelpShowsTheSettings) {
  testing::internal::CaptureStdout();
  std::vector<std::string> words{"99_toy", "--help"};
  std::vector<char*> argv{words[0].data(), words[1].data()};
  EXPECT_FALSE(tenfold::parse_options(2, argv.data(), lesson_with_settings()));
  const std::string help = testing::internal::GetCapturedStdout();
  EXPECT_THAT(help, testing::ContainsRegex("way +fast +how it goes: fast, slow"));
  EXPECT_THAT(help, testing::ContainsRegex("cold +false, gpu8 true, gpu80 true +whether it is cold"));
}

TEST(Trial, ReadsASettingThroughItsDeclaration) {
  constexpr tenfold::Setting<int64_t> kBatch{"batch", {4, 8, 16}, "samples"};
  constexpr tenfold::Setting<int64_t> kLayers{"layers", 6, "layers"};
  auto record = std::make_shared<tenfold::TrialRecord>();
  record->given = {{"batch", int64_t{32}}, {"share", 0.25}, {"way", std::string("slow")}};
  tenfold::Trial trial(record);
  EXPECT_EQ(trial.get(kBatch), 32);
  EXPECT_EQ(trial.get(kShare), 0.25);
  EXPECT_EQ(trial.get(kWay), "slow");
  EXPECT_EQ(trial.get(kLayers), 6);
  EXPECT_EQ(record->read.at("layers"), tenfold::SettingValue{int64_t{6}});
  record->given.clear();
  trial.size = tenfold::Size::gpu8;
  EXPECT_EQ(trial.get(kBatch), 8);
  EXPECT_TRUE(trial.get(kCold));
  trial.note("n", 2, "steps");
  EXPECT_EQ(record->notes.at("n").unit, "steps");
  EXPECT_THROW(trial.skip("why"), tenfold::Skipped);
}

// Ranks that are threads read their settings at the same time. Without a lock the first entries of a record meet: in
// some of 300 rounds the map or its strings were corrupted, on two cores.
TEST(Trial, IsUsedBySeveralThreadsAtOnce) {
  constexpr int kThreads = 4, kNames = 12;
  for (int round = 0; round < 300; ++round) {
    auto record = std::make_shared<tenfold::TrialRecord>();
    record->given = {{"way", std::string(100, 'x')}};
    const tenfold::Trial trial(record);
    std::barrier together(kThreads);
    std::vector<std::thread> threads;
    for (int thread = 0; thread < kThreads; ++thread) {
      threads.emplace_back([&] {
        together.arrive_and_wait();
        for (int i = 0; i < kNames; ++i) {
          EXPECT_EQ(trial.get(kWay).size(), 100U);
          trial.note("a number of this long name, " + std::to_string(i), i, "steps");
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    ASSERT_EQ(record->read.size(), 1U);
    ASSERT_EQ(record->notes.size(), static_cast<size_t>(kNames));
  }
}

using tenfold::block_steps;

TEST(BlockSteps, OneStepOrTenMilliseconds) {
  EXPECT_EQ(block_steps({{0.028}, {0.0005}, {0.004}}, 0.01, false), (std::vector<int64_t>{1, 20, 3}));
  EXPECT_EQ(block_steps({{0.028}, {0.0005}}, 0, false), (std::vector<int64_t>{1, 1})) << "a smoke run";
}

// However its costs happened to be measured, identical code runs identical blocks.
TEST(BlockSteps, StepsAboutAsLongAsTheBaselinesGetAsMany) {
  EXPECT_EQ(block_steps({{0.0010}, {0.00085}, {0.0012}, {0.0030}}, 0.01, false), (std::vector<int64_t>{12, 12, 12, 4}));
}

TEST(BlockSteps, ASwitchThatCostsMoreThanOnePercentLengthensTheBlock) {
  EXPECT_EQ(block_steps({{.seconds = 0.02, .overhead = 0.0001}}, 0.01, false)[0], 1);
  EXPECT_EQ(block_steps({{.seconds = 0.02, .overhead = 0.0006}}, 0.01, false)[0], 3);
  EXPECT_EQ(block_steps({{.seconds = 0.02, .overhead = 5}}, 0.01, false)[0], 50) << "never beyond a second";
}

TEST(BlockSteps, ThreadsShareTheLongestBlock) {
  // One step more than batches that may be ready, and the others as long.
  EXPECT_EQ(block_steps({{0.01}, {.seconds = 0.02, .threads = true, .batches_ahead = 2}}, 0.01, false),
            (std::vector<int64_t>{6, 3}));
  EXPECT_EQ(block_steps({{0.01}, {0.05}}, 0.01, false), (std::vector<int64_t>{1, 1}))
      << "nothing is at work between their blocks";
  EXPECT_EQ(block_steps({{0.001}, {0.030}, {0.2}, {2}}, 0.01, true), (std::vector<int64_t>{50, 3, 1, 1}))
      << "on a device 50 ms, and three steps of less than that";
}

TEST(Trial, TheTimeOfWhatIsSharedCountsOnce) {
  const tenfold::Trial trial(std::make_shared<tenfold::TrialRecord>());
  const auto pause = std::chrono::milliseconds(20);
  const double before = tenfold::seconds_making_shared();
  const auto inner = [&] { return std::this_thread::sleep_for(pause), 1; };
  const auto outer = [&] { return trial.shared<int>("inner", inner) + 1; };
  EXPECT_EQ(trial.shared<int>("outer", outer), 2);
  const double made = tenfold::seconds_making_shared() - before;
  EXPECT_GE(made, 0.02);  // no upper limit: a busy machine sleeps longer
  EXPECT_EQ(trial.shared<int>("outer", outer), 2);
  EXPECT_EQ(trial.shared<int>("inner", inner), 1);
  EXPECT_EQ(tenfold::seconds_making_shared() - before, made) << "nothing was made";
  EXPECT_THROW(trial.shared<int>("bad", [&]() -> int { throw std::runtime_error("bad"); }), std::runtime_error);
  EXPECT_EQ(trial.shared<int>("another", inner), 1);
  EXPECT_GE(tenfold::seconds_making_shared() - before, made + 0.02) << "also after one that threw";
  tenfold::drop_shared();
}

TEST(Trial, SizesChooseTheirValue) {
  tenfold::Trial trial(std::make_shared<tenfold::TrialRecord>());
  EXPECT_EQ(trial.by_size(1, 2, 3), 1);
  trial.size = tenfold::Size::gpu80;
  EXPECT_EQ(trial.by_size(1, 2, 3), 3);
}

}  // namespace
