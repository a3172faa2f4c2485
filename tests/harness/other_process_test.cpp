// Variants that run in another process, next to others that do not: other_process_toy.cpp is the lesson.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "common/base/process.h"
#include "common/base/seconds_since.h"
#include "common/result/result.h"
#include "tests/support/support.h"

namespace {

namespace fs = std::filesystem;
using tenfold::VariantResult;
using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

const std::string kProgram = (tenfold::test::build_folder() / "tests" / "other_process_toy").string();

/// The processes that have this variable in their environment: all that a run has started.
std::vector<pid_t> processes_with(const std::string& variable) {
  std::vector<pid_t> processes;
  for (const auto& entry : fs::directory_iterator("/proc")) {
    const std::string name = entry.path().filename().string();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    std::ifstream file(entry.path() / "environ");
    std::ostringstream text;
    text << file.rdbuf();
    if (text.str().find(variable) != std::string::npos) processes.push_back(std::stoi(name));
  }
  return processes;
}

/// One run of the program, with a mark in the environment of all that it starts.
class Ran {
 public:
  /// `meanwhile(pids)` is asked several times a second with the processes that run; true ends the asking.
  explicit Ran(std::vector<std::string> words, const std::function<bool(const Ran&)>& meanwhile = nullptr,
               std::map<std::string, std::string> environment = {}) {
    environment.insert({{"TOY_RUN", mark_}, {"TOY_STEPPING", stepping().string()}});
    words.insert(words.begin(), {kProgram, "--json", json().string()});
    bool asked = meanwhile == nullptr;
    end = tenfold::run_child({.arguments = words, .environment = environment, .errors_from = "", .limit_s = 120},
                             {.output = [&](const std::string& text) { out += text; },
                              .line = [&](const std::string& line) { err += line + "\n"; },
                              .tick = [&] { asked = asked || meanwhile(*this); }});
    if (fs::exists(json())) result = tenfold::read_result(json());
  }

  std::vector<pid_t> processes() const { return processes_with("TOY_RUN=" + mark_); }
  fs::path json() const { return folder_.path() / "result.json"; }
  fs::path stepping() const { return folder_.path() / "stepping"; }

  const VariantResult& variant(const std::string& name) const {
    for (const auto& measured : result.cases) {
      if (const VariantResult* const variant = tenfold::variant_of(measured, name)) return *variant;
    }
    throw std::out_of_range(name + " in:\n" + out + err);
  }
  const tenfold::Verdict& verdict(const std::string& name) const {
    for (const auto& measured : result.cases) {
      if (const auto* const verdict = tenfold::verdict_of(measured, name)) return *verdict;
    }
    throw std::out_of_range(name + " in:\n" + out + err);
  }

  tenfold::End end;
  std::string out, err;
  tenfold::Result result;

 private:
  tenfold::test::Scratch folder_;
  std::string mark_ = folder_.path().filename().string();
};

TEST(OtherProcess, IsInterleavedWithThisOneAndAgreesExactly) {
  const Ran ran({"--case", "toy", "--preset", "quick", "--rounds", "6"});
  ASSERT_EQ(ran.end.code, 0) << ran.out << ran.err;
  const VariantResult &elsewhere = ran.variant("elsewhere"), &here = ran.variant("here");
  ASSERT_EQ(elsewhere.blocks.size(), 1U);
  EXPECT_EQ(elsewhere.blocks[0].size(), 6U);
  EXPECT_EQ(elsewhere.blocks[0].items, 64 * elsewhere.blocks[0].steps);
  for (size_t i = 0; i < 6; ++i) {
    EXPECT_GT(elsewhere.blocks[0].wall_ns[i], 0);
    EXPECT_GT(elsewhere.blocks[0].processor_ns[i], 0);
    // One thread: its own time, and not what it waited for us.
    EXPECT_LT(elsewhere.blocks[0].processor_ns[i], 2 * elsewhere.blocks[0].wall_ns[i]);
  }
  const tenfold::Verdict& verdict = ran.verdict("elsewhere");
  ASSERT_TRUE(verdict.agreement);
  EXPECT_TRUE(verdict.agreement->pass);
  EXPECT_EQ(verdict.agreement->worst, 0);
  EXPECT_EQ(elsewhere.losses, here.losses);
  EXPECT_EQ(elsewhere.losses.size(), 4U);
  EXPECT_TRUE(verdict.speed.ratio);
  EXPECT_EQ(verdict.memory.label, "SAME");
  // malloc may round equal requests differently.
  EXPECT_NEAR(elsewhere.peak_bytes.at("allocated"), here.peak_bytes.at("allocated"), 256);
  ASSERT_TRUE(elsewhere.timeline);
  ASSERT_TRUE(elsewhere.split);
  EXPECT_GT(elsewhere.split->device, 0);
  EXPECT_THAT(ran.processes(), testing::IsEmpty());
}

TEST(OtherProcess, ItsRowStatesItsEnvironmentWhichNobodyElseHas) {
  const Ran ran({"--case", "toy", "--preset", "check"});
  ASSERT_EQ(ran.end.code, 0) << ran.out << ran.err;
  EXPECT_EQ(ran.variant("elsewhere").environment.at("TOY_MARK"), "seen");
  EXPECT_EQ(ran.variant("elsewhere").environment.at("process"), "of its own");
  EXPECT_FALSE(ran.variant("here").environment.contains("TOY_MARK"));
  EXPECT_FALSE(ran.variant("here").environment.contains("process"));
  EXPECT_THAT(ran.out, HasSubstr("TOY_MARK=seen"));
  // It notes the process that has started it: this lesson's, which was started by us.
  EXPECT_NE(ran.variant("elsewhere").notes.at("started by").value, getpid());
  EXPECT_EQ(ran.variant("here").notes.at("started by").value, getpid());
  EXPECT_EQ(ran.result.cases.at(0).settings.at("repeat"), tenfold::SettingValue(int64_t{1}));
}

TEST(OtherProcess, HasTheSettingsThatWereTyped) {
  const Ran ran({"--case", "toy", "--only", "elsewhere", "--preset", "check", "--sweep", "repeat=2,3", "--seed", "7"});
  ASSERT_EQ(ran.end.code, 0) << ran.out << ran.err;
  ASSERT_EQ(ran.result.cases.size(), 2U);
  EXPECT_EQ(ran.result.cases[1].settings.at("repeat"), tenfold::SettingValue(int64_t{3}));
  for (const tenfold::CaseResult& measured : ran.result.cases)
    EXPECT_TRUE(tenfold::verdict_of(measured, "elsewhere")->agreement->pass) << "another seed or setting: " << ran.out;
}

TEST(OtherProcess, OneThatTheEnvironmentLeadsAstrayIsCaught) {
  const Ran ran({"--case", "wrong", "--preset", "check"});
  EXPECT_EQ(ran.end.code, 0) << ran.out << ran.err;
  EXPECT_EQ(ran.variant("wrong there").status, "invalid");
  EXPECT_EQ(ran.variant("wrong there").failure, "disagrees");
  EXPECT_EQ(ran.verdict("wrong there").as_expected.caught, true);
}

// Each process has the card for itself: the same step takes the same there.
TEST(OtherProcess, IsCountedAndTimedOnADryGpu) {
  const Ran ran({"--device", "dry:H100", "--case", "toy", "--preset", "quick", "--rounds", "6"});
  ASSERT_EQ(ran.end.code, 0) << ran.out << ran.err;
  const VariantResult &elsewhere = ran.variant("elsewhere"), &here = ran.variant("here");
  EXPECT_EQ(elsewhere.status, "ok") << elsewhere.reason;
  EXPECT_GT(elsewhere.peak_bytes.at("allocated"), 2 * 200 * 50 * 4);
  EXPECT_EQ(elsewhere.peak_bytes, here.peak_bytes);
  EXPECT_GT(elsewhere.counted.at("launches"), 5);
  EXPECT_EQ(elsewhere.counted.at("launches"), here.counted.at("launches"));
  ASSERT_EQ(elsewhere.blocks.size(), 1U);
  EXPECT_EQ(elsewhere.blocks[0].size(), 6U);
  ASSERT_TRUE(elsewhere.split);
  EXPECT_NEAR(elsewhere.split->device, here.split->device, 1e-3 * here.split->device) << "the same kernels, modelled";
}

TEST(OtherProcess, IsComputedOnADryGpu) {
  const Ran ran({"--device", "dry:H100", "--case", "toy", "--case", "wrong", "--preset", "check"}, nullptr,
                {{"TENFOLD_DRY_ARITHMETIC", "late"}});
  ASSERT_EQ(ran.end.code, 0) << ran.out << ran.err;
  ASSERT_TRUE(ran.verdict("elsewhere").agreement);
  EXPECT_TRUE(ran.verdict("elsewhere").agreement->pass);
  EXPECT_EQ(ran.variant("elsewhere").losses, ran.variant("here").losses);
  EXPECT_FALSE(ran.variant("elsewhere").losses.empty());
  EXPECT_EQ(ran.verdict("wrong there").as_expected.caught, true);
}

TEST(OtherProcess, OfAnotherProgramADryGpuSaysNothing) {
  const Ran ran({"--device", "dry:H100", "--case", "twin", "--preset", "check"});
  EXPECT_EQ(ran.variant("twin").status, "skipped");
  EXPECT_THAT(ran.variant("twin").reason, HasSubstr("another program runs it"));
}

TEST(OtherProcess, WhateverBecomesOfItIsItsOwnAffair) {
  const Ran ran({"--case", "failures", "--preset", "smoke"});
  EXPECT_EQ(ran.end.code, 1) << ran.out << ran.err;
  EXPECT_EQ(ran.variant("plain").status, "ok");
  const auto expect_failed = [&](const std::string& name, const std::string& failure, const auto& reason) {
    EXPECT_EQ(ran.variant(name).status, "invalid") << name;
    EXPECT_EQ(ran.variant(name).failure, failure) << name;
    EXPECT_THAT(ran.variant(name).reason, reason) << name;
  };
  expect_failed("killed", "error", AllOf(HasSubstr("was ended by SIGKILL"), HasSubstr("before update 2")));
  expect_failed("leaves", "error", "its process ended with exit code 5: last words");
  expect_failed("throws", "error", "a sentence that says what is wrong");
  expect_failed("out of memory", "out_of_memory", testing::Not(HasSubstr("\n")));
  expect_failed("not a number", "not_finite", HasSubstr("not finite"));
  expect_failed("no program", "error", "/no/such/program cannot be started: No such file or directory");
  expect_failed("no protocol", "error", "its process ended with exit code 3: what messages?");
  EXPECT_EQ(ran.variant("skips").status, "skipped");
  EXPECT_EQ(ran.variant("skips").reason, "needs a device that is not here");
  EXPECT_THAT(ran.processes(), testing::IsEmpty());
}

TEST(OtherProcess, ATwinInPythonAgreesAndIsTimed) {
  const Ran ran({"--case", "twin", "--preset", "smoke"});
  ASSERT_EQ(ran.end.code, 0) << ran.out << ran.err;
  const VariantResult& twin = ran.variant("twin");
  EXPECT_EQ(twin.status, "ok") << twin.reason;
  EXPECT_TRUE(ran.verdict("twin").agreement->pass);
  EXPECT_EQ(twin.blocks.at(0).size(), 2U);
  EXPECT_EQ(twin.notes.at("Python's repeats").value, 2) << "the case's setting";
  EXPECT_THAT(twin.environment.at("process"), StartsWith("python "));
  EXPECT_THAT(twin.environment.at("split"), HasSubstr("another program runs it"));
  EXPECT_THAT(twin.environment.at("memory"), HasSubstr("not counted"));
  EXPECT_FALSE(twin.peak());
  EXPECT_THAT(ran.processes(), testing::IsEmpty());
}

TEST(OtherProcess, ATwinInPythonMaySkip) {
  const Ran ran({"--case", "twin", "--preset", "check", "--set", "repeat=13"});
  EXPECT_EQ(ran.variant("twin").status, "skipped") << ran.out;
  EXPECT_EQ(ran.variant("twin").reason, "does not repeat so often");
}

TEST(OtherProcess, CanBeDrivenByHand) {
  const Ran ran({"--case", "by hand"});
  ASSERT_EQ(ran.end.code, 0) << ran.out << ran.err;
  const auto& notes = ran.variant("killed and built again").notes;
  for (const char* const name : {"gone", "another", "the same losses", "ended well"})
    EXPECT_EQ(notes.at(name).value, 1) << name;
  EXPECT_EQ(notes.at("losses").value, 3);
  EXPECT_GT(notes.at("seconds").value, 0);
  EXPECT_EQ(notes.at("scale").value, 3) << "of the process that was built last";
  EXPECT_THAT(ran.processes(), testing::IsEmpty());
}

pid_t parent_of(pid_t process) {
  std::ifstream file("/proc/" + std::to_string(process) + "/stat");
  std::ostringstream text;
  text << file.rdbuf();
  std::istringstream behind_name(text.str().substr(text.str().rfind(')') + 1));
  std::string state;
  pid_t parent = 0;
  behind_name >> state >> parent;
  return parent;
}

/// Waits until the other process is in the middle of a block, then does something to the lesson's: the one that started
/// the other. Which number is smaller says nothing, since the numbers of processes begin again.
std::function<bool(const Ran&)> when_stepping(const std::function<void(pid_t)>& work) {
  return [work](const Ran& ran) {
    const std::vector<pid_t> processes = ran.processes();
    if (!fs::exists(ran.stepping()) || processes.size() != 2) return false;
    work(processes[parent_of(processes[0]) == processes[1] ? 1 : 0]);
    return true;
  };
}

void expect_none_left(const Ran& ran) {
  const auto begin = std::chrono::steady_clock::now();
  while (!ran.processes().empty() && tenfold::seconds_since(begin) < 30)
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_THAT(ran.processes(), testing::IsEmpty());
}

TEST(OtherProcess, EndsWithTheLessonThatIsKilled) {
  const Ran ran({"--case", "endless", "--preset", "check"}, when_stepping([](pid_t lesson) { kill(lesson, SIGKILL); }));
  EXPECT_EQ(ran.end.signal, SIGKILL) << ran.out << ran.err;
  expect_none_left(ran);
}

TEST(OtherProcess, EndsWithTheLessonThatIsInterruptedTwice) {
  const Ran ran({"--case", "endless", "--preset", "check"}, when_stepping([](pid_t lesson) {
                  kill(lesson, SIGINT);  // waits for the step, as it would for its own
                  std::this_thread::sleep_for(std::chrono::milliseconds(100));
                  kill(lesson, SIGINT);
                }));
  EXPECT_EQ(ran.end.signal, SIGINT) << ran.out << ran.err;
  expect_none_left(ran);
}

TEST(OtherProcess, IsDescribed) {
  std::string out;
  tenfold::run_child({.arguments = {kProgram, "--describe"}, .environment = {}, .errors_from = ""},
                     {.output = [&](const std::string& text) { out += text; }, .line = [](const std::string&) {}});
  const auto described = nlohmann::json::parse(out);
  EXPECT_EQ(described.at("processes").at("elsewhere").at("TOY_MARK"), "seen");
  EXPECT_FALSE(described.at("processes").contains("here"));
}

TEST(OtherProcess, ServingIsForTheHarness) {
  std::string err;
  const auto end =
      tenfold::run_child({.arguments = {kProgram, "--serve", "elsewhere"}, .environment = {}, .errors_from = ""},
                         {.output = [](const std::string&) {}, .line = [&](const std::string& line) { err += line; }});
  EXPECT_EQ(end.code, 2);
  EXPECT_THAT(err, HasSubstr("for the harness"));
}

}  // namespace
