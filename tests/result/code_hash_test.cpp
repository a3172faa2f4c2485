#include "common/result/code_hash.h"
#include "common/base/files.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <set>
#include <string>

#include "tests/support/support.h"

namespace tenfold {
namespace {

namespace fs = std::filesystem;

/// A lesson in a tree of its own. It has a source of its own, includes a header of another lesson, which includes one
/// more, two kernels (one by its own header, one by its operator's), and common/.
class CodeHash : public testing::Test {
 protected:
  CodeHash() {
    write("lessons/40_toy/lesson.cpp",
          "#include \"common/measure/clock.h\"\n#include \"kernels/gelu/gelu_torch.h\"\n"
          "#include \"lessons/10_loading/loader.h\"\n#include \"kernels/toy/toy.h\"\n"
          "#include \"prediction.h\"\n#define TWICE(x) ((x) + (x))\nint main() {\n  return run(\"a  b\", TWICE(1));  "
          "// why\n}\n");
    write("lessons/40_toy/counts.cpp", "int counts;\n");
    write("lessons/40_toy/prediction.h", "#pragma once\nint predicted;\n");
    write("lessons/10_loading/lesson.cpp", "int main() {}\n");
    write("lessons/10_loading/loader.h", "#pragma once\n#include \"queue.h\"\nint loader;\n");
    write("lessons/10_loading/queue.h", "#pragma once\nint queue;\n");
    write("lessons/10_loading/unused.h", "#pragma once\nint unused;\n");
    write("common/measure/clock.h", "#pragma once\nint clock;\n");
    write("kernels/toy/toy.h", "int toy;\n");
    write("kernels/toy/toy.cu", "#include \"toy.cuh\"\nint toy_launcher;\n");
    write("kernels/toy/toy.cuh", "#include \"kernels/rows.cuh\"\n");
    write("kernels/toy/toy_reference.h", "#include \"kernels/expected.h\"\n");
    write("kernels/gelu/gelu_torch.h", "int gelu_torch;\n");
    write("kernels/gelu/gelu.cuh", "#include \"kernels/softmax/softmax.cuh\"  // a part of it\n");
    write("kernels/gelu/gelu_torch.cpp", "#include \"kernels/torch_binding.h\"\n");
    write("kernels/softmax/softmax.cuh", "int softmax;\n");
    write("kernels/rows.cuh", "#include \"kernels/launch.cuh\"\nint rows;\n");
    for (const char* shared : {"launch.cuh", "torch_binding.h", "expected.h"})
      write(std::string("kernels/") + shared, "int shared;\n");
    before_ = hash();
  }
  void write(const std::string& name, const std::string& text) const { test::write_text(root_ / name, text); }
  std::string hash() const { return code_hash(root_ / "lessons/40_toy"); }
  /// The hash with another text in this file, which is then put back.
  std::string with(const std::string& file, const std::string& text) const {
    const bool is_new = !fs::exists(root_ / file);
    const std::string old = test::read_text(root_ / file);
    write(file, text);
    const std::string changed = hash();
    write(file, old);
    if (is_new) fs::remove(root_ / file);
    EXPECT_EQ(hash(), before_) << file << " was put back";
    return changed;
  }
  /// Whether more code in this file is another hash.
  bool counts(const std::string& file) const {
    return with(file, test::read_text(root_ / file) + "int changed;\n") != before_;
  }
  /// The hash after a replacement in lesson.cpp.
  std::string replacing(const std::string& what, const std::string& by) const {
    std::string text = test::read_text(root_ / "lessons/40_toy/lesson.cpp");
    const size_t at = text.find(what);
    EXPECT_NE(at, std::string::npos) << what;
    return with("lessons/40_toy/lesson.cpp", text.replace(at, what.size(), by));
  }
  test::Scratch scratch_;
  fs::path root_ = scratch_.path();
  std::string before_;
};

TEST_F(CodeHash, LayoutCommentsAndIncludesDoNotCount) {
  EXPECT_EQ(before_.size(), 64U);
  EXPECT_EQ(replacing("int main() {\n  return", "int main()\n{ return"), before_);
  EXPECT_EQ(replacing("run(\"a  b\", TWICE", "run( \"a  b\",\n TWICE"), before_);
  EXPECT_EQ(replacing("why", "because"), before_);
  EXPECT_EQ(replacing("  // why", ""), before_);
  EXPECT_EQ(replacing("int main", "/* The program. */ int main"), before_);
  EXPECT_EQ(replacing("#include \"common/measure/clock.h\"\n", ""), before_);
  EXPECT_EQ(with("lessons/40_toy/notes.h", "#pragma once\n// Nothing but words.\n"), before_) << "no code";
}

TEST_F(CodeHash, ChangesWithTheCode) {
  EXPECT_NE(replacing("return run", "return go"), before_);
  EXPECT_NE(replacing("a  b", "a b"), before_) << "white space in a string";
  EXPECT_NE(replacing("(x) + (x)", "2 * (x)"), before_) << "a macro";
  EXPECT_NE(replacing("#define TWICE(x) ((x) + (x))\n", "#define TWICE(x)\n((x) + (x))\n"), before_)
      << "where a macro ends";
  EXPECT_TRUE(counts("lessons/40_toy/counts.cpp"));
  EXPECT_TRUE(counts("lessons/40_toy/new.cu")) << "a new file";
  EXPECT_TRUE(counts("lessons/40_toy/loss_reference.h")) << "only a kernel's are left out";
  EXPECT_NE(with("lessons/40_toy/copy.cpp", "int counts;\n"), before_) << "a file once more";
}

TEST_F(CodeHash, ChangesWhenCodeMovesToAnotherFile) {
  write("lessons/40_toy/counts.cpp", "");
  write("lessons/40_toy/lesson.cpp", "int counts;\n" + test::read_text(root_ / "lessons/40_toy/lesson.cpp"));
  EXPECT_NE(hash(), before_);
}

TEST_F(CodeHash, PlacesAndPathsDoNotCount) {
  fs::rename(root_ / "lessons/10_loading", root_ / "lessons/13_streams");
  const auto lesson = [&](const std::string& loader, const std::string& toy) {
    write("lessons/40_toy/lesson.cpp", "#include \"kernels/gelu/gelu_torch.h\"\n#include \"" + loader +
                                           "\"\n#include \"" + toy +
                                           "\"\n#define TWICE(x) ((x) + (x))\nint main() { return run(\"a  b\", "
                                           "TWICE(1)); }\n");
  };
  lesson("lessons/13_streams/loader.h", "kernels/toy/toy.h");
  EXPECT_EQ(hash(), before_) << "another lesson's folder";
  fs::create_directories(root_ / "kernels/shared");
  fs::rename(root_ / "kernels/rows.cuh", root_ / "kernels/shared/rows.cuh");
  write("kernels/toy/toy.cuh", "#include \"kernels/shared/rows.cuh\"\n");
  EXPECT_EQ(hash(), before_) << "a kernel's header";
  lesson("../13_streams/loader.h", "../../kernels/toy/toy.h");
  EXPECT_EQ(hash(), before_) << "a path that climbs";
  fs::rename(root_ / "lessons/40_toy", root_ / "lessons/41_toy");
  EXPECT_EQ(code_hash(root_ / "lessons/41_toy"), before_) << "the lesson's folder";
  fs::rename(root_ / "lessons/41_toy/counts.cpp", root_ / "lessons/41_toy/work.cpp");
  EXPECT_EQ(code_hash(root_ / "lessons/41_toy"), before_) << "a file's name";
}

TEST_F(CodeHash, ChangesWithHeadersOfOtherLessons) {
  EXPECT_TRUE(counts("lessons/10_loading/loader.h"));
  EXPECT_TRUE(counts("lessons/10_loading/queue.h")) << "included by loader.h";
  EXPECT_FALSE(counts("lessons/10_loading/unused.h"));
  EXPECT_FALSE(counts("lessons/10_loading/unused.cpp"));
  EXPECT_FALSE(counts("lessons/10_loading/lesson.cpp"));
}

TEST_F(CodeHash, ChangesWithTheKernelsThatTheLessonIncludes) {
  EXPECT_TRUE(counts("kernels/toy/toy.cu"));
  EXPECT_TRUE(counts("kernels/toy/toy.cuh"));
  EXPECT_TRUE(counts("kernels/toy/toy_tile.h")) << "a new file";
  EXPECT_TRUE(counts("kernels/gelu/gelu.cuh")) << "included as gelu_torch.h";
  EXPECT_TRUE(counts("kernels/gelu/gelu_torch.cpp"));
}

TEST_F(CodeHash, ChangesWithWhatThoseKernelsInclude) {
  EXPECT_TRUE(counts("kernels/rows.cuh"));
  EXPECT_TRUE(counts("kernels/launch.cuh")) << "included by rows.cuh";
  EXPECT_TRUE(counts("kernels/torch_binding.h"));
  EXPECT_TRUE(counts("kernels/softmax/softmax.cuh"));
}

TEST_F(CodeHash, OtherKernelsPagesAndReferencesDoNotCount) {
  EXPECT_FALSE(counts("kernels/toy/toy_microscope.cpp"));
  EXPECT_FALSE(counts("kernels/toy/toy_reference.h"));
  EXPECT_FALSE(counts("kernels/toy/toy_case.h"));
  EXPECT_FALSE(counts("kernels/expected.h")) << "only a reference includes it";
  EXPECT_FALSE(counts("kernels/other/other.cuh"));
  EXPECT_FALSE(counts("kernels/column_sums.cuh")) << "shared, and included by none";
  EXPECT_FALSE(counts("kernels/softmax/softmax.cu")) << "only its device code is included";
}

TEST_F(CodeHash, AReferenceThatTheLessonIncludesCounts) {
  write("lessons/40_toy/check.h", "#include \"kernels/toy/toy_reference.h\"\nint check;\n");
  before_ = hash();
  EXPECT_TRUE(counts("kernels/toy/toy_reference.h"));
  EXPECT_TRUE(counts("kernels/expected.h"));
}

TEST_F(CodeHash, WhatMeasuresTestsTextsPredictionsAndExercisesDoNotCount) {
  for (const char* file : {"common/measure/clock.h", "lessons/40_toy/prediction.h", "lessons/40_toy/prediction.cpp",
                           "lessons/40_toy/counts_test.cpp", "lessons/40_toy/README.md",
                           "lessons/40_toy/CMakeLists.txt", "lessons/40_toy/exercise/starter.h"}) {
    EXPECT_FALSE(counts(file)) << file;
  }
}

// A model is what a step trains; a reader is what it waits for.
TEST_F(CodeHash, ModelsAndReadersCountWithTheirSources) {
  write("common/models/net.h", "#include \"common/data/text.h\"\n#include \"common/measure/clock.h\"\nint net;\n");
  write("common/models/net.cpp", "#include \"common/models/net.h\"\n#include \"common/models/inner.h\"\nint made;\n");
  write("common/models/inner.h", "int inner;\n");
  write("common/models/other.h", "int other;\n");
  write("common/data/text.h", "int text;\n");
  write("lessons/40_toy/check.h", "#include \"common/models/net.h\"\nint check;\n");
  before_ = hash();
  for (const char* file :
       {"common/models/net.h", "common/models/net.cpp", "common/models/inner.h", "common/data/text.h"})
    EXPECT_TRUE(counts(file)) << file;
  EXPECT_FALSE(counts("common/models/other.h")) << "nothing of the lesson includes it";
  EXPECT_FALSE(counts("common/measure/clock.h")) << "it measures";
}

TEST_F(CodeHash, APathDecidesBetweenFilesOfOneName) {
  write("lessons/10_loading/clock.h", "int other_clock;\n");
  write("lessons/10_loading/work.h", "int other_work;\n");
  write("lessons/13_streams/work.h", "int work;\n");
  write("lessons/13_streams/fill.h", "#include \"work.h\"\nint fill;\n");
  write("lessons/40_toy/lesson.cpp",
        "#include \"common/measure/clock.h\"\n#include \"lessons/13_streams/fill.h\"\nint main() {}\n");
  before_ = hash();
  EXPECT_TRUE(counts("lessons/13_streams/work.h")) << "from the folder";
  EXPECT_FALSE(counts("lessons/10_loading/work.h"));
  EXPECT_FALSE(counts("lessons/10_loading/clock.h")) << "from the root";
}

TEST_F(CodeHash, TheFolderComesBeforeTheTree) {
  write("queue.h", "int other_queue;\n");
  EXPECT_FALSE(counts("queue.h"));
  EXPECT_EQ(hash(), before_);
}

TEST_F(CodeHash, TheSameFromEverywhere) {
  const fs::path here = fs::current_path();
  fs::current_path(root_ / "lessons");
  EXPECT_EQ(code_hash("40_toy"), before_);
  EXPECT_EQ(code_hash("40_toy/"), before_);
  EXPECT_EQ(code_hash("../lessons/40_toy"), before_);
  fs::current_path(here);
}

TEST_F(CodeHash, NamesTheFiles) {
  std::set<std::string> files;
  for (const fs::path& file : measured_files(root_ / "lessons/40_toy"))
    files.insert(file.lexically_relative(root_).string());
  EXPECT_EQ(files,
            (std::set<std::string>{"kernels/gelu/gelu.cuh", "kernels/gelu/gelu_torch.cpp", "kernels/gelu/gelu_torch.h",
                                   "kernels/launch.cuh", "kernels/rows.cuh", "kernels/softmax/softmax.cuh",
                                   "kernels/torch_binding.h", "kernels/toy/toy.cu", "kernels/toy/toy.cuh",
                                   "kernels/toy/toy.h", "lessons/10_loading/loader.h", "lessons/10_loading/queue.h",
                                   "lessons/40_toy/counts.cpp", "lessons/40_toy/lesson.cpp"}));
}

TEST_F(CodeHash, NoFolderNoHash) {
  EXPECT_EQ(code_hash(root_ / "none"), "");
  EXPECT_TRUE(measured_files(root_ / "none").empty());
}

}  // namespace
}  // namespace tenfold
