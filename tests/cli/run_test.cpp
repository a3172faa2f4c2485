// tour, run, list: lessons as processes, their progress, their ends, and what is kept of them.
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <nlohmann/json.hpp>

#include "common/base/text.h"

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

TEST_F(RunLessons, TheTourHandsOnWhatMeansTheSameInEveryLesson) {
  add_lesson("10_good", "echo \"$all\" > args; hand_out");
  EXPECT_EQ(tenfold("tour --threads 4 --seed 7 --size gpu8").code, 0);
  for (const char* part : {"--threads 4", "--seed 7", "--size gpu8", "--preset quick"})
    EXPECT_TRUE(has(read("args"), part)) << part << ": " << read("args");
}

// Two hosts may share a checkout, or a result folder may come from another host of this name.
TEST_F(RunLessons, AFolderOfAnotherMachineOfThisNameIsLeftAlone) {
  add_lesson("10_good", "echo \"$TENFOLD_MACHINE\" > own; hand_out");
  Result stranger = result_of("10_good");
  stranger.machine.id = fingerprint().id;
  write_result(out_ / "10_good.json", stranger);
  const std::string before = read(out_ / "10_good.json");
  const Ran ran = tenfold("run 10");
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_TRUE(has(ran.err, "belongs to another machine (Sample CPU, 2 cores")) << ran.err;
  EXPECT_EQ(read(out_ / "10_good.json"), before);
  const std::string own = trimmed(read("own"));
  EXPECT_TRUE(own.starts_with(fingerprint().id + "-")) << own;
  EXPECT_TRUE(fs::exists(root_ / "out" / own / "10_good.json"));
  EXPECT_EQ(tenfold("run 10 --out " + out_.string()).code, 2) << "named, it is no folder for this machine either";
  EXPECT_EQ(read(out_ / "10_good.json"), before);
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
  const Ran ran = tenfold("tour");
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
  const std::string launched = "RANK=0 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=1";
  const Ran ran = tenfold("run 10 --sweep lr=0.1,0.2", launched);
  EXPECT_EQ(ran.code, 2);
  EXPECT_TRUE(has(ran.err, "name the one to sweep with --case")) << ran.err;
  EXPECT_EQ(tenfold("run 10 --sweep lr=0.1,0.2 --case 'on 2'", launched).code, 0);
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

  /// From now on a script is the launcher: for what the driver does before and after, without a second of Python's
  /// imports for each start. As torchrun, it numbers the ranks and ends with 1 whatever a rank returned.
  void stand_in_for_torchrun() {
    fs::remove(root_ / ".venv");
    write(".venv/bin/torchrun",
          "#!/bin/sh\nwhile [ \"$1\" != --no-python ]; do [ \"$1\" = --nproc_per_node ] && n=$2; shift; done\nshift\n"
          "export WORLD_SIZE=$n LOCAL_WORLD_SIZE=$n MASTER_ADDR=127.0.0.1 MASTER_PORT=1\nrank=0 ranks='' failed=0\n"
          "while [ $rank -lt $n ]; do\n  RANK=$rank LOCAL_RANK=$rank \"$@\" &\n  ranks=\"$ranks $!\" "
          "rank=$((rank + 1))\ndone\nfor pid in $ranks; do wait $pid || failed=1; done\nexit $failed\n");
    fs::permissions(root_ / ".venv/bin/torchrun", fs::perms::owner_all);
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
  add_lesson("52_ranks", "echo \"rank $RANK$PMI_RANK$SLURM_PROCID\"; hand_out", {2});
  for (const std::string launcher :
       {"RANK=3 WORLD_SIZE=4", "PMI_RANK=3 PMI_SIZE=4", "SLURM_STEP_ID=0 SLURM_PROCID=3 SLURM_NTASKS=4"}) {
    const Ran ran = tenfold("run 52", "env MASTER_ADDR=127.0.0.1 MASTER_PORT=1 " + launcher);
    EXPECT_EQ(ran.code, 0) << ran.err;
    EXPECT_EQ(ran.out, "rank 3\n") << launcher;
  }
}

TEST_F(Ranks, AShellThatOnlyLooksLikeARankStartsThem) {
  add_lesson("52_ranks", "echo \"rank $RANK of $WORLD_SIZE\"; hand_out", {2});
  add_lesson("30_alone", "echo alone; hand_out");
  // The first holds all that torchrun itself might mind.
  for (const std::string shell :
       {"RANK=0 WORLD_SIZE=1 MASTER_ADDR=a MASTER_PORT=1", "RANK=0", "WORLD_SIZE=1", "PMI_RANK=0 PMI_SIZE=1",
        "SLURM_PROCID=0 SLURM_STEP_ID=0 SLURM_NTASKS=1", "OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=1"}) {
    if (shell == "RANK=0") stand_in_for_torchrun();
    const Ran ran = tenfold("run 52", "env " + shell);
    EXPECT_EQ(ran.code, 0) << shell << ran.err;
    EXPECT_TRUE(has(ran.out, "rank 0 of 2") && has(ran.out, "rank 1 of 2")) << shell << ran.out;
    EXPECT_EQ(tenfold("run 30", "env " + shell).out, "alone\n") << shell;
  }
  for (const auto& [shell, name] : {std::pair("RANK=1", "WORLD_SIZE is not set"),
                                    {"WORLD_SIZE=two", "WORLD_SIZE is 'two'"},
                                    {"RANK=0 WORLD_SIZE=2", "MASTER_ADDR is not set"},
                                    {"PMI_RANK=2 PMI_SIZE=2", "PMI_RANK=2, PMI_SIZE=2"}}) {
    for (const std::string command : {"run 52", "tour"}) {
      const Ran ran = tenfold(command, std::string("env ") + shell);
      EXPECT_EQ(ran.code, 2) << shell;
      EXPECT_TRUE(has(ran.err, name)) << ran.err;
      EXPECT_EQ(std::count(ran.err.begin(), ran.err.end(), '\n'), 1) << ran.err;
      EXPECT_EQ(ran.out, "") << "nothing is run";
    }
  }
}

/// What is set up for a network or host of one's own, before a command; empty where this user may not.
std::string on_a_host(const std::string& kind, const std::string& set_up) {
  if (std::system(("unshare " + kind + " sh -c '" + set_up + "' >/dev/null 2>&1").c_str()) != 0) return "";
  return "unshare " + kind + " sh -c '" + set_up + "; exec env \"$@\"' sh";
}

TEST_F(Ranks, AHostWhoseOwnNameMeansNothingStartsThem) {
  const std::string host = on_a_host("-u", "hostname no-such-host.invalid");
  if (host.empty()) GTEST_SKIP() << "this user may not name a host";
  add_lesson("52_ranks", "echo \"rank $RANK at $MASTER_ADDR\"; hand_out", {2});
  const Ran ran = tenfold("run 52", "timeout 120 " + host);
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_TRUE(has(ran.out, "rank 1 at 127.0.0.1")) << ran.out;
}

TEST_F(Ranks, WithoutALoopbackNothingWaits) {
  const std::string host = on_a_host("-n", "true");
  if (host.empty()) GTEST_SKIP() << "this user may not make a network";
  add_lesson("52_ranks", "hand_out", {2});
  const Ran ran = tenfold("run 52", "timeout 120 " + host);
  EXPECT_EQ(ran.code, 2) << ran.err;
  EXPECT_TRUE(has(ran.err, "127.0.0.1 cannot be reached")) << ran.err;
  EXPECT_TRUE(has(ran.err, "ip link set lo up")) << ran.err;
  EXPECT_EQ(std::count(ran.err.begin(), ran.err.end(), '\n'), 1) << ran.err;
}

TEST_F(Ranks, WhatTorchrunSaysLastIsItsReason) {
  fs::remove(root_ / ".venv");
  add_lesson("52_ranks", "hand_out", {2});
  write(".venv/bin/torchrun",
        "#!/bin/sh\nprintf 'Traceback (most recent call last):\\n  File x\\nOSError: no room for ports\\n\\n' >&2\n"
        "exit 1\n");
  fs::permissions(root_ / ".venv/bin/torchrun", fs::perms::owner_all);
  const Ran ran = tenfold("run 52");
  EXPECT_EQ(ran.code, 1);
  EXPECT_TRUE(has(ran.err, "torchrun did not start the ranks: OSError: no room for ports\n")) << ran.err;
}

// Cases of 2 ranks and of 1: two starts, each with its own cases, one result in the lesson's order. The first and the
// last test have the real torchrun.
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
  EXPECT_TRUE(has(ran.out, "/0.json --seed 3\n") && has(ran.out, "/1.json --seed 3\n")) << ran.out;
  const Result result = read_result(out_ / "52_ranks.json");
  ASSERT_EQ(result.cases.size(), 2U);
  EXPECT_EQ(result.cases[0].name + ", " + result.cases[1].name, "R2, on 1");
  EXPECT_EQ(result.argv, (std::vector<std::string>{"--seed", "3"}));
  EXPECT_FALSE(has(ran.err, "@progress"));
}

// What a process reads once, when it starts, is a place of its own.
TEST_F(ManyStarts, EachEnvironmentHasAStartOfItsOwn) {
  add_lesson("52_ranks",
             "own=" + (root_ / "io").string() +
                 "/$([ \"$PLACE\" ] && echo 3 || echo 1).json; echo \"in '$PLACE': $all\"; cp $own $json",
             {1, 1});
  const std::string file = "build/lessons/52_ranks.describe.json";
  std::string description = read(file);
  const size_t second = description.rfind("\"ranks\":1");
  ASSERT_NE(second, description.find("\"ranks\":1"));
  description.insert(second, R"("environment":{"PLACE":"there"},)");
  const size_t name = description.rfind("\"name\":\"", second) + 8;
  description.replace(name, description.find('"', name) - name, "on 3");
  write(file, description);
  const Ran ran = tenfold("run 52");
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_TRUE(has(ran.out, "in '': --case ")) << ran.out;
  EXPECT_TRUE(has(ran.out, "in 'there': --case on 3 --json ")) << ran.out;
  ASSERT_EQ(read_result(out_ / "52_ranks.json").cases.size(), 2U);
}

// A setting may be read by the parts of another start: refused is what none reads, and what was measured is kept.
TEST_F(ManyStarts, ASettingIsRefusedWhenNoStartReadsIt) {
  stand_in_for_torchrun();
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
  stand_in_for_torchrun();
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
  stand_in_for_torchrun();
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
  EXPECT_TRUE(has(both.out, "/0.json --trace t\n") && has(both.out, "/1.json --trace t\n")) << both.out;
  EXPECT_EQ(read_result(root_ / "own.json").argv, (std::vector<std::string>{"--case", "on 1", "--case", "R2"}));
  const Ran described = tenfold("run 52 --describe");
  EXPECT_TRUE(has(described.out, "1 ranks: --describe\n")) << described.out;
}

// One case of any number of ranks, and one of a single rank, which shares a start with it.
TEST_F(ManyStarts, RanksAreStartedOnceForEachNumber) {
  stand_in_for_torchrun();
  add_ranks("exit 0", "exit 0");
  const std::string file = "build/lessons/52_ranks.describe.json";
  std::string description = read(file);
  const std::string two = "\"ranks\":2";
  write(file, description.replace(description.find(two), two.size(), R"("ranks":{"multiple_of":1})"));
  EXPECT_TRUE(has(tenfold("list --json").out, "\"multiple_of\": 1"));
  const Ran unless_given = tenfold("run 52 --device cpu");
  EXPECT_TRUE(has(unless_given.out, "2 ranks: --case R2 --device cpu --json ")) << unless_given.out;
  EXPECT_TRUE(has(unless_given.out, "1 ranks: --case on 1 ")) << unless_given.out;
  EXPECT_FALSE(has(unless_given.out, "--ranks"));

  const Ran several = tenfold("run 52 --ranks 2,1");
  EXPECT_EQ(several.code, 0) << several.err;
  EXPECT_TRUE(has(several.out, "2 ranks: --case R2 --json ")) << several.out;
  EXPECT_TRUE(has(several.out, "/0.json --ranks 2\n") && has(several.out, "/1.json --ranks 1\n")) << several.out;
  EXPECT_TRUE(has(several.out, "1 ranks: --case R2 --case on 1 --json ")) << several.out;
  EXPECT_EQ(read_result(out_ / "ranks" / "52_ranks.json").argv, (std::vector<std::string>{"--ranks", "2,1"}));
  EXPECT_TRUE(has(several.err, "result: ")) << several.err;

  const Ran one = tenfold("run 52 --case R2 --ranks 1");
  EXPECT_TRUE(has(one.out, "1 ranks: --case R2 --json " + (out_ / "52_ranks.json").string() + " --ranks 1\n"))
      << "one number makes the lesson's own result: " << one.out;
  const Ran none = tenfold("run 52 --case 'on 1' --ranks 1,2");
  EXPECT_EQ(none.code, 2);
  EXPECT_EQ(none.out, "") << "nothing is started";
  EXPECT_TRUE(has(none.err, "--ranks: none of 'on 1' runs on as many ranks as there are")) << none.err;
}

TEST_F(ManyStarts, CodesCombineAndWhatWasMeasuredIsKept) {
  stand_in_for_torchrun();
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

TEST_F(ManyStarts, AKilledDriverLeavesWhatItsStartsFinished) {
  stand_in_for_torchrun();
  add_ranks("kill -9 $PPID", "exit 0");
  EXPECT_NE(tenfold("run 52 --seed 3").code, 0);
  const Result result = read_result(out_ / "52_ranks.json");
  ASSERT_EQ(result.cases.size(), 1U);
  EXPECT_EQ(result.cases[0].name, "R2");
  EXPECT_EQ(result.argv, (std::vector<std::string>{"--seed", "3"}));
}

TEST_F(ManyStarts, EachResumesFromItsOwnCases) {
  stand_in_for_torchrun();
  Result earlier = result_of("52_ranks");
  earlier.argv = {"--seed", "3"};
  earlier.cases.resize(1, earlier.cases[0]);
  earlier.cases[0].name = "R2", earlier.cases[0].ranks = 2;
  earlier.cases.push_back(earlier.cases[0]);
  earlier.cases[1].name = "on 1", earlier.cases[1].ranks = 1;
  write_result(out_ / "52_ranks.json", earlier);
  add_lesson("52_ranks",
             "[ ${RANK:-0} = 0 ] && cp \"$json\" '" + (root_ / "io").string() + "/seen.'${WORLD_SIZE:-1}; exit 0",
             {2, 1});
  ASSERT_EQ(tenfold("run 52 --seed 3 --resume").code, 0);
  for (const auto& [ranks, name] : std::map<int, std::string>{{1, "on 1"}, {2, "R2"}}) {
    const Result seen = read_result(root_ / "io" / ("seen." + std::to_string(ranks)));
    ASSERT_EQ(seen.cases.size(), 1U);
    EXPECT_EQ(seen.cases[0].name, name);
    EXPECT_EQ(seen.argv, (std::vector<std::string>{"--case", name, "--seed", "3"})) << "as the program has them";
  }
  const Result whole = read_result(out_ / "52_ranks.json");
  ASSERT_EQ(whole.cases.size(), 2U);
  EXPECT_EQ(whole.cases[0].name + ", " + whole.cases[1].name, "R2, on 1");
}

TEST_F(ManyStarts, AReaderThatLeavesCostsNothing) {
  add_ranks("sleep 1; echo much more", "sleep 1; echo more");
  fs::create_directories(root_ / "temporary");
  const std::string before = "env TMPDIR='" + (root_ / "temporary").string() + "' sh -c '\"$@\"; echo $? >io/code' sh";
  const Ran ran = tenfold("run 52 | head -n 1", before);
  EXPECT_TRUE(has(ran.out, "2 ranks: --case R2")) << ran.out;
  EXPECT_EQ(std::count(ran.out.begin(), ran.out.end(), '\n'), 1) << ran.out;
  EXPECT_EQ(read("io/code"), "0\n");
  EXPECT_EQ(read_result(out_ / "52_ranks.json").cases.size(), 2U);
  EXPECT_TRUE(fs::is_empty(root_ / "temporary"));
}

TEST_F(RunLessons, ATableThatNobodyReadsIsNoError) {
  add_lesson("10_good", "echo the table; hand_out");
  const std::string before = "sh -c '\"$@\"; echo $? >io/code' sh";
  for (const std::string command : {"list", "help", "tour", "run 10", "compare io/10_good.json io/10_good.json"}) {
    const Ran ran = tenfold(command + " | true", before);
    EXPECT_EQ(read("io/code"), "0\n") << command;
    EXPECT_FALSE(has(ran.err, "disk")) << command << ran.err;
  }
}

TEST_F(RunLessons, ATerminalThatIsGoneKeepsWhatIsDone) {
  add_lesson("11_slow",
             "trap 'hand_out; exit 130' INT; kill -HUP $PPID; for i in 1 2 3 4 5 6 7 8 9 10; do sleep 0.5; done");
  EXPECT_EQ(tenfold("run 11").code, 130);
  EXPECT_TRUE(fs::exists(out_ / "11_slow.json"));
  fs::remove(out_ / "11_slow.json");
  add_lesson("11_slow", "kill -HUP $PPID; sleep 1; hand_out");
  EXPECT_EQ(tenfold("run 11", "nohup").code, 0) << "whoever asked for it to go on";
  EXPECT_TRUE(fs::exists(out_ / "11_slow.json"));
}

/// The driver as a shell starts it: a process group of its own, which Ctrl-Z can stop.
class Job {
 public:
  Job(const fs::path& root, const std::vector<std::string>& arguments) {
    pid_ = fork();
    if (pid_ != 0) return;
    setpgid(0, 0);
    std::signal(SIGTSTP, SIG_DFL);
    setenv("TENFOLD_SOURCE_DIR", root.c_str(), 1);
    setenv("TENFOLD_BUILD_DIR", (root / "build").c_str(), 1);
    setenv("TENFOLD_CACHE", (root / "cache").c_str(), 1);
    const std::string log = (root / "io" / "log").string();
    if (chdir(root.c_str()) != 0 || std::freopen(log.c_str(), "w", stdout) == nullptr || dup2(1, 2) < 0) _exit(126);
    const std::string program = (test::build_folder() / "tenfold-driver").string();
    std::vector<char*> raw{const_cast<char*>(program.c_str())};
    for (const auto& argument : arguments) raw.push_back(const_cast<char*>(argument.c_str()));
    raw.push_back(nullptr);
    execv(raw[0], raw.data());
    _exit(127);
  }
  ~Job() {
    if (ended_) return;
    kill(pid_, SIGCONT);
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  pid_t pid() const { return pid_; }
  /// The next change of state within a minute: 'T' stopped, 'E' ended, '-' none.
  char next_state() {
    for (int i = 0; i < 1200; ++i, usleep(50000)) {
      if (waitpid(pid_, &status_, WNOHANG | WUNTRACED) != pid_) continue;
      ended_ = !WIFSTOPPED(status_);
      return ended_ ? 'E' : 'T';
    }
    return '-';
  }
  int code() const { return WEXITSTATUS(status_); }

 private:
  pid_t pid_ = 0;
  int status_ = 0;
  bool ended_ = false;
};

/// Whether a process whose number stands in a file is stopped, or goes on, within a minute: a signal takes effect when
/// the process is next scheduled, which whoever sent it does not wait for.
bool comes_to(const fs::path& file, bool stopped) {
  for (int i = 0; i < 1200; ++i, usleep(50000)) {
    if (!fs::exists(file)) continue;
    std::ifstream stat("/proc/" + std::to_string(std::stoi(test::read_text(file))) + "/stat");
    std::string text;
    std::getline(stat, text);
    const size_t end = text.rfind(')');
    if (end == std::string::npos) return false;
    if ((text[end + 2] == 'T') == stopped) return true;
  }
  return false;
}

TEST_F(RunLessons, CtrlZStopsTheLessonAndAllThatItStarted) {
  // The second one is in a session of its own, as torchrun's ranks are. Both wait without starting anything: a shell
  // whose child is stopped before it has begun is not called stopped by the system, though it does not go on either.
  ASSERT_EQ(mkfifo((root_ / "io/go").c_str(), 0600), 0);
  add_lesson("10_slow",
             "setsid sh -c 'echo $$ >io/rank.new; mv io/rank.new io/rank; read word <io/go' & "
             "echo $$ >io/lesson.new; mv io/lesson.new io/lesson; wait; hand_out");
  Job job(root_, {"run", "10"});
  ASSERT_TRUE(comes_to(root_ / "io/rank", false));
  ASSERT_TRUE(comes_to(root_ / "io/lesson", false));
  for (int time = 0; time < 2; ++time) {
    ASSERT_EQ(kill(-job.pid(), SIGTSTP), 0);
    ASSERT_EQ(job.next_state(), 'T');
    EXPECT_TRUE(comes_to(root_ / "io/lesson", true));
    EXPECT_TRUE(comes_to(root_ / "io/rank", true));
    ASSERT_EQ(kill(-job.pid(), SIGCONT), 0);
    EXPECT_TRUE(comes_to(root_ / "io/rank", false));
    EXPECT_TRUE(comes_to(root_ / "io/lesson", false));
  }
  write("io/go", "");
  ASSERT_EQ(job.next_state(), 'E') << read("io/log");
  EXPECT_EQ(job.code(), 0) << read("io/log");
  EXPECT_TRUE(fs::exists(out_ / "10_slow.json"));
}

/// A driver that is killed leaves things behind.
class LeftOvers : public RunLessons {
 protected:
  LeftOvers() {
    Result half = result_of("10_good");
    half.cases.resize(1);
    half.cases[0].name = "half";
    write_result(root_ / "io" / "half.json", half);
    Result full = result_of("10_good");
    full.cases.resize(1);
    full.cases.push_back(full.cases[0]);
    full.cases[1].name = "second";
    write_result(root_ / "io" / "10_good.json", full);
    full_ = read("io/10_good.json");
  }
  /// add_lesson() would write its own result.
  void lesson(const std::string& body) {
    add_lesson("10_good", body);
    write("io/10_good.json", full_);
  }
  std::string half() const { return "cp '" + (root_ / "io" / "half.json").string() + "' \"$json\"; "; }
  fs::path file() const { return out_ / "10_good.json"; }
  fs::path earlier() const { return out_ / "10_good.json.earlier"; }
  std::string full_;
};

TEST_F(LeftOvers, OfAKilledTourTheEarlierResultComesBack) {
  for (const std::string next : {"run 10", "tour"}) {
    lesson("hand_out");
    EXPECT_EQ(tenfold("tour").code, 0);
    lesson("kill -KILL $PPID; sleep 1");
    EXPECT_EQ(tenfold("tour").code, 128 + SIGKILL);
    EXPECT_FALSE(fs::exists(file()));
    lesson("exit 3");
    EXPECT_NE(tenfold(next).code, 0);
    EXPECT_EQ(test::read_text(file()), full_) << next;
    EXPECT_FALSE(fs::exists(earlier()));
  }
}

TEST_F(LeftOvers, AHalfResultNeverReplacesAFullOne) {
  for (const std::string last : {"run 10", "tour"}) {
    lesson("hand_out");
    EXPECT_EQ(tenfold("tour").code, 0);
    lesson(half() + "kill -KILL $PPID; sleep 1");
    EXPECT_EQ(tenfold("tour").code, 128 + SIGKILL);
    EXPECT_EQ(test::read_text(earlier()), full_);
    for (const std::string next : {"tour", "run 10", "tour"}) {
      EXPECT_EQ(tenfold(next).code, 128 + SIGKILL);
      EXPECT_EQ(test::read_text(earlier()), full_) << "killed again";
    }
    lesson(half() + "exit 130");
    const Ran stopped = tenfold("run 10");
    EXPECT_EQ(test::read_text(earlier()), full_) << "stopped by Ctrl-C";
    EXPECT_TRUE(has(stopped.err, "the earlier result of 2 cases, of which 1 were measured again, stays as"))
        << stopped.err;
    lesson("hand_out");
    EXPECT_EQ(tenfold(last).code, 0);
    EXPECT_EQ(test::read_text(file()), full_);
    EXPECT_FALSE(fs::exists(earlier())) << "a whole result replaces it";
    fs::remove(file());
  }
}

TEST_F(LeftOvers, HalfWrittenFilesAndTemporaryFoldersGo) {
  lesson("hand_out");
  EXPECT_EQ(tenfold("run 10").code, 0);
  const fs::path temporary = root_ / "temporary";
  fs::create_directories(temporary / "tenfold-ranks-abcdef" / "log");
  fs::create_directories(temporary / "tenfold-ranks-in_use");
  fs::create_directories(temporary / "tenfold-ranks-recent");
  fs::create_directories(temporary / "other.abcdef");
  const auto old = fs::file_time_type::clock::now() - std::chrono::hours(1);
  for (const char* name : {"tenfold-ranks-abcdef", "tenfold-ranks-in_use", "other.abcdef"})
    fs::last_write_time(temporary / name, old);
  const int lock = open((temporary / "tenfold-ranks-in_use").c_str(), O_RDONLY | O_DIRECTORY);
  ASSERT_EQ(flock(lock, LOCK_SH), 0);
  pid_t gone = fork();
  if (gone == 0) _exit(0);
  waitpid(gone, nullptr, 0);
  const std::string name = "out/" + fingerprint().id + "/10_good.json.partial.";
  write(name + std::to_string(gone), "{");
  write(name + std::to_string(getpid()), "{");
  write(name + "txt", "{");
  EXPECT_EQ(tenfold("run 10", "env TMPDIR='" + temporary.string() + "'").code, 0);
  close(lock);
  EXPECT_FALSE(fs::exists(root_ / (name + std::to_string(gone))));
  EXPECT_TRUE(fs::exists(root_ / (name + std::to_string(getpid())))) << "its writer lives";
  EXPECT_TRUE(fs::exists(root_ / (name + "txt")));
  EXPECT_FALSE(fs::exists(temporary / "tenfold-ranks-abcdef"));
  for (const char* kept : {"tenfold-ranks-in_use", "tenfold-ranks-recent", "other.abcdef"})
    EXPECT_TRUE(fs::exists(temporary / kept)) << kept;
}

// What a tour has moved aside for a lesson that runs now is no left-over.
TEST_F(LeftOvers, AnotherDriverIsNotTidiedUpAfter) {
  lesson("hand_out");
  EXPECT_EQ(tenfold("tour").code, 0);
  add_lesson("11_other", "hand_out");
  lesson("(cd '" + root_.string() + "'; TENFOLD_SOURCE_DIR=$PWD TENFOLD_BUILD_DIR=$PWD/build '" +
         (test::build_folder() / "tenfold-driver").string() + "' run 11) >/dev/null 2>&1; exit 3");
  const Ran ran = tenfold("tour --json");
  EXPECT_EQ(Json::parse(ran.out)["lessons"][0]["exit_code"], 3);
  EXPECT_EQ(Json::parse(ran.out)["verdicts"].size(), 3U) << "of the other lesson alone";
  EXPECT_EQ(test::read_text(file()), full_);
}

}  // namespace
}  // namespace tenfold
