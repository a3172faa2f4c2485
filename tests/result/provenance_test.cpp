// With the real git: whose commit a result names, and when it must not be called clean.
#include "common/result/provenance.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>

#include "common/base/process.h"
#include "common/base/sha256.h"
#include "common/result/code_hash.h"
#include "tests/support/support.h"

namespace tenfold {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

/// Puts a variable of the environment back when the test is over.
class Variable {
 public:
  Variable(const char* name, const std::string& value) : name_(name) {
    if (const char* old = std::getenv(name)) old_ = old;
    setenv(name, value.c_str(), 1);
  }
  ~Variable() { old_ ? setenv(name_, old_->c_str(), 1) : unsetenv(name_); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
  std::optional<std::string> old_;
};

/// A committed tree with a lesson, and a program that was built after it.
class WhoseCommit : public testing::Test {
 protected:
  void SetUp() override {
    if (output_of({"git", "--version"}).empty()) GTEST_SKIP() << "no git";
    // Nobody's own settings, and no repository around the tree.
    fill(tree_);
    commit(tree_);
    write(program_, "");
    fs::last_write_time(program_, fs::file_time_type::clock::now() + 1h);
  }

  static void write(const fs::path& file, const std::string& text) { test::write_text(file, text); }
  static void fill(const fs::path& tree) {
    write(tree / ".gitignore", "build/\nignored/\n");
    write(tree / "lessons/40_toy/lesson.cpp", "#include \"common/clock.h\"\nint main() {}\n");
    write(tree / "common/clock.h", "int clock();\n");
    write(tree / "common/clock.cpp", "int clock() { return 1; }\n");
    write(tree / "common/unused.h", "int unused;\n");
    write(tree / "results/old.json", "{}\n");
  }
  static std::string git(const fs::path& tree, const std::string& arguments) {
    return output_of(
        {"sh", "-c",
         "git -C '" + tree.string() + "' -c user.name=a -c user.email=a@b -c init.defaultBranch=main " + arguments});
  }
  static void commit(const fs::path& tree) {
    git(tree, "init -q");
    git(tree, "add -A");
    git(tree, "commit -q -m first");
  }
  Provenance of(const fs::path& tree) const { return provenance_of(tree, tree / "lessons/40_toy", program_); }
  Provenance now() const { return of(tree_); }

  test::Scratch scratch_;
  fs::path tree_ = scratch_.path() / "tree", program_ = scratch_.path() / "program";
};

TEST_F(WhoseCommit, OfACleanTree) {
  const Provenance clean = now();
  EXPECT_EQ(clean.commit, git(tree_, "rev-parse HEAD"));
  EXPECT_EQ(clean.commit.size(), 40U);
  EXPECT_FALSE(clean.dirty);
  EXPECT_EQ(clean.code_hash, code_hash(tree_ / "lessons/40_toy"));
  EXPECT_EQ(clean.newer, "");
  write(tree_ / "results/new.json", "{}\n");
  write(tree_ / "results/old.json", "{ }\n");
  write(tree_ / "build/log", "");
  EXPECT_FALSE(now().dirty) << "results and what the tree itself ignores";
  git(tree_, "checkout -q --detach");
  EXPECT_FALSE(now().dirty) << "without a branch";
  git(tree_, "worktree add -q ../second");
  EXPECT_FALSE(of(scratch_.path() / "second").dirty) << "where .git is a file";
  EXPECT_EQ(of(scratch_.path() / "second").commit, clean.commit);
}

TEST_F(WhoseCommit, EveryChangeIsSeen) {
  const auto change = [&](const std::string& name, const std::string& how, const std::string& undo) {
    EXPECT_FALSE(now().dirty) << "before: " << name;
    output_of({"sh", "-c", "cd '" + tree_.string() + "' && " + how});
    EXPECT_TRUE(now().dirty) << name;
    output_of({"sh", "-c", "cd '" + tree_.string() + "' && " + undo});
  };
  change("a changed file", "echo x >>common/clock.h", "git checkout -q .");
  change("one that was removed", "rm common/unused.h", "git checkout -q .");
  change("one that is staged", "echo x >>common/clock.h; git add -A", "git reset -q --hard");
  change("one that was renamed", "git mv common/unused.h common/used.h", "git reset -q --hard");
  change("a mode", "chmod +x common/clock.h", "chmod -x common/clock.h");
  change("a new file", "echo x >common/new.h", "rm common/new.h");
  change("a new folder", "mkdir common/new; echo x >common/new/new.h", "rm -r common/new");
  change("new files that the user wants hidden", "echo x >common/new.h; git config status.showUntrackedFiles no",
         "rm common/new.h; git config --unset status.showUntrackedFiles");
  change("new files that the clone's own list ignores", "echo x >common/new.h; echo '*.h' >.git/info/exclude",
         "rm common/new.h .git/info/exclude");
  change("new files that the user's list ignores",
         "echo x >common/new.h; echo '*.h' >../mine; git config core.excludesFile \"$PWD/../mine\"",
         "rm common/new.h; git config --unset core.excludesFile");
  change("a file that git was told not to look at",
         "git update-index --assume-unchanged common/clock.h; echo x >>common/clock.h",
         "git update-index --no-assume-unchanged common/clock.h; git checkout -q .");
  change("a file that git was told to skip", "git update-index --skip-worktree common/clock.h; echo x >>common/clock.h",
         "git update-index --no-skip-worktree common/clock.h; git checkout -q .");
  change("an index that cannot be read", "cp .git/index ../index; echo broken >.git/index", "cp ../index .git/index");
}

// Whatever it is, it is not this tree's.
TEST_F(WhoseCommit, NoForeignCommit) {
  const fs::path outer = scratch_.path() / "outer";
  fill(outer / "ignored/tree");
  write(outer / ".gitignore", "ignored/\n");
  commit(outer);
  EXPECT_EQ(of(outer / "ignored/tree").commit, "") << "in a folder that the repository around it ignores";
  fill(outer / "tracked/tree");
  git(outer, "add -A");
  git(outer, "commit -q -m more");
  EXPECT_EQ(of(outer / "tracked/tree").commit, "") << "a copy inside of another repository";
  const std::string own = git(tree_, "rev-parse HEAD");
  {
    const Variable folder("GIT_DIR", (outer / ".git").string());
    const Variable work("GIT_WORK_TREE", outer.string());
    const Variable index("GIT_INDEX_FILE", (outer / ".git/index").string());
    EXPECT_EQ(now().commit, own) << "called by a git hook of another repository";
    EXPECT_FALSE(now().dirty);
  }
  write(tree_ / "common/clock.h", "int other;\n");
  git(tree_, "commit -q -a -m second");
  git(tree_, "replace HEAD " + own);
  EXPECT_NE(now().commit, own);
  EXPECT_FALSE(now().dirty) << "another commit shown in place of this one changes nothing";
  git(tree_, "config core.worktree " + outer.string());
  EXPECT_EQ(now().commit, "") << "a repository whose files lie elsewhere";
}

TEST_F(WhoseCommit, NoAnswerIsNoCommit) {
  {
    const Variable path("PATH", scratch_.path().string());
    EXPECT_EQ(now().commit, "") << "without git";
  }
  if (geteuid() == 0) {
    for (const auto& entry : fs::recursive_directory_iterator(tree_))
      ASSERT_EQ(lchown(entry.path().c_str(), 65534, 65534), 0);
    ASSERT_EQ(chown(tree_.c_str(), 65534, 65534), 0);
    const Variable settings("GIT_CONFIG_GLOBAL", "/dev/null");  // which may call every folder safe
    const Variable system("GIT_CONFIG_NOSYSTEM", "1"), count("GIT_CONFIG_COUNT", "0");
    EXPECT_EQ(now().commit, "") << "a checkout of somebody else, of which git refuses to speak";
    ASSERT_EQ(chown(tree_.c_str(), 0, 0), 0);
    ASSERT_EQ(chown((tree_ / ".git").c_str(), 0, 0), 0);
  }
  fs::remove_all(tree_ / ".git");
  git(tree_, "init -q");
  EXPECT_EQ(now().commit, "") << "a repository without a commit";
  fs::remove_all(tree_ / ".git");
  EXPECT_EQ(now().commit, "") << "no repository";
  write(tree_ / ".git", "gitdir: /nowhere\n");
  EXPECT_EQ(now().commit, "") << "a repository that is not there";
}

TEST_F(WhoseCommit, APackIsCleanWhileItIsAsItWasPacked) {
  fs::remove_all(tree_ / ".git");
  write(tree_ / "COMMIT", std::string(40, 'a') + " clean\n");
  const std::string header = test::read_text(tree_ / "common/clock.h");
  write(tree_ / "SHA256SUMS", sha256(header) + "  common/clock.h\n");
  EXPECT_EQ(now().commit, std::string(40, 'a'));
  EXPECT_FALSE(now().dirty);
  write(tree_ / "common/clock.h", "int other;\n");
  EXPECT_TRUE(now().dirty) << "altered";
  fs::remove(tree_ / "common/clock.h");
  EXPECT_TRUE(now().dirty) << "removed";
  write(tree_ / "common/clock.h", header);
  EXPECT_FALSE(now().dirty);
  fs::remove(tree_ / "SHA256SUMS");
  EXPECT_TRUE(now().dirty) << "nothing says what was packed";
  write(tree_ / "SHA256SUMS", sha256(header) + "  common/clock.h\n");
  for (const char* state : {" dirty\n", "\n", " cle"}) {
    write(tree_ / "COMMIT", std::string(40, 'a') + state);
    EXPECT_TRUE(now().dirty) << state;
  }
}

// The sources say nothing of a program that was built before they changed.
TEST_F(WhoseCommit, AProgramOlderThanItsSources) {
  for (const char* file : {"lessons/40_toy/lesson.cpp", "common/clock.h", "common/clock.cpp"}) {
    const auto before = fs::last_write_time(tree_ / file);
    fs::last_write_time(tree_ / file, fs::last_write_time(program_) + 1s);
    EXPECT_EQ(now().newer, file);
    EXPECT_EQ(now().code_hash, "");
    EXPECT_TRUE(now().dirty);
    fs::last_write_time(tree_ / file, before);
  }
  fs::last_write_time(tree_ / "common/unused.h", fs::last_write_time(program_) + 1s);
  EXPECT_EQ(now().newer, "") << "a header that it is not made of";
  EXPECT_FALSE(now().dirty);
  EXPECT_EQ(provenance_of(tree_, tree_ / "common/clock.cpp", program_).newer, "") << "a program of one file";
  fs::last_write_time(tree_ / "common/clock.cpp", fs::last_write_time(program_) + 1s);
  EXPECT_EQ(provenance_of(tree_, tree_ / "common/clock.cpp", program_).newer, "common/clock.cpp");
}

}  // namespace
}  // namespace tenfold
