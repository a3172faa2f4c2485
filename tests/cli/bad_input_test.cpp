// Bad input: exit code 2, one line on standard error that says what is wrong and what to do, nothing written.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <tuple>
#include <vector>

#include "sandbox.h"

namespace tenfold {
namespace {

namespace fs = std::filesystem;

class BadInput : public Sandbox {
 protected:
  BadInput() {
    add_lesson("30_gradient_accumulation", "echo must not run; hand_out");
    add_lesson("31_activation_checkpointing", "echo must not run; hand_out");
    write_result(root_ / "good.json", sample_result());
    text_ = read("good.json");
  }
  void refused(const std::string& arguments, const std::vector<std::string>& said,
               const std::string& redirect = "") const {
    const auto before = snapshot();
    const Ran ran = tenfold(arguments, "", redirect);
    EXPECT_EQ(ran.code, 2) << arguments << "\n" << ran.err;
    EXPECT_EQ(std::count(ran.err.begin(), ran.err.end(), '\n'), 1) << arguments << ": " << ran.err;
    EXPECT_EQ(ran.err.rfind("tenfold: ", 0), 0u) << ran.err;
    EXPECT_EQ(ran.out, "") << arguments;
    for (const std::string& part : said)
      EXPECT_TRUE(has(ran.err, part)) << arguments << ": no '" << part << "' in: " << ran.err;
    EXPECT_EQ(snapshot(), before) << arguments << ": something was written";
  }
  std::string text_;
};

TEST_F(BadInput, Commands) {
  refused("tuor", {"unknown command 'tuor'", "did you mean 'tour'?"});
  refused("xyzzy", {"unknown command 'xyzzy'", "tenfold help"});
  refused("bench", {"./tenfold bench"});
  refused("help nothing", {"unknown command 'nothing'"});
  refused("data pakc", {"unknown argument 'pakc'", "did you mean 'pack'?", "tenfold data --help"});
  refused("data pack --jpg 256", {"did you mean '--jpeg'?", "tenfold data pack --help"});
  refused("data pack", {"openclipart: was not fetched", "./tenfold data pack"});
}

TEST_F(BadInput, Lessons) {
  refused("run 30_gradient_acumulation", {"unknown lesson", "did you mean '30_gradient_accumulation'?"});
  refused("run gradient_acumulation", {"did you mean '30_gradient_accumulation'?"});
  refused("run 99", {"unknown lesson '99'", "tenfold list"});
  refused("run ac", {"means several lessons", "30_gradient_accumulation", "31_activation_checkpointing"});
  refused("run", {"lesson is required"});
  refused("run 30 99", {"unknown lesson '99'"});
  write("lessons/45_fused_adamw/lesson.cpp", "");
  refused("run adamw", {"45_fused_adamw is not built here", "./tenfold run 45"});
  refused("run fused_adam2", {"did you mean '45_fused_adamw'?"});
  refused("exercise 30", {"unknown exercise '30'", "tenfold exercise"});
}

TEST_F(BadInput, Flags) {
  refused("run 30 --presett quick", {"unknown argument '--presett'", "did you mean '--preset'?"});
  refused("run 30 --preset medium", {"--preset medium: expected build, check, smoke, quick or full\n"});
  refused("tour --preset quik", {"--preset quik: expected build, check, smoke, quick or full; did you mean 'quick'?"});
  refused("publish --preset ful", {"--preset ful: expected check, smoke, quick or full; did you mean 'full'?"});
  refused("publish --bench --preset full", {"--preset", "--bench"});
  refused("tour --threads 0", {"--threads 0: expected"});
  refused("tour --rounds 3", {"unknown argument '--rounds'"});
  refused("tour extra", {"unknown argument 'extra'"});
  refused("run 30 --device tpu", {"--device tpu: expected auto, cpu, cuda or dry:CARD"});
  refused("run 30 --json", {"--json"});
  refused("run 30 --json ''", {"--json: its value is empty; expected FILE"});
  refused("run 30 --seed 1 --seed 2", {"--seed: was given 2 times; give it once"});
  refused("run 30 31 --json x.json", {"several lessons"});
  refused("run 30 31 --trace x", {"several lessons"});
  refused("report --write --check", {"--check"});
  refused("list --jsn", {"did you mean '--json'?"});
}

TEST_F(BadInput, NumbersSayWhatIsExpected) {
  refused("run 30 --rounds 0", {"tenfold: --rounds 0: expected 1 or more\n"});
  refused("run 30 --rounds -1", {"tenfold: --rounds -1: expected 1 or more\n"});
  refused("run 30 --rounds 3000000000", {"tenfold: --rounds 3000000000: expected 1 to 2147483647\n"});
  refused("run 30 --threads 0", {"tenfold: --threads 0: expected 1 to 1024\n"});
  refused("run 30 --seed x", {"tenfold: --seed x: expected a whole number, 0 or more\n"});
  refused("run 30 --seed 1.5", {"tenfold: --seed 1.5: expected a whole number, 0 or more\n"});
  refused("data pack --jpeg 7", {"tenfold: --jpeg 7: expected 8 to 4096\n"});
  refused("data pack --raw 5000", {"tenfold: --raw 5000: expected 8 to 4096\n"});
  refused("data pack --raw big", {"tenfold: --raw big: expected a whole number, 8 to 4096\n"});
}

TEST_F(BadInput, ResultFiles) {
  write("empty.json", "");
  write("other.json", R"({"schema":"tenfold.result/9"})");
  write("half.json", text_.substr(0, text_.size() / 2));
  auto json = nlohmann::ordered_json::parse(text_);
  json["cases"][0].erase("threads");
  write("field.json", json.dump());
  fs::create_directories(root_ / "nothing");
  for (const std::string command : {"compare good.json ", "compare --json good.json ", "reproduce "}) {
    refused(command + "none.json", {"none.json", "does not exist"});
    refused(command + "empty.json", {"empty.json", "is not JSON"});
    refused(command + "other.json", {"other.json: schema", "tenfold.result/9"});
    refused(command + "half.json", {"half.json", "is not JSON", "truncated"});
    refused(command + "field.json", {"field.json: cases[0].threads: is missing"});
    refused(command + "nothing", {"nothing", "holds no result file"});
  }
  refused("compare good.json", {"two or more"});
}

TEST_F(BadInput, UnlikeRowsAlone) {
  Result other = sample_result();
  other.cases[0].threads = 8;
  write_result(root_ / "threads.json", other);
  refused("compare good.json threads.json", {"nothing to compare", "threads is 8 here and 1 there"});
}

TEST_F(BadInput, OutputFolders) {
  write("file", "");
  for (const std::string command : {"tour", "run 30", "reproduce good.json"}) {
    refused(command + " --out file", {"file", "cannot be written", "--out"});
    refused(command + " --out file/new/deep", {"file is not a folder", "--out"});
    refused(command + " --out /proc/none", {"/proc/none", "cannot be written"});
  }
  refused("publish --out nothing", {"there are no results yet"});
  refused("report --out nothing", {"there are no results yet"});
}

TEST_F(BadInput, ADamagedDescription) {
  write("build/lessons/31_activation_checkpointing.describe.json", "{");
  refused("list", {"31_activation_checkpointing.describe.json", "./tenfold setup"});
}

TEST_F(BadInput, NothingBuilt) {
  fs::remove_all(root_ / "build");
  refused("tour", {"no lesson is built", "./tenfold setup"});
  refused("run 30", {"no lesson is built"});
  refused("probe", {"not built", "./tenfold setup"});
}

// A table that went to a full disk is no table, whatever wrote it.
TEST_F(BadInput, StandardOutputThatIsFull) {
  refused("list", {"standard output cannot be written"}, "/dev/full");
  refused("compare good.json good.json --json", {"standard output cannot be written"}, "/dev/full");
}

TEST_F(BadInput, AFullDisk) {
  fs::create_directories(root_ / "small");
  if (std::system(("mount -t tmpfs -o size=64k tmpfs '" + (root_ / "small").string() + "' 2>/dev/null").c_str()) != 0)
    GTEST_SKIP() << "no right to mount a small file system";
  std::ignore = std::system(("head -c 65536 /dev/zero > '" + (root_ / "small" / "rest").string() + "'").c_str());
  for (const std::string command : {"tour --out small/out", "run 30 --out small/out"}) {
    const Ran ran = tenfold(command);
    EXPECT_EQ(ran.code, 2) << ran.err;
    EXPECT_TRUE(has(ran.err, "No space left on device")) << ran.err;
    EXPECT_FALSE(has(ran.out, "must not run"));
    EXPECT_FALSE(fs::exists(root_ / "small/out")) << "a folder was left behind";
  }
  std::ignore = std::system(("umount '" + (root_ / "small").string() + "'").c_str());
}

}  // namespace
}  // namespace tenfold
