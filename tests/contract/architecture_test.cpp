// docs/architecture.md says who may include whom; here the sources and the libraries are held to it.
#include "common/pages/book/architecture.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <regex>
#include <set>
#include <sstream>

#include "tests/support/support.h"

namespace tenfold {
namespace {

namespace fs = std::filesystem;
using testing::IsEmpty;

bool is_source(const std::string& path) {
  return path.ends_with(".h") || path.ends_with(".cpp") || path.ends_with(".cu") || path.ends_with(".cuh");
}

/// common/pages has no files, but folders with a row each.
constexpr const char* kFolderOfFolders = "common/pages/";

/// The folder of the table that a file of the tree belongs to.
std::string folder_of(const std::string& path) {
  const size_t first = path.find('/');
  const std::string top = path.substr(0, first);
  const bool test = path.ends_with("_test.cpp") || path.find("/exercise/") != std::string::npos;
  if ((top == "lessons" && test) || path.starts_with("kernels/warm_ups/")) return "tests";
  if (path.starts_with(kFolderOfFolders)) return path.substr(0, path.find('/', std::string(kFolderOfFolders).size()));
  return top == "common" ? path.substr(0, path.find('/', first + 1)) : top;
}

bool may_include_torch(const std::string& path, const std::map<std::string, std::string>& torch) {
  if (folder_of(path) != "kernels") return torch.at(folder_of(path)) != "no";
  const fs::path file(path);
  return file.stem().string().ends_with("_torch") || file.stem() == "torch_binding" || file.stem() == "kernel_survey";
}

/// What is wrong with the includes of a tree, a line each: "file:line: what".
std::vector<std::string> wrong_includes(const fs::path& root, const std::vector<TreeFolder>& folders) {
  const auto allowed = reachable_folders(folders);
  std::map<std::string, std::string> torch;
  for (const TreeFolder& folder : folders) torch[folder.path] = folder.torch;
  const std::regex include("^\\s*#\\s*include\\s*([\"<])([^\">]+)[\">].*"), of_torch("^(torch|ATen|c10)/.*");
  std::vector<std::string> wrong;
  for (const char* top : {"common", "kernels", "lessons", "bench", "fit", "tests"}) {
    if (!fs::exists(root / top)) continue;
    for (const auto& entry : fs::recursive_directory_iterator(root / top)) {
      const std::string path = entry.path().lexically_relative(root).generic_string();
      if (!entry.is_regular_file() || !is_source(path)) continue;
      const std::string from = folder_of(path);
      if (!allowed.contains(from)) {
        wrong.push_back(path + ": its folder " + from + " has no row in docs/architecture.md");
        continue;
      }
      std::istringstream text(test::read_text(entry.path()));
      size_t number = 0;
      for (std::string line; std::getline(text, line);) {
        ++number;
        std::smatch match;
        if (!std::regex_match(line, match, include)) continue;
        const std::string name = match[2];
        const auto report = [&](const std::string& what) {
          wrong.push_back(path + ":" + std::to_string(number) + ": " + line + ": " + what);
        };
        if (match[1] == "<") {
          if (name.starts_with("tenfold/") && !path.starts_with("tests/install/"))
            report("that is the name after installation");
          if (std::regex_match(name, of_torch) && !may_include_torch(path, torch))
            report("this must compile without LibTorch");
          continue;
        }
        if (name.find("..") != std::string::npos) {
          report("an include names the path in the tree");
          continue;
        }
        const fs::path beside = entry.path().parent_path() / name;
        if (fs::is_regular_file(beside)) continue;
        if (!fs::is_regular_file(root / name)) {
          report("there is no such file in the tree, and none in this folder");
          continue;
        }
        const std::string to = folder_of(name);
        if (to != from && !allowed.at(from).contains(to)) report(from + " may not include " + to);
      }
    }
  }
  return wrong;
}

std::vector<TreeFolder> folders_of_this_tree() {
  return tree_folders(test::read_text(test::source_folder() / "docs" / "architecture.md"));
}

TEST(Architecture, EveryIncludeFollowsAnArrow) {
  EXPECT_THAT(wrong_includes(test::source_folder(), folders_of_this_tree()), IsEmpty());
}

/// Sources below a folder of this tree in which `what` stands.
std::set<std::string> sources_with(const std::regex& what, const std::string& folder) {
  std::set<std::string> sources;
  for (const auto& entry : fs::recursive_directory_iterator(test::source_folder() / folder)) {
    const std::string path = entry.path().lexically_relative(test::source_folder()).generic_string();
    if (is_source(path) && std::regex_search(test::read_text(entry.path()), what)) sources.insert(path);
  }
  return sources;
}

// Cases, trainings and surveys have one head, and what can be observed of one can be observed of all: only the files of
// the kinds ask which one a part is.
TEST(Architecture, NobodyElseAsksWhichKindAPartIs) {
  const std::regex question(R"((get|get_if|holds_alternative)<const (Case|Training|Survey)\s*\*>)");
  EXPECT_EQ(sources_with(question, "common"),
            (std::set<std::string>{"common/harness/comparison_pass.cpp", "common/harness/lesson_parts.cpp",
                                   "common/harness/survey_pass.cpp", "common/harness/training_pass.cpp"}));
}

// A case, a training and a survey are three makers of rows; whatever prints them prints rows.
TEST(Architecture, OnlyTheRowsAskWhichKindACaseIs) {
  const std::regex kind(R"re("(comparison|training|survey)")re");
  EXPECT_EQ(sources_with(kind, "common/pages"), std::set<std::string>{"common/pages/rows/rows.cpp"});
}

// A double free now and then, which no run of the test alone shows: rank_threads.h has the cause.
TEST(Architecture, NobodyCallsAGroupsOwnBarrier) {
  const std::regex barrier(R"((group|plain|counted)\w*(->|\.)barrier\()");
  ASSERT_TRUE(std::regex_search(std::string("group->") + "barrier()->wait();", barrier));
  for (const char* folder : {"bench", "common", "fit", "lessons", "tests"})
    EXPECT_THAT(sources_with(barrier, folder), IsEmpty());
}

// A reader of a lesson or a kernel sees the language, and whoever copies a header gets no name that nothing scopes.
TEST(Architecture, LessonsAndKernelsDefineNoMacros) {
  const std::regex macro(R"((^|\n)[ \t]*#[ \t]*define[ \t])");
  ASSERT_TRUE(std::regex_search(std::string("#pragma once\n#define CHECK(x) x\n"), macro));
  for (const char* folder : {"lessons", "kernels"}) EXPECT_THAT(sources_with(macro, folder), IsEmpty());
}

// Within a function it is nobody else's.
TEST(Architecture, NoHeaderOpensANamespaceForItsReaders) {
  const std::regex opened("(^|\n)using namespace ");
  ASSERT_TRUE(std::regex_search(std::string("#pragma once\nusing namespace tenfold;\n"), opened));
  for (const char* folder : {"bench", "common", "fit", "kernels", "lessons", "tests"}) {
    std::set<std::string> sources = sources_with(opened, folder);
    std::erase_if(sources, [](const std::string& path) { return path.ends_with(".cpp") || path.ends_with(".cu"); });
    EXPECT_THAT(sources, IsEmpty());
  }
}

// The linker then forbids what the page forbids.
TEST(Architecture, EveryLibraryLinksWhatItsRowAllows) {
  const auto allowed = reachable_folders(folders_of_this_tree());
  const std::regex library(R"(tenfold_library\(([\w/]+)([^)]*)\))"), linked("tenfold_(\\w+)");
  std::map<std::string, std::string> folder_of_library = {{"cards", "common/dry_gpu"}};  // the part without LibTorch
  for (const auto& [path, reached] : allowed) {
    if (!path.starts_with("common/")) continue;
    std::string name = path.substr(std::string("common/").size());
    std::ranges::replace(name, '/', '_');
    folder_of_library[name] = path;
  }
  const std::string cmake = test::read_text(test::source_folder() / "common" / "CMakeLists.txt");
  std::set<std::string> found;
  for (std::sregex_iterator at(cmake.begin(), cmake.end(), library), end; at != end; ++at) {
    const std::string name = (*at)[1], links = (*at)[2];
    if (name == "NAME") continue;  // the comment
    found.insert("common/" + name);
    ASSERT_TRUE(allowed.contains("common/" + name)) << name;
    for (std::sregex_iterator to(links.begin(), links.end(), linked); to != end; ++to) {
      ASSERT_TRUE(folder_of_library.contains((*to)[1])) << (*to)[1];
      EXPECT_TRUE(allowed.at("common/" + name).contains(folder_of_library.at((*to)[1])))
          << "tenfold_" << name << " links tenfold_" << (*to)[1] << ", against docs/architecture.md";
    }
  }
  const std::set<std::string> otherwise = {"common/cli", "common/probe", "common/dry_gpu"};  // programs; many libraries
  for (const auto& [path, reached] : allowed) {
    if (path.starts_with("common/") && !otherwise.contains(path))
      EXPECT_TRUE(found.contains(path)) << path << " has no library of its own in common/CMakeLists.txt";
  }
}

/// The folder of a library tenfold_NAME, or of the part of it that NAME is; "" of compiler flags and of LibTorch.
std::string folder_of_library(const std::string& name) {
  if (name == "flags" || name == "torch") return "";
  if (name.starts_with("pages_")) return "common/pages/" + name.substr(std::string("pages_").size());
  if (name.starts_with("kernels") || name == "kernel_survey") return "kernels";
  if (name.starts_with("dry") || name == "cards") return "common/dry_gpu";
  if (name.starts_with("fit")) return "fit";
  return name == "ladder" ? "bench" : "common/" + name;
}

/// What is wrong with the links of a folder's CMakeLists.txt, a line each. The driver is made by that of common/.
std::vector<std::string> wrong_links(const std::string& cmake, const std::string& folder,
                                     const std::vector<TreeFolder>& folders) {
  const auto allowed = reachable_folders(folders);
  const std::regex links(R"(target_link_libraries\(([^\s)]+)([^)]*)\))"), linked("tenfold_(\\w+)");
  std::vector<std::string> wrong;
  for (std::sregex_iterator at(cmake.begin(), cmake.end(), links), end; at != end; ++at) {
    const std::string target = (*at)[1], libraries = (*at)[2];
    const std::string from = target == "tenfold-driver" ? "common/cli" : folder;
    if (!allowed.contains(from))
      continue;  // of common/CMakeLists.txt: tenfold_library() and what is added to one of its own
    for (std::sregex_iterator to(libraries.begin(), libraries.end(), linked); to != end; ++to) {
      const std::string place = folder_of_library((*to)[1]);
      if (!place.empty() && place != from && !allowed.at(from).contains(place))
        wrong.push_back(folder + ": " + target + " links " + to->str() + ", but " + from + " may not include " + place);
    }
  }
  return wrong;
}

TEST(Architecture, EveryProgramLinksWhatItsRowAllows) {
  for (const char* folder : {"common", "common/probe", "common/dry_gpu", "kernels", "fit", "bench"}) {
    const std::string cmake = test::read_text(test::source_folder() / folder / "CMakeLists.txt");
    ASSERT_NE(cmake.find("target_link_libraries("), std::string::npos) << folder;
    EXPECT_THAT(wrong_links(cmake, folder, folders_of_this_tree()), IsEmpty());
  }
}

// A reader of a declaration knows where its definition is.
TEST(Architecture, EverySourceOfPagesHasAHeaderOfItsName) {
  size_t sources = 0;
  for (const auto& entry : fs::recursive_directory_iterator(test::source_folder() / "common" / "pages")) {
    fs::path header = entry.path();
    if (header.extension() != ".cpp") continue;
    ++sources;
    EXPECT_TRUE(fs::exists(header.replace_extension(".h"))) << entry.path() << " has no header of its name";
  }
  EXPECT_GT(sources, 0U);
}

// --- that the check finds what it is for ---------------------------------------------------------------------------

constexpr const char* kPage =
    "text\n| folder | holds | includes | LibTorch |\n|---|---|---|---|\n"
    "| `tests` | tests | `lessons` | yes |\n| `lessons` | lessons | `common/measure` | yes |\n"
    "| `common/measure` | clocks | `common/base` | yes |\n| `common/base` | files | | no |\n\ntext | with | bars |\n";

class WrongIncludes : public testing::Test {
 protected:
  WrongIncludes() {
    write("common/base/files.h", "#include <string>\n");
    write("common/measure/clock.h", "#include <torch/torch.h>\n#include \"common/base/files.h\"\n");
    write("lessons/40_toy/lesson.cpp", "#include \"common/base/files.h\"\n#include \"toy.h\"\n");
    write("lessons/40_toy/toy.h", "#include \"common/measure/clock.h\"\n");
    write("lessons/40_toy/toy_test.cpp", "#include \"tests/support/support.h\"\n#include \"toy.h\"\n");
    write("tests/support/support.h", "");
  }
  void write(const std::string& name, const std::string& text) const { test::write_text(scratch_.path() / name, text); }
  std::vector<std::string> found() const { return wrong_includes(scratch_.path(), tree_folders(kPage)); }
  test::Scratch scratch_;
};

TEST_F(WrongIncludes, NoneInATreeThatKeepsToThem) { EXPECT_THAT(found(), IsEmpty()); }

TEST_F(WrongIncludes, EachKindIsFound) {
  const std::pair<const char*, const char*> wrong[] = {
      {"#include \"common/measure/clock.h\"", "common/base may not include common/measure"},
      {"#include \"lessons/40_toy/toy.h\"", "common/base may not include lessons"},
      {"  #  include \"../measure/clock.h\"", "names the path in the tree"},
      {"#include \"clock.h\"", "no such file in the tree"},
      {"#include <tenfold/clock.h>", "the name after installation"},
      {"#include <c10/util/Exception.h>", "without LibTorch"},
  };
  for (const auto& [line, what] : wrong) {
    write("common/base/text.h", std::string("#pragma once\n") + line + "\n");
    EXPECT_THAT(found(), testing::ElementsAre(
                             testing::AllOf(testing::StartsWith("common/base/text.h:2: "), testing::HasSubstr(what))))
        << line;
  }
}

TEST_F(WrongIncludes, AFolderWithoutARowIsFound) {
  write("common/new/new.h", "");
  EXPECT_THAT(found(), testing::ElementsAre(testing::HasSubstr("common/new has no row")));
}

TEST(WrongLinks, EachKindIsFound) {
  const std::vector<TreeFolder> folders = tree_folders(kPage);
  const std::string good = "target_link_libraries(tenfold-clock PRIVATE tenfold_base tenfold_flags CLI11::CLI11)\n";
  EXPECT_THAT(wrong_links(good, "common/measure", folders), IsEmpty());
  EXPECT_THAT(wrong_links("target_link_libraries(tenfold-x\n  PRIVATE tenfold_measure)\n", "common/base", folders),
              testing::ElementsAre(
                  "common/base: tenfold-x links tenfold_measure, but common/base may not include common/measure"));
  EXPECT_THAT(wrong_links("target_link_libraries(clock PUBLIC tenfold_kernels_torch)\n", "lessons", folders),
              testing::ElementsAre(testing::HasSubstr("lessons may not include kernels")));
}

TEST(TreeFolders, WhatTheTableSays) {
  const std::vector<TreeFolder> folders = tree_folders(kPage);
  ASSERT_EQ(folders.size(), 4U);
  EXPECT_EQ(folders[1].path, "lessons");
  EXPECT_EQ(folders[1].includes, std::vector<std::string>{"common/measure"});
  EXPECT_EQ(folders[3].torch, "no");
  EXPECT_EQ(reachable_folders(folders).at("lessons"), (std::set<std::string>{"common/base", "common/measure"}));
  const std::string picture = arrows_markdown(folders);
  EXPECT_NE(picture.find("  lessons([lessons])\n"), std::string::npos) << picture;
  EXPECT_NE(picture.find("  common_base[common/base]\n"), std::string::npos) << picture;
  EXPECT_NE(picture.find("  common_measure --> common_base\n"), std::string::npos) << picture;
}

TEST(TreeFolders, ABrokenTableIsRefused) {
  const auto replaced = [](const std::string& what, const std::string& by) {
    std::string page = kPage;
    return page.replace(page.find(what), what.size(), by);
  };
  EXPECT_THROW(tree_folders("no table"), std::invalid_argument);
  EXPECT_THROW(tree_folders(replaced("| `common/base` | files | | no |", "| `common/base` | files | no |")),
               std::invalid_argument);
  EXPECT_THROW(tree_folders(replaced("`common/measure` | yes", "`common/clocks` | yes")), std::invalid_argument);
  EXPECT_THROW(tree_folders(replaced("files | | no", "files | `lessons` | no")), std::invalid_argument) << "a circle";
  EXPECT_THROW(tree_folders(replaced("| `tests`", "| `lessons`")), std::invalid_argument) << "two rows";
}

}  // namespace
}  // namespace tenfold
