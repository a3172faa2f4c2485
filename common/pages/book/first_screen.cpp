#include "common/pages/book/first_screen.h"

#include <algorithm>
#include <sstream>
#include <stdexcept>
#include <vector>

#include "common/pages/rows/markdown_table.h"

namespace tenfold {
FirstScreen first_screen_of(const std::string& page_text) {
  std::istringstream lines(page_text);
  std::vector<std::string> head, row;
  for (std::string line; std::getline(lines, line) && !line.starts_with("## ");) {
    if (!head.empty() && line.starts_with("|---")) continue;
    if (!head.empty()) {
      row = markdown_cells(line);
      break;
    }
    if (line.starts_with("| use it when |")) head = markdown_cells(line);
  }
  if (head.empty()) throw std::invalid_argument("has no table '| use it when | ...' above its first heading");
  const auto cell = [&](const char* column) {
    const auto found = std::ranges::find(head, column);
    if (found == head.end())
      throw std::invalid_argument("its table '| use it when | ...' has no column '" + std::string(column) + "'");
    const auto at = static_cast<size_t>(found - head.begin());
    if (at >= row.size() || row[at].empty())
      throw std::invalid_argument("its table '| use it when | ...' says nothing in column '" + std::string(column) +
                                  "'");
    return row[at];
  };
  return {cell("use it when"), cell("skip it when"), cell("you pay"), cell("in PyTorch")};
}

}  // namespace tenfold
