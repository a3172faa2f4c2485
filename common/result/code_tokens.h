#pragma once
// A source file as its tokens: the same for every layout of the same code.

#include <string>
#include <string_view>
#include <vector>

namespace tenfold {

struct CodeTokens {
  std::string text;                   ///< each token and a line feed; a line feed more where a directive's line ends
  std::vector<std::string> includes;  ///< as spelled: <vector>, "kernels/rows.cuh"
};

/// Left out are comments, white space between tokens, #pragma once and #include. String and character literals stay as
/// they are, and so does a space that makes another token: `+ +`, `#define F (x)`. Includes count as taken whatever #if
/// says. Ill-formed text gives tokens, too.
CodeTokens code_tokens(std::string_view text);

}  // namespace tenfold
