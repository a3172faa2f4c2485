#include "toy.h"

#include <tenfold/options.h>
#include <tenfold/passes.h>

namespace {

tenfold::Options parse(std::vector<std::string> words) {
  words.insert(words.begin(), "99_toy");
  std::vector<char*> argv;
  for (auto& word : words) argv.push_back(word.data());
  return tenfold::parse_options(static_cast<int>(argv.size()), argv.data(), toy::lesson()).value();
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
  const auto options = parse({"--preset", "full",  "--size",    "gpu8",  "--device", "cpu",     "--case",  "toy",      "--only",
                              "twin",     "--set", "a=1",       "--set", "b=2.5",    "--sweep", "c=1,2",   "--rounds", "7",
                              "--seed",   "9",     "--threads", "2",     "--json",   "x",       "--trace", "y"});
  EXPECT_EQ(options.preset.name, "full");
  EXPECT_EQ(options.size, tenfold::Size::gpu8);
  EXPECT_EQ(options.set.at("b"), 2.5);
  EXPECT_EQ(options.sweep->values, (std::vector<double>{1, 2}));
  EXPECT_EQ(options.rounds, 7);
  EXPECT_EQ(options.json, "x");
  EXPECT_EQ(options.trace, "y");
}

TEST(Options, PresetsPromiseWhatTheMethodSays) {
  EXPECT_GE(tenfold::preset_named("quick").rounds, tenfold::kFullRounds);
  EXPECT_GE(tenfold::preset_named("full").rounds, tenfold::kFullRounds);
  EXPECT_LE(tenfold::preset_named("smoke").lesson_seconds, 5);
  EXPECT_LE(tenfold::preset_named("quick").lesson_seconds, 25);
  EXPECT_LE(tenfold::preset_named("full").case_seconds, 60);
  EXPECT_GE(tenfold::preset_named("quick").block_seconds, 0.05);
  EXPECT_GE(tenfold::preset_named("quick").block_steps, 3);
}

TEST(Options, SetOverridesEveryCase) {
  auto lesson = toy::lesson();
  lesson.cases = {{"one", {{"batch", 4}}, {}}, {"two", {{"batch", 8}}, {}}};
  for (const auto& one : tenfold::chosen_cases(lesson, parse({"--set", "batch=2"}))) EXPECT_EQ(one.settings.at("batch"), 2);
}

TEST(Trial, ReadsSettingsAndDeclaresThem) {
  auto record = std::make_shared<tenfold::TrialRecord>();
  record->settings = {{"batch", 16}, {"dropout", 0.25}};
  const tenfold::Trial trial(record);
  EXPECT_EQ(trial.get("batch", 4), 16);
  EXPECT_EQ(trial.get("dropout", 0.0), 0.25);
  EXPECT_EQ(trial.get("layers", 6), 6);
  EXPECT_EQ(record->read.at("layers"), 6);
  EXPECT_THROW(trial.get("dropout", 1), c10::Error) << "a fraction where a whole number is needed";
  trial.note("n", 2, "steps");
  EXPECT_EQ(record->notes.at("n").unit, "steps");
  EXPECT_THROW(trial.cannot("why"), tenfold::CannotRun);
}

TEST(Trial, SizesChooseTheirValue) {
  tenfold::Trial trial(std::make_shared<tenfold::TrialRecord>());
  EXPECT_EQ(trial.by_size(1, 2, 3), 1);
  trial.size = tenfold::Size::gpu80;
  EXPECT_EQ(trial.by_size(1, 2, 3), 3);
}

}  // namespace
