// What every lesson must look like, and what must not change by accident.
#include <gtest/gtest.h>

#include "common/base/files.h"
#include "common/pages/book/bench_report.h"
#include "common/pages/book/explains.h"
#include "common/pages/book/generated.h"
#include "common/pages/rows/references.h"
#include "common/result/code_hash.h"
#include "common/result/judge.h"
#include "common/result/result.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <sstream>

#include "tests/support/support.h"

namespace {

namespace fs = std::filesystem;
const fs::path kSource = tenfold::test::source_folder();
const fs::path kBuild = tenfold::test::build_folder();

std::string text_of(const fs::path& path) {
  EXPECT_TRUE(fs::exists(path)) << path << " is missing";
  return tenfold::test::read_text(path);
}

std::vector<std::string> lines_of(const fs::path& path) {
  std::istringstream text(text_of(path));
  std::vector<std::string> lines;
  for (std::string line; std::getline(text, line);) lines.push_back(line);
  return lines;
}

std::string output_of(const std::string& command) {
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(command.c_str(), "r"), pclose);
  std::string text;
  std::array<char, 4096> buffer{};
  while (std::fgets(buffer.data(), buffer.size(), pipe.get()) != nullptr) text += buffer.data();
  return text;
}

std::vector<fs::path> lessons() {
  std::vector<fs::path> found;
  for (const auto& entry : fs::directory_iterator(kSource / "lessons")) {
    if (entry.is_directory()) found.push_back(entry.path());
  }
  std::sort(found.begin(), found.end());
  return found;
}

/// What the lessons' pages speak of.
const std::vector<tenfold::Result>& references() {
  static const auto all = tenfold::reference_results(kSource, tenfold::published_results(kSource));
  return all;
}

class EveryLesson : public testing::TestWithParam<fs::path> {
 protected:
  fs::path folder() const { return GetParam(); }
  std::string name() const { return GetParam().filename().string(); }
};

TEST_P(EveryLesson, HasItsFiles) {
  EXPECT_TRUE(std::regex_match(name(), std::regex("[0-9]{2}_[a-z0-9_]+"))) << name();
  const std::string cmake = text_of(folder() / "CMakeLists.txt");
  EXPECT_TRUE(std::regex_match(
      cmake, std::regex(R"(tenfold_lesson\((KERNELS ?)?(STREAMS ?)?(THREADS ?)?(DATA [a-z]+ ?)?\)\n)")))
      << "the folder is the registration: nothing else belongs there: " << cmake;
  for (const char* file : {"lesson.cpp", "README.md", "exercise/README.md", "exercise/starter.h", "exercise/solution.h",
                           "exercise/check.cpp"}) {
    EXPECT_TRUE(fs::exists(folder() / file)) << name() << "/" << file;
  }
}

TEST_P(EveryLesson, ReadmeHasTheHeadings) {
  std::vector<std::string> headings;
  bool code = false;
  for (const auto& line : lines_of(folder() / "README.md")) {
    if (line.rfind("```", 0) == 0) code = !code;
    if (!code && line.rfind("## ", 0) == 0) headings.push_back(line.substr(3));
  }
  std::erase(headings, "Inside");  // a page may do without
  EXPECT_EQ(headings, (std::vector<std::string>{"The idea", "The change", "What it brings", "When it does not help",
                                                "Common mistakes", "Try it", "Sources"}));
  const std::string readme = text_of(folder() / "README.md");
  EXPECT_EQ(readme.rfind("# " + name().substr(0, 2) + " ", 0), 0U) << "the title starts with the lesson's number";
  for (const char* part : {"<!-- tenfold:begin measured", "./tenfold exercise "})
    EXPECT_NE(readme.find(part), std::string::npos) << part;
}

// A twin that no page shows is read by nobody; one that the test does not train is only said to be the same.
TEST_P(EveryLesson, ShowsItsTwin) {
  const std::string readme = text_of(folder() / "README.md");
  const std::string block = "<!-- tenfold:begin code python.py ";
  if (!fs::exists(folder() / "python.py")) {
    EXPECT_EQ(readme.find(block), std::string::npos) << name() << "/README.md shows a python.py that is not there";
    return;
  }
  const size_t change = readme.find("\n## The change\n"), next = readme.find("\n## What it brings\n");
  const size_t at = readme.find(block);
  EXPECT_TRUE(change < at && at < next) << name() << "/README.md: at the end of The change stands no '" << block << "'";
  const size_t title = readme.rfind("\n**In PyTorch", at);
  EXPECT_TRUE(title != std::string::npos && change < title)
      << name() << "/README.md: above the twin stands no line that begins with '**In PyTorch'";
  const std::string twin = text_of(folder() / "python.py");
  for (const char* part : {"\nTWINS = [", "\ndef train(workloads, twin, settings, seed):\n"})
    EXPECT_NE(twin.find(part), std::string::npos) << name() << "/python.py has no " << part << ": see tests/parity";
}

// What others copy is about the technique, and is read from top to bottom.
TEST_P(EveryLesson, ReadsInTenMinutes) {
  const std::string program = text_of(folder() / "lesson.cpp");
  EXPECT_LE(program.size(), 8192U) << "bytes; what is not the technique has a header of its own";
  const auto lines = lines_of(folder() / "lesson.cpp");
  ASSERT_GT(lines.size(), 8U);
  EXPECT_EQ(lines[0].rfind("// Lesson " + name().substr(0, 2) + " - ", 0), 0U) << lines[0];
  for (size_t i = 0; i < lines.size(); ++i) {
    EXPECT_LE(lines[i].size(), 120U) << "lesson.cpp:" << i + 1;
    EXPECT_FALSE(std::regex_search(lines[i], std::regex(R"(\bCounted& \w)")))
        << "lesson.cpp:" << i + 1 << ": predictions stand in prediction.h";
  }
}

TEST_P(EveryLesson, DescribesItself) {
  const auto described = nlohmann::json::parse(text_of(kBuild / "lessons" / (name() + ".describe.json")));
  EXPECT_EQ(described.at("lesson"), name());
  EXPECT_FALSE(described.at("question").get<std::string>().empty());
  // The build reads the line, since it must know before it builds.
  const bool core = text_of(folder() / "lesson.cpp").find(".core = true") != std::string::npos;
  EXPECT_EQ(described.at("core"), core);
  for (const auto& setting : described.at("settings")) {
    const std::string setting_name = setting.at("name");
    EXPECT_TRUE(std::regex_match(setting_name, std::regex("[a-z][a-z0-9_]*"))) << setting_name;
    EXPECT_FALSE(setting.at("meaning").get<std::string>().empty()) << setting_name;
  }
  if (described.at("cases").empty()) return;  // of surveys alone
  EXPECT_TRUE(described.contains("headline")) << "the row that stands for the lesson in overviews";
  const std::string workload = described.at("workload");
  EXPECT_TRUE((std::set<std::string>{"convnet", "gpt", "mlp"}.contains(workload))) << workload;
  bool reference = false;
  for (const auto& one : described.at("cases")) reference = reference || one.at("name") == workload;
  EXPECT_TRUE(reference) << "one case must be the reference workload, under its name";
}

// Without a GPU nobody would see a case that its settings make impossible there, or that no such GPU can hold.
TEST_P(EveryLesson, ItsBaselinesFitIntoTheGpusTheyAreFor) {
  const auto described = nlohmann::json::parse(text_of(kBuild / "lessons" / (name() + ".describe.json")));
  // What is left of the memory that such GPUs have at the least, after CUDA's own and what fragments lose.
  const std::map<std::string, double> limits = {{"gpu8", 0.85 * 8e9}, {"gpu80", 0.85 * 80e9}};
  for (const auto& one : described.at("cases")) {
    const std::string row = name() + " | " + one.at("name").get<std::string>();
    ASSERT_TRUE(one.contains("most_bytes")) << row << ": state Lesson::most_bytes";
    std::printf("%-60s", row.c_str());
    for (const auto& [size, limit] : limits) {
      const double bytes = one.at("most_bytes").at(size);
      std::printf("  %s %8.3f GB", size.c_str(), bytes / 1e9);
      EXPECT_GT(bytes, 0) << row << " at " << size;
      EXPECT_LE(bytes, limit) << row << ": its baseline does not fit at " << size;
    }
    std::printf("\n");
  }
}

// The same formula where it can be measured: it may promise too much room, never too little.
TEST_P(EveryLesson, NeedsNoMoreThanItSays) {
  const tenfold::Result* published = tenfold::result_of(references(), name());
  if (!published) GTEST_SKIP() << "nothing is published";
  const auto described = nlohmann::json::parse(text_of(kBuild / "lessons" / (name() + ".describe.json")));
  size_t compared = 0;
  for (const auto& one : published->cases) {
    const auto& cases = described.at("cases");
    const auto stated =
        std::find_if(cases.begin(), cases.end(), [&](const auto& c) { return c.at("name") == one.name; });
    // With a budget the measured step is the largest that it allows, not the case's own.
    if (stated == cases.end() || one.size != "cpu" || one.budget || !one.variants.front().peak()) continue;
    ++compared;
    const auto measured = static_cast<double>(*one.variants.front().peak());
    const double most = stated->at("most_bytes").at("cpu");
    EXPECT_LE(measured, 1.02 * most) << name() << " | " << one.name;
    EXPECT_GE(measured, 0.3 * most) << name() << " | " << one.name << ": says far too much";
  }
  if (compared == 0) GTEST_SKIP() << "no case of size cpu, with a peak and without a budget, is published";
}

// Whatever its suffix: patches, results and the files of the root are merged, too.
TEST(Tree, HoldsNoMarksOfAnUnfinishedMerge) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(kSource)) {
    if (entry.is_regular_file()) files.push_back(entry.path());
  }
  for (const char* top :
       {"bench", "common", "docs", "fit", "kernels", "lessons", "results", "tests", ".github", ".ci"}) {
    if (!fs::exists(kSource / top)) continue;
    for (const auto& entry : fs::recursive_directory_iterator(kSource / top)) {
      if (entry.is_regular_file()) files.push_back(entry.path());
    }
  }
  for (const fs::path& file : files) {
    const std::string text = "\n" + text_of(file);
    for (const char* mark : {"\n<<<<<<< ", "\n>>>>>>> "}) EXPECT_EQ(text.find(mark), std::string::npos) << file;
  }
}

// The flags of all lessons come from one list in common/harness: one program speaks for all.
TEST(Lessons, HaveTheFrozenFlags) {
  const std::set<std::string> frozen = {"--help", "--preset", "--size",   "--device",  "--case",    "--only",
                                        "--set",  "--sweep",  "--rounds", "--seed",    "--threads", "--ranks",
                                        "--json", "--resume", "--trace",  "--describe"};
  const std::string help = output_of((kBuild / "lessons" / "00_measuring").string() + " --help");
  std::set<std::string> found;
  std::istringstream text(help);
  const std::regex flag(R"(^\s+(--[a-z]+).*)");
  for (std::string line; std::getline(text, line);) {
    std::smatch match;
    if (std::regex_match(line, match, flag)) found.insert(match[1]);
  }
  EXPECT_EQ(found, frozen);
}

TEST_P(EveryLesson, ChangedCodeHasANewVersion) {
  const int version = nlohmann::json::parse(text_of(kBuild / "lessons" / (name() + ".describe.json"))).at("version");
  bool published = false;
  std::error_code no_results;
  for (const auto& entry : fs::recursive_directory_iterator(kSource / "results", no_results)) {
    if (entry.path().filename() != name() + ".json") continue;
    published = true;
    const auto result = tenfold::read_result(entry.path());
    EXPECT_LE(result.lesson_version, version) << entry.path();
    if (result.lesson_version == version) {
      EXPECT_EQ(result.code_hash, tenfold::code_hash(folder()))
          << name() << " has changed since " << entry.path()
          << " was measured: raise .version in lesson.cpp, or measure and publish again";
    }
  }
  if (!published)
    GTEST_SKIP() << "no result of " << name() << " is published, so there is nothing that its code could differ from";
}

/// What an object was compiled from.
struct Compiled {
  std::string object;           // relative to the build folder
  std::vector<fs::path> files;  // of the tree, outside common/
};

/// As Ninja recorded it of the last build. Empty where there is no Ninja or it recorded nothing.
std::vector<Compiled> compiled_objects() {
  std::vector<Compiled> objects;
  const fs::path ninja = tenfold::test::environment_program("ninja");
  if (!fs::exists(ninja) || !fs::exists(kBuild / ".ninja_deps")) return objects;
  std::istringstream text(output_of("'" + ninja.string() + "' -C '" + kBuild.string() + "' -t deps"));
  for (std::string line; std::getline(text, line);) {
    if (const size_t end = line.find(": #deps"); end != std::string::npos) {
      objects.push_back({line.substr(0, end), {}});
    } else if (line.starts_with("    ") && !objects.empty()) {
      const fs::path file = (kBuild / line.substr(4)).lexically_normal();
      const std::string place = file.lexically_relative(kSource).string();
      const bool built = place.starts_with("build/") || place.starts_with(".venv/");
      if (!place.starts_with("../") && !built && !place.starts_with("common/")) objects.back().files.push_back(file);
    }
  }
  return objects;
}

// code_hash follows #include by itself; here the compiler says whether it found everything.
TEST_P(EveryLesson, HashesWhatTheCompilerReads) {
  static const std::vector<Compiled> objects = compiled_objects();
  if (objects.empty())
    GTEST_SKIP() << "no Ninja, or no record of a build by it in " << kBuild << ": nothing says what was compiled";
  const std::vector<fs::path> list = tenfold::measured_files(folder());
  const std::set<fs::path> measured(list.begin(), list.end());
  const std::string own = "lesson-objects/" + name() + "/CMakeFiles/" + name() + ".dir/";
  // Of the kernels' libraries, what is compiled from a source that the lesson is said to link.
  const auto links = [&](const Compiled& one) {
    return one.object.starts_with("kernels/CMakeFiles/tenfold_") &&
           std::any_of(one.files.begin(), one.files.end(), [&](const fs::path& file) {
             const bool source = file.extension() == ".cu" || one.object.ends_with(file.filename().string() + ".o");
             return source && measured.contains(file);
           });
  };
  size_t own_objects = 0;
  for (const Compiled& one : objects) {
    if (one.object.starts_with(own)) ++own_objects;
    if (!one.object.starts_with(own) && !links(one)) continue;
    for (const fs::path& file : one.files) {
      EXPECT_TRUE(measured.contains(file) || file.stem() == "prediction" || !fs::exists(file))
          << one.object << " was compiled with " << file.lexically_relative(kSource)
          << ", which is no part of the lesson's code_hash; "
          << "if only its prediction includes it, it belongs in common/, else mend common/result/code_hash.cpp";
    }
  }
  EXPECT_GT(own_objects, 0U) << "Ninja recorded no object below " << own;
}

// What came out otherwise than stated or predicted is the most interesting thing on a page; it must not stand there
// bare.
TEST_P(EveryLesson, ExplainsWhatCameOutOtherwise) {
  const std::string readme = text_of(folder() / "README.md");
  const tenfold::Result* published = tenfold::result_of(references(), name());
  if (!published) GTEST_SKIP() << "nothing is published on a machine of results/REFERENCE";
  const std::vector<tenfold::Explained> all = tenfold::explained_in(readme);
  std::set<std::string> rows;
  for (const auto& one : published->cases) {
    for (const auto& verdict : one.verdicts) {
      const std::string row = one.name + " | " + verdict.technique;
      rows.insert(row);
      const auto explained = std::ranges::find(all, row, &tenfold::Explained::row);
      const auto& came = verdict.as_expected;
      std::string odd = !came.speed.value_or(true)    ? "its speed is a SURPRISE"
                        : !came.memory.value_or(true) ? "its memory is a SURPRISE"
                                                      : "";
      for (const auto& [what, error] : tenfold::predictions_off(verdict)) {
        odd += (odd.empty() ? "" : ", ") + ("the prediction of its " + what) + " is off by " +
               std::to_string(std::lround(100 * error)) + " %";
      }
      EXPECT_TRUE(odd.empty() || explained != all.end())
          << name() << ", " << row << ": " << odd << "; explain it in README.md after a line <!-- explains " << row
          << " -->";
      if (explained != all.end()) {
        EXPECT_EQ(tenfold::misdirected(*explained, *tenfold::variant_of(one, verdict.technique), verdict), "")
            << name() << "/README.md explains '" << row << " | " << explained->direction << "'";
      }
    }
  }
  for (const tenfold::Explained& explained : all) {
    EXPECT_TRUE(rows.contains(explained.row))
        << name() << "/README.md explains '" << explained.row << "', which is no published row";
    // Rows that share a cause share a paragraph: their comments stand in a row.
    size_t next = readme.find('\n', explained.at) + 1;
    while (readme.compare(next, 13, "<!-- explains") == 0) next = readme.find('\n', next) + 1;
    EXPECT_FALSE(readme.substr(next).empty() || std::string("\n#|").find(readme[next]) != std::string::npos)
        << name() << "/README.md: behind '<!-- explains " << explained.row << " -->' stands no paragraph";
  }
}

INSTANTIATE_TEST_SUITE_P(Lessons, EveryLesson, testing::ValuesIn(lessons()),
                         [](const auto& info) { return "L" + info.param.filename().string(); });

TEST(Tree, ATourBeginsWithHowNumbersAreTaken) {
  EXPECT_TRUE(nlohmann::json::parse(text_of(kBuild / "lessons/00_measuring.describe.json")).at("core"));
}

TEST(Tree, LessonNumbersAreUnique) {
  std::set<std::string> numbers;
  for (const auto& lesson : lessons())
    EXPECT_TRUE(numbers.insert(lesson.filename().string().substr(0, 2)).second) << lesson;
}

TEST(Tree, NoSourceIsTooLongToRead) {
  for (const char* part : {"common", "lessons", "kernels", "bench", "fit"}) {
    size_t sources = 0;
    for (const auto& entry : fs::recursive_directory_iterator(kSource / part)) {  // throws when there is none
      const auto suffix = entry.path().extension();
      if (entry.path().string().ends_with("_test.cpp")) continue;
      if (suffix != ".h" && suffix != ".cpp" && suffix != ".cu" && suffix != ".cuh") continue;
      const auto lines = lines_of(entry.path());
      ++sources;
      EXPECT_LE(lines.size(), 400U) << entry.path() << ": a file near 300 lines wants to be two";
    }
    EXPECT_GT(sources, 0U) << part;
  }
}

TEST(Tree, EveryResultFileIsReadable) {
  if (!fs::exists(kSource / "results")) GTEST_SKIP() << "nothing is published in " << kSource / "results";
  size_t files = 0;
  for (const auto& entry : fs::recursive_directory_iterator(kSource / "results")) {
    if (entry.path().extension() != ".json" || entry.path().parent_path().filename() == "compiler") continue;
    ++files;
    if (entry.path().parent_path().filename() == "bench") {
      EXPECT_NO_THROW(tenfold::read_bench_report(entry.path()));
    } else {
      EXPECT_NO_THROW(tenfold::read_result(entry.path()));
    }
  }
  EXPECT_GT(files, 0U);
}

}  // namespace
