#include "common/pages/book/excerpt.h"

#include <gtest/gtest.h>

#include <stdexcept>

namespace tenfold {
namespace {

// Not called cpp: the formatter would tidy what has to stay as it is.
constexpr const char* kSource = R"source(// A file's heading, not the struct's comment.

#include <vector>
namespace demo {

// --- section ----------
/// What a box is.
/// In two lines.
struct Box {
  int width = 0;  ///< { not a brace
  /// The area.
  int area() const { return width * width; }
};

enum class Kind { one, two };

int declared(int a);

/// Adds; "}" in a text and '{' as a character do not count: 1'000.
template <class T>
T add(T a, T b) {
  const char* text = "} \" }";
  const char brace = '{';
  const auto raw = R"x(}})x";
  if (a > 1'000) { return b; }  // }
  return a + b + (text[0] == brace) + (raw[0] == 0);
}

class Widget {
 public:
  explicit Widget(int size) : size_(size), list_{1, 2} { grow(size); }
  int declared_here(int a) const;
  void grow(int by) noexcept;

 private:
  int size_;
  std::vector<int> list_;
};

int Widget::declared_here(int a) const {
  int declared = add(a, 1);
  return declared;
}

/* A block comment { */
constexpr int kLimit = 12;  // why twelve

auto twice = [](int x) {
  return 2 * x;
};

int main() { return add(1, 2); }
}  // namespace demo
)source";

TEST(Excerpt, AStructWithItsComment) {
  EXPECT_EQ(
      cut_definition(kSource, "Box"),
      "/// What a box is.\n/// In two lines.\nstruct Box {\n  int width = 0;  ///< { not a brace\n  /// The area.\n"
      "  int area() const { return width * width; }\n};");
}

TEST(Excerpt, AFunctionTemplateWhoseTextsHoldBraces) {
  const std::string cut = cut_definition(kSource, "add");
  EXPECT_EQ(cut.rfind("/// Adds;", 0), 0u) << cut;
  EXPECT_NE(cut.find("template <class T>\nT add(T a, T b) {"), std::string::npos) << cut;
  EXPECT_NE(cut.find("return a + b"), std::string::npos) << cut;
  EXPECT_EQ(cut.back(), '}');
  EXPECT_EQ(cut.find("Widget"), std::string::npos) << cut;
}

TEST(Excerpt, AMemberLosesItsIndentation) {
  EXPECT_EQ(cut_definition(kSource, "area"), "/// The area.\nint area() const { return width * width; }");
}

TEST(Excerpt, OutOfClassDefinitionsByTheirFullName) {
  EXPECT_EQ(cut_definition(kSource, "Widget::declared_here"),
            "int Widget::declared_here(int a) const {\n  int declared = add(a, 1);\n  return declared;\n}");
}

TEST(Excerpt, TypesConstantsAndLambdas) {
  EXPECT_EQ(cut_definition(kSource, "Kind"), "enum class Kind { one, two };");
  EXPECT_EQ(cut_definition(kSource, "kLimit"), "constexpr int kLimit = 12;  // why twelve");
  EXPECT_EQ(cut_definition(kSource, "twice"), "auto twice = [](int x) {\n  return 2 * x;\n};");
  EXPECT_EQ(cut_definition(kSource, "main"), "int main() { return add(1, 2); }");
  EXPECT_NE(cut_definition(kSource, "Widget").find("std::vector<int> list_;\n};"), std::string::npos);
}

TEST(Excerpt, AFunctionThatReturnsAFunction) {
  const std::string source = "int f(int a);\nstd::function<void(const T&)> log_of(int n) {\n  return f;\n}\n";
  EXPECT_EQ(cut_definition(source, "log_of"), "std::function<void(const T&)> log_of(int n) {\n  return f;\n}");
}

TEST(Excerpt, AFunctionAndNotTheLocalVariableOfItsName) {
  EXPECT_EQ(
      cut_definition("int sides() {\n  const int streams = 2;\n  return streams;\n}\n\nint streams() { return 3; }\n",
                     "streams"),
      "int streams() { return 3; }");
}

TEST(Excerpt, AKernelWithLaunchBounds) {
  const std::string kernel =
      "/// Fast.\nstatic __global__ void __launch_bounds__(256, 2) fast(float* out) {\n  out[0] = 1;\n}";
  EXPECT_EQ(cut_definition("int before;\n\n" + kernel + "\nint after;\n", "fast"), kernel);
}

TEST(Excerpt, WhatIsOnlyDeclaredOrCalledIsMissing) {
  for (const char* symbol : {"grow", "nothing", "Bo", "", "namespace"})
    EXPECT_THROW(cut_definition(kSource, symbol), std::invalid_argument) << symbol;
}

constexpr const char* kPython = R"source("""A module."""

# region shown
import torch


def update(model):
    """def fake():"""
    return model
# endregion


# Why it is cached.
@functools.cache
def tokens(
    name,
):
    if name:

        return 1
    # at the end
    return 2


TOKENS = tokens("a")


class Block:
    def forward(self, x):  # (B, T)
# a comment may stand anywhere
        return x

    def last(self):
        return 0
# region open
)source";

TEST(PythonExcerpt, ARegionWithoutItsMarkers) {
  EXPECT_EQ(cut_python(kPython, "shown"),
            "import torch\n\n\ndef update(model):\n    \"\"\"def fake():\"\"\"\n    return model");
}

TEST(PythonExcerpt, AFunctionWithDecoratorAndComment) {
  EXPECT_EQ(cut_python(kPython, "tokens"),
            "# Why it is cached.\n@functools.cache\ndef tokens(\n    name,\n):\n    if name:\n\n        return 1\n"
            "    # at the end\n    return 2");
}

TEST(PythonExcerpt, AClassAndAMethodThatLosesItsIndentation) {
  EXPECT_EQ(cut_python(kPython, "last"), "def last(self):\n    return 0");
  const std::string block = cut_python(kPython, "Block");
  EXPECT_TRUE(block.starts_with("class Block:\n    def forward")) << block;
  EXPECT_TRUE(block.ends_with("return 0")) << block;
}

TEST(PythonExcerpt, WhatIsNotThereIsMissing) {
  for (const char* name : {"TOKENS", "token", "show", "", "open"})
    EXPECT_THROW(cut_python(kPython, name), std::invalid_argument) << name;
}

}  // namespace
}  // namespace tenfold
