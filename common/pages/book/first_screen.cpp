#include "common/pages/book/first_screen.h"

#include <algorithm>
#include <sstream>
#include <stdexcept>
#include <vector>

#include "common/base/text.h"

namespace tenfold {
namespace {

/// "| a | b \| c |" is "a" and "b \| c".
std::vector<std::string> cells_of(const std::string& row) {
  std::vector<std::string> cells;
  std::string cell;
  for (size_t i = 1; i < row.size(); ++i) {
    if (row[i] != '|' || row[i - 1] == '\\') {
      cell += row[i];
      continue;
    }
    cells.push_back(trimmed(cell));
    cell.clear();
  }
  return cells;
}

}  // namespace

FirstScreen first_screen_of(const std::string& page_text) {
  std::istringstream lines(page_text);
  std::vector<std::string> head, row;
  for (std::string line; std::getline(lines, line) && !line.starts_with("## ");) {
    if (!head.empty() && line.starts_with("|---")) continue;
    if (!head.empty()) {
      row = cells_of(line);
      break;
    }
    if (line.starts_with("| use it when |")) head = cells_of(line);
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
