// reproduce, compare, report: what happens to results after they were measured.
#include <nlohmann/json.hpp>

#include "common/result/judge.h"
#include "common/result/seal.h"
#include "sandbox.h"

namespace tenfold {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

class Reproduce : public Sandbox {
 protected:
  Result measured_on_cuda(const std::string& lesson) const {
    Result result = result_of(lesson);
    for (CaseResult& one : result.cases) one.device = "cuda";
    return result;
  }
};

TEST_F(Reproduce, RunsTheSameAndShowsBoth) {
  add_lesson("30_gradient_accumulation", "echo \"$all\" > args; hand_out");
  Result theirs = result_of("30_gradient_accumulation");
  theirs.argv = {"--case", "R2", "--preset", "smoke", "--set", "layers=2", "--sweep", "batch=4,8"};
  theirs.cases[0].variants[1].blocks = {sample_blocks(0.05)};  // FASTER there, SLOWER here
  judge(theirs.cases[0]);
  write_result(root_ / "theirs" / "30_gradient_accumulation.json", theirs);
  const Ran ran = tenfold("reproduce theirs");
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_TRUE(has(ran.out, "FASTER 2.0")) << ran.out;
  EXPECT_TRUE(has(ran.out, "SLOWER 0.80")) << ran.out;
  EXPECT_TRUE(has(ran.out, "SIGN CHANGED"));
  EXPECT_TRUE(has(ran.out, "1 verdict changed"));
  const std::string flags = read("args");
  for (const char* part : {"--set layers=2", "--sweep batch=4,8", "--case R2", "--preset quick", "--size cpu",
                           "--device cpu", "--seed 1234", "--threads 1"})
    EXPECT_TRUE(has(flags, part)) << part << ": " << flags;
}

TEST_F(Reproduce, SaysWhenNothingCanRunHere) {
  add_lesson("30_gradient_accumulation", "exit 77");
  write_result(root_ / "theirs.json", result_of("30_gradient_accumulation"));
  const Ran ran = tenfold("reproduce theirs.json");
  EXPECT_EQ(ran.code, 77) << ran.err;
  EXPECT_TRUE(has(ran.out, "skipped: nothing of it can run on this machine")) << ran.out;
  EXPECT_FALSE(has(ran.out, "no verdict changed")) << ran.out;
}

TEST_F(Reproduce, SaysTheLessonsOwnReasonWhenNothingOfItRan) {
  add_lesson("30_gradient_accumulation", "hand_out; exit 77");
  Result ours = result_of("30_gradient_accumulation");
  for (VariantResult& variant : ours.cases[0].variants) {
    variant = VariantResult{.name = variant.name};
    variant.status = "skipped", variant.reason = "needs a scale and a feather";
  }
  ours.cases[0].verdicts.clear();
  write_result(root_ / "io" / "30_gradient_accumulation.json", ours);
  write_result(root_ / "theirs.json", result_of("30_gradient_accumulation"));
  const Ran ran = tenfold("reproduce theirs.json");
  EXPECT_EQ(ran.code, 77) << ran.err;
  EXPECT_TRUE(has(ran.out, "skipped: needs a scale and a feather")) << ran.out;
}

TEST_F(Reproduce, SkipsCudaResultsWithoutADeviceAndGoesOn) {
  if (!fingerprint().gpus.empty()) GTEST_SKIP() << "there is a GPU";
  add_lesson("10_gpu", "echo ran > gpu_ran; hand_out");
  add_lesson("11_cpu", "hand_out");
  write_result(root_ / "theirs" / "10_gpu.json", measured_on_cuda("10_gpu"));
  write_result(root_ / "theirs" / "11_cpu.json", result_of("11_cpu"));
  const Ran both = tenfold("reproduce theirs");
  EXPECT_EQ(both.code, 0) << both.err;
  EXPECT_TRUE(has(both.out, "skipped: it was measured on a CUDA device and this machine has none")) << both.out;
  EXPECT_TRUE(has(both.out, "SLOWER 0.80")) << "the other one runs: " << both.out;
  EXPECT_TRUE(has(both.out, "1 of 2 results skipped; no verdict changed")) << both.out;
  EXPECT_FALSE(fs::exists(root_ / "gpu_ran")) << "no lesson is started for it";

  const Ran alone = tenfold("reproduce theirs/10_gpu.json");
  EXPECT_EQ(alone.code, 77) << alone.err;
  EXPECT_TRUE(has(alone.out, "nothing of it can run on this machine")) << alone.out;
}

// A skip hides no failure.
TEST_F(Reproduce, AFailureBesideASkipIsAFailure) {
  add_lesson("10_none", "exit 77");
  add_lesson("11_broken", "echo it broke >&2; exit 3");
  write_result(root_ / "theirs" / "10_none.json", result_of("10_none"));
  write_result(root_ / "theirs" / "11_broken.json", result_of("11_broken"));
  const Ran ran = tenfold("reproduce theirs");
  EXPECT_EQ(ran.code, 1) << ran.err;
  EXPECT_TRUE(has(ran.out, "not run: stopped on an error: it broke")) << ran.out;
}

// A file may hold a case on several numbers of ranks.
TEST_F(Reproduce, JoinsACaseByItsRanks) {
  add_lesson("30_gradient_accumulation", "hand_out");
  Result theirs = result_of("30_gradient_accumulation");
  CaseResult more = theirs.cases[0];
  more.ranks = 2, more.mesh = {{"dp", 2}};
  theirs.cases.push_back(more);
  write_result(root_ / "theirs.json", theirs);
  write_result(root_ / "io" / "30_gradient_accumulation.json", theirs);
  theirs.cases[1].backend = "nccl";
  write_result(root_ / "others.json", theirs);
  const Ran same = tenfold("reproduce theirs.json");
  EXPECT_EQ(same.code, 0) << same.err;
  EXPECT_TRUE(has(same.out, "R2 batch=4, 2 ranks")) << same.out;
  EXPECT_FALSE(has(same.out, "not compared")) << same.out;
  EXPECT_TRUE(has(tenfold("reproduce others.json").out, "not compared: backend nccl, yours ")) << "of 2 ranks alone";
}

class Score : public Sandbox {
 protected:
  Score() {
    const Result said = sample_modelled_result();
    write_result(root_ / "said" / "r.json", said);
    write("said/SHA256SUMS", seal_of(sealed_texts(root_ / "said")));
    Result came = said;
    came.machine.id = "h100-80gb-hbm3", came.started_at = "2027-01-02T03:04:05Z";
    came.cases[0].device = "cuda";
    for (VariantResult& variant : came.cases[0].variants) variant.source = "measured";
    judge(came.cases[0]);
    write_result(root_ / "came" / "r.json", came);
  }
};

TEST_F(Score, ASealedSetAgainstACard) {
  const Ran ran = tenfold("score said came");
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_TRUE(has(ran.out, "Sealed (")) << ran.out;
  EXPECT_TRUE(has(ran.out, "2026-01-02; measured 2027-01-02.")) << ran.out;
  EXPECT_TRUE(has(ran.out, "of the same sign, median miss 0.0 %")) << ran.out;
  EXPECT_TRUE(has(ran.out, "peaks: median error 0.0 %")) << ran.out;
  EXPECT_TRUE(has(tenfold("score said/r.json came").out, "A single file has no seal.")) << ran.out;
}

TEST_F(Score, WhatWasChangedOrComesFirstIsNoTest) {
  for (const auto& [flags, part] : {std::pair("came said", "came: was measured; the first is what a dry GPU said"),
                                    {"said said", "said: is of a dry GPU; the second is what a card measured"},
                                    {"said nowhere", "nowhere"}}) {
    const Ran ran = tenfold(std::string("score ") + flags);
    EXPECT_EQ(ran.code, 2) << flags;
    EXPECT_TRUE(has(ran.err, part)) << ran.err;
  }
  Result early = read_result(root_ / "came" / "r.json");
  early.started_at = "2025-01-02T03:04:05Z";
  write_result(root_ / "early" / "r.json", early);
  EXPECT_TRUE(has(tenfold("score said early").out, "before the set was sealed, so that this is no test of it"));
  write("said/r.json", read("said/r.json") + "\n");
  const Ran changed = tenfold("score said came");
  EXPECT_EQ(changed.code, 2);
  EXPECT_TRUE(has(changed.err, "said/SHA256SUMS: a result in its folder is not as it was sealed")) << changed.err;
}

class Compare : public Sandbox {
 protected:
  Compare() {
    write_result(root_ / "a" / "r.json", sample_result());
    Result b = sample_result();
    for (VariantResult& variant : b.cases[0].variants) speed_up(variant, 3);
    Result more = b;
    more.cases[0].name = "wide", more.cases[0].settings["layers"] = int64_t{9};
    b.cases.push_back(more.cases[0]);
    write_result(root_ / "b.json", b);
  }
};

TEST_F(Compare, FoldersAndFiles) {
  const Ran ran = tenfold("compare a b.json");
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_TRUE(has(ran.out, "3.00x [")) << ran.out;
  EXPECT_TRUE(has(ran.out, "FASTER"));
  EXPECT_TRUE(has(ran.out, "device 90 %"));
  EXPECT_TRUE(has(ran.out, "Not compared:"));
  EXPECT_TRUE(has(ran.out, "case is wide here and R2 batch=4 there"));
}

TEST_F(Compare, AsJson) {
  const Json json = Json::parse(tenfold("compare a b.json --json").out);
  const Json& rows = json["comparisons"][0]["rows"];
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_NEAR(rows[1]["throughput"]["ratio"].get<double>(), 3, 1e-6);
  EXPECT_GE(rows[1]["throughput"]["coverage"].get<double>(), 0.95);
  EXPECT_NEAR(rows[1]["gain"]["ratio"].get<double>(), 1, 1e-6);
  EXPECT_GT(json["comparisons"][0]["refused"].size(), 0u);
}

TEST_F(Compare, TwoMachinesInOneFolderAreRefusedEvenIfTheirNamesAreEqual) {
  Result other = sample_result();
  other.lesson = "31_other", other.machine.cores = 64;
  write_result(root_ / "a" / "other.json", other);
  const Ran ran = tenfold("compare a b.json");
  EXPECT_EQ(ran.code, 2);
  EXPECT_TRUE(has(ran.err, "a: holds results of two machines, 2x-sample-cpu (Sample CPU, 64 cores")) << ran.err;
}

TEST_F(Compare, OneFileAcrossItsRanks) {
  Result result = sample_result();
  result.machine.cores = 8;
  CaseResult more = result.cases[0];
  more.ranks = 2, more.mesh = {{"dp", 2}};
  for (VariantResult& variant : more.variants) speed_up(variant, 1.5);
  result.cases.push_back(more);
  write_result(root_ / "ranks.json", result);
  const Ran ran = tenfold("compare ranks.json --across ranks");
  EXPECT_EQ(ran.code, 0) << ran.err;
  for (const char* part : {"A = the row of the fewest ranks, B = each other", "speed-up", "1 -> 2, strong", "75 % [",
                           "strong: the same batch on all ranks together"})
    EXPECT_TRUE(has(ran.out, part)) << part << "\n" << ran.out;
  for (const char* part : {"gain:", "gain, B over A", "Noted numbers:", "Counts must be equal", "of the maker's"})
    EXPECT_FALSE(has(ran.out, part)) << part << "\n" << ran.out;
  const Json json = Json::parse(tenfold("compare ranks.json --across ranks --json").out)["comparisons"][0];
  EXPECT_EQ(json["a"], json["b"]);
  EXPECT_EQ(json["rows"][1]["scaling"], "strong");
  EXPECT_NEAR(json["rows"][1]["efficiency"]["ratio"].get<double>(), 0.75, 1e-6);
  EXPECT_TRUE(json["noted"].empty());
  EXPECT_EQ(tenfold("compare ranks.json").code, 2) << "one file has no other side";
}

TEST_F(Compare, NotesSweepsAndKernelsInOneCall) {
  const std::string report = R"({"context": {"gpu": "NVIDIA H200", "commit": "abc"}, "benchmarks": [
    {"name": "softmax, Float, 8 x 8/rung 3/cold", "run_type": "iteration", "real_time": 400, "time_unit": "us",
     "bytes/s": 2.4e12}]})";
  for (const std::string side : {"a", "c"}) {
    write_result(root_ / side / "sweeps" / "30_length_gpt.json", sample_sweep({{64, 0.8}, {128, 1.25}}));
    write(side + "/bench/softmax.json", report);
  }
  write_result(root_ / "c" / "r.json", sample_result());
  const Ran ran = tenfold("compare a c");
  EXPECT_EQ(ran.code, 0) << ran.err;
  for (const char* part : {"of the maker's", "Noted numbers:", "equal", "crossover", "at 96 (faster from 128)",
                           "Kernels:", "DRAM 50 %", "1.00x"})
    EXPECT_TRUE(has(ran.out, part)) << part << "\n" << ran.out;
  EXPECT_EQ(tenfold("compare a/bench c/bench").code, 0) << "folders of reports";
  const Json json = Json::parse(tenfold("compare a c --json").out)["comparisons"][0];
  EXPECT_EQ(json["kernels"].size() + json["sweeps"].size(), 2u);
  EXPECT_EQ(json["noted"][0]["notes"][0]["equal"], true);
}

TEST_F(Reproduce, NamesACountThatIsNotEqualAndRepeatsSweeps) {
  add_lesson("30_gradient_accumulation", "hand_out");
  Result theirs = result_of("30_gradient_accumulation");
  theirs.cases[0].variants[1].notes["micro-batches"].value = 9;
  write_result(root_ / "theirs" / "30_gradient_accumulation.json", theirs);
  Result sweep = sample_sweep({{64, 0.8}, {128, 1.25}});
  sweep.machine = theirs.machine, sweep.argv = {"--sweep", "length=64,128"};
  write_result(root_ / "theirs" / "sweeps" / "30_length_gpt.json", sweep);
  const Ran ran = tenfold("reproduce theirs");
  EXPECT_TRUE(has(ran.out, "NOT EQUAL")) << ran.out;
  EXPECT_TRUE(has(ran.out, "1 count is not equal")) << ran.out;
  EXPECT_TRUE(has(ran.out, "theirs at 96 (faster from 128); yours -")) << ran.out;
  EXPECT_TRUE(fs::exists(out_ / "reproduced" / "sweeps" / "30_length_gpt.json"));
}

class Report : public Sandbox {
 protected:
  Report() {
    add_lesson("10_one", "hand_out");
    write("README.md", "x\n<!-- tenfold:begin lessons -->\n<!-- tenfold:end -->\n");
  }
};

TEST_F(Report, CheckNamesStaleFilesAndWriteMendsThem) {
  const Ran stale = tenfold("report --check");
  EXPECT_EQ(stale.code, 1);
  EXPECT_TRUE(has(stale.out, "stale: README.md")) << stale.out;
  EXPECT_FALSE(fs::exists(root_ / "docs")) << "--check writes nothing";
  EXPECT_EQ(tenfold("report --write").code, 0);
  EXPECT_TRUE(has(read("README.md"), "Title of 10\\_one"));
  EXPECT_TRUE(fs::exists(root_ / "docs" / "results.md"));
  EXPECT_EQ(tenfold("report --check").code, 0);
}

TEST_F(Report, AMistakeInOnePageRewritesNone) {
  write("docs/bad.md", "<!-- tenfold:begin nonsense -->\n<!-- tenfold:end -->\n");
  const auto before = snapshot();
  const Ran ran = tenfold("report --write");
  EXPECT_EQ(ran.code, 2);
  EXPECT_TRUE(has(ran.err, "bad.md:1: unknown kind 'nonsense'")) << ran.err;
  EXPECT_EQ(snapshot(), before);
}

TEST_F(Report, APageForThisMachine) {
  tenfold("run 10");
  const Ran ran = tenfold("report");
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_TRUE(has(ran.out, "out/report.html"));
  EXPECT_TRUE(has(read("out/report.html"), "SLOWER 0.80"));
}

TEST_F(Report, DoctorFindsDamagedData) {
  write("cache/data/.complete", "");
  write("cache/data/set/a.txt", "abc");
  write("cache/data/set/SHA256SUMS", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad  a.txt\n");
  EXPECT_TRUE(has(tenfold("doctor").out, "data: set in ")) << "whole data was doubted";
  write("cache/data/set/a.txt", "abd");
  const std::string out = tenfold("doctor").out;
  EXPECT_TRUE(has(out, "a.txt: is truncated or altered")) << out;
}

TEST_F(Report, DoctorRunsAnywhere) {
  const Ran ran = tenfold("doctor");
  EXPECT_EQ(ran.code, 0) << ran.err;
  for (const char* part : {"C++ compiler", "data: not complete", "to fix: ./tenfold setup", "ceilings: never measured",
                           "lessons: 1 built"})
    EXPECT_TRUE(has(ran.out, part)) << part << "\n" << ran.out;
}

}  // namespace
}  // namespace tenfold
