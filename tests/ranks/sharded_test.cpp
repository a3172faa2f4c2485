// Sharded training through the real driver, torchrun and Gloo: what agrees, what a forgotten shard shows, what the
// harness counts, and how cases of several numbers of ranks become one result.
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "common/base/text.h"
#include "tests/cli/sandbox.h"

namespace tenfold {
namespace {

namespace fs = std::filesystem;

// As in sharded_lesson.cpp.
constexpr int64_t kParameters = 185, kBatch = 16, kInputs = 12, kHidden = 10, kOutputs = 5;
constexpr const char* kAll =
    "--case 'zero over 4' --case alone --case 'zero over 2' --case plane --case size --ranks 2,4";

class Sharded : public Sandbox {
 protected:
  void SetUp() override {
    if (!fs::exists(test::environment_program("torchrun"))) GTEST_SKIP() << "no torchrun";
    fs::create_directory_symlink(test::source_folder() / ".venv", root_ / ".venv");
    const fs::path lesson = root_ / "build/lessons/98_sharded";
    fs::create_directories(lesson.parent_path());
    fs::create_symlink(test::build_folder() / "tests/sharded_lesson", lesson);
    ASSERT_EQ(std::system((lesson.string() + " --describe >" + lesson.string() + ".describe.json").c_str()), 0);
  }

  /// Runs it at preset smoke on the CPU; `result_` is what it wrote to `file`.
  Ran run(const std::string& flags, const std::string& before = "", const fs::path& file = "98_sharded.json") {
    fs::remove(out_ / file);
    const Ran ran = tenfold("run 98 --preset smoke --device cpu " + flags, before);
    result_ = fs::exists(out_ / file) ? read_result(out_ / file) : Result{};
    return ran;
  }

  /// With this number of ranks, where that is needed to tell it.
  const CaseResult& of(const std::string& name, int64_t ranks = 0) const {
    for (const CaseResult& c : result_.cases) {
      if (c.name == name && (ranks == 0 || c.ranks == ranks)) return c;
    }
    throw std::out_of_range(name);
  }
  static const VariantResult& variant(const CaseResult& c, const std::string& name) {
    for (const VariantResult& v : c.variants) {
      if (v.name == name) return v;
    }
    throw std::out_of_range(name);
  }
  static const Verdict& verdict(const CaseResult& c, const std::string& name) {
    for (const Verdict& v : c.verdicts) {
      if (v.technique == name) return v;
    }
    throw std::out_of_range(name);
  }

  /// Agrees with one process, though not bit for bit, and the check could have noticed.
  static void expect_valid(const CaseResult& c, const std::string& name) {
    EXPECT_EQ(variant(c, name).status, "ok") << c.name << ", " << name << ": " << variant(c, name).reason;
    ASSERT_TRUE(verdict(c, name).agreement) << c.name;
    EXPECT_TRUE(verdict(c, name).agreement->pass);
    EXPECT_GT(verdict(c, name).agreement->power.value_or(0), 0.01);
  }
  static void expect_caught(const CaseResult& c, const std::string& name, const std::string& reason) {
    EXPECT_EQ(variant(c, name).failure, "disagrees") << c.name << ", " << name;
    EXPECT_TRUE(has(variant(c, name).reason, reason)) << c.name << ", " << name << ": " << variant(c, name).reason;
    EXPECT_TRUE(verdict(c, name).as_expected.caught.value_or(false));
  }
  static void expect_asked(const CaseResult& c, const std::string& name, const std::map<std::string, int64_t>& bytes) {
    EXPECT_EQ(variant(c, name).sent_bytes, bytes) << c.name << ", " << name;
    for (const auto& [collective, none] : bytes)
      EXPECT_EQ(variant(c, name).counted.at("calls of " + collective), 1) << c.name << ", " << collective;
  }

  Result result_;
};

TEST_F(Sharded, WholeParametersAgreeAndOneForgottenShardIsInvalid) {
  const Ran ran = run(kAll, "", "ranks/98_sharded.json");
  ASSERT_EQ(ran.code, 0) << ran.out << ran.err;
  std::vector<std::string> names;
  for (const CaseResult& c : result_.cases) names.push_back(c.name);
  EXPECT_EQ(joined(names), "size, zero over 4, alone, zero over 2, plane, plane")
      << "the lesson's order, whatever was started first, and what the flag names once for each number";

  for (const int64_t ranks : {2, 4}) {
    const CaseResult& zero = of("zero over " + std::to_string(ranks));
    EXPECT_EQ(zero.ranks, ranks);
    EXPECT_EQ(zero.mesh, (std::map<std::string, int64_t>{{"dp", ranks}}));
    expect_valid(zero, "sharded");
    expect_caught(zero, "update of rank 1 forgotten", "update, most in ");
    expect_caught(zero, "part of rank 1 not gathered", "deviates by ");
    expect_caught(zero, "last rank gathers wrongly", "on rank " + std::to_string(ranks - 1) + ": ");
    const int64_t padded = 4 * ranks * ((kParameters + ranks - 1) / ranks);
    expect_asked(zero, "sharded", {{"all_gather", padded}, {"reduce_scatter", padded}});
    EXPECT_TRUE(variant(zero, "one process").sent_bytes.empty());

    const int64_t dp = ranks / 2, tp = 2;
    const CaseResult& plane = of("plane", ranks);
    EXPECT_EQ(plane.mesh, (std::map<std::string, int64_t>{{"dp", dp}, {"tp", tp}}));
    expect_valid(plane, "tensor parallel");
    expect_caught(plane, "update of tp 1 forgotten", "update, most in ");
    const int64_t part = (kInputs * kHidden + kHidden + kHidden * kOutputs) / tp + kOutputs;
    expect_asked(plane, "tensor parallel",
                 {{"all_reduce over dp", 4 * part}, {"all_reduce over tp", 4 * kBatch / dp * kOutputs}});
  }
  EXPECT_EQ(of("alone").ranks, 1);
  EXPECT_EQ(verdict(of("alone"), "twin").agreement->worst, 0);
  EXPECT_EQ(of("size").variants.at(0).notes.at("parameters").value, kParameters);
  EXPECT_EQ(result_.argv.front(), "--case") << "as it was typed, whatever each start got";
  EXPECT_TRUE(has(ran.out, "asked of all_gather in a step"));

  const Ran compared = tenfold("compare --across ranks '" + (out_ / "ranks").string() + "'");
  EXPECT_EQ(compared.code, 0) << compared.err;
  EXPECT_TRUE(has(compared.out, "2 -> 4, strong")) << compared.out;
  EXPECT_EQ(has(compared.out, "crowded: "), result_.machine.cores < 4) << compared.out;
  EXPECT_TRUE(has(compared.out, "2 rows: ranks is 1 only")) << compared.out;
}

// Before anything is started.
TEST_F(Sharded, NumbersOfRanksThatTheMeshHasNoPlacesForAreRefused) {
  const auto refused = [&](const std::string& flags) {
    const Ran ran = run(flags);
    EXPECT_EQ(ran.code, 2) << flags;
    EXPECT_EQ(ran.out, "") << flags;
    return ran.err;
  };
  EXPECT_EQ(refused("--ranks 2,3"), "tenfold: --ranks 3: 'plane' needs a multiple of 2\n");
  EXPECT_EQ(
      refused("--case alone --case 'zero over 2' --ranks 2"),
      "tenfold: --ranks: none of 'alone', 'zero over 2' runs on as many ranks as there are; leave the flag out\n");
  EXPECT_TRUE(has(refused("--case plane --ranks 2,4 --sweep a=1"), "a sweep is of one number of ranks"));
  EXPECT_TRUE(has(refused("--case plane --ranks 2,4 --trace t"), "the traces would have the same names"));
}

// Whatever a case can have, a training and a survey can.
TEST_F(Sharded, TrainingsAndSurveysHavePlacesToo) {
  const Ran ran = run("--case 'trained by two' --case 'rank of two' --case elsewhere --rounds 1");
  ASSERT_EQ(ran.code, 0) << ran.out << ran.err;
  ASSERT_EQ(result_.cases.size(), 3U);
  const CaseResult& training = of("trained by two");
  EXPECT_EQ(training.ranks, 2);
  EXPECT_EQ(training.mesh, (std::map<std::string, int64_t>{{"dp", 2}}));
  const double alone = variant(training, "one process").quality.at("loss").at(0);
  EXPECT_NEAR(variant(training, "sharded").quality.at("loss").at(0), alone, 1e-4 * alone) << "gathered from both ranks";
  EXPECT_GT(variant(training, "one process").peak().value_or(0), 4 * kParameters);
  EXPECT_GT(variant(training, "one process").curves->at(0).items.value_or(0), 0);
  EXPECT_EQ(of("rank of two").ranks, 2);
  EXPECT_EQ(of("rank of two").variants.at(0).notes.at("rank").value, 0) << "rank 0 writes the result";
  EXPECT_EQ(of("elsewhere").variants.at(0).notes.at("set").value, 1);
  EXPECT_EQ(of("elsewhere").variants.at(0).environment.at("TENFOLD_TEST_PLACE"), "there");
}

TEST_F(Sharded, SpeedOfMoreRanksThanCoresIsWithheld) {
  const Ran ran = run("--case plane --ranks 4 --case alone --rounds 6");
  ASSERT_EQ(ran.code, 0) << ran.out << ran.err;
  const SpeedResult& speed = verdict(of("plane"), "tensor parallel").speed;
  const int64_t cores = result_.machine.cores;
  EXPECT_EQ(has(ran.out, "no verdict on speed: 4 ranks take turns on " + std::to_string(cores)), cores < 4) << ran.out;
  EXPECT_EQ(speed.ratio.has_value(), cores >= 4);
  if (cores < 4) EXPECT_EQ(speed.label, "UNDECIDED");
  EXPECT_TRUE(verdict(of("alone"), "twin").speed.ratio);
}

TEST_F(Sharded, NamesAndShapesOtherThanTheBaselinesAreRefusedInASentence) {
  const Ran ran = run("--case refused");
  EXPECT_EQ(ran.code, 1) << ran.out << ran.err;
  const auto reason = [&](const char* name) {
    EXPECT_EQ(variant(of("refused"), name).status, "invalid");
    return variant(of("refused"), name).reason;
  };
  EXPECT_EQ(reason("gathers other names"),
            "the gathered parameters lack 'first.weight' of the baseline's; they are net.first.weight, net.first.bias, "
            "net.second.weight, net.second.bias");
  EXPECT_EQ(reason("gathers its own part"),
            "parameter first.weight was gathered as [93], the baseline's is [10, 12]: they cannot be compared");
  EXPECT_TRUE(has(ran.out, "INVALID"));
}

// One start, and no launcher for one rank.
TEST_F(Sharded, AChosenCaseStartsOnlyItsOwnRanks) {
  const Ran ran = run("--case alone", "env PATH=/usr/bin:/bin");
  EXPECT_EQ(ran.code, 0) << ran.err;
  ASSERT_EQ(result_.cases.size(), 1U);
  fs::remove(root_ / ".venv");
  EXPECT_EQ(run("--case alone").code, 0) << "one rank needs no torchrun";
  const Ran missing = run("--case 'zero over 2'");
  EXPECT_EQ(missing.code, 2);
  EXPECT_TRUE(has(missing.err, "runs on 2 ranks and ")) << missing.err;
}

// Else the result's file gets the number of the closed stream, and what is said goes into it.
TEST_F(Sharded, AClosedStreamCostsNoResult) {
  for (const char* closed : {"2>&-", ">&-", "<&- >&- 2>&-"}) {
    const fs::path json = root_ / "io/closed.json";
    const std::string program = (test::build_folder() / "tests/sharded_lesson").string();
    const int status = std::system(
        (program + " --preset smoke --device cpu --case alone --rounds 1 --json '" + json.string() + "' " + closed)
            .c_str());
    EXPECT_EQ(status, 0) << closed;
    EXPECT_EQ(read_result(json).cases.size(), 1U) << closed;
    fs::remove(json);
  }
}

// Each rank that the user's torchrun has started is this driver.
TEST_F(Sharded, WithinALauncherItRunsWhatFits) {
  const Ran ran = run("", test::environment_program("torchrun").string() +
                              " --standalone --local-addr 127.0.0.1 --nproc_per_node 2 --no-python");
  ASSERT_EQ(result_.cases.size(), 5U) << ran.out << ran.err;
  for (const CaseResult& c : result_.cases) EXPECT_EQ(c.ranks, 2);
  expect_valid(of("zero over 2"), "sharded");
  expect_valid(of("plane"), "tensor parallel");
  EXPECT_EQ(ran.code, 1) << "by the case that is there to be refused";
  EXPECT_EQ(variant(of("refused"), "gathers its own part").status, "invalid");
  EXPECT_TRUE(has(ran.out,
                  "not run, since they need another number of ranks: size, elsewhere, zero over 4, "
                  "alone;"))
      << ran.out;
}

}  // namespace
}  // namespace tenfold
