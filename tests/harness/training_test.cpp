// Trainings from end to end: linear models that are trained for real in milliseconds.
#include "toy.h"

#include <gmock/gmock.h>

#include <chrono>
#include <map>
#include <set>
#include <thread>

#include "common/harness/training_pass.h"
#include "common/measure/training_clock.h"
#include "common/result/judge.h"

namespace {

using tenfold::CaseResult;
using tenfold::Learned;
using tenfold::Quality;
using testing::HasSubstr;
using toy::Tensor;
using toy::Trial;
using namespace tenfold::expect;

constexpr tenfold::Setting<int64_t> kUpdates{"updates", 60, "updates of a training"};

/// How a run differs from the baseline.
struct Way {
  double learning_rate = 0.02;
  int passes = 1;  ///< forward passes of an update, of which the last one counts
};

/// Learns a linear function from noisy samples, which the seed draws, and is asked about others.
Learned train(const Trial& trial, const Way& way) {
  const Tensor truth = torch::randn({16, 1}), inputs = torch::randn({256, 16}), unseen = torch::randn({256, 16});
  const Tensor targets = inputs.matmul(truth) + 0.1 * torch::randn({256, 1}), answers = unseen.matmul(truth);
  torch::nn::Linear model(16, 1);
  torch::optim::SGD optimizer(model->parameters(), torch::optim::SGDOptions(way.learning_rate));
  tenfold::TrainingClock clock(trial.device);
  for (int64_t update = 1; update <= trial.get(kUpdates); ++update) {
    optimizer.zero_grad();
    Tensor loss;
    for (int i = 0; i < way.passes; ++i) loss = torch::mse_loss(model(inputs), targets);
    loss.backward();
    optimizer.step();
    if (update % 6 == 0) clock.evaluate([&] { return torch::mse_loss(model(unseen), answers).item<double>(); });
  }
  return clock.learned();
}

tenfold::Run run_of(const std::string& name, const Way& way, tenfold::ExpectTrained expected = {}) {
  return {name, [way](const Trial& trial) { return train(trial, way); }, expected};
}

tenfold::Lesson lesson_of(const std::vector<tenfold::Run>& techniques) {
  auto lesson = toy::lesson();
  lesson.settings.push_back(kUpdates);
  tenfold::Training training{.name = "to the end",
                             .metric = {.name = "validation loss", .margin = 0.1, .relative = true},
                             .runs = {run_of("plain", {})}};
  training.runs.insert(training.runs.end(), techniques.begin(), techniques.end());
  lesson.trainings = {training};
  return lesson;
}

/// Only the training.
toy::Ran run(const tenfold::Lesson& lesson, std::vector<std::string> flags) {
  flags.insert(flags.end(), {"--case", "to the end"});
  return toy::run(lesson, flags);
}

TEST(Training, FindsOutWhoTrainsWorseAndWhoSlower) {
  const auto ran =
      run(lesson_of({run_of("twin", {}, NOT_WORSE), run_of("hardly learns", {.learning_rate = 0.004}, WORSE),
                     run_of("learns more", {.learning_rate = 0.05}, {NOT_WORSE, FASTER}),
                     run_of("does it thirty times", {.passes = 30}, {NOT_WORSE, SLOWER})}),
          {"--preset", "quick"});
  EXPECT_EQ(ran.code, 0) << ran.err;
  ASSERT_EQ(ran.result.cases.size(), 1U);
  const CaseResult& c = ran.result.cases[0];
  EXPECT_EQ(c.kind, "training");
  EXPECT_EQ(c.metric->name, "validation loss");
  EXPECT_EQ(tenfold::seeds_of(c), 6);
  EXPECT_EQ(std::get<int64_t>(c.settings.at("updates")), 60);
  ASSERT_EQ(c.verdicts.size(), 4U);
  const auto &twin = c.verdicts[0], &worse = c.verdicts[1], &better = c.verdicts[2], &slower = c.verdicts[3];
  EXPECT_EQ(twin.quality->label, "NOT WORSE");
  EXPECT_EQ(twin.quality->low, 0) << "the same seed is the same training";
  EXPECT_EQ(twin.quality->high, 0);
  EXPECT_EQ(twin.quality->reached, 6);
  EXPECT_EQ(worse.quality->label, "WORSE");
  EXPECT_EQ(worse.quality->reached, 0);
  EXPECT_FALSE(worse.speed.ratio) << "who never gets there has no time to it";
  EXPECT_EQ(better.quality->label, "NOT WORSE");
  EXPECT_LT(*better.quality->high, 0);
  EXPECT_EQ(slower.quality->label, "NOT WORSE");
  EXPECT_EQ(slower.speed.label, "SLOWER");
  for (const auto& verdict : c.verdicts) EXPECT_EQ(verdict.as_expected.quality, true) << verdict.technique;
  EXPECT_EQ(slower.as_expected.speed, true);
  EXPECT_THAT(ran.out, HasSubstr("hardly learns"));
  EXPECT_THAT(ran.out, HasSubstr("reached by 0 of 6 seeds"));
  EXPECT_THAT(ran.out, HasSubstr("lower is better; margin "));
}

TEST(Training, AWorseOneThatWasNotExpectedIsASurpriseAndNoFailure) {
  const auto ran =
      run(lesson_of({run_of("hardly learns", {.learning_rate = 0.004}, NOT_WORSE)}), {"--preset", "quick"});
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_EQ(ran.result.cases[0].verdicts[0].as_expected.quality, false);
  EXPECT_THAT(ran.out, HasSubstr("SURPRISE"));
}

/// A technique whose steps are others by design, and the training that judges it.
tenfold::Lesson judged_lesson(const Way& way, tenfold::ExpectTrained trained, tenfold::Expect expected = {}) {
  auto lesson = lesson_of({run_of("other steps", way, trained)});
  lesson.techniques = {
      {.name = "other steps", .build = toy::wrong_scale, .agreement = tenfold::Agreement::judged_by("to the end")}};
  lesson.cases = {{.name = "toy", .expected = {{"other steps", expected}}}};
  return lesson;
}

TEST(JudgedByATraining, WhatTrainsAsWellIsValid) {
  const auto ran = toy::run(judged_lesson({.learning_rate = 0.05}, NOT_WORSE), {"--preset", "quick", "--rounds", "6"});
  EXPECT_EQ(ran.code, 0) << ran.err;
  const auto& verdict = ran.result.cases.at(0).verdicts.at(0);
  ASSERT_TRUE(verdict.agreement);
  EXPECT_TRUE(verdict.agreement->pass);
  EXPECT_EQ(verdict.agreement->training, "to the end");
  EXPECT_EQ(verdict.agreement->quality, "NOT WORSE");
  EXPECT_NE(verdict.speed.label, "UNDECIDED");
  EXPECT_THAT(ran.out, HasSubstr("NOT WORSE in 'to the end'"));
}

TEST(JudgedByATraining, WhatTrainsWorseIsInvalid) {
  const Way slow{.learning_rate = 0.004};
  const auto ran = toy::run(judged_lesson(slow, WORSE), {"--preset", "quick", "--rounds", "6"});
  EXPECT_EQ(ran.code, 1) << ran.err;
  const auto& c = ran.result.cases.at(0);
  EXPECT_EQ(c.variants.at(1).status, "invalid");
  EXPECT_THAT(c.variants.at(1).reason, HasSubstr("came out WORSE in the training 'to the end'"));
  EXPECT_EQ(c.verdicts.at(0).speed.label, "INVALID");
  EXPECT_FALSE(c.verdicts.at(0).speed.ratio);
  const auto trap = toy::run(judged_lesson(slow, WORSE, TRAP), {"--preset", "quick", "--rounds", "6"});
  EXPECT_EQ(trap.code, 0) << trap.err;
  EXPECT_EQ(trap.result.cases.at(0).verdicts.at(0).as_expected.caught, true);
}

TEST(JudgedByATraining, WithoutThatTrainingNothingIsSaidOfItsSpeed) {
  const auto ran =
      toy::run(judged_lesson({}, NOT_WORSE, FASTER), {"--preset", "quick", "--rounds", "6", "--case", "toy"});
  EXPECT_EQ(ran.code, 0) << ran.err;
  const auto& verdict = ran.result.cases.at(0).verdicts.at(0);
  EXPECT_FALSE(verdict.agreement->pass);
  EXPECT_TRUE(verdict.agreement->is_open());
  EXPECT_EQ(verdict.speed.label, "UNDECIDED");
  EXPECT_FALSE(verdict.as_expected.speed);
  EXPECT_THAT(ran.out, HasSubstr("open in 'to the end'"));
}

TEST(JudgedByATraining, LossesThatAreFarFromTheBaselinesAreInvalidAtOnce) {
  auto lesson = judged_lesson({.learning_rate = 0.05}, NOT_WORSE);
  const auto within = [&](double losses) {
    lesson.techniques[0].agreement = tenfold::Agreement::judged_by("to the end", losses);
    return toy::run(lesson, {"--preset", "smoke", "--case", "toy"});
  };
  const auto near = within(0.9);
  EXPECT_EQ(near.code, 0) << near.err;
  const auto& agreement = near.result.cases.at(0).verdicts.at(0).agreement;
  EXPECT_EQ(agreement->rule, "by the quality that it trains to, in 'to the end', and its losses within 90 %");
  const auto far = within(1e-6);
  EXPECT_EQ(far.code, 1) << far.err;
  EXPECT_EQ(far.result.cases.at(0).variants.at(1).failure, "disagrees");
  EXPECT_THAT(far.result.cases.at(0).variants.at(1).reason, HasSubstr("from the baseline's (allowed: "));
}

/// Results of a case and of the training that judges its technique, which came to this quality.
std::vector<CaseResult> judged_results(const std::string& quality) {
  CaseResult training{.name = "to the end", .kind = "training", .size = "cpu", .device = "cpu"};
  training.variants = {{.name = "plain"}, {.name = "other steps"}};
  training.verdicts = {{.technique = "other steps", .quality = tenfold::QualityResult{.label = quality}}};
  CaseResult c{.name = "toy", .size = "cpu", .device = "cpu"};
  const tenfold::Blocks baseline{.steps = 1, .items = 1, .build = {0, 1}, .position = {0, 1}, .wall_ns = {5, 5}};
  c.variants = {{.name = "plain", .blocks = {baseline, baseline}}, {.name = "other steps", .blocks = {baseline}}};
  c.verdicts = {{.technique = "other steps", .agreement = tenfold::AgreementResult{.training = "to the end"}}};
  return {c, training};
}

const tenfold::Verdict& judged(std::vector<CaseResult>& cases) {
  tenfold::judge_by_trainings(cases);
  tenfold::judge_by_trainings(cases);  // as resumed and merged results are
  return cases.at(0).verdicts.at(0);
}

TEST(JudgedByATraining, WhatDidNotDecideLeavesItOpen) {
  for (const char* quality : {"AMBIGUOUS", "UNDECIDED", "SKIPPED"}) {
    auto cases = judged_results(quality);
    const auto& verdict = judged(cases);
    EXPECT_TRUE(verdict.agreement->is_open()) << quality;
    EXPECT_EQ(verdict.speed.label, "UNDECIDED");
    EXPECT_FALSE(verdict.speed.ratio) << "what may have learned nothing has no ratio";
    EXPECT_EQ(cases.at(0).variants.at(1).status, "ok");
  }
  auto fine = judged_results("NOT WORSE");
  EXPECT_TRUE(judged(fine).speed.ratio);
}

TEST(JudgedByATraining, ATrainingOfOtherRanksOrSizeIsAnother) {
  for (const bool ranks : {false, true}) {
    auto cases = judged_results("WORSE");
    if (ranks) cases.at(1).ranks = 2;
    if (!ranks) cases.at(1).size = "gpu8";
    EXPECT_TRUE(judged(cases).agreement->is_open());
    EXPECT_EQ(cases.at(0).variants.at(1).status, "ok");
  }
}

TEST(JudgedByATraining, ATrainingThatFailedProvesNothingButNumbersThatAreNotFinite) {
  for (const auto& [failure, open] : {std::pair("out_of_memory", true), {"error", true}, {"not_finite", false}}) {
    auto cases = judged_results("INVALID");
    cases.at(1).variants.at(1).status = "invalid";
    cases.at(1).variants.at(1).failure = failure;
    cases.at(0).variants.at(1).expected = tenfold::Expected{.kind = "trap"};
    const auto& verdict = judged(cases);
    EXPECT_EQ(verdict.agreement->is_open(), open) << failure;
    EXPECT_EQ(verdict.as_expected.caught.value_or(false), !open) << failure;
  }
  auto without_baseline = judged_results("INVALID");
  without_baseline.at(1).variants.at(0).status = "invalid";
  EXPECT_TRUE(judged(without_baseline).agreement->is_open());
}

TEST(JudgedByATraining, NumbersThatAreNotFiniteNeedNoTraining) {
  auto lesson = judged_lesson({}, NOT_WORSE);
  lesson.techniques[0].build = toy::not_a_number;
  const auto ran = toy::run(lesson, {"--preset", "check", "--case", "toy"});
  EXPECT_EQ(ran.code, 1);
  EXPECT_EQ(ran.result.cases.at(0).variants.at(1).failure, "not_finite");
}

TEST(JudgedByATraining, ATrainingThatIsNotThereIsRefused) {
  auto lesson = judged_lesson({}, NOT_WORSE);
  lesson.trainings[0].runs[1].name = "something else";
  const auto ran = toy::run_plain(lesson, {"--preset", "check"});
  EXPECT_EQ(ran.code, 2);
  EXPECT_THAT(ran.err, HasSubstr("judged by the training 'to the end', and there is no such training"));
  lesson = judged_lesson({}, NOT_WORSE);
  lesson.trainings[0].runs[0].name = "another baseline";
  EXPECT_THAT(toy::run_plain(lesson, {"--preset", "check"}).err, HasSubstr("whose baseline is 'another baseline'"));
  lesson = judged_lesson({}, NOT_WORSE);
  lesson.cases[0].place.mesh = {{tenfold::kDataParallel, 2}};
  EXPECT_THAT(toy::run_plain(lesson, {"--preset", "check"}).err, HasSubstr("does not run on the ranks of case 'toy'"));
}

TEST(Training, StatesWhatItsPeakShouldBe) {
  const auto ran =
      run(lesson_of({run_of("twin", {}, {NOT_WORSE, SAME_MEMORY})}), {"--preset", "quick", "--rounds", "2"});
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_EQ(ran.result.cases[0].verdicts[0].as_expected.memory, true);
}

TEST(Training, MayBeTheHeadline) {
  auto lesson = lesson_of({run_of("twin", {})});
  lesson.headline = tenfold::Headline{"to the end", "twin"};
  EXPECT_EQ(run(lesson, {"--preset", "smoke"}).code, 0);
  lesson.headline = tenfold::Headline{"to the end", "plain"};
  EXPECT_EQ(toy::run_plain(lesson, {"--preset", "smoke"}).code, 2);
}

// The step trains a model of the seed, and the same data are held out here: judged by the parameters that it has by
// then.
TEST(Training, AStepsParametersAreJudgedByItsWorkload) {
  auto record = std::make_shared<tenfold::TrialRecord>();
  Trial trial(record);
  trial.workload.name = "toy";
  trial.workload.make = [](const Trial&) {
    auto model = std::make_shared<toy::Model>();
    return tenfold::Work{
        .parameters = model->layer->named_parameters(), .model = model->layer.ptr(), .held_out_loss = [model] {
          return torch::mse_loss(model->layer(model->inputs), model->targets).item<double>();
        }};
  };
  torch::manual_seed(5);
  const toy::Step step = toy::plain(trial);
  torch::manual_seed(5);
  const Learned learned = tenfold::train_to_the_end(trial, step, {.updates = 8, .evaluations = 4});
  ASSERT_EQ(learned.curve.quality.size(), 4U);
  EXPECT_LT(learned.curve.quality.back(), 0.9 * learned.curve.quality.front());
  const auto make = trial.workload.make;
  toy::Step other = step;
  other.parameters["weight"] = torch::zeros({1});
  EXPECT_THROW(tenfold::train_to_the_end(trial, other, {.updates = 1}), c10::ValueError);
  trial.workload.make = [make](const Trial& of) {
    tenfold::Work work = make(of);
    work.held_out_loss = nullptr;
    return work;
  };
  EXPECT_THROW(tenfold::train_to_the_end(trial, step, {.updates = 1}), std::logic_error);
  trial.workload.make = nullptr;
  EXPECT_THROW(tenfold::train_to_the_end(trial, step, {.updates = 1}), std::logic_error);
}

TEST(Shared, IsMadeOnceAndMayAskForOthers) {
  const Trial trial(std::make_shared<tenfold::TrialRecord>());
  int made = 0;
  const auto all = [&] {
    return trial.shared<std::vector<int>>("all", [&] {
      ++made;
      return std::vector<int>{trial.shared<int>("one", [] { return 7; })};
    });
  };
  EXPECT_EQ(all(), std::vector<int>{7});
  EXPECT_EQ(all(), std::vector<int>{7});
  EXPECT_EQ(made, 1);
  tenfold::drop_shared();
  EXPECT_EQ(all(), std::vector<int>{7});
  EXPECT_EQ(made, 2);
  tenfold::drop_shared();
}

TEST(Training, SmokeIsOneSeedAndNoVerdict) {
  const auto ran =
      run(lesson_of({run_of("hardly learns", {.learning_rate = 0.004}, NOT_WORSE)}), {"--preset", "smoke"});
  EXPECT_EQ(ran.code, 0) << ran.err;
  const CaseResult& c = ran.result.cases[0];
  EXPECT_EQ(tenfold::seeds_of(c), 1);
  EXPECT_EQ(c.verdicts[0].quality->label, "UNDECIDED");
  EXPECT_FALSE(c.verdicts[0].quality->low);
  EXPECT_FALSE(c.verdicts[0].as_expected.quality);
}

// What a seed does must not hang on what trained before it, and each seed is another training.
TEST(Training, EverySeedIsRepeatedByItself) {
  const auto lesson = lesson_of({run_of("twin", {})});
  const auto all = run(lesson, {"--rounds", "4", "--seed", "7"}), third = run(lesson, {"--rounds", "1", "--seed", "9"});
  const auto& qualities = all.result.cases[0].variants[1].quality.at("validation loss");
  ASSERT_EQ(qualities.size(), 4U);
  EXPECT_EQ(std::set<double>(qualities.begin(), qualities.end()).size(), 4U);
  EXPECT_EQ(third.result.cases[0].variants[1].quality.at("validation loss"), std::vector<double>{qualities[2]});
  EXPECT_EQ(all.result.cases[0].variants[1].curves->at(2).quality,
            third.result.cases[0].variants[1].curves->at(0).quality);
}

TEST(Training, TheOrderIsDrawnAndThenReversed) {
  std::vector<std::string> order;
  std::vector<tenfold::Run> runs;
  for (const char* name : {"b", "c", "d"}) {
    runs.push_back({name, [&order, name](const Trial& trial) {
                      order.emplace_back(name);
                      return train(trial, {});
                    }});
  }
  auto lesson = lesson_of(runs);
  lesson.trainings[0].runs[0].train = [&order](const Trial& trial) {
    order.emplace_back("a");
    return train(trial, {});
  };
  run(lesson, {"--rounds", "12"});
  ASSERT_EQ(order.size(), 48U);
  std::set<std::vector<std::string>> drawn;
  std::map<std::string, size_t> places;
  for (size_t seed = 0; seed < 12; ++seed) {
    const std::vector<std::string> one(order.begin() + static_cast<int64_t>(4 * seed),
                                       order.begin() + static_cast<int64_t>(4 * seed + 4));
    drawn.insert(one);
    for (size_t i = 0; i < 4; ++i) places[one[i]] += i;
  }
  EXPECT_GE(drawn.size(), 4U);
  for (const auto& [name, sum] : places) EXPECT_EQ(sum, 18U) << name << " has another mean place";
}

TEST(Training, FailuresAndSkipsAreTheirOwn) {
  auto fails_later = std::make_shared<int>(0);
  const auto lesson = lesson_of(
      {run_of("twin", {}),
       {"not a number", [](const Trial& trial) { return train(trial, {.learning_rate = 1e30}); }},
       {"fails later",
        [fails_later](const Trial& trial) {
          if (++*fails_later == 3) throw std::runtime_error("a sentence that says what is wrong");
          return train(trial, {});
        }},
       {"elsewhere", [](const Trial& trial) -> Learned { trial.skip("needs a device that is not here"); }},
       {"never evaluated", [](const Trial& trial) { return tenfold::TrainingClock(trial.device).learned(); }}});
  const auto ran = run(lesson, {"--preset", "quick"});
  EXPECT_EQ(ran.code, 1) << "what is INVALID and should not be is a failure";
  const CaseResult& c = ran.result.cases[0];
  const auto check = [&](size_t i, const std::string& status, const std::string& failure, const std::string& label) {
    EXPECT_EQ(c.variants[i].status, status) << c.variants[i].name;
    EXPECT_EQ(c.variants[i].failure, failure) << c.variants[i].name;
    EXPECT_EQ(c.verdicts[i - 1].quality->label, label) << c.variants[i].name;
  };
  check(1, "ok", "", "NOT WORSE");
  check(2, "invalid", "not_finite", "INVALID");
  check(3, "invalid", "error", "INVALID");
  check(4, "skipped", "", "SKIPPED");
  check(5, "invalid", "error", "INVALID");
  EXPECT_TRUE(c.variants[3].quality.empty()) << "half of the seeds are no result";
  EXPECT_FALSE(c.variants[3].curves);
  EXPECT_EQ(c.variants[3].reason, "a sentence that says what is wrong");
}

TEST(Training, WithoutItsBaselineThereIsNoVerdict) {
  auto lesson = lesson_of({run_of("twin", {})});
  auto trained = std::make_shared<int>(0);
  lesson.trainings[0].runs[0].train = [trained](const Trial& trial) {
    if (++*trained == 2) throw std::runtime_error("a sentence that says what is wrong");
    return train(trial, {});
  };
  const auto ran = run(lesson, {"--preset", "quick"});
  EXPECT_EQ(ran.code, 1);
  EXPECT_EQ(*trained, 2) << "it goes on for nothing";
  EXPECT_EQ(ran.result.cases[0].verdicts[0].quality->label, "INVALID");
}

// What is noted is a value of each seed, and stands for all by its mean.
TEST(Training, ANoteIsAValueForEachSeed) {
  const auto noting = [](const Trial& trial) {
    trial.note("seed", static_cast<double>(trial.seed), "");
    return train(trial, {});
  };
  const auto ran = run(lesson_of({{"notes", noting}}), {"--rounds", "3", "--seed", "10"});
  ASSERT_EQ(ran.code, 0) << ran.err;
  const auto& variants = ran.result.cases.at(0).variants;
  EXPECT_TRUE(variants.at(0).notes.empty());
  EXPECT_EQ(variants.at(1).notes.at("seed").of_seeds, (std::vector<double>{10, 11, 12}));
  EXPECT_EQ(variants.at(1).notes.at("seed").value, 11);
}

// As of a case: the most bytes at a time, and items a second.
TEST(Training, HasAPeakAndARate) {
  constexpr int64_t kBytes = 8 << 20;
  const auto hungry = [](const Trial& trial) {
    const tenfold::Step step{.items = 7, .update = [] { return torch::ones({kBytes / 4}).sum(); }};
    return tenfold::train_to_the_end(trial.device, step, {.updates = 5, .evaluations = 2}, [] { return 1.0; });
  };
  const auto ran = run(lesson_of({{"hungry", hungry}}), {"--rounds", "2"});
  ASSERT_EQ(ran.code, 0) << ran.err;
  const CaseResult& c = ran.result.cases.at(0);
  const auto& hungry_one = c.variants.at(1);
  EXPECT_GE(hungry_one.peak().value_or(0), kBytes);
  EXPECT_LT(hungry_one.peak().value_or(0), 2 * kBytes);
  EXPECT_LT(c.variants.at(0).peak().value_or(0), kBytes);
  EXPECT_EQ(c.verdicts.at(0).memory.label, "LARGER");
  for (const auto& curve : *hungry_one.curves) {
    EXPECT_EQ(curve.items, 35);
    EXPECT_EQ(curve.quality.size(), 3U) << "after 2, 4 and the last update";
  }
  EXPECT_FALSE(c.variants.at(0).curves->at(0).items) << "nobody counted";
  EXPECT_THAT(ran.out, HasSubstr(" items/s"));
}

// The first to ask makes it; nobody's training needs it more than the others'.
TEST(Training, WhatAllShareIsNoVariantsMemory) {
  constexpr int64_t kBytes = 8 << 20;
  const auto asking = [](const Trial& trial) {
    trial.shared<torch::Tensor>("a trained network", [] { return torch::ones({kBytes / 4}); });
    return train(trial, {});
  };
  const auto ran = run(lesson_of({{"asking", asking}, {"asking too", asking}}), {"--rounds", "3"});
  ASSERT_EQ(ran.code, 0) << ran.err;
  for (const auto& variant : ran.result.cases.at(0).variants)
    EXPECT_LT(variant.peak().value_or(kBytes), kBytes) << variant.name;
}

TEST(Training, IsChosenDescribedAndSwept) {
  const auto lesson = lesson_of({run_of("twin", {}), run_of("hardly learns", {.learning_rate = 0.004}, WORSE)});
  const auto described = toy::run_plain(lesson, {"--describe"});
  EXPECT_THAT(described.out, HasSubstr("\"trainings\""));
  EXPECT_THAT(described.out, HasSubstr("\"hardly learns\""));
  EXPECT_THAT(described.out, HasSubstr("\"relative\": true"));
  const auto one = run(lesson, {"--rounds", "1", "--only", "twin"});
  ASSERT_EQ(one.result.cases[0].variants.size(), 2U);
  EXPECT_EQ(one.result.cases[0].variants[1].name, "twin");
  const auto swept = run(lesson, {"--rounds", "6", "--sweep", "updates=6,12"});
  ASSERT_EQ(swept.result.cases.size(), 2U);
  EXPECT_EQ(swept.result.cases[1].name, "to the end updates=12");
  EXPECT_EQ(swept.result.cases[1].variants[0].curves->at(0).quality.size(), 2U);
  EXPECT_FALSE(swept.result.cases[1].verdicts[1].as_expected.quality) << "nothing is stated of a sweep's points";
  const auto both = toy::run(lesson, {"--preset", "smoke"});
  ASSERT_EQ(both.result.cases.size(), 2U);
  EXPECT_EQ(both.result.cases[0].kind, "comparison");
  EXPECT_EQ(run(lesson, {"--set", "repeat=2"}).code, 2) << "no run of the training reads it";
}

TEST(Training, WhatComparesNothingIsRefused) {
  const auto refusal = [](const auto& change) {
    auto lesson = lesson_of({run_of("twin", {})});
    change(lesson.trainings[0]);
    const auto ran = toy::run(lesson, {"--preset", "smoke"});
    EXPECT_EQ(ran.code, 2) << ran.out;
    return ran.err;
  };
  EXPECT_THAT(refusal([](tenfold::Training& t) { t.runs.pop_back(); }), HasSubstr("needs two runs"));
  EXPECT_THAT(refusal([](tenfold::Training& t) { t.metric.margin = 0; }), HasSubstr("a margin above 0"));
  EXPECT_THAT(refusal([](tenfold::Training& t) { t.runs[1].name = "plain"; }), HasSubstr("are called 'plain'"));
  EXPECT_THAT(refusal([](tenfold::Training& t) { t.name = "toy"; }), HasSubstr("parts are called 'toy'"));
  EXPECT_THAT(refusal([](tenfold::Training& t) { t.runs[0].expected = WORSE; }), HasSubstr("which is its baseline"));
  EXPECT_THAT(refusal([](tenfold::Training& t) { t.settings = {{"epochs", tenfold::SettingValue{int64_t{1}}}}; }),
              HasSubstr("'epochs' is not declared"));
}

// --- the clock -----------------------------------------------------------------------------------------------------

TEST(TrainingClock, StandsStillDuringAnEvaluation) {
  const auto sleep = [](int ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); };
  const auto begin = std::chrono::steady_clock::now();
  tenfold::TrainingClock clock(torch::kCPU);
  for (int i = 0; i < 3; ++i) {
    sleep(20);
    clock.evaluate([&] {
      sleep(300);
      return 1.0;
    });
  }
  const Learned learned = clock.learned();
  const std::chrono::nanoseconds whole = std::chrono::steady_clock::now() - begin;
  EXPECT_GE(learned.curve.wall_ns.back(), 60'000'000);
  EXPECT_LE(learned.curve.wall_ns.back(), whole.count() - 900'000'000) << "however long a busy machine lets us wait";
  EXPECT_LT(learned.curve.processor_ns.back(), 30'000'000) << "it slept";
  EXPECT_FALSE(learned.one_thread) << "who sleeps waits: the wall's clock tells how long it takes";
}

TEST(TrainingClock, AnEvaluationLeavesRandomNumbersAndFlagsAlone) {
  const auto numbers = [](bool evaluate) {
    torch::manual_seed(3);
    tenfold::TrainingClock clock(torch::kCPU);
    if (evaluate) {
      clock.evaluate([] {
        EXPECT_FALSE(torch::GradMode::is_enabled());
        return torch::rand({8}).sum().item<double>();
      });
    }
    EXPECT_TRUE(torch::GradMode::is_enabled());
    return torch::rand({4});
  };
  EXPECT_TRUE(torch::equal(numbers(true), numbers(false)));
}

TEST(TrainingClock, KnowsThreadsThatWorkForIt) {
  const auto spin = [] {
    const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(30);
    while (std::chrono::steady_clock::now() < end) {
    }
  };
  tenfold::TrainingClock clock(torch::kCPU);
  std::thread other(spin);
  spin();
  other.join();
  clock.evaluate([] { return 0.0; });
  EXPECT_FALSE(clock.learned().one_thread);
}

TEST(Training, OneFarTooLongForAPresetEndsAfterASeed) {
  const tenfold::Preset quick = tenfold::preset_named("quick"), full = tenfold::preset_named("full");
  EXPECT_TRUE(wants_seed(quick, 0, 0, 0));
  EXPECT_TRUE(wants_seed(quick, 1, 5, 0)) << "six take 30 s";
  EXPECT_FALSE(wants_seed(quick, 1, 20, 0)) << "six take two minutes";
  EXPECT_FALSE(wants_seed(quick, 6, 5, 0));
  EXPECT_TRUE(wants_seed(full, 1, 20, 0));
  EXPECT_TRUE(wants_seed(full, 11, 220, 0));
  EXPECT_FALSE(wants_seed(full, 6, 540, 0)) << "the seventh would end after the preset's time";
  EXPECT_TRUE(wants_seed(quick, 1, 20, 16)) << "six take 16 s once and 4 s each";
  EXPECT_FALSE(wants_seed(quick, 1, 125, 120)) << "once is too long";
  EXPECT_TRUE(wants_seed(full, 6, 540, 300)) << "40 s for the seventh";
}

}  // namespace
