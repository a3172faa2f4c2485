// exercise: from a starter to a solution, with help on the way.
#include <algorithm>
#include <utility>
#include <vector>

#include "sandbox.h"

namespace tenfold {
namespace {

namespace fs = std::filesystem;

// A whole little project with the real CMake, Ninja and GoogleTest.
class Exercise : public Sandbox {
 protected:
  void SetUp() override {
    if (!fs::exists(test::environment_program("ninja"))) GTEST_SKIP() << "no Ninja";
    fs::create_directory_symlink(test::source_folder() / ".venv", root_ / ".venv");
    write("lessons/30_x/exercise/README.md",
          "# Exercise 30: a sum\n\nDifficulty: easy. About 5 minutes.\n\nMake it add.\n\n<details><summary>Second "
          "hint</summary>\n\nReturn a + b.\n\n</details>\n");
    write("lessons/30_x/exercise/solution.h", "inline int add(int a, int b) { return a + b; }\n");
    write("kernels/warm_ups/40.1_map/README.md", "# Exercise 40.1: one\n\nDifficulty: hard. About 50 minutes. Why.\n");
    write("kernels/warm_ups/40.1_map/starter.h", "");
    write("lessons/30_x/exercise/starter.h", "inline int add(int a, int) { return a; }\n");
    write("lessons/30_x/exercise/check.cpp",
          "#include <gtest/gtest.h>\n#include <iostream>\n#include EXERCISE\nTEST(Exercise, ZeroIsNothing) { std::cout "
          "<< \"two\\nnote: 2 + 0 is 2\\n\"; EXPECT_EQ(add(2, 0), 2); }\n"
          "TEST(Exercise, TwoNumbersAreAdded) { EXPECT_EQ(add(2, 3), 5) << \"hint: look at the second one\"; }\n");
    write("CMakeLists.txt",
          "cmake_minimum_required(VERSION 3.25)\nproject(x CXX)\nset(CMAKE_CXX_STANDARD 20)\nfind_package(GTest "
          "REQUIRED)\n"
          "set(own ${PROJECT_SOURCE_DIR}/exercises/30_x/exercise.h)\nif(EXISTS ${own})\n"
          "add_executable(30_x_exercise lessons/30_x/exercise/check.cpp)\ntarget_link_libraries(30_x_exercise "
          "GTest::gtest_main)\n"
          "target_compile_definitions(30_x_exercise PRIVATE \"EXERCISE=\\\"${own}\\\"\")\n"
          "set_target_properties(30_x_exercise PROPERTIES RUNTIME_OUTPUT_DIRECTORY "
          "${PROJECT_BINARY_DIR}/exercises)\nendif()\n");
    const std::string cmake = test::environment_program("cmake");
    ASSERT_EQ(std::system((cmake + " -S '" + root_.string() + "' -B '" + (root_ / "build").string() +
                           "' -G Ninja -DCMAKE_MAKE_PROGRAM=" + test::environment_program("ninja").string() +
                           " >/dev/null 2>&1")
                              .c_str()),
              0);
  }
};

TEST_F(Exercise, FromStarterToSolution) {
  const Ran first = tenfold("exercise 30");
  EXPECT_EQ(first.code, 1) << first.err;
  EXPECT_EQ(first.out.rfind("Exercise 30: a sum\n", 0), 0U) << first.out;
  EXPECT_TRUE(has(first.out, "Difficulty: easy. About 5 minutes.\n\nMake it add.\n")) << first.out;
  EXPECT_FALSE(has(first.out, "Return a + b.") || has(first.out, "details")) << "the second hint waits to be asked for";
  EXPECT_TRUE(has(first.out, "exercises/30_x/exercise.h"));
  EXPECT_TRUE(has(first.out, "1 of 2 checks pass")) << first.out;
  EXPECT_TRUE(has(first.out, "passes  Zero is nothing\n            note: 2 + 0 is 2\n  left"))
      << "only notes of what passes: " << first.out;
  EXPECT_TRUE(has(first.out, "left    Two numbers are added"));
  EXPECT_TRUE(has(first.out, "hint: look at the second one"));
  EXPECT_TRUE(has(first.out, "Stuck? Call it with --hint, then with --solution.\n"));

  write("exercises/30_x/exercise.h", "inline int add(int a, int b) { return a + b; }\n");
  const Ran solved = tenfold("exercise 30");
  EXPECT_EQ(solved.code, 0) << solved.out;
  EXPECT_TRUE(has(solved.out, "2 of 2 checks pass"));
  EXPECT_FALSE(has(solved.out, "Make it add.")) << "the task is printed once";

  write("exercises/30_x/exercise.h", "inline int add(int a, int b) { return a + }\n");
  const Ran broken = tenfold("exercise 30");
  EXPECT_EQ(broken.code, 1);
  EXPECT_TRUE(has(broken.out, "does not compile")) << broken.out;

  const Ran reset = tenfold("exercise 30 --reset");
  EXPECT_EQ(reset.code, 1);
  EXPECT_EQ(read("exercises/30_x/exercise.h"), read("lessons/30_x/exercise/starter.h"));
  EXPECT_EQ(read("exercises/30_x/exercise.before-reset-1.h"), "inline int add(int a, int b) { return a + }\n");
}

TEST_F(Exercise, HelpForWhoIsStuck) {
  const Ran early = tenfold("exercise 30 --solution");
  EXPECT_EQ(early.code, 0) << early.err;
  EXPECT_EQ(early.out, "A solution: lessons/30_x/exercise/solution.h\n");

  const Ran hint = tenfold("exercise 30 --hint");
  EXPECT_EQ(hint.code, 0) << hint.err;
  EXPECT_EQ(hint.out, "Return a + b.\n");
  EXPECT_FALSE(fs::exists(root_ / "exercises")) << "asking begins nothing";

  write("exercises/30_x/exercise.h", "inline int add(int a, int) { return a; }\n");
  const Ran solution = tenfold("exercise 30 --solution");
  EXPECT_EQ(solution.code, 0) << solution.err;
  EXPECT_TRUE(has(solution.out, "\n-inline int add(int a, int) { return a; }\n")) << solution.out;
  EXPECT_TRUE(has(solution.out, "\n+inline int add(int a, int b) { return a + b; }\n")) << solution.out;
}

TEST_F(Exercise, AreListedWithTheirDifficulty) {
  write("exercises/30_x/exercise.h", "");
  const Ran list = tenfold("exercise");
  EXPECT_EQ(list.code, 0) << list.err;
  std::istringstream lines(list.out);
  std::string words;
  for (std::string line; std::getline(lines, line);) {
    std::istringstream cells(line);
    for (std::string word; cells >> word;) words += word + " ";
    words += "| ";
  }
  EXPECT_TRUE(has(words, "30 a sum easy 5 begun |")) << list.out;
  EXPECT_TRUE(has(words, "40.1 one hard 50 |")) << list.out;
}

TEST_F(Exercise, BadInputIsOneLine) {
  for (const auto& [arguments, said] : std::vector<std::pair<std::string, std::string>>{
           {"exercise 31", "unknown exercise '31'; did you mean '30_x'?"},
           {"exercise mpa", "did you mean '40.1_map'? (all exercises: ./tenfold exercise)"},
           {"exercise _", "means several exercises: 30_x, 40.1_map"},
           {"exercise map --hint", "has no second hint"},
           {"exercise map --solution", "40.1_map/solution.h"},
           {"exercise --hint", "which exercise?"},
           {"exercise 30 --hint --solution", "--hint"},
           {"exercise 30 --reset --hint", "--hint"},
           {"exercise 30 --hnt", "did you mean '--hint'?"}}) {
    const Ran ran = tenfold(arguments);
    EXPECT_EQ(ran.code, 2) << arguments << ran.err;
    EXPECT_EQ(ran.out, "") << arguments;
    EXPECT_EQ(std::count(ran.err.begin(), ran.err.end(), '\n'), 1) << arguments << ": " << ran.err;
    EXPECT_TRUE(has(ran.err, said)) << arguments << ": " << ran.err;
  }
  EXPECT_FALSE(fs::exists(root_ / "exercises")) << "nothing half written";
}

TEST_F(Exercise, AnAnswerThatCrashesOrNeverEndsIsLeft) {
  write("exercises/30_x/exercise.h",
        "#include <cstdlib>\ninline int add(int a, int b) { return b == 0 ? a : (std::abort(), 0); }\n");
  const Ran crashed = tenfold("exercise 30");
  EXPECT_EQ(crashed.code, 1) << crashed.err;
  EXPECT_TRUE(has(crashed.out, "1 of 2 checks pass")) << crashed.out;
  EXPECT_TRUE(has(crashed.out, "left    Two numbers are added\n            the program ended here with SIGABRT"))
      << crashed.out;

  write("exercises/30_x/exercise.h", "#include <unistd.h>\ninline int add(int, int) { for (;;) pause(); }\n");
  const Ran endless = tenfold("exercise 30 --limit 2");
  EXPECT_EQ(endless.code, 1) << endless.err;
  EXPECT_TRUE(has(endless.out, "stopped after 2 s: ")) << endless.out;
}

// Without a limit of its own, it would fill the driver's memory until that of --limit.
TEST_F(Exercise, AnAnswerThatPrintsForEverIsStopped) {
  for (const char* print : {"std::puts(\"again\")", "std::fputs(\"again\", stdout)", "std::fputs(\"again\", stderr)"}) {
    write("exercises/30_x/exercise.h",
          std::string("#include <cstdio>\ninline int add(int, int) { for (;;) ") + print + "; }\n");
    const Ran ran = tenfold("exercise 30 --limit 100");
    EXPECT_EQ(ran.code, 1) << print << ": " << ran.err;
    EXPECT_TRUE(has(ran.out, "stopped after it had printed 1.00 MiB: ")) << print;
    EXPECT_TRUE(has(ran.out, "0 of 1 checks pass")) << print;
    EXPECT_LT(std::count(ran.out.begin(), ran.out.end(), '\n'), 70) << print;
  }
}

}  // namespace
}  // namespace tenfold
