// Names of lessons: each in a namespace of its lesson, and no two that a call could mean alike.
#include "common/base/files.h"
#include "common/result/code_hash.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <regex>
#include <set>

#include "tests/support/support.h"

namespace tenfold {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

/// A lesson's header in no namespace is found by every name's look-up, too, and one in another lesson's is that one's.
bool declares_nothing(const std::string& header) { return header.find('{') == std::string::npos; }

std::string own_namespace(const fs::path& lesson) {
  return "namespace tenfold::inline lesson_" + lesson.filename().string().substr(0, 2) + " {";
}

std::vector<fs::path> lesson_folders(const fs::path& root) {
  std::vector<fs::path> folders;
  for (const auto& entry : fs::directory_iterator(root / "lessons")) {
    if (entry.is_directory()) folders.push_back(entry.path());
  }
  std::ranges::sort(folders);
  return folders;
}

/// Headers of the lessons, installed ones excepted, that stand elsewhere than in their lesson's namespace alone.
std::vector<std::string> headers_of_no_lesson(const fs::path& root) {
  std::vector<std::string> wrong;
  for (const fs::path& folder : lesson_folders(root)) {
    for (const auto& entry : fs::directory_iterator(folder)) {
      if (entry.path().extension() != ".h") continue;
      const std::string text = read_text(entry.path());
      if (text.starts_with("// installs as ") || declares_nothing(text)) continue;
      const std::regex opened("(^|\n)(inline )?(namespace [^\n]*)");
      // Others may be nested in the lesson's: detail and the like.
      bool own = false, other = false;
      for (std::sregex_iterator at(text.begin(), text.end(), opened), end; at != end; ++at) {
        const std::string line = (*at)[3];
        if (line == own_namespace(folder)) {
          own = true;
        } else {
          other = other || !own || line.starts_with("namespace tenfold");
        }
      }
      if (!own || other) wrong.push_back(entry.path().lexically_relative(root).generic_string());
    }
  }
  return wrong;
}

/// Functions with a Trial as first argument that a program of a lesson finds in two lessons: "92: adamw_settings of 33
/// and 34". Inline namespaces are associated with every type of tenfold's, so that a call without a namespace is
/// ambiguous wherever both headers have been read.
std::vector<std::string> names_of_two_lessons(const fs::path& root) {
  const std::regex function(R"((\w+)\((?:const )?Trial& )");
  std::vector<std::string> twice;
  for (const fs::path& folder : lesson_folders(root)) {
    std::map<std::string, std::set<std::string>> lessons_of;
    for (const fs::path& file : files_of_program(root, folder)) {
      const std::string place = file.lexically_relative(root).generic_string();
      if (!place.starts_with("lessons/") || file.extension() != ".h") continue;
      const std::string text = read_text(file);
      if (text.starts_with("// installs as ")) continue;
      for (std::sregex_iterator at(text.begin(), text.end(), function), end; at != end; ++at)
        lessons_of[(*at)[1]].insert(place.substr(std::string("lessons/").size(), 2));
    }
    for (const auto& [name, lessons] : lessons_of) {
      if (lessons.size() < 2) continue;
      std::string row = folder.filename().string().substr(0, 2) + ": " + name + " of ";
      for (const std::string& lesson : lessons) row += (lesson == *lessons.begin() ? "" : " and ") + lesson;
      twice.push_back(row);
    }
  }
  return twice;
}

TEST(NamesOfLessons, StandInTheLessonsNamespace) {
  EXPECT_THAT(headers_of_no_lesson(test::source_folder()), IsEmpty())
      << "a header that installs under no name stands in its lesson's namespace, and in no other";
}

// The one that is known to be safe: lesson 92 orders its includes so that each header's own call comes before the other
// declaration.
TEST(NamesOfLessons, MeetNoneOfTheirKindInAnotherLesson) {
  EXPECT_THAT(names_of_two_lessons(test::source_folder()), ElementsAre("92: adamw_settings of 33 and 34"))
      << "rename one, or qualify every call, lesson_33::adamw_settings(trial), and add the row";
}

class MadeLessons : public testing::Test {
 protected:
  void header(const std::string& place, const std::string& text) const {
    test::write_text(scratch_.path() / "lessons" / place, text);
  }
  const fs::path& root() const { return scratch_.path(); }

 private:
  test::Scratch scratch_;
};

TEST_F(MadeLessons, AreFoundInAnyOtherNamespace) {
  header("52_ddp/settings.h", "#pragma once\n\nnamespace tenfold::inline lesson_52 {\nint a();\n}\n");
  header("52_ddp/ddp.h", "// installs as <tenfold/ddp.h>\nnamespace tenfold {\nint d();\n}\n");
  header("52_ddp/all.h", "#pragma once\n#include \"settings.h\"\n");
  EXPECT_THAT(headers_of_no_lesson(root()), IsEmpty());
  const char* const wrong[] = {
      "inline int a() { return 1; }\n",
      "namespace tenfold {\nint a() { return 1; }\n}\n",
      "namespace tenfold::detail {\nint a();\n}\n",
      "namespace tenfold::inline lesson_53 {\nint a();\n}\n",
      "namespace tenfold::inline lesson_52 {\nint a();\n}\nnamespace tenfold {\nint b();\n}\n",
  };
  for (const char* const text : wrong) {
    header("52_ddp/settings.h", std::string("#pragma once\n") + text);
    EXPECT_THAT(headers_of_no_lesson(root()), ElementsAre("lessons/52_ddp/settings.h")) << text;
  }
}

TEST_F(MadeLessons, AreFoundWhereAThirdReadsTwoOfOneName) {
  header("33_a/settings.h",
         "namespace tenfold::inline lesson_33 {\ninline int rate(const Trial& trial) { return 1; }\n}\n");
  header("34_b/settings.h",
         "namespace tenfold::inline lesson_34 {\ninline int rate(const Trial& trial) { return 2; }\n}\n");
  header("92_c/lesson.cpp", "#include \"lessons/33_a/settings.h\"\n");
  EXPECT_THAT(names_of_two_lessons(root()), IsEmpty());
  header("92_c/lesson.cpp", "#include \"lessons/33_a/settings.h\"\n#include \"lessons/34_b/settings.h\"\n");
  EXPECT_THAT(names_of_two_lessons(root()), ElementsAre("92: rate of 33 and 34"));
}

}  // namespace
}  // namespace tenfold
