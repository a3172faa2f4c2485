// Which machine's results pages speak of.
#include "common/pages/rows/references.h"

#include <gtest/gtest.h>

#include "common/result/code_hash.h"
#include "tests/support/sample.h"
#include "tests/support/support.h"

namespace tenfold {
namespace {

namespace fs = std::filesystem;

class References : public testing::Test {
 protected:
  References() { test::write_text(root_ / "lessons" / lesson_ / "lesson.cpp", "int a;\n"); }

  /// A result of the lesson, of its code as it stands or of another.
  Result measured(const std::string& machine, bool current) const {
    Result result = sample_result();
    result.lesson = lesson_;
    result.machine.id = machine;
    result.code_hash = current ? code_hash(root_ / "lessons" / lesson_) : "older";
    return result;
  }
  std::string machine_of(const std::vector<Result>& published) const {
    const auto references = reference_results(root_, published);
    const Result* found = result_of(references, lesson_);
    return found ? found->machine.id : "";
  }
  void prefer(const std::string& machines) const { test::write_text(root_ / "results" / "REFERENCE", machines); }

  test::Scratch scratch_;
  const fs::path root_ = scratch_.path();
  const std::string lesson_ = "66_sample";
};

TEST_F(References, TheFirstMachineThatMeasuredTheCodeAsItStands) {
  prefer("one\ntwo\n\n");
  EXPECT_EQ(reference_machines(root_), (std::vector<std::string>{"one", "two"}));
  EXPECT_EQ(machine_of({measured("one", true), measured("two", true)}), "one");
  EXPECT_EQ(machine_of({measured("two", true), measured("one", true)}), "one") << "REFERENCE says the order";
  EXPECT_EQ(machine_of({measured("one", false), measured("two", true)}), "two");
}

TEST_F(References, ElseTheFirstThatMeasuredTheLesson) {
  prefer("one\ntwo\n");
  EXPECT_EQ(machine_of({measured("one", false), measured("two", false)}), "one");
  EXPECT_EQ(machine_of({measured("two", false)}), "two");
}

TEST_F(References, NobodyElse) {
  EXPECT_EQ(machine_of({measured("one", true)}), "") << "without results/REFERENCE";
  prefer("two\n");
  EXPECT_EQ(machine_of({measured("one", true)}), "");
  EXPECT_EQ(machine_of({}), "");
}

}  // namespace
}  // namespace tenfold
