// tour, run, list: lessons as processes, their progress, their ends, and what is kept of them.
#include <chrono>
#include <csignal>
#include <nlohmann/json.hpp>

#include "sandbox.h"

namespace tenfold {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

class RunLessons : public Sandbox {
 protected:
  void four_endings() {
    add_lesson("10_good", "echo '@progress 0.5 case R2: time pass' >&2; echo its table; hand_out");
    add_lesson("11_wrong", "hand_out; exit 1");
    add_lesson("12_absent", "exit 77");
    add_lesson("13_crash", "echo something bad >&2; kill -SEGV $$");
  }
};

TEST_F(RunLessons, TourOverEveryKindOfEnd) {
  four_endings();
  const Ran ran = tenfold("tour");
  EXPECT_EQ(ran.code, 1);
  EXPECT_TRUE(has(ran.out, "10 Gradient accumulation")) << ran.out;
  EXPECT_TRUE(has(ran.out, "SLOWER 0.80"));
  EXPECT_TRUE(has(ran.out, "Not run:"));
  EXPECT_TRUE(has(ran.out, "12_absent"));
  EXPECT_TRUE(has(ran.out, "SIGSEGV"));
  EXPECT_TRUE(has(ran.out, "report.html"));
  EXPECT_FALSE(has(ran.out, "its table")) << "a lesson's own table belongs in its log";
  EXPECT_FALSE(has(ran.err, "@progress"));
  EXPECT_TRUE(has(read(out_ / "10_good.log"), "its table"));
  EXPECT_TRUE(has(read(out_ / "13_crash.log"), "something bad"));
  EXPECT_TRUE(has(read("out/report.html"), "SIGSEGV"));
  EXPECT_NO_THROW(read_result(out_ / "10_good.json"));
}

TEST_F(RunLessons, TourWithoutFailuresIsFine) {
  add_lesson("10_good", "hand_out");
  add_lesson("12_absent", "exit 77");
  EXPECT_EQ(tenfold("tour").code, 0);
}

TEST_F(RunLessons, TourAsJsonPrintsOneObject) {
  four_endings();
  const Ran ran = tenfold("tour --json");
  const Json json = Json::parse(ran.out, nullptr, false);
  ASSERT_FALSE(json.is_discarded()) << ran.out;
  EXPECT_EQ(json["lessons"].size(), 4u);
  EXPECT_EQ(json["lessons"][2]["exit_code"], 77);
  EXPECT_EQ(json["verdicts"].size(), 6u) << "three techniques of two lessons";
  EXPECT_EQ(ran.code, 1);
}

TEST_F(RunLessons, ACrashDoesNotShowYesterdaysNumbers) {
  add_lesson("13_crash", "hand_out");
  EXPECT_EQ(tenfold("tour").code, 0);
  add_lesson("13_crash", "kill -ABRT $$");
  const Ran ran = tenfold("tour");
  EXPECT_EQ(ran.code, 1);
  EXPECT_FALSE(has(ran.out, "SLOWER"));
  EXPECT_TRUE(fs::exists(out_ / "13_crash.json")) << "the earlier result was lost";
  EXPECT_FALSE(fs::exists(out_ / "13_crash.json.earlier"));
}

TEST_F(RunLessons, TheTourFollowsTheCorePath) {
  add_lesson("10_good", "hand_out");
  add_lesson("90_long", "hand_out", {1}, /*core=*/false);
  EXPECT_FALSE(has(tenfold("tour --json").out, "90_long"));
  EXPECT_TRUE(has(tenfold("tour --json").out, "10_good"));
  EXPECT_TRUE(has(tenfold("tour --all --json").out, "90_long"));
}

TEST_F(RunLessons, ALessonThatIsNotBuiltIsNamed) {
  add_lesson("10_good", "hand_out");
  write("lessons/30_later/lesson.cpp", "// 30_later\n");
  EXPECT_TRUE(has(tenfold("list").out, "30_later\n    not built yet"));
  const Ran ran = tenfold("run 30");
  EXPECT_EQ(ran.code, 2);
  EXPECT_TRUE(has(ran.err, "30_later is not built here; build and run it with: ./tenfold run 30")) << ran.err;
  EXPECT_TRUE(has(tenfold("run later").err, "30_later is not built here"));
}

TEST_F(RunLessons, CtrlCReachesTheLessonAndKeepsWhatIsDone) {
  add_lesson("10_good", "hand_out");
  add_lesson("11_slow",
             "trap 'hand_out; exit 130' INT; echo '@progress 0.1 waiting' >&2; kill -INT $PPID; for i in 1 2 3 4 5 6 7 "
             "8 9 10 11 12 13 14 "
             "15 16 17 18 19 20; do sleep 0.5; done");
  add_lesson("12_never", "echo started; hand_out");
  const auto start = std::chrono::steady_clock::now();
  const Ran ran = tenfold("tour");
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(8));
  EXPECT_EQ(ran.code, 130) << ran.err;
  EXPECT_TRUE(has(ran.out, "10 Gradient accumulation")) << ran.out;
  EXPECT_TRUE(has(ran.out, "Interrupted"));
  EXPECT_TRUE(fs::exists(out_ / "11_slow.json")) << "the lesson was not given the time to write";
  EXPECT_FALSE(fs::exists(out_ / "12_never.json"));
  EXPECT_TRUE(has(ran.out, "12_never")) << "and it is said that it did not run";
}

TEST_F(RunLessons, RunHandsFlagsOnUnchanged) {
  add_lesson("10_good", "echo \"$all\"; hand_out");
  const Ran ran = tenfold(
      "run --only 'packed, one mask' good --preset smoke --set batch=4 --set layers=2 --sweep 'lr=0.1,0.2' --case 'R2 "
      "wide' --seed 7");
  EXPECT_EQ(ran.code, 0);
  for (const char* part : {"--preset smoke", "--set batch=4 --set layers=2", "--sweep lr=0.1,0.2", "--case R2 wide",
                           "--seed 7", "--only packed, one mask"})
    EXPECT_TRUE(has(ran.out, part)) << part << ran.out;
  EXPECT_TRUE(has(ran.out, "--json " + (out_ / "sweeps" / "10_lr_R2_wide.json").string()));
  EXPECT_TRUE(fs::exists(out_ / "sweeps" / "10_lr_R2_wide.json"));
  EXPECT_FALSE(fs::exists(out_ / "10_good.json")) << "a sweep is not the lesson's own result";
  EXPECT_EQ(tenfold("run good --preset smoke --sweep lr=0.1,0.2").code, 0);
  EXPECT_TRUE(fs::exists(out_ / "sweeps" / "10_lr_R2.json")) << "the first case is swept unless another is named";
  EXPECT_TRUE(fs::exists(out_ / "sweeps" / "10_lr_R2_wide.json")) << "and another case's sweep stays";
}

TEST_F(RunLessons, ASweepWithinALauncherNamesItsCase) {
  add_lesson("10_ranks", "hand_out", {1, 2});
  const Ran ran = tenfold("run 10 --sweep lr=0.1,0.2", "RANK=0");
  EXPECT_EQ(ran.code, 2);
  EXPECT_TRUE(has(ran.err, "name the one to sweep with --case")) << ran.err;
  EXPECT_EQ(tenfold("run 10 --sweep lr=0.1,0.2 --case 'on 2'", "RANK=0").code, 0);
  EXPECT_TRUE(fs::exists(out_ / "sweeps" / "10_lr_on_2.json"));
}

TEST_F(RunLessons, APresetThatRunsNothingOfALessonSaysSo) {
  add_lesson("10_counts", "exit 77", {});
  const Ran ran = tenfold("run 10 --preset build");
  EXPECT_EQ(ran.code, 77) << "skipped, as a program that cannot run here";
  EXPECT_TRUE(has(ran.out + ran.err, "10_counts: --preset build only builds the variants of cases")) << ran.out;
  EXPECT_FALSE(has(ran.out + ran.err, "on this machine")) << "no other machine would run it";
  EXPECT_TRUE(has(tenfold("run 10").err, "nothing of it can run on this machine"));
}

TEST_F(RunLessons, RunWithItsOwnJsonFileWritesNothingElse) {
  add_lesson("10_good", "hand_out");
  EXPECT_EQ(tenfold("run 10 --json own.json").code, 0);
  EXPECT_TRUE(fs::exists(root_ / "own.json"));
  EXPECT_FALSE(fs::exists(root_ / "out"));
}

// A folder is made by whoever writes to it: a lesson that refuses its flags leaves none.
TEST_F(RunLessons, ARefusalLeavesNoFolder) {
  add_lesson("10_good", "echo '--set x=1: no' >&2; exit 2");
  const auto before = snapshot();
  EXPECT_EQ(tenfold("run 10 --set x=1").code, 2);
  EXPECT_EQ(tenfold("run 10 --set x=1 --out new/deep").code, 2);
  EXPECT_EQ(snapshot(), before);
}

TEST_F(RunLessons, RunReturnsTheLessonsCode) {
  four_endings();
  EXPECT_EQ(tenfold("run 10").code, 0);
  EXPECT_EQ(tenfold("run 11").code, 1);
  EXPECT_EQ(tenfold("run 12").code, 77);
  EXPECT_EQ(tenfold("run 13").code, 128 + SIGSEGV);
  EXPECT_EQ(tenfold("run 10 11 12").code, 1);
  EXPECT_EQ(tenfold("run 10 12").code, 0);
  EXPECT_EQ(tenfold("run 12 12").code, 77);
}

TEST_F(RunLessons, RunShowsBothStreamsButNoProgressLines) {
  add_lesson("10_good", "echo '@progress 0.5 case' >&2; echo a remark >&2; echo the table; hand_out");
  const Ran ran = tenfold("run 10");
  EXPECT_EQ(ran.out, "the table\n");
  EXPECT_TRUE(has(ran.err, "a remark"));
  EXPECT_FALSE(has(ran.err, "@progress"));
}

TEST_F(RunLessons, ListSaysWhatWasMeasured) {
  add_lesson("10_good", "hand_out");
  EXPECT_TRUE(has(tenfold("list").out, "not measured here"));
  tenfold("run 10");
  EXPECT_TRUE(has(tenfold("list").out, "measured 2026-01-02"));
  write("lessons/10_good/lesson.cpp", "int changed;\n");
  const Json json = Json::parse(tenfold("list --json").out);
  EXPECT_EQ(json[0]["status"], "measured with other code 2026-01-02");
}

// The real torchrun with scripts as ranks: its own exit code is 1 whatever a rank returned.
class Ranks : public RunLessons {
 protected:
  void SetUp() override {
    if (!fs::exists(test::environment_program("torchrun"))) GTEST_SKIP() << "no torchrun";
    fs::create_directory_symlink(test::source_folder() / ".venv", root_ / ".venv");
  }
};

TEST_F(Ranks, StartUnderTorchrun) {
  add_lesson("52_ranks",
             "echo \"rank $RANK of $WORLD_SIZE, $OMP_NUM_THREADS thread\"; [ $RANK = 0 ] && echo '@progress 0.5 x' "
             ">&2; [ $RANK = 0 ] && "
             "hand_out; exit 0",
             {2});
  const Ran ran = tenfold("run 52");
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_TRUE(has(ran.out, "rank 0 of 2, 1 thread")) << ran.out;
  EXPECT_TRUE(has(ran.out, "rank 1 of 2, 1 thread"));
  EXPECT_FALSE(has(ran.err, "@progress"));
  EXPECT_FALSE(has(ran.err, "torch")) << "torchrun's own words are no user's business: " << ran.err;
}

TEST_F(Ranks, TheirOwnExitCodeIsFound) {
  add_lesson("52_ranks", "[ $RANK = 1 ] && { echo rank 1 says why >&2; exit 42; }; exec sleep 5", {2});
  const Ran ran = tenfold("run 52");
  EXPECT_EQ(ran.code, 42);
  EXPECT_TRUE(has(ran.err, "rank 1 says why")) << ran.err;
  EXPECT_FALSE(has(ran.err, "Traceback")) << ran.err;
  add_lesson("52_ranks", "exit 77", {2});
  EXPECT_EQ(tenfold("run 52").code, 77);
}

TEST_F(Ranks, InsideALauncherTheyStartDirectly) {
  add_lesson("52_ranks", "echo \"rank $RANK\"; hand_out", {2});
  const Ran ran = tenfold("run 52", "env RANK=3");
  EXPECT_EQ(ran.code, 0);
  EXPECT_EQ(ran.out, "rank 3\n");
}

// Cases of 2 ranks and of 1: two starts, each with its own cases, one result in the lesson's order.
class ManyStarts : public Ranks {
 protected:
  void SetUp() override {
    Ranks::SetUp();
    Result named = result_of("52_ranks");
    for (const int ranks : {1, 2, 3}) {
      named.cases[0].name = ranks == 2 ? "R2" : "on " + std::to_string(ranks);
      named.cases.resize(1);
      write_result(root_ / "io" / (std::to_string(ranks) + ".json"), named);
    }
  }

  /// `of[n]` is what n ranks do; the first of them hands its cases out.
  void add_ranks(const std::string& of_1, const std::string& of_2) {
    add_lesson(
        "52_ranks",
        "n=${WORLD_SIZE:-1}; own=" + (root_ / "io").string() +
            "/$n.json; echo \"$n ranks: $all\"; [ ${RANK:-0} = 0 ] && { echo \"@progress 0.5 half\" >&2; cp $own "
            "$json; }; case $n in 1) " +
            of_1 + ";; *) " + of_2 + ";; esac",
        {2, 1});
  }
};

TEST_F(ManyStarts, EachGetsItsCasesAndOneResultIsWritten) {
  add_ranks("exit 0", "exit 0");
  const Ran ran = tenfold("run 52 --seed 3");
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_TRUE(has(ran.out, "2 ranks: --case R2 --json ")) << ran.out;
  EXPECT_TRUE(has(ran.out, "1 ranks: --case on 1 --json "));
  EXPECT_TRUE(has(ran.out, "/2.json --seed 3\n") && has(ran.out, "/1.json --seed 3\n")) << ran.out;
  const Result result = read_result(out_ / "52_ranks.json");
  ASSERT_EQ(result.cases.size(), 2U);
  EXPECT_EQ(result.cases[0].name + ", " + result.cases[1].name, "R2, on 1");
  EXPECT_EQ(result.argv, (std::vector<std::string>{"--seed", "3"}));
  EXPECT_FALSE(has(ran.err, "@progress"));
}

// A setting may be read by the parts of another start: refused is what none reads, and what was measured is kept.
TEST_F(ManyStarts, ASettingIsRefusedWhenNoStartReadsIt) {
  const auto unread = [](const std::string& name) {
    return "[ \"$TENFOLD_OTHER_STARTS\" ] && echo '@unread " + name + "' >&2";
  };
  add_ranks(unread("lr"), "exit 0");
  const Ran read_by_two = tenfold("run 52 --set lr=1");
  EXPECT_EQ(read_by_two.code, 0) << read_by_two.err;
  EXPECT_FALSE(has(read_by_two.err, "lr")) << read_by_two.err;
  add_ranks(unread("lr"), unread("decay"));
  EXPECT_EQ(tenfold("run 52 --set lr=1 --set decay=1").code, 0) << "each is read by one of the two";
  fs::remove(out_ / "52_ranks.json");
  add_ranks(unread("lr"), unread("lr"));
  const Ran read_by_none = tenfold("run 52 --set lr=1");
  EXPECT_EQ(read_by_none.code, 2);
  EXPECT_TRUE(has(read_by_none.err, "setting lr: nothing that was chosen reads it; what was measured is written"))
      << read_by_none.err;
  EXPECT_FALSE(has(read_by_none.err, "@unread")) << read_by_none.err;
  EXPECT_EQ(read_result(out_ / "52_ranks.json").cases.size(), 2U);
  add_ranks("[ \"$TENFOLD_OTHER_STARTS\" ] && exit 9; exit 0", "exit 0");
  EXPECT_EQ(tenfold("run 52 --case 'on 1' --set lr=1").code, 0) << "a single start refuses by itself";
}

TEST_F(ManyStarts, OnlyChoosesStarts) {
  add_ranks("exit 0", "exit 0");
  const std::string file = "build/lessons/52_ranks.describe.json";
  std::string description = read(file);
  for (const auto& [ranks, variants] :
       std::map<std::string, std::string>{{"1", R"(["b","alone"])"}, {"2", R"(["b","pair"])"}}) {
    const std::string number = "\"ranks\":" + ranks;
    description.replace(description.find(number), number.size(), number + ",\"variants\":" + variants);
  }
  write(file, description);
  const Ran alone = tenfold("run 52 --only alone"), pair = tenfold("run 52 --only pair");
  EXPECT_TRUE(has(alone.out, "1 ranks: ") && !has(alone.out, "2 ranks: ")) << alone.out;
  EXPECT_TRUE(has(pair.out, "2 ranks: ") && !has(pair.out, "1 ranks: ")) << pair.out;
  const Ran both = tenfold("run 52 --only alone --only pair"), baseline = tenfold("run 52 --only b");
  EXPECT_TRUE(has(both.out, "1 ranks: ") && has(both.out, "2 ranks: ")) << both.out;
  EXPECT_TRUE(has(baseline.out, "1 ranks: ") && has(baseline.out, "2 ranks: ")) << baseline.out;
  const Ran swept = tenfold("run 52 --only alone --sweep lr=1,2");
  EXPECT_TRUE(has(swept.out, "1 ranks: ") && !has(swept.out, "2 ranks: ")) << swept.out;
  EXPECT_TRUE(has(swept.out, "--json " + (out_ / "sweeps" / "52_lr_on_1.json").string()))
      << "the first case that --only leaves something of";
}

TEST_F(ManyStarts, FlagsThatChooseCasesChooseStarts) {
  add_ranks("exit 0", "exit 0");
  const Ran one = tenfold("run 52 --case 'on 1'");
  EXPECT_TRUE(has(one.out, "1 ranks: --case on 1 --json " + (out_ / "52_ranks.json").string())) << one.out;
  EXPECT_FALSE(has(one.out, "2 ranks"));
  const Ran sweep = tenfold("run 52 --sweep 'lr=1,2'");
  EXPECT_TRUE(has(sweep.out, "2 ranks: ")) << "a sweep varies the first case: " << sweep.out;
  EXPECT_TRUE(has(sweep.out, "--sweep lr=1,2"));
  EXPECT_FALSE(has(sweep.out, "1 ranks"));
  const Ran both = tenfold("run 52 --case 'on 1' --case R2 --trace t --json own.json");
  EXPECT_TRUE(has(both.out, "1 ranks: --case on 1 --json ")) << both.out;
  EXPECT_TRUE(has(both.out, "/2.json --trace t\n") && has(both.out, "/1.json --trace t\n")) << both.out;
  EXPECT_EQ(read_result(root_ / "own.json").argv, (std::vector<std::string>{"--case", "on 1", "--case", "R2"}));
  const Ran described = tenfold("run 52 --describe");
  EXPECT_TRUE(has(described.out, "1 ranks: --describe\n")) << described.out;
}

TEST_F(ManyStarts, CodesCombineAndWhatWasMeasuredIsKept) {
  const auto code = [&](const std::string& of_1, const std::string& of_2) {
    fs::remove(out_ / "52_ranks.json");
    add_ranks(of_1, of_2);
    return tenfold("run 52").code;
  };
  EXPECT_EQ(code("exit 77", "exit 0"), 0);
  EXPECT_EQ(code("exit 77", "exit 77"), 77);
  EXPECT_EQ(code("exit 0", "exit 1"), 1);
  EXPECT_EQ(code("rm $json; echo why >&2; exit 42", "exit 1"), 42);
  EXPECT_EQ(read_result(out_ / "52_ranks.json").cases.size(), 1U);
  EXPECT_EQ(code("exit 2", "exit 0"), 2);
  EXPECT_FALSE(fs::exists(out_ / "52_ranks.json")) << "refused flags leave nothing";
  add_ranks("exit 0", "exit 0");
  const Ran ran = tenfold("run 52 --json /proc/no.json");
  EXPECT_EQ(ran.code, 2);
  EXPECT_TRUE(has(ran.err, "--json /proc/no.json: cannot be written")) << ran.err;
  EXPECT_FALSE(has(ran.out, "ranks:")) << "found out before anything is measured";
}

}  // namespace
}  // namespace tenfold
