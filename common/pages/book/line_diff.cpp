#include "common/pages/book/line_diff.h"

#include <algorithm>
#include <sstream>
#include <vector>

namespace tenfold {
namespace {

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

/// Without a comment at its end: what only explains is no change.
std::string code_of(const std::string& line) {
  const size_t comment = line.find("  // ");
  return comment == std::string::npos || comment == 0 ? line : line.substr(0, comment);
}

}  // namespace

std::string line_diff(const std::string& before, const std::string& after) {
  const std::vector<std::string> a = lines_of(before), b = lines_of(after);
  const auto same = [&](size_t i, size_t j) { return code_of(a[i]) == code_of(b[j]); };
  // common[i][j]: how many lines the rest of a from i and of b from j have in common, in their order.
  std::vector<std::vector<size_t>> common(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = a.size(); i-- > 0;) {
    for (size_t j = b.size(); j-- > 0;)
      common[i][j] = same(i, j) ? common[i + 1][j + 1] + 1 : std::max(common[i + 1][j], common[i][j + 1]);
  }
  std::string out;
  const auto put = [&out](char mark, const std::string& line) {
    out += (line.empty() && mark == ' ' ? "" : mark + line) + "\n";
  };
  size_t i = 0, j = 0;
  while (i < a.size() || j < b.size()) {
    if (i < a.size() && j < b.size() && same(i, j)) {
      put(' ', b[j]);
      ++i, ++j;
    } else if (j == b.size() || (i < a.size() && common[i + 1][j] >= common[i][j + 1])) {
      put('-', a[i++]);
    } else {
      put('+', b[j++]);
    }
  }
  return out;
}

}  // namespace tenfold
