// publish: results, sweeps and benchmark reports copied to results/, all of them or none.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "common/result/seal.h"
#include "sandbox.h"

namespace tenfold {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

class Publish : public Sandbox {
 protected:
  Publish() {
    for (const std::string name : {"10_one", "11_two"}) {
      add_lesson(name, "");
      describe(name, full_result_of(name).lesson_version);
      put(full_result_of(name));
    }
  }
  /// As measured with the preset that is published.
  Result full_result_of(const std::string& lesson) const {
    Result result = Sandbox::result_of(lesson);
    for (CaseResult& one : result.cases) one.preset = "full";
    return result;
  }
  /// What the built lesson says of itself, as far as publish reads it.
  void describe(const std::string& name, int version) const {
    write("build/lessons/" + name + ".describe.json",
          Json{{"lesson", name}, {"title", "T"}, {"version", version}}.dump());
  }
  void put(const Result& result) const { write_result(root_ / "mine" / (result.lesson + ".json"), result); }
  void refused(const std::string& why, const std::string& file = "11_two.json", const std::string& flags = "") const {
    const auto before = snapshot();
    const Ran ran = tenfold("publish --out mine " + flags);
    EXPECT_EQ(ran.code, 2);
    EXPECT_TRUE(has(ran.err, why)) << ran.err;
    EXPECT_TRUE(has(ran.err, file)) << "the file is named: " << ran.err;
    EXPECT_EQ(std::count(ran.err.begin(), ran.err.end(), '\n'), 1) << ran.err;
    EXPECT_EQ(snapshot(), before) << "all or nothing";
  }
};

// Both lessons of a card that is not there, and one of them again.
TEST_F(Publish, WhatIsSaidOfACardIsSealed) {
  const auto dry = [this](const std::string& name, int64_t more) {
    Result result = full_result_of(name);
    const Result of_card = sample_modelled_result();
    result.machine.id = "dry-h100", result.machine.gpus = of_card.machine.gpus;
    result.cases = of_card.cases;
    for (CaseResult& c : result.cases) {
      c.preset = "full";
      for (VariantResult& variant : c.variants) {
        for (auto& [kind, bytes] : variant.peak_bytes) bytes += more;
      }
    }
    put(result);
  };
  dry("10_one", 0), dry("11_two", 0);
  Ran ran = tenfold("publish --out mine");
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_TRUE(has(ran.out, "2 results of commit")) << ran.out;
  const std::string folder = "results/dry-h100", first = check_seal(root_ / folder);
  fs::remove(root_ / "mine/11_two.json");
  dry("10_one", 1 << 20);
  EXPECT_EQ(tenfold("publish --out mine").code, 0);
  EXPECT_NE(check_seal(root_ / folder), first);
  EXPECT_TRUE(has(read(folder + "/SHA256SUMS"), "11_two.json")) << "what stays is sealed, too";
  write(folder + "/11_two.json", read(folder + "/11_two.json") + " ");
  EXPECT_THROW(check_seal(root_ / folder), FileError);
}

// Two hosts may have one id: it says nothing of the memory.
TEST_F(Publish, AnotherMachineOfTheSameNameGetsAFolderOfItsOwn) {
  ASSERT_EQ(tenfold("publish --out mine").code, 0);
  const auto before = read("results/sample-machine/10_one.json");
  for (const std::string name : {"10_one", "11_two"}) {
    Result larger = full_result_of(name);
    larger.machine.ram_bytes *= 4;
    put(larger);
  }
  const Ran ran = tenfold("publish --out mine");
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_EQ(std::count(ran.err.begin(), ran.err.end(), '\n'), 1) << ran.err;
  EXPECT_TRUE(has(ran.err, "results/sample-machine belongs to another machine (Sample CPU, 2 cores, 16 GiB memory"))
      << ran.err;
  EXPECT_EQ(read("results/sample-machine/10_one.json"), before) << "was overwritten";
  const size_t at = ran.err.rfind("sample-machine-");
  ASSERT_NE(at, std::string::npos) << ran.err;
  const std::string own = ran.err.substr(at, std::string("sample-machine-123456").size());
  EXPECT_EQ(read_result(root_ / "results" / own / "11_two.json").machine.id, own);
}

TEST_F(Publish, ResultsOfTwoMachinesOfOneNameAreNoSet) {
  Result larger = full_result_of("11_two");
  larger.machine.ram_bytes *= 4;
  put(larger);
  refused("is from another machine called sample-machine");
}

TEST_F(Publish, CopiesCleanResults) {
  write("results/sample-machine/05_old.json", "kept");
  const Ran ran = tenfold("publish --out mine");
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_EQ(read("results/sample-machine/10_one.json"), read("mine/10_one.json"));
  EXPECT_EQ(read("results/sample-machine/11_two.json"), read("mine/11_two.json"));
  EXPECT_EQ(read("results/sample-machine/05_old.json"), "kept");
  EXPECT_EQ(std::distance(fs::directory_iterator(root_ / "results"), fs::directory_iterator()), 1)
      << "nothing beside it is left";
}

TEST_F(Publish, TimelinesAreKeptWhereThePageDrawsMemory) {
  for (const std::string lesson : {"10_one", "11_two"}) {
    Result result = full_result_of(lesson);
    result.cases[0].variants[0].timeline = {.bytes = {1, 2}, .region = {"forward", "backward"}};
    put(result);
  }
  write("lessons/10_one/README.md", "<!-- tenfold:begin figure memory -->\n<!-- tenfold:end -->\n");
  ASSERT_EQ(tenfold("publish --out mine").code, 0);
  EXPECT_EQ(read("results/sample-machine/10_one.json"), read("mine/10_one.json"));
  Result without = read_result(root_ / "mine/11_two.json");
  without.cases[0].variants[0].timeline.reset();
  EXPECT_EQ(read("results/sample-machine/11_two.json"), format_result(without));
}

TEST_F(Publish, WhatAKilledPublishLeftIsUsedOrRemoved) {
  // Killed between two renames, as on a file system that cannot exchange folders.
  write("results.next/sample-machine.previous/05_old.json", "kept");
  write("results.next/sample-machine/11_two.json", "half");
  EXPECT_EQ(tenfold("publish --out mine").code, 0);
  EXPECT_EQ(read("results/sample-machine/05_old.json"), "kept") << "published before, and not measured this time";
  EXPECT_EQ(read("results/sample-machine/11_two.json"), read("mine/11_two.json"));
  EXPECT_FALSE(fs::exists(root_ / "results.next"));
  // Killed before or after.
  write("results.next/sample-machine/06_new.json", "half");
  write("results.next/sample-machine.previous/05_old.json", "older");
  EXPECT_EQ(tenfold("publish --out mine").code, 0);
  EXPECT_EQ(read("results/sample-machine/05_old.json"), "kept");
  EXPECT_FALSE(fs::exists(root_ / "results/sample-machine/06_new.json"));
  EXPECT_FALSE(fs::exists(root_ / "results.next"));
}

TEST_F(Publish, AResultThatAKilledTourHadMovedAsideIsPublished) {
  fs::rename(root_ / "mine/11_two.json", root_ / "mine/11_two.json.earlier");
  EXPECT_EQ(tenfold("publish --out mine").code, 0);
  EXPECT_TRUE(fs::exists(root_ / "results/sample-machine/11_two.json"));
}

TEST_F(Publish, AHalfResultBesideAFullOneIsNot) {
  fs::copy_file(root_ / "mine/11_two.json", root_ / "mine/11_two.json.earlier");
  Result half = full_result_of("11_two");
  half.cases.resize(1);
  half.cases[0].variants.resize(2);
  put(half);
  refused("is of a run that was stopped, and 11_two.json.earlier is what was measured before it");
}

TEST_F(Publish, RefusesWhatCannotBeTraced) {
  Result result = full_result_of("11_two");
  result.dirty = true;
  put(result);
  refused("uncommitted changes");
  result = full_result_of("11_two");
  result.commit = "";
  put(result);
  refused("does not know its commit");
  result.commit = std::string(40, 'c');
  put(result);
  refused("is from commit cccccccccc");
  result = full_result_of("11_two");
  result.code_hash = std::string(64, '0');
  put(result);
  refused("other code");
  result = full_result_of("11_two");
  result.lesson_version = 7;
  put(result);
  refused("is of version 7 of the lesson, which is now version 1; measure again");
  result = full_result_of("11_two");
  result.machine.id = "another";
  put(result);
  refused("is from machine another");
  result = full_result_of("11_two");
  result.lesson = "12_three";
  write_result(root_ / "mine" / "11_two.json", result);
  refused("holds lesson 12_three");
  write("mine/11_two.json", "{}");
  refused("schema: is missing");
}

TEST_F(Publish, WantsOnePreset) {
  Result quick = full_result_of("11_two");
  quick.cases.push_back(quick.cases[0]);
  quick.cases[1].name = "wide", quick.cases[1].preset = "quick";
  put(quick);
  refused(
      "mine/11_two.json: was measured with --preset quick, and full is wanted; measure again with: ./tenfold run "
      "11_two --preset full, or "
      "publish with --preset quick; nothing was published");
  refused("was measured with --preset full, and quick is wanted", "mine/10_one.json", "--preset quick");
  Result one = full_result_of("10_one");
  for (Result* result : {&one, &quick}) {
    for (CaseResult& c : result->cases) c.preset = "smoke";
    put(*result);
  }
  refused("was measured with --preset smoke", "mine/10_one.json");
  EXPECT_EQ(tenfold("publish --out mine --preset smoke").code, 0);
  EXPECT_EQ(read("results/sample-machine/11_two.json"), read("mine/11_two.json"));
}

TEST_F(Publish, NamesTheRowsWithTooFewRounds) {
  const auto timed_for = [](CaseResult c, const std::string& name, int rounds) {
    c.name = name;
    for (VariantResult& variant : c.variants) {
      if (variant.status == "ok") variant.blocks = {sample_blocks(0.1, rounds)};
    }
    c.variants[0].blocks.push_back(c.variants[0].blocks[0]);
    judge(c);
    return c;
  };
  Result result = full_result_of("10_one");
  const CaseResult sample = result.cases[0];
  result.cases = {timed_for(sample, "enough", 12), timed_for(sample, "few", 11), timed_for(sample, "one", 1)};
  put(result);
  CaseResult untimed = sample;
  untimed.name = "counted", untimed.kind = "survey", untimed.workload = "";
  for (VariantResult& variant : untimed.variants) variant.blocks.clear();
  untimed.verdicts.clear();
  result = full_result_of("11_two");
  result.cases = {untimed, timed_for(sample, "six", 6)};
  put(result);
  const Ran ran = tenfold("publish --out mine");
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_EQ(ran.err,
            "tenfold: warning: 10_one, case few: 11 rounds; an interval wants 12 or more\n"
            "tenfold: warning: 10_one, case one: 1 round; an interval wants 12 or more\n"
            "tenfold: warning: 11_two, case six: 6 rounds; an interval wants 12 or more\n");
  EXPECT_EQ(read("results/sample-machine/10_one.json"), read("mine/10_one.json")) << "it is a warning";
}

TEST_F(Publish, NeedsTheBuiltLessonToKnowItsVersion) {
  describe("11_two", full_result_of("11_two").lesson_version + 1);
  refused("is of version 1 of the lesson, which is now version 2; measure again");
  write("build/lessons/11_two.describe.json", R"({"lesson":"11_two"})");
  refused("build again with: ./tenfold setup", "11_two.describe.json");
  fs::remove(root_ / "build" / "lessons" / "11_two.describe.json");
  refused("is not built here, so its version cannot be checked");
}

class PublishSweep : public Publish {
 protected:
  /// Lesson 11 at these many values of `layers`, measured with the preset that curves have.
  Result swept(size_t points) const {
    Result result = result_of("11_two");
    const CaseResult one = result.cases[0];
    result.cases.clear();
    for (size_t i = 0; i < points; ++i) {
      result.cases.push_back(one);
      const auto layers = static_cast<int64_t>(i + 1);
      result.cases.back().name = one.name + " layers=" + std::to_string(layers);
      result.cases.back().sweep = SweepPoint{"layers", layers};
    }
    return result;
  }
  void put(const Result& result, const std::string& name = "11_layers_R2_batch_4.json") const {
    write_result(root_ / "mine" / "sweeps" / name, result);
  }
};

TEST_F(PublishSweep, GoesToAFolderOfItsOwn) {
  put(swept(3));
  const Ran ran = tenfold("publish --out mine --sweep");
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_TRUE(has(ran.out, "1 sweep of commit")) << ran.out;
  EXPECT_EQ(read("results/sample-machine/sweeps/11_layers_R2_batch_4.json"),
            read("mine/sweeps/11_layers_R2_batch_4.json"));
  EXPECT_FALSE(fs::exists(root_ / "results/sample-machine/11_two.json")) << "the lessons' own results are not meant";
  EXPECT_EQ(tenfold("publish --out mine").code, 0);
  EXPECT_EQ(read("results/sample-machine/sweeps/11_layers_R2_batch_4.json"),
            read("mine/sweeps/11_layers_R2_batch_4.json"))
      << "both stay";
}

TEST_F(PublishSweep, OfTwoCasesOverOneSetting) {
  put(swept(3));
  Result other = swept(2);
  for (CaseResult& c : other.cases) c.name.replace(0, 2, "R3");
  put(other, "11_layers_R3_batch_4.json");
  const Ran ran = tenfold("publish --out mine --sweep");
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_TRUE(has(ran.out, "2 sweeps of commit")) << ran.out;
  EXPECT_EQ(read("results/sample-machine/sweeps/11_layers_R3_batch_4.json"),
            read("mine/sweeps/11_layers_R3_batch_4.json"));
}

TEST_F(PublishSweep, RefusesWhatIsNoCurve) {
  const auto refused_sweep = [&](const std::string& why, const std::string& file = "sweeps/11_layers_R2_batch_4.json") {
    refused(why, file, "--sweep");
  };
  refused_sweep("there are no sweeps yet; measure with: ./tenfold run LESSON --sweep", "mine/sweeps");
  put(result_of("11_two"));
  refused_sweep("holds no sweep");
  put(swept(1));
  refused_sweep("has 1 point, and a curve has 2 to 6");
  put(swept(7));
  refused_sweep("has 7 points");
  Result two = swept(2);
  two.cases[1].sweep->setting = "batch";
  put(two);
  refused_sweep("sweeps more than one setting");
  two = swept(2);
  two.cases[1].name = "another layers=2";
  put(two);
  refused_sweep("sweeps more than one case");
  Result full = swept(2);
  for (CaseResult& c : full.cases) c.preset = "full";
  put(full);
  refused_sweep("was measured with --preset full, and quick is wanted");
  fs::remove(root_ / "mine/sweeps/11_layers_R2_batch_4.json");
  put(swept(2), "11_width_R2_batch_4.json");
  refused_sweep("holds the sweep 11_layers_R2_batch_4.json", "sweeps/11_width_R2_batch_4.json");
  Result dirty = swept(2);
  dirty.dirty = true;
  fs::remove(root_ / "mine/sweeps/11_width_R2_batch_4.json");
  put(dirty);
  refused_sweep("uncommitted changes");
}

TEST_F(PublishSweep, IsNoLessonsOwnResult) {
  Result sweep = swept(2);
  for (CaseResult& c : sweep.cases) c.preset = "full";
  Publish::put(sweep);
  refused("holds points of a sweep; publish those with --sweep");
}

class PublishBench : public Sandbox {
 protected:
  /// A report as `./tenfold bench --peers` writes it.
  void put(const std::string& name, const std::string& commit, const Json& more = {}, bool covered = true) const {
    const Json row = {{"name", "case"},     {"unit", "items"},        {"ratio", 2}, {"low", 1}, {"high", 3},
                      {"covered", covered}, {"rounds", Json::array()}};
    Json report = {
        {"context", {{"machine", "sample-machine"}, {"commit", commit}, {"dirty", "no"}, {"host_name", "secret"}}},
        {"benchmarks", Json::array()},
        {"peer", {{"cores", {0}}, {"libraries", Json::object()}, {"benchmarks", {row}}, {"best", Json::array()}}}};
    if (!more.is_null()) report["context"].update(more);
    write("out/bench/" + name, report.dump());
  }
  void refused(const std::string& why) const {
    const auto before = snapshot();
    const Ran ran = tenfold("publish --bench");
    EXPECT_EQ(ran.code, 2);
    EXPECT_TRUE(has(ran.err, why)) << ran.err;
    EXPECT_EQ(std::count(ran.err.begin(), ran.err.end(), '\n'), 1) << ran.err;
    EXPECT_EQ(snapshot(), before) << "all or nothing";
  }
};

TEST_F(PublishBench, CopiesReportsBesideTheResults) {
  write("results/sample-machine/10_one.json", "kept");
  write("results/sample-machine/bench/old.json", "kept, too");
  put("loader.json", "abc");
  write("out/bench/harness.json", R"({"context": {}, "benchmarks": []})");
  const Ran ran = tenfold("publish --bench");
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_TRUE(has(ran.out, "1 report of commit abc copied to results/sample-machine")) << ran.out;
  EXPECT_EQ(Json::parse(read("results/sample-machine/bench/loader.json")).at("context").at("commit"), "abc");
  EXPECT_FALSE(has(read("results/sample-machine/bench/loader.json"), "secret"));
  EXPECT_FALSE(fs::exists(root_ / "results/sample-machine/bench/harness.json")) << "it does not say where it ran";
  EXPECT_EQ(read("results/sample-machine/10_one.json") + read("results/sample-machine/bench/old.json"),
            "keptkept, too");
}

TEST_F(PublishBench, RefusesWhatCannotBeTraced) {
  refused("there are no reports yet; measure with: ./tenfold bench --peers");
  put("loader.json", "abc", {{"dirty", "yes"}});
  refused("loader.json: was measured with uncommitted changes");
  put("loader.json", "");
  refused("does not know its commit");
  put("loader.json", "abc");
  put("shard.json", "def");
  refused("shard.json: is from commit def, loader from abc; measure both again");
  put("shard.json", "abc", {{"machine", "another"}});
  refused("is from machine another");
  put("shard.json", "abc", {}, /*covered=*/false);
  refused("shard.json: has too few rounds");
  write("out/bench/shard.json", "{");
  refused("shard.json: is damaged");
}

class PublishDryRun : public Publish {
 protected:
  PublishDryRun() {
    for (const std::string name : {"10_one", "11_two"}) {
      Result result = full_result_of(name);
      result.argv = {"--preset", "full", "--json", "/home/jane/one.json"};
      put(result);
    }
  }
  static constexpr const char* kFile = "out/send/sample-machine.json";
  /// What was written, taken in by a tree that has the commit.
  Ran received(const std::string& file = kFile) const {
    const std::string git = "git -C '" + root_.string() + "' -c user.name=a -c user.email=a@b ";
    EXPECT_EQ(std::system((git + "init -q . && " + git + "commit -q --allow-empty -m one").c_str()), 0);
    return tenfold("publish --received " + file);
  }
  /// The commit that received() makes, put in place of the sample's.
  std::string of_this_commit(std::string text) const {
    const std::string git = "git -C '" + root_.string() + "' ";
    EXPECT_EQ(std::system((git + "rev-parse HEAD >'" + (root_ / "io/head").string() + "'").c_str()), 0);
    const std::string head = read("io/head").substr(0, 40), sample(40, 'b');
    for (size_t at = text.find(sample); at != std::string::npos; at = text.find(sample)) text.replace(at, 40, head);
    return text;
  }
};

TEST_F(PublishDryRun, WritesAllThatWouldBeSentAndNothingElse) {
  const auto before = snapshot();
  const Ran ran = tenfold("publish --dry-run --out mine");
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_EQ(ran.err, "");
  for (const char* part : {"sample-machine: Sample CPU, 2 cores", "ceilings    1 measured", "sm 1000 MHz", "wall time",
                           "2 lessons, preset full, commit bbbbbbbbbb: 10 11", "argv: --json",
                           "identical code judged SAME in 2 of 2 timed cases, told apart in 0",
                           "5 % planted, and found, in 2 of 2", "Nothing was sent.", kFile})
    EXPECT_TRUE(has(ran.out, part)) << part << "\n" << ran.out;
  auto after = snapshot();
  const std::string text = after.at(kFile);
  EXPECT_FALSE(has(text, "jane"));
  EXPECT_EQ(Json::parse(text).at("schema"), "tenfold.send/1");
  EXPECT_EQ(Json::parse(text).at("results").size(), 2U);
  for (const char* made : {"out", "out/send", kFile}) after.erase(made);
  EXPECT_EQ(after, before);
  EXPECT_EQ(tenfold("publish --dry-run --out mine").code, 0) << "again";
  EXPECT_EQ(read(kFile), text);
}

TEST_F(PublishDryRun, OfNamedFilesOnly) {
  Result quick = full_result_of("11_two");
  for (CaseResult& c : quick.cases) c.preset = "quick";
  put(quick);
  EXPECT_EQ(tenfold("publish --dry-run --out mine").code, 2) << "of two presets";
  const Ran ran = tenfold("publish mine/10_one.json --dry-run");
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_TRUE(has(ran.out, "1 lesson, preset full, commit bbbbbbbbbb: 10")) << ran.out;
  EXPECT_EQ(Json::parse(read(kFile)).at("results").size(), 1U);
  EXPECT_EQ(tenfold("publish mine/11_two.json --dry-run --preset quick").code, 0);
  fs::remove_all(root_ / "out");
  for (const auto& [words, why] : std::vector<std::pair<std::string, std::string>>{
           {"none.json --dry-run", "none.json"},
           {"mine --dry-run", "mine: is a folder; name it with --out"},
           {"mine/10_one.json mine/10_one.json --dry-run", "is named twice"},
           {"mine/10_one.json mine/11_two.json --dry-run", "mine/11_two.json: was measured with --preset quick"},
           {"mine/10_one.json", "--dry-run"},
           {"mine/10_one.json --dry-run --out mine", "--out"}}) {
    const Ran refusal = tenfold("publish " + words);
    EXPECT_EQ(refusal.code, 2) << words;
    EXPECT_TRUE(has(refusal.err, why)) << refusal.err;
    EXPECT_EQ(std::count(refusal.err.begin(), refusal.err.end(), '\n'), 1) << refusal.err;
    EXPECT_FALSE(fs::exists(root_ / kFile)) << words;
  }
}

TEST_F(PublishDryRun, RefusesWhatPublishRefuses) {
  refused("was measured with --preset full, and quick is wanted", "10_one.json", "--dry-run --preset quick");
  Result result = full_result_of("11_two");
  result.dirty = true;
  put(result);
  refused("older than its sources; commit, and measure again; nothing was written", "11_two.json", "--dry-run");
  for (const char* flags : {"--dry-run --bench", "--dry-run --sweep", "--dry-run --received x", "--received x --out y"})
    EXPECT_EQ(tenfold(std::string("publish ") + flags).code, 2) << flags;
}

TEST_F(PublishDryRun, NeedsCeilings) {
  for (const std::string name : {"10_one", "11_two"}) {
    Result result = full_result_of(name);
    result.machine.ceilings.clear();
    put(result);
  }
  refused("what machine sample-machine can do at most was never measured; measure with: ./tenfold probe", "",
          "--dry-run");
  write("cache/probe/sample-machine.json", R"({"cpu_copy_bytes_per_s": 5e9})");
  EXPECT_EQ(tenfold("publish --dry-run --out mine").code, 0);
  EXPECT_EQ(Json::parse(read(kFile)).at("results").at(1).at("machine").at("ceilings").at("cpu_copy_bytes_per_s"), 5e9);
}

// Baselines that scatter by a third: the file is there to be looked at, and the exit code says that it is worth
// nothing.
TEST_F(PublishDryRun, SaysThatANoisyRunIsNotWorthSending) {
  Result result = full_result_of("11_two");
  for (CaseResult& c : result.cases) c.variants[0].blocks = {sample_blocks(0.1, 12, 0.6), sample_blocks(0.1, 12, -0.5)};
  put(result);
  fs::remove(root_ / "mine" / "10_one.json");
  const Ran ran = tenfold("publish --dry-run --out mine");
  EXPECT_EQ(ran.code, 1);
  EXPECT_TRUE(has(ran.err, "tenfold: do not send this: code that is 5 % slower would have been found in 0 of 1 cases"))
      << ran.err;
  EXPECT_EQ(std::count(ran.err.begin(), ran.err.end(), '\n'), 1) << ran.err;
  EXPECT_TRUE(fs::exists(root_ / kFile));
  const Ran taken = received();
  EXPECT_EQ(taken.code, 2);
  EXPECT_TRUE(has(taken.err, "5 % slower would have been found")) << taken.err;
}

TEST_F(PublishDryRun, WhatArrivesIsCheckedAndCopied) {
  ASSERT_EQ(tenfold("publish --dry-run --out mine").code, 0);
  const Ran unknown = received();
  EXPECT_EQ(unknown.code, 2);
  EXPECT_TRUE(has(unknown.err, "is of commit bbbbbbbbbb, which this repository does not have")) << unknown.err;
  EXPECT_FALSE(fs::exists(root_ / "results"));
  write("sent.json", of_this_commit(read(kFile)));
  const Ran ran = tenfold("publish --received sent.json");
  EXPECT_EQ(ran.code, 0) << ran.err;
  const Result arrived = read_result(root_ / "results/sample-machine/10_one.json");
  EXPECT_EQ(arrived.argv, (std::vector<std::string>{"--preset", "full"}));
  EXPECT_EQ(arrived.cases[0].verdicts[0].speed.label, full_result_of("10_one").cases[0].verdicts[0].speed.label);
  // A verdict that somebody improved is judged again.
  Json better = Json::parse(read("sent.json"));
  better["results"][0]["cases"][0]["verdicts"][0]["speed"]["ratio"] = 9.5;
  write("better.json", better.dump());
  EXPECT_EQ(tenfold("publish --received better.json").code, 0);
  EXPECT_EQ(read_result(root_ / "results/sample-machine/10_one.json").cases[0].verdicts[0].speed.ratio,
            arrived.cases[0].verdicts[0].speed.ratio);
  const auto before = snapshot();
  for (const auto& [edit, why] : std::vector<std::pair<std::string, std::string>>{
           {R"({"machine": "another"})", "and it says otherwise"},
           {R"({"commit": "cccc"})", "and it says otherwise"},
           {R"({"preset": "quick"})", "was measured with --preset full, and quick is wanted"},
           {R"({"host": "x"})", "host: is not a field"}}) {
    Json edited = Json::parse(read("sent.json"));
    edited.update(Json::parse(edit));
    write("io/edited.json", edited.dump());
    const Ran refusal = tenfold("publish --received io/edited.json");
    EXPECT_EQ(refusal.code, 2) << edit;
    EXPECT_TRUE(has(refusal.err, why)) << refusal.err;
    EXPECT_EQ(std::count(refusal.err.begin(), refusal.err.end(), '\n'), 1) << refusal.err;
  }
  EXPECT_EQ(snapshot(), before);
  EXPECT_EQ(tenfold("publish --received none.json").code, 2);
}

}  // namespace
}  // namespace tenfold
