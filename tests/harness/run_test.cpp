#include "tests/data/scratch.h"
#include "toy.h"

#include <gmock/gmock.h>

#include <ATen/autocast_mode.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <map>
#include <numeric>
#include <set>
#include <thread>

#include "common/base/files.h"
#include "common/machine/fingerprint.h"
#include "common/measure/device.h"
#include "common/measure/global_state.h"
#include "common/result/judge.h"

#include "tests/support/support.h"

namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;
using namespace tenfold::expect;

const tenfold::VariantResult& variant(const toy::Ran& ran, const std::string& name) {
  for (const auto& one : ran.result.cases.at(0).variants) {
    if (one.name == name) return one;
  }
  throw std::out_of_range(name);
}
const tenfold::Verdict& verdict(const toy::Ran& ran, const std::string& name) {
  for (const auto& one : ran.result.cases.at(0).verdicts) {
    if (one.technique == name) return one;
  }
  throw std::out_of_range(name);
}

TEST(Run, PresetBuildBuildsAllAndTrainsNothing) {
  int built = 0, updates = 0;
  auto lesson = toy::lesson();
  lesson.techniques[0].build = [&](const tenfold::Trial& trial) {
    ++built;
    tenfold::Step step = toy::plain(trial);
    step.update = [&updates]() -> torch::Tensor { return torch::zeros({1}) + ++updates; };
    return step;
  };
  lesson.cases[0].expected = {{"twin", TRAP}};
  EXPECT_EQ(toy::run(lesson, {"--preset", "build"}).code, 0) << "a trap that was not tried is not missed";
  EXPECT_GE(built, 1);
  EXPECT_EQ(updates, 0);
  lesson.techniques[0].build = toy::throws;
  const auto wrong = toy::run(lesson, {"--preset", "build"});
  EXPECT_EQ(wrong.code, 1) << wrong.out;
  EXPECT_NE(wrong.out.find("a sentence that says what is wrong"), std::string::npos) << wrong.out;
}

TEST(Run, AValidLessonGetsRoundsPeaksSplitAndAVerdict) {
  const auto ran = toy::run(toy::lesson(), {"--preset", "quick", "--rounds", "6"});
  EXPECT_EQ(ran.code, 0) << ran.err;
  ASSERT_TRUE(ran.wrote);
  const auto& twin = variant(ran, "twin");
  ASSERT_EQ(twin.blocks.size(), 1U);
  EXPECT_EQ(twin.blocks[0].size(), 6U);
  ASSERT_EQ(variant(ran, "plain").blocks.size(), 2U);
  EXPECT_EQ(variant(ran, "plain").blocks[0].size(), 6U);
  EXPECT_EQ(variant(ran, "plain").blocks[1].size(), 6U);
  EXPECT_EQ(twin.blocks[0].items, 64 * twin.blocks[0].steps);
  EXPECT_GT(twin.peak_bytes.at("allocated"), 64 * 200 * 4);
  // malloc may round equal requests differently.
  EXPECT_NEAR(twin.peak_bytes.at("allocated"), variant(ran, "plain").peak_bytes.at("allocated"), 256);
  ASSERT_TRUE(twin.split);
  EXPECT_GT(twin.split->device, 0);
  EXPECT_EQ(verdict(ran, "twin").memory.label, "SAME");
  EXPECT_TRUE(verdict(ran, "twin").agreement->pass);
  EXPECT_EQ(verdict(ran, "twin").agreement->worst, 0);
  EXPECT_GT(verdict(ran, "twin").agreement->power, 0.01);
  EXPECT_TRUE(verdict(ran, "twin").speed.ratio);
  EXPECT_THAT(ran.out, HasSubstr("twin"));
}

TEST(Run, AResultKeepsItsFlagsAndNoPath) {
  const auto ran = toy::run(toy::lesson(), {"--preset=quick", "--rounds", "5"});
  EXPECT_EQ(ran.result.argv, (std::vector<std::string>{"--preset", "quick", "--rounds", "5"}));
}

// Each order is drawn and then reversed: whatever the number of variants, none is first more often than it is last.
TEST(Run, PositionsBalanceForAnyNumberOfVariants) {
  for (size_t techniques = 1; techniques <= 4; ++techniques) {
    auto lesson = toy::lesson();
    while (lesson.techniques.size() < techniques) {
      lesson.techniques.push_back({"twin " + std::to_string(lesson.techniques.size()), toy::plain});
    }
    const auto ran = toy::run(lesson, {"--preset", "quick", "--rounds", "12"});
    std::vector<std::vector<int64_t>> orders(12);  // of each round
    for (const auto& one : ran.result.cases.at(0).variants) {
      for (const auto& blocks : one.blocks) {
        const int64_t sum = std::accumulate(blocks.position.begin(), blocks.position.end(), int64_t{0});
        EXPECT_EQ(2 * sum, static_cast<int64_t>(12 * (techniques + 1))) << one.name << " among " << techniques + 2;
        for (size_t round = 0; round < 12; ++round) orders[round].push_back(blocks.position[round]);
      }
    }
    std::set<std::vector<int64_t>> drawn;
    for (size_t round = 0; round < 12; round += 2) drawn.insert(orders[round]);
    EXPECT_GE(drawn.size(), 2U) << "the orders are drawn";
    bool turned = true;  // one order that only turns keeps everybody's neighbours
    const auto count = static_cast<int64_t>(techniques + 2);
    for (const auto& order : drawn) {
      for (size_t i = 1; i < order.size(); ++i) {
        turned = turned && (order[i] - order[i - 1] + count) % count ==
                               ((*drawn.begin())[i] - (*drawn.begin())[i - 1] + count) % count;
      }
    }
    EXPECT_FALSE(turned && techniques > 1) << "orders differ by more than who begins";
  }
}

TEST(Run, RoundsAreSpreadOverBuildsOfEqualSize) {
  std::atomic<int> built = 0;
  auto lesson = toy::lesson();
  lesson.techniques = {{"counts its builds", [&](const tenfold::Trial& trial) {
                          ++built;
                          return toy::plain(trial);
                        }}};
  const auto ran = toy::run(lesson, {"--preset", "quick", "--rounds", "12"});
  EXPECT_EQ(variant(ran, "counts its builds").blocks[0].build,
            (std::vector<int64_t>{0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5}));
  EXPECT_GE(built, 6);
}

TEST(Run, ProcessorTimeDecidesWhereAStepWaitsForNothing) {
  const std::vector<std::string> flags = {"--preset", "quick", "--rounds", "6"};
  // A page fault or a lock may be waited for by chance; not five times in a row.
  bool processor = false;
  for (int time = 0; time < 5 && !processor; ++time) {
    processor = toy::run(toy::lesson(), flags).result.cases.at(0).clock == tenfold::Clock::processor;
  }
  EXPECT_TRUE(processor);
  auto lesson = toy::lesson();
  lesson.techniques.push_back({"sleeps", [](const tenfold::Trial& trial) {
                                 tenfold::Step step = toy::plain(trial);
                                 step.update = [fn = step.update] {
                                   std::this_thread::sleep_for(std::chrono::milliseconds(1));
                                   return fn();
                                 };
                                 return step;
                               }});
  EXPECT_EQ(toy::run(lesson, flags).result.cases.at(0).clock, tenfold::Clock::wall);
  lesson = toy::lesson();
  lesson.techniques.push_back({"has a thread", [](const tenfold::Trial& trial) {
                                 tenfold::Step step = toy::plain(trial);
                                 const auto idle = [](const std::stop_token& stop) {
                                   while (!stop.stop_requested())
                                     std::this_thread::sleep_for(std::chrono::milliseconds(1));
                                 };
                                 step.update = [fn = step.update, thread = std::make_shared<std::jthread>(idle)] {
                                   return fn();
                                 };
                                 return step;
                               }});
  EXPECT_EQ(toy::run(lesson, flags).result.cases.at(0).clock, tenfold::Clock::wall);
  EXPECT_EQ(toy::run(toy::lesson(), {"--rounds", "6", "--threads", "2"}).result.cases.at(0).clock,
            tenfold::Clock::wall);
}

TEST(Run, TooFewRoundsAreUndecided) {
  const auto ran = toy::run(toy::lesson(), {"--rounds", "5"});
  EXPECT_EQ(ran.code, 0);
  EXPECT_EQ(verdict(ran, "twin").speed.label, "UNDECIDED");
}

struct Broken {
  const char* name;
  tenfold::Step (*build)(const tenfold::Trial&);
  const char* reason;
};
class BrokenVariants : public testing::TestWithParam<Broken> {};

TEST_P(BrokenVariants, AreInvalidAndGetNoRatio) {
  auto lesson = toy::lesson();
  lesson.techniques.push_back({"broken", GetParam().build});
  const auto ran = toy::run(lesson, {"--preset", "smoke"});
  EXPECT_EQ(ran.code, 1);
  EXPECT_EQ(variant(ran, "broken").status, "invalid");
  EXPECT_THAT(variant(ran, "broken").reason, HasSubstr(GetParam().reason));
  EXPECT_EQ(variant(ran, "broken").reason.find('\n'), std::string::npos);
  EXPECT_EQ(verdict(ran, "broken").speed.label, "INVALID");
  EXPECT_FALSE(verdict(ran, "broken").speed.ratio);
  EXPECT_FALSE(verdict(ran, "broken").memory.ratio);
  EXPECT_TRUE(variant(ran, "broken").blocks.empty());
  EXPECT_EQ(variant(ran, "twin").status, "ok") << "one broken variant must not spoil the others";
}

INSTANTIATE_TEST_SUITE_P(All, BrokenVariants,
                         testing::Values(Broken{"scale", toy::wrong_scale, "gradient norm of"},
                                         Broken{"nan", toy::not_a_number, "not finite"},
                                         Broken{"memory", toy::out_of_memory, "memory"},
                                         Broken{"throws", toy::throws, "a sentence that says"}),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(Run, ATrapThatIsCaughtIsNoError) {
  auto lesson = toy::lesson();
  lesson.techniques = {{"trap", toy::wrong_scale}};
  lesson.cases = {{"toy", {}, {{"trap", TRAP}}}};
  const auto ran = toy::run(lesson, {"--preset", "smoke"});
  EXPECT_EQ(ran.code, 0);
  EXPECT_EQ(verdict(ran, "trap").as_expected.caught, true);
  EXPECT_THAT(ran.out, HasSubstr("trap caught"));
}

TEST(Run, ATrapThatIsNotCaughtIsAnError) {
  auto lesson = toy::lesson();
  lesson.cases = {{"toy", {}, {{"twin", TRAP}}}};
  const auto ran = toy::run(lesson, {"--preset", "smoke"});
  EXPECT_EQ(ran.code, 1);
  EXPECT_EQ(verdict(ran, "twin").as_expected.caught, false);
}

// Whatever else ends a trap, it was not the check that found it out.
TEST(Run, ATrapThatFailsForAnotherReasonIsNotCaught) {
  const auto trapped = [](tenfold::Step (*build)(const tenfold::Trial&)) {
    auto lesson = toy::lesson();
    lesson.techniques = {{"trap", build}};
    lesson.cases = {{"toy", {}, {{"trap", TRAP}}}};
    return toy::run(lesson, {"--preset", "smoke"});
  };
  for (const auto build : {toy::throws, toy::out_of_memory}) {
    const auto ran = trapped(build);
    EXPECT_EQ(ran.code, 1);
    EXPECT_EQ(variant(ran, "trap").status, "invalid");
    EXPECT_EQ(verdict(ran, "trap").as_expected.caught, false);
    EXPECT_THAT(ran.out, HasSubstr("NOT CAUGHT"));
  }
  EXPECT_EQ(trapped(toy::not_a_number).code, 0) << "a loss that is not finite is what the check looks for";
}

TEST(Run, WhatExceedsTheMemoryMustRunOutOfIt) {
  const auto exceeding = [](tenfold::Step (*build)(const tenfold::Trial&)) {
    auto lesson = toy::lesson();
    lesson.techniques = {{"too large", build}};
    lesson.cases = {{"toy", {}, {{"too large", EXCEEDS}}}};
    return toy::run(lesson, {"--preset", "smoke"}).code;
  };
  EXPECT_EQ(exceeding(toy::out_of_memory), 0);
  EXPECT_EQ(exceeding(toy::wrong_scale), 1);
  EXPECT_EQ(exceeding(toy::plain), 1);
}

// A name that nobody has would drop a technique from its case without a word.
TEST(Run, WhatALessonSaysOfItselfIsCheckedBeforeAnythingIsBuilt) {
  int built = 0;
  const auto refusal = [&](const std::vector<tenfold::Expectation>& expected,
                           const std::vector<tenfold::Variant>& more = {}) {
    auto lesson = toy::lesson();
    lesson.baseline.build = [&built](const tenfold::Trial& trial) {
      ++built;
      return toy::plain(trial);
    };
    lesson.techniques.insert(lesson.techniques.end(), more.begin(), more.end());
    lesson.cases = {{"toy", {}, expected}};
    const auto ran = toy::run(lesson, {"--preset", "smoke"});
    EXPECT_EQ(ran.code, 2) << ran.out;
    EXPECT_EQ(std::count(ran.err.begin(), ran.err.end(), '\n'), 1) << ran.err;
    return ran.err;
  };
  EXPECT_THAT(refusal({{"twim", FASTER}, {"twin", {}}}),
              HasSubstr("case 'toy', technique 'twim': there is no technique of this name"));
  EXPECT_THAT(refusal({{"twin", {}}}, {{"forgotten", toy::plain}}),
              HasSubstr("no case compares the technique 'forgotten'"));
  EXPECT_THAT(refusal({{"twin", mistake(FASTER)}}), HasSubstr("state SLOWER or LARGER"));
  EXPECT_THAT(refusal({{"twin", {}, on_cuda(mistake(SMALLER))}}), HasSubstr("on CUDA: a mistake"));
  EXPECT_THAT(refusal({{"twin", {}}, {"twin", {}}}), HasSubstr("are called 'twin'"));
  EXPECT_THAT(refusal({}, {{"twin", toy::plain}}), HasSubstr("are called 'twin'"));
  EXPECT_EQ(built, 0);
}

TEST(Run, WhatCannotRunInAnotherProcessIsRefused) {
  const auto refusal = [](const std::function<void(tenfold::Lesson&)>& change) {
    auto lesson = toy::lesson();
    lesson.techniques[0].process = tenfold::OtherProcess{};
    change(lesson);
    const auto ran = toy::run(lesson, {"--preset", "smoke"});
    EXPECT_EQ(ran.code, 2) << ran.out;
    EXPECT_EQ(std::count(ran.err.begin(), ran.err.end(), '\n'), 1) << ran.err;
    return ran.err;
  };
  const auto other_program = [](tenfold::Lesson& lesson) {
    lesson.techniques[0].build = nullptr;
    lesson.techniques[0].process->command = {"python"};
  };
  EXPECT_THAT(refusal([](tenfold::Lesson& lesson) { lesson.cases[0].place.mesh = {{"dp", 2}}; }),
              HasSubstr("'twin', which runs in another process, is compared in 'toy', which has several ranks"));
  EXPECT_THAT(refusal([](tenfold::Lesson& lesson) { lesson.cases[0].place.devices = 2; }),
              HasSubstr("is compared in 'toy', which has 2 GPUs"));
  EXPECT_THAT(refusal([](tenfold::Lesson& lesson) { lesson.baseline.process = tenfold::OtherProcess{}; }),
              HasSubstr("the baseline 'plain' runs in another process"));
  EXPECT_THAT(refusal([](tenfold::Lesson& lesson) { lesson.techniques[0].process->command = {"python"}; }),
              HasSubstr("has a command and a build"));
  EXPECT_THAT(refusal([](tenfold::Lesson& lesson) { lesson.techniques[0].build = nullptr; }),
              HasSubstr("has neither a build nor a command"));
  EXPECT_THAT(refusal([&](tenfold::Lesson& lesson) {
                other_program(lesson);
                lesson.cases[0].budget = tenfold::SameBudget{1 << 20, "repeat"};
              }),
              HasSubstr("has a budget"));
}

constexpr tenfold::Setting<int64_t> kUnread{"unread", 1, "what no variant reads"};

// What a prediction asks for and the step does not have fails the variant that asked.
TEST(Run, APredictionThatFailsEndsOneVariant) {
  auto lesson = toy::lesson();
  lesson.techniques = {
      {"asks", toy::plain, [](const tenfold::Counted& c) { return tenfold::Prediction{c.share("forwards")}; }},
      {"asks for a setting", toy::plain,
       [](const tenfold::Counted& c) { return tenfold::Prediction{static_cast<double>(c.get(kUnread))}; }},
      {"twin", toy::plain}};
  const auto ran = toy::run(lesson, {"--preset", "smoke"});
  EXPECT_EQ(ran.code, 1);
  EXPECT_THAT(variant(ran, "asks").reason,
              HasSubstr("asks for the region 'forwards' of the baseline's step, which has"));
  EXPECT_THAT(variant(ran, "asks for a setting").reason,
              HasSubstr("the setting 'unread' of the baseline's step, which has only: repeat"));
  EXPECT_EQ(variant(ran, "asks").status, "invalid");
  EXPECT_EQ(variant(ran, "plain").status, "ok");
  EXPECT_EQ(variant(ran, "twin").status, "ok");
  EXPECT_TRUE(verdict(ran, "twin").speed.ratio);
}

// Observers must not outlive the step that they observe, whichever of its calls throws.
TEST(Run, AStepThatThrowsInAnyPassEndsOneVariant) {
  bool reached_the_end = false;
  for (int call = 1; call < 60 && !reached_the_end; ++call) {
    const auto calls = std::make_shared<int>(0);
    auto lesson = toy::lesson();
    lesson.techniques.push_back({"throws later", [calls, call](const tenfold::Trial& trial) {
                                   tenfold::Step step = toy::plain(trial);
                                   step.update = [fn = step.update, calls, call] {
                                     if (++*calls == call) throw std::runtime_error("this call fails");
                                     return fn();
                                   };
                                   return step;
                                 }});
    const auto ran = toy::run(lesson, {"--preset", "smoke"});
    reached_the_end = *calls < call;
    EXPECT_EQ(ran.code, reached_the_end ? 0 : 1) << "call " << call << ": " << ran.err;
    EXPECT_EQ(variant(ran, "twin").status, "ok") << "call " << call;
    EXPECT_TRUE(variant(ran, "twin").split) << "call " << call;
    if (reached_the_end) continue;
    EXPECT_EQ(variant(ran, "throws later").reason, "this call fails");
    EXPECT_TRUE(variant(ran, "throws later").blocks.empty());
  }
  EXPECT_TRUE(reached_the_end);
}

TEST(Run, AToleranceThatASkippedUpdatePassesIsVoid) {
  auto lesson = toy::lesson();
  lesson.agreement = tenfold::Agreement::within(0.5, "too generous");
  const auto ran = toy::run(lesson, {"--preset", "smoke"});
  EXPECT_EQ(ran.code, 1);
  EXPECT_THAT(variant(ran, "twin").reason, HasSubstr("void"));
}

TEST(Run, SkipsCarryTheirReason) {
  auto lesson = toy::lesson();
  lesson.techniques.push_back({"elsewhere", toy::skips});
  const auto ran = toy::run(lesson, {"--preset", "smoke"});
  EXPECT_EQ(ran.code, 0);
  EXPECT_EQ(variant(ran, "elsewhere").status, "skipped");
  EXPECT_EQ(variant(ran, "elsewhere").reason, "needs a device that is not here");
}

TEST(Run, NothingToRunIs77) {
  auto lesson = toy::lesson();
  lesson.baseline = {"elsewhere", toy::skips};
  lesson.techniques = {{"too", toy::skips}};
  EXPECT_EQ(toy::run(lesson, {"--preset", "smoke"}).code, 77);
}

// Both the engine and what it holds back: normal numbers are made in pairs, and a block may end between the two.
TEST(Run, ARestoredRandomStateGoesOnExactlyWhereItWas) {
  torch::manual_seed(5);
  torch::randn({3});
  const auto state = tenfold::GlobalState::capture(torch::kCPU);
  const auto numbers = [] { return torch::cat({torch::randn({5}), torch::rand({1000}), torch::randn({1000})}); };
  const torch::Tensor first = numbers();
  EXPECT_FALSE(torch::equal(numbers(), first)) << "the generator does not go on at all";
  torch::manual_seed(6);
  torch::randn({4});
  for (int time = 0; time < 2; ++time) {
    state.restore();
    EXPECT_TRUE(torch::equal(numbers(), first)) << "time " << time;
  }
  EXPECT_EQ(at::globalContext().defaultGenerator(torch::kCPU).current_seed(), 5U);
}

TEST(Run, FlagsOfOneVariantDoNotReachTheNext) {
  auto lesson = toy::lesson();
  const auto sets_flags = [](const tenfold::Trial& trial) {
    at::autocast::set_autocast_enabled(at::kCPU, true);
    at::globalContext().setDeterministicAlgorithms(true, true);
    return toy::plain(trial);
  };
  lesson.techniques = {{"sets flags", sets_flags, nullptr, tenfold::Agreement::within(0.02, "autocast rounds")},
                       {"twin", toy::plain}};
  const auto before = tenfold::GlobalState::capture(torch::kCPU);
  const auto ran = toy::run(lesson, {"--preset", "smoke"});
  EXPECT_GT(verdict(ran, "sets flags").agreement->worst.value(), 0) << "the flags must have had an effect";
  EXPECT_EQ(verdict(ran, "twin").agreement->worst, 0) << "the twin ran with another variant's flags";
  EXPECT_TRUE(tenfold::GlobalState::capture(torch::kCPU).same_flags(before));
}

TEST(Run, ASurveyOnlyNotes) {
  constexpr tenfold::Setting<int64_t> kThings{"things", 3, "what is counted"};
  auto lesson = toy::lesson();
  lesson.settings.push_back(kThings);
  const auto count = [=](const toy::Trial& trial) {
    trial.note("counted", static_cast<double>(trial.get(kThings)), "things");
  };
  lesson.surveys = {{.name = "counted",
                     .looks = {{"first", count},
                               {"elsewhere", [](const toy::Trial& trial) { trial.skip("needs what is not here"); }},
                               {"broken", [](const toy::Trial&) { throw std::runtime_error("cannot be counted"); }}},
                     .settings = {kThings(4)}}};
  const auto ran = toy::run(lesson, {"--preset", "smoke"});
  EXPECT_EQ(ran.code, 1) << "a look that throws is an error: " << ran.err;
  ASSERT_EQ(ran.result.cases.size(), 2U);
  EXPECT_FALSE(ran.result.is_survey());
  EXPECT_EQ(ran.result.cases[1].verdicts.size(), 1U);
  const tenfold::CaseResult& counted = ran.result.cases[0];  // surveys come first
  EXPECT_EQ(counted.kind, "survey");
  EXPECT_TRUE(counted.verdicts.empty());
  ASSERT_EQ(counted.variants.size(), 3U);
  EXPECT_EQ(counted.variants[0].status, "ok");
  EXPECT_TRUE(counted.variants[0].blocks.empty());
  EXPECT_EQ(counted.variants[0].notes.at("counted").value, 4);
  EXPECT_EQ(counted.variants[1].status, "skipped");
  EXPECT_EQ(counted.variants[2].reason, "cannot be counted");
  lesson.surveys[0].looks.pop_back();
  const auto chosen = toy::run(lesson, {"--preset", "smoke", "--case", "counted", "--sweep", "things=1,2"});
  EXPECT_EQ(chosen.code, 0) << chosen.err;
  ASSERT_EQ(chosen.result.cases.size(), 2U);
  EXPECT_TRUE(chosen.result.is_survey());
  EXPECT_EQ(chosen.result.cases[1].variants[0].notes.at("counted").value, 2);
  const auto one = toy::run(lesson, {"--preset", "smoke", "--case", "counted", "--only", "first"});
  EXPECT_EQ(one.result.cases[0].variants.size(), 1U);
}

TEST(Run, ALessonOfSurveysNeedsNoBaseline) {
  const tenfold::Lesson lesson{
      .title = "Toy",
      .surveys = {{"counted", {{"one", [](const toy::Trial& trial) { trial.note("n", 1, "things"); }}}}}};
  EXPECT_EQ(toy::run(lesson, {"--preset", "smoke"}).code, 0);
}

// A misspelt name or another type would measure something else than what was meant.
TEST(Run, SettingsAreCheckedBeforeAnythingIsBuilt) {
  constexpr tenfold::Setting<int64_t> kRepaet{"repaet", 1, "misspelt"};
  constexpr tenfold::Setting<double> kFraction{"repeat", 0.5, "of another type"};
  const auto refusal = [](const auto& change) {
    auto lesson = toy::lesson();
    change(lesson);
    const auto ran = toy::run(lesson, {"--preset", "smoke"});
    EXPECT_EQ(ran.code, 2) << ran.out;
    EXPECT_EQ(std::count(ran.err.begin(), ran.err.end(), '\n'), 1) << ran.err;
    return ran.err;
  };
  EXPECT_THAT(refusal([&](auto& lesson) { lesson.cases[0].settings = {kRepaet(2)}; }),
              HasSubstr("case 'toy': setting 'repaet' is not declared; the lesson declares repeat"));
  EXPECT_THAT(refusal([&](auto& lesson) { lesson.cases[0].settings = {kFraction(2)}; }),
              HasSubstr("'repeat' is declared with another type"));
  EXPECT_THAT(refusal([&](auto& lesson) { lesson.settings.push_back(toy::kRepeat); }), HasSubstr("two settings"));
  EXPECT_THAT(refusal([&](auto& lesson) { lesson.cases[0].settings = {toy::kRepeat(1), toy::kRepeat(2)}; }),
              HasSubstr("are called 'repeat'"));
  EXPECT_THAT(refusal([&](auto& lesson) { lesson.headline = tenfold::Headline{"toy", "none"}; }),
              HasSubstr("does not compare 'none'"));
  EXPECT_THAT(refusal([&](auto& lesson) { lesson.workload = {}; }), HasSubstr("has no workload"));
  EXPECT_THAT(refusal([&](auto& lesson) { lesson.cases[0].judged_peak = "live"; }),
              HasSubstr("no peak of kind 'live', only allocated, requested, reserved"));
  EXPECT_THAT(refusal([&](auto& lesson) {
                lesson.cases.push_back(lesson.cases[0]);
                lesson.cases[1].name = "grown";
                lesson.cases[1].workload = lesson.workload.with({kRepaet});
              }),
              HasSubstr("case 'grown' has a workload 'mlp' with other settings"));
}

TEST(Run, AVariantThatReadsWhatTheLessonDoesNotDeclareFails) {
  constexpr tenfold::Setting<int64_t> kSecret{"secret", 1, "not declared"};
  auto lesson = toy::lesson();
  lesson.techniques.push_back({"reads it", [=](const tenfold::Trial& trial) {
                                 trial.get(kSecret);
                                 return toy::plain(trial);
                               }});
  const auto ran = toy::run(lesson, {"--preset", "smoke"});
  EXPECT_EQ(ran.code, 1);
  EXPECT_THAT(variant(ran, "reads it").reason, HasSubstr("secret"));
  EXPECT_EQ(variant(ran, "twin").status, "ok");
}

TEST(Run, ACaseMayHaveAnotherValueForEachSize) {
  auto lesson = toy::lesson();
  lesson.cases[0].settings = {toy::kRepeat(2, 3, 4)};
  for (const auto& [size, repeat] : std::map<std::string, int64_t>{{"cpu", 2}, {"gpu8", 3}, {"gpu80", 4}}) {
    const auto ran = toy::run(lesson, {"--preset", "smoke", "--size", size});
    EXPECT_EQ(ran.result.cases[0].settings.at("repeat"), tenfold::SettingValue{repeat}) << size;
  }
}

TEST(Run, NotesAndSettingsAreRecorded) {
  auto lesson = toy::lesson();
  const auto noting = [](const tenfold::Trial& trial) {
    trial.note("skipped steps", 3, "steps");
    return toy::plain(trial);
  };
  lesson.techniques = {{"noting", noting}};
  const auto ran = toy::run(lesson, {"--preset", "smoke", "--set", "repeat=2"});
  EXPECT_EQ(variant(ran, "noting").notes.at("skipped steps").value, 3);
  EXPECT_TRUE(variant(ran, "noting").sent_bytes.empty()) << "one process asks nobody";
  EXPECT_EQ(ran.result.cases[0].mesh, (std::map<std::string, int64_t>{{"dp", 1}}));
  EXPECT_EQ(ran.result.cases[0].settings.at("repeat"), tenfold::SettingValue{int64_t{2}});
}

TEST(Run, ASweepMeasuresEachValueAsACase) {
  const auto ran = toy::run(toy::lesson(), {"--preset", "smoke", "--sweep", "repeat=1,2,3"});
  ASSERT_EQ(ran.result.cases.size(), 3U);
  EXPECT_EQ(ran.result.cases[2].name, "toy repeat=3");
  EXPECT_EQ(ran.result.cases[2].settings.at("repeat"), tenfold::SettingValue{int64_t{3}});
  ASSERT_TRUE(ran.result.cases[2].sweep);
  EXPECT_EQ(ran.result.cases[2].sweep->setting, "repeat");
}

TEST(Run, PredictionsComeFromTheCountedBaseline) {
  const tenfold::test::Scratch cache;  // not this machine's own, which may never have been probed
  const tenfold::test::CacheAt at(cache.path());
  tenfold::test::write_text(tenfold::ceilings_file(tenfold::fingerprint().id),
                            R"({"cpu_flops_per_s": 3e10, "cpu_op_seconds": 1e-6, "cuda_flops_fp32": 6e13})");
  auto lesson = toy::lesson();
  tenfold::Counted baseline;  // looked at after the run, which captures what a failure prints
  const auto predict = [&baseline](const tenfold::Counted& counted) {
    baseline = counted;
    return tenfold::Prediction{.speed_ratio = 1, .peak_bytes = counted.peak_bytes};
  };
  lesson.techniques = {{"twin", toy::plain, predict}};
  const auto ran = toy::run(lesson, {"--preset", "quick", "--rounds", "6", "--device", "cpu"});
  EXPECT_EQ(baseline.parameter_bytes, (200 * 50 + 50) * 4);
  EXPECT_EQ(baseline.gradient_bytes, baseline.parameter_bytes);
  EXPECT_GT(baseline.whole.operators, 3);
  EXPECT_GE(baseline.whole.flops, 2.0 * 64 * 200 * 50);
  const std::map<std::string, double> own{{"cpu_flops_per_s", 3e10}, {"cpu_op_seconds", 1e-6}};
  EXPECT_EQ(baseline.ceilings, own) << "the ceilings of the device that runs, and of no other";
  EXPECT_EQ(baseline.get(toy::kRepeat), 1);
  EXPECT_EQ(ran.result.machine.ceilings.size(), 3U);
  EXPECT_NEAR(verdict(ran, "twin").prediction_error.at("peak"), 0, 0.02);
  EXPECT_TRUE(verdict(ran, "twin").prediction_error.contains("speed"));
}

TEST(Run, WithoutAProbeAPredictionKeepsItsBytesAndHasNoSpeed) {
  const tenfold::test::Scratch cache;
  const tenfold::test::CacheAt at(cache.path());
  tenfold::test::write_text(tenfold::ceilings_file(tenfold::fingerprint().id), R"({"cpu_op_seconds": 1e-6})");
  auto lesson = toy::lesson();
  const auto predict = [](double speed, const char* ceiling) {
    return [=](const tenfold::Counted& counted) {
      const double asked = *ceiling ? counted.ceiling(ceiling) : 0;
      // As a lesson may: std::max() returns its first argument where the second is no number.
      return tenfold::Prediction{
          .speed_ratio = speed + std::max(0.0, asked), .peak_bytes = counted.peak_bytes, .sent_bytes = 8};
    };
  };
  lesson.techniques = {{"probed", toy::plain, predict(1, "cpu_op_seconds")},
                       {"not probed", toy::plain, predict(1, "cpu_copy_bytes_per_s")},
                       {"asks for nothing", toy::plain, predict(1, "")},
                       {"no number", toy::plain, predict(NAN, "")}};
  const auto ran = toy::run(lesson, {"--preset", "check", "--device", "cpu"});
  for (const auto& [name, has_speed] : std::vector<std::pair<std::string, bool>>{
           {"probed", true}, {"not probed", false}, {"asks for nothing", true}, {"no number", false}}) {
    const auto& predicted = variant(ran, name).predicted;
    EXPECT_EQ(predicted.speed_ratio.has_value(), has_speed) << name;
    EXPECT_GT(predicted.peak_bytes.value_or(0), 0) << name;
    EXPECT_EQ(predicted.sent_bytes, 8) << name;
  }
}

TEST(Run, BadUsageIsOneLineAndWritesNothing) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> calls = {
      {{"--preset", "slow"}, "--preset slow"},
      {{"--device", "tpu"}, "--device tpu"},
      {{"--set", "repat=2"}, "--set repat: no setting of this lesson; did you mean 'repeat'?"},
      {{"--set", "repeat=1.5"}, "--set repeat=1.5: expected a whole number, 1 or more"},
      {{"--sweep", "other=1"}, "--sweep other: no setting of this lesson; it has: repeat"},
      {{"--set", "repeat"}, "NAME=VALUE"},
      {{"--set", "repeat=two"}, "expected a whole number"},
      {{"--case", "other"}, "--case other"},
      {{"--only", "nothing"}, "--only nothing"},
      {{"--rounds", "0"}, "--rounds 0"},
      {{"--frobnicate"}, "--help"},
      {{"--size", "huge"}, "--size huge"},
      {{"--threads", "0"}, "--threads 0"},
      {{"--sweep", "repeat=1,,2"}, "expected a whole number"}};
  for (const auto& [flags, text] : calls) {
    const auto ran = toy::run(toy::lesson(), flags);
    EXPECT_EQ(ran.code, 2) << flags[0] << ": " << ran.err;
    EXPECT_THAT(ran.err, HasSubstr(text));
    EXPECT_EQ(std::count(ran.err.begin(), ran.err.end(), '\n'), 1) << ran.err;
    EXPECT_FALSE(ran.wrote) << flags[0];
  }
}

TEST(Run, MoreThreadsThanCoresAreSaid) {
  const int cores = tenfold::fingerprint().cores;
  const auto said = [](int threads) {
    return toy::run(toy::lesson(), {"--preset", "build", "--threads", std::to_string(threads)}).err;
  };
  EXPECT_THAT(said(cores + 1), HasSubstr("--threads " + std::to_string(cores + 1) + " take turns on "));
  EXPECT_EQ(said(cores).find("take turns"), std::string::npos);
}

TEST(Run, CudaWithoutOneIsRefused) {
  if (torch::cuda::is_available()) GTEST_SKIP() << "there is a CUDA device";
  const auto ran = toy::run(toy::lesson(), {"--device", "cuda"});
  EXPECT_EQ(ran.code, 2);
  EXPECT_THAT(ran.err, HasSubstr("--device cuda"));
  EXPECT_FALSE(ran.wrote);
}

// Before the first variant is built: nobody waits an hour for a file that cannot be.
TEST(Run, FilesThatCannotBeWrittenAreRefusedBeforeAnythingRuns) {
  const tenfold::test::Scratch scratch;
  tenfold::test::write_text(scratch.path() / "file", "kept");
  const std::string file = (scratch.path() / "file").string();
  auto lesson = toy::lesson();
  bool built = false;
  lesson.baseline.build = [&](const tenfold::Trial& trial) {
    built = true;
    return toy::plain(trial);
  };
  for (const std::string flag : {"--json", "--trace"}) {
    for (const std::string& path :
         {file + "/result.json", std::string("/proc/none/result.json"), std::string("/dev/full/result.json")}) {
      const auto ran = toy::run_plain(lesson, {"--preset", "smoke", flag, path});
      EXPECT_EQ(ran.code, 2) << path;
      EXPECT_EQ(ran.out, "") << path;
      EXPECT_THAT(ran.err, StartsWith(flag + " " + path + ": cannot be written: "));
      EXPECT_THAT(ran.err, EndsWith("; name another file\n"));
      EXPECT_EQ(std::count(ran.err.begin(), ran.err.end(), '\n'), 1) << ran.err;
      EXPECT_FALSE(built) << flag << " " << path;
    }
  }
  EXPECT_EQ(toy::run_plain(lesson, {"--json", scratch.path().string()}).code, 2) << "a folder";
  EXPECT_FALSE(built);
  EXPECT_EQ(tenfold::test::read_text(file), "kept");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(scratch.path()), {}), 1) << "something was left behind";
}

TEST(Run, ARefusalLaterLeavesNothingOfTheTrial) {
  const tenfold::test::Scratch scratch;
  tenfold::test::write_text(scratch.path() / "earlier.json", "kept");
  const std::string earlier = (scratch.path() / "earlier.json").string(),
                    deep = (scratch.path() / "new" / "deep").string();
  const auto ran =
      toy::run_plain(toy::lesson(), {"--preset", "smoke", "--set", "repat=2", "--json", earlier, "--trace", deep});
  EXPECT_EQ(ran.code, 2) << ran.err;
  EXPECT_EQ(tenfold::test::read_text(earlier), "kept");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(scratch.path()), {}), 1) << "something was left behind";
}

TEST(Run, TracesGoToTheFolderOfTheirFile) {
  const tenfold::test::Scratch scratch;
  const auto ran =
      toy::run_plain(toy::lesson(), {"--preset", "smoke", "--trace", (scratch.path() / "new" / "t").string()});
  EXPECT_EQ(ran.code, 0) << ran.err;
  for (const char* file : {"t.toy.plain.json", "t.toy.twin.json"}) {
    const std::string trace = tenfold::test::read_text(scratch.path() / "new" / file);
    EXPECT_THAT(trace, HasSubstr("traceEvents")) << file;
  }
}

}  // namespace
