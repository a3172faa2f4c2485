#include "../data/scratch.h"
#include "toy.h"

#include <gmock/gmock.h>

#include <ATen/autocast_mode.h>

#include <set>

#include <tenfold/fingerprint.h>
#include <tenfold/global_state.h>

#include "support.h"

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

TEST(Run, AValidLessonGetsRoundsPeaksSplitAndAVerdict) {
  const auto ran = toy::run(toy::lesson(), {"--preset", "quick", "--rounds", "6"});
  EXPECT_EQ(ran.code, 0) << ran.err;
  ASSERT_TRUE(ran.wrote);
  const auto& twin = variant(ran, "twin");
  EXPECT_EQ(twin.rounds.size(), 6U);
  EXPECT_EQ(variant(ran, "plain").rounds.size(), 6U);
  EXPECT_EQ(variant(ran, "plain").rounds_b.size(), 6U);
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
  EXPECT_EQ(ran.result.argv, (std::vector<std::string>{"--preset=quick", "--rounds", "5"}));
}

TEST(Run, AVariantTakesEveryPositionInTurn) {
  const auto ran = toy::run(toy::lesson(), {"--preset", "quick", "--rounds", "6"});
  std::set<int> positions;
  for (const auto& round : variant(ran, "twin").rounds) positions.insert(round.position);
  EXPECT_EQ(positions, (std::set<int>{0, 1, 2}));
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
  EXPECT_TRUE(variant(ran, "broken").rounds.empty());
  EXPECT_EQ(variant(ran, "twin").status, "ok") << "one broken variant must not spoil the others";
}

INSTANTIATE_TEST_SUITE_P(All, BrokenVariants,
                         testing::Values(Broken{"scale", toy::wrong_scale, "gradient norm of"},
                                         Broken{"nan", toy::not_a_number, "not finite"}, Broken{"memory", toy::out_of_memory, "memory"},
                                         Broken{"throws", toy::throws, "a sentence that says"}),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(Run, ATrapThatIsCaughtIsNoError) {
  auto lesson = toy::lesson();
  lesson.techniques = {{"trap", toy::wrong_scale}};
  lesson.cases = {{"toy", {}, {{"trap", {ANY, ANY, INVALID}}}}};
  const auto ran = toy::run(lesson, {"--preset", "smoke"});
  EXPECT_EQ(ran.code, 0);
  EXPECT_EQ(verdict(ran, "trap").as_expected, true);
}

TEST(Run, ATrapThatIsNotCaughtIsAnError) {
  auto lesson = toy::lesson();
  lesson.cases = {{"toy", {}, {{"twin", {ANY, ANY, INVALID}}}}};
  const auto ran = toy::run(lesson, {"--preset", "smoke"});
  EXPECT_EQ(ran.code, 1);
  EXPECT_EQ(verdict(ran, "twin").as_expected, false);
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
  lesson.techniques.push_back({"elsewhere", toy::cannot});
  const auto ran = toy::run(lesson, {"--preset", "smoke"});
  EXPECT_EQ(ran.code, 0);
  EXPECT_EQ(variant(ran, "elsewhere").status, "skipped");
  EXPECT_EQ(variant(ran, "elsewhere").reason, "needs a device that is not here");
}

TEST(Run, NothingToRunIs77) {
  auto lesson = toy::lesson();
  lesson.baseline = {"elsewhere", toy::cannot};
  lesson.techniques = {{"too", toy::cannot}};
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
  lesson.techniques = {{"sets flags", sets_flags, nullptr, tenfold::Agreement::within(0.02, "autocast rounds")}, {"twin", toy::plain}};
  const auto before = tenfold::GlobalState::capture(torch::kCPU);
  const auto ran = toy::run(lesson, {"--preset", "smoke"});
  EXPECT_GT(verdict(ran, "sets flags").agreement->worst.value(), 0) << "the flags must have had an effect";
  EXPECT_EQ(verdict(ran, "twin").agreement->worst, 0) << "the twin ran with another variant's flags";
  EXPECT_TRUE(tenfold::GlobalState::capture(torch::kCPU).same_flags(before));
}

TEST(Run, AFoundationCaseOnlyNotes) {
  tenfold::Lesson lesson = toy::lesson();
  const auto noting = [](const toy::Trial& trial) -> toy::Step {
    if (trial.get("counted", 0) == 0) return toy::plain(trial);
    trial.note("counted", 3, "things");
    return {};
  };
  lesson.baseline.build = lesson.techniques[0].build = noting;
  lesson.cases.push_back({"counted", {{"counted", 1}}, {}, "foundation"});
  const auto ran = toy::run(lesson, {"--preset", "smoke"});
  EXPECT_EQ(ran.code, 0) << ran.err;
  ASSERT_EQ(ran.result.cases.size(), 2U);
  EXPECT_FALSE(ran.result.foundation);
  EXPECT_EQ(ran.result.cases[0].verdicts.size(), 1U);
  const tenfold::CaseResult& counted = ran.result.cases[1];
  EXPECT_EQ(counted.workload, "foundation");
  EXPECT_TRUE(counted.verdicts.empty());
  for (const auto& variant : counted.variants) {
    EXPECT_EQ(variant.status, "ok");
    EXPECT_TRUE(variant.rounds.empty());
    EXPECT_EQ(variant.notes.at("counted").value, 3);
  }
}

TEST(Run, NotesSettingsAndBytesSentAreRecorded) {
  auto lesson = toy::lesson();
  const auto noting = [](const tenfold::Trial& trial) {
    trial.note("skipped steps", 3, "steps");
    trial.note("bytes sent", 1024, "B");
    return toy::plain(trial);
  };
  lesson.techniques = {{"noting", noting}};
  const auto ran = toy::run(lesson, {"--preset", "smoke", "--set", "repeat=2"});
  EXPECT_EQ(variant(ran, "noting").notes.at("skipped steps").value, 3);
  EXPECT_EQ(variant(ran, "noting").bytes_sent, 1024);
  EXPECT_EQ(ran.result.cases[0].settings.at("repeat"), 2);
}

TEST(Run, ASweepMeasuresEachValueAsACase) {
  const auto ran = toy::run(toy::lesson(), {"--preset", "smoke", "--sweep", "repeat=1,2,3"});
  ASSERT_EQ(ran.result.cases.size(), 3U);
  EXPECT_EQ(ran.result.cases[2].name, "toy repeat=3");
  EXPECT_EQ(ran.result.cases[2].settings.at("repeat"), 3);
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
  EXPECT_EQ(baseline.setting("repeat"), 1);
  EXPECT_EQ(ran.result.machine.ceilings.size(), 3U);
  EXPECT_NEAR(verdict(ran, "twin").prediction_error.at("peak"), 0, 0.02);
  EXPECT_TRUE(verdict(ran, "twin").prediction_error.contains("speed"));
}

TEST(Run, BadUsageIsOneLineAndWritesNothing) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> calls = {
      {{"--preset", "slow"}, "--preset slow"},   {{"--device", "tpu"}, "--device tpu"},     {{"--set", "repat=2"}, "repat"},
      {{"--set", "repeat"}, "NAME=VALUE"},       {{"--set", "repeat=two"}, "not a number"}, {{"--case", "other"}, "--case other"},
      {{"--only", "nothing"}, "--only nothing"}, {{"--rounds", "0"}, "--rounds 0"},         {{"--frobnicate"}, "--help"},
      {{"--size", "huge"}, "--size huge"},       {{"--threads", "0"}, "--threads 0"},       {{"--sweep", "repeat=1,,2"}, "not a number"}};
  for (const auto& [flags, text] : calls) {
    const auto ran = toy::run(toy::lesson(), flags);
    EXPECT_EQ(ran.code, 2) << flags[0] << ": " << ran.err;
    EXPECT_THAT(ran.err, HasSubstr(text));
    EXPECT_EQ(std::count(ran.err.begin(), ran.err.end(), '\n'), 1) << ran.err;
    EXPECT_FALSE(ran.wrote) << flags[0];
  }
}

TEST(Run, AFractionWhereAWholeNumberIsNeededIsInvalid) {
  const auto ran = toy::run(toy::lesson(), {"--preset", "smoke", "--set", "repeat=1.5"});
  EXPECT_EQ(ran.code, 1);
  EXPECT_THAT(variant(ran, "plain").reason, HasSubstr("whole number"));
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
    for (const std::string& path : {file + "/result.json", std::string("/proc/none/result.json"), std::string("/dev/full/result.json")}) {
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
  const std::string earlier = (scratch.path() / "earlier.json").string(), deep = (scratch.path() / "new" / "deep").string();
  const auto ran = toy::run_plain(toy::lesson(), {"--preset", "smoke", "--set", "repat=2", "--json", earlier, "--trace", deep});
  EXPECT_EQ(ran.code, 2) << ran.err;
  EXPECT_EQ(tenfold::test::read_text(earlier), "kept");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(scratch.path()), {}), 1) << "something was left behind";
}

TEST(Run, TracesGoToTheFolderOfTheirFile) {
  const tenfold::test::Scratch scratch;
  const auto ran = toy::run_plain(toy::lesson(), {"--preset", "smoke", "--trace", (scratch.path() / "new" / "t").string()});
  EXPECT_EQ(ran.code, 0) << ran.err;
  for (const char* file : {"t.toy.plain.json", "t.toy.twin.json"}) {
    const std::string trace = tenfold::test::read_text(scratch.path() / "new" / file);
    EXPECT_THAT(trace, HasSubstr("traceEvents")) << file;
  }
}

}  // namespace
