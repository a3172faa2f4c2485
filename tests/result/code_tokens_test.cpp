#include "common/result/code_tokens.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace tenfold {
namespace {

/// Tokens with a bar behind each, a bar more where a directive ends.
std::string tokens(const std::string& text) {
  std::string seen = code_tokens(text).text;
  for (char& c : seen) c = c == '\n' ? '|' : c;
  return seen;
}

TEST(CodeTokens, LayoutDoesNotShow) {
  const std::string wide = "int f(int* a, int b) { return a[0]+b; }";
  EXPECT_EQ(tokens(wide), "int|f|(|int|*|a|,|int|b|)|{|return|a|[|0|]|+|b|;|}|");
  EXPECT_EQ(tokens("int f(int *a,\n      int b)\n{\n\treturn a[0] + b;\r\n}\n\n"), tokens(wide));
  EXPECT_EQ(tokens("x=-1;"), tokens("x = -1;"));
  EXPECT_EQ(tokens("f(&x,*y)"), tokens("f( & x , * y )"));
}

TEST(CodeTokens, CommentsDoNotShow) {
  EXPECT_EQ(tokens("a // one \" ' /*\nb /* two\n // \" */ c/**/d /***/"), "a|b|c|d|");
  EXPECT_EQ(tokens("a / b"), "a|/|b|");
  EXPECT_EQ(tokens("\"// text\" '/' \"/*\" b"), "\"// text\"|'/'|\"/*\"|b|") << "a literal holds no comment";
  EXPECT_EQ(tokens("a /* open"), "a|");
}

TEST(CodeTokens, NeighboursDoNotFuse) {
  EXPECT_NE(tokens("a b"), tokens("ab"));
  EXPECT_NE(tokens("a/**/b"), tokens("ab"));
  for (const char* joined :
       {"++", "--", "<<", ">>", "&&", "||", "==", "!=", "<=", ">=", "+=", "*=", "->", "::", ".*", "##", "..."}) {
    const std::string text = joined;
    EXPECT_NE(tokens("a " + text + " b"), tokens("a " + text.substr(0, 1) + " " + text.substr(1) + " b")) << text;
  }
  EXPECT_EQ(tokens("a<<=b<=>c->*d"), "a|<<=|b|<=>|c|->*|d|");
  EXPECT_NE(tokens("u8 \"a\""), tokens("u8\"a\""));
  EXPECT_NE(tokens("\"a\" \"b\""), tokens("\"ab\""));
  EXPECT_NE(tokens("\"a\" s"), tokens("\"a\"s"));
}

TEST(CodeTokens, Numbers) {
  EXPECT_EQ(tokens("1'000'000+.5f-0x1p-3*1e+5+x.y+1-2"), "1'000'000|+|.5f|-|0x1p-3|*|1e+5|+|x|.|y|+|1|-|2|");
  EXPECT_NE(tokens("f(1'0)"), tokens("f(10)"));
}

TEST(CodeTokens, LiteralsStayAsTheyAre) {
  EXPECT_EQ(tokens("f(\"a  b\", 'c', '\\'', \"\\\"  //\\\\\")g"), "f|(|\"a  b\"|,|'c'|,|'\\''|,|\"\\\"  //\\\\\"|)|g|");
  EXPECT_EQ(tokens("u8\"a  b\"sv L' '"), "u8\"a  b\"sv|L' '|");
  EXPECT_EQ(tokens("R\"(a \" // b\n  c)\" d"), "R\"(a \" // b|  c)\"|d|");
  EXPECT_EQ(tokens("uR\"x(a )\" // b)x\" d"), "uR\"x(a )\" // b)x\"|d|");
  EXPECT_EQ(tokens("R\"(\n#include <a.h>\n)\""), "R\"(|#include <a.h>|)\"|");
  EXPECT_EQ(tokens("#error don't  stop\nb"), "#|error|don|'t  stop||b|") << "ends with its line";
}

TEST(CodeTokens, DirectivesEndWithTheirLine) {
  EXPECT_EQ(tokens("#define A\nint b;"), "#|define|A||int|b|;|");
  EXPECT_NE(tokens("#define A\nint b;"), tokens("#define A int b;"));
  EXPECT_EQ(tokens("  #  define A \\\n  int b; // why\nc"), tokens("#define A int b;\nc"));
  EXPECT_EQ(tokens("#define A /* a\n b */ int b;"), tokens("#define A int b;"));
  EXPECT_NE(tokens("#define F(x) 1"), tokens("#define F (x) 1"));
  EXPECT_NE(tokens("#if A\nb\n#endif"), tokens("b"));
  EXPECT_NE(tokens("#pragma unroll 4\n"), tokens("#pragma unroll 8\n"));
  EXPECT_EQ(tokens("#define S(x) #x\n"), "#|define|S(|x|)|#|x||");
}

TEST(CodeTokens, IncludesAreNamedAndDoNotShow) {
  const CodeTokens code = code_tokens(
      "#pragma once\n#include <vector>\n  # include <zlib.h>  // why\n#if A\n#include "
      "\"../rows.cuh\"\n#endif\n"
      "// #include <comment.h>\nint a; const char* b = \"\\\n#include <text.h>\\\n\";\n#include <end.h>");
  EXPECT_EQ(code.includes, (std::vector<std::string>{"<vector>", "<zlib.h>", "\"../rows.cuh\"", "<end.h>"}));
  EXPECT_EQ(code.text, code_tokens("#if A\n#endif\nint a; const char* b = \"\\\n#include <text.h>\\\n\";").text);
}

TEST(CodeTokens, IllFormedTextEnds) {
  for (const char* text :
       {"",     "\\",   "#",  "# ", "#\n", "#include", "#include \"a", "#include <a", "\"",      "'", "\"\\", "R\"",
        "R\"(", "R\"a", "/*", "/",  "1e",  ".",        "#define",      "#define F(",  "\xff\xfe"}) {
    EXPECT_NO_THROW(code_tokens(text)) << text;
  }
}

}  // namespace
}  // namespace tenfold
