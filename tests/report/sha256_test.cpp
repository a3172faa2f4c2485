#include <tenfold/sha256.h>

#include <gtest/gtest.h>

#include <filesystem>

#include <tenfold/code_hash.h>

#include "support.h"

namespace tenfold {
namespace {

// FIPS 180-4's examples (NIST, "SHA Examples"), and lengths around the padding's edges against sha256sum.
TEST(Sha256, Examples) {
  EXPECT_EQ(sha256(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(sha256(std::string(1'000'000, 'a')), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256, PaddingEdges) {
  EXPECT_EQ(sha256(std::string(55, 'x')), "d5e285683cd4efc02d021a5c62014694958901005d6f71e89e0989fac77e4072");
  EXPECT_EQ(sha256(std::string(56, 'x')), "04c26261370ee7541549d16dee320c723e3fd14671e66a099afe0a377c16888e");
  EXPECT_EQ(sha256(std::string(63, 'x')), "75220b47218278e656f2013bb8f0c455a25eaf01e86c64924e9d48d89776d6f2");
  EXPECT_EQ(sha256(std::string(64, 'x')), "7ce100971f64e7001e8fe5a51973ecdfe1ced42befe7ee8d5fd6219506b5393c");
  EXPECT_EQ(sha256(std::string(65, 'x')), "9537c5fdf120482f7d58d25e9ed583f52c02b4e304ea814db1633ad565aed7e9");
}

class CodeHash : public testing::Test {
 protected:
  CodeHash() {
    write("lesson.cpp", "int main() {}\n");
    write("technique.h", "#pragma once\n");
    before_ = code_hash(folder_);
  }
  void write(const std::string& name, const std::string& text) const { test::write_text(folder_ / name, text); }
  test::Scratch scratch_;
  std::filesystem::path folder_ = scratch_.path();
  std::string before_;
};

TEST_F(CodeHash, ChangesWithTheCode) {
  EXPECT_EQ(before_.size(), 64u);
  write("lesson.cpp", "int main() { }\n");
  EXPECT_NE(code_hash(folder_), before_);
}

TEST_F(CodeHash, ChangesWhenALineMovesToTheNextFile) {
  write("lesson.cpp", "");
  write("technique.h", "int main() {}\n#pragma once\n");
  EXPECT_NE(code_hash(folder_), before_);
}

/// A lesson that includes two kernels, in a tree of its own: one by its own header, one by its binding's.
class KernelHash : public CodeHash {
 protected:
  KernelHash() {
    write("lessons/40_toy/lesson.cpp", "#include <tenfold/gelu_torch.h>\n#include <tenfold/toy.h>\nint main() {}\n");
    write("kernels/toy/toy.cuh", "#include \"../rows.cuh\"\n");
    write("kernels/toy/toy_reference.h", "#include \"../expected.h\"\n");
    write("kernels/gelu/gelu.cuh", "#include \"../softmax/softmax.cuh\"  // a part of it\n");
    write("kernels/gelu/gelu_torch.cpp", "#include \"../torch_binding.h\"\n");
    write("kernels/softmax/softmax.cuh", "softmax\n");
    write("kernels/rows.cuh", "#include \"launch.cuh\"\n");
    for (const char* shared : {"launch.cuh", "torch_binding.h", "expected.h"}) write(std::string("kernels/") + shared, "shared\n");
    before_ = hash();
  }
  std::string hash() const { return code_hash(folder_ / "lessons/40_toy"); }
  /// Whether other text in this file is another hash.
  bool counts(const std::string& file) const {
    const bool is_new = !std::filesystem::exists(folder_ / file);
    const std::string text = test::read_text(folder_ / file);
    write(file, text + "changed\n");
    const bool changed = hash() != before_;
    write(file, text);
    if (is_new) std::filesystem::remove(folder_ / file);
    EXPECT_EQ(hash(), before_) << file << " was put back";
    return changed;
  }
};

TEST_F(KernelHash, ChangesWithTheKernelsThatTheLessonIncludes) {
  EXPECT_TRUE(counts("kernels/toy/toy.cuh"));
  EXPECT_TRUE(counts("kernels/toy/toy.cu")) << "a new file";
  EXPECT_TRUE(counts("kernels/gelu/gelu.cuh")) << "included as gelu_torch.h";
  EXPECT_TRUE(counts("kernels/gelu/gelu_torch.cpp"));
}

TEST_F(KernelHash, ChangesWithWhatThoseKernelsInclude) {
  EXPECT_TRUE(counts("kernels/rows.cuh"));
  EXPECT_TRUE(counts("kernels/launch.cuh")) << "included by rows.cuh";
  EXPECT_TRUE(counts("kernels/torch_binding.h"));
  EXPECT_TRUE(counts("kernels/softmax/softmax.cuh"));
}

TEST_F(KernelHash, OtherKernelsPagesAndReferencesDoNotCount) {
  EXPECT_FALSE(counts("kernels/toy/toy_microscope.cpp"));
  EXPECT_FALSE(counts("kernels/toy/toy_reference.h"));
  EXPECT_FALSE(counts("kernels/expected.h")) << "only a reference includes it";
  EXPECT_FALSE(counts("kernels/other/other.cuh"));
  EXPECT_FALSE(counts("kernels/column_sums.cuh")) << "shared, and included by none";
  EXPECT_FALSE(counts("kernels/softmax/softmax.cu")) << "only its device code is included";
}

TEST_F(KernelHash, TheSameFromEverywhere) {
  const std::filesystem::path here = std::filesystem::current_path();
  std::filesystem::current_path(folder_ / "lessons");
  EXPECT_EQ(code_hash("40_toy"), before_);
  EXPECT_EQ(code_hash("../lessons/40_toy"), before_);
  std::filesystem::current_path(here);
}

TEST_F(CodeHash, ChangesWithANewFileAndAName) {
  write("more.cu", "");
  const std::string more = code_hash(folder_);
  EXPECT_NE(more, before_);
  std::filesystem::rename(folder_ / "more.cu", folder_ / "less.cu");
  EXPECT_NE(code_hash(folder_), more);
}

TEST_F(CodeHash, TestsTextsAndExercisesDoNotCount) {
  write("technique_test.cpp", "x");
  write("README.md", "x");
  write("CMakeLists.txt", "x");
  write("exercise/starter.h", "x");
  EXPECT_EQ(code_hash(folder_), before_);
}

TEST_F(CodeHash, NoFolderNoHash) { EXPECT_EQ(code_hash(folder_ / "none"), ""); }

}  // namespace
}  // namespace tenfold
