#include "common/pages/rows/markdown_table.h"

#include <cctype>

#include "common/base/text.h"

namespace tenfold {
namespace {

using Rows = std::vector<std::vector<std::string>>;

/// Below the heading nothing but numbers with their units: those line up at the right.
bool all_numbers(const Rows& rows, size_t column) {
  bool any = false;
  for (size_t i = 1; i < rows.size(); ++i) {
    const std::string& cell = rows[i].at(column);
    if (cell.empty() || cell == "-" || cell == "not counted") continue;
    if (std::isdigit(static_cast<unsigned char>(cell.front())) == 0 || cell.find('(') != std::string::npos ||
        cell.find('[') != std::string::npos || cell.find(':') != std::string::npos ||
        cell.find(',') != std::string::npos)
      return false;
    any = true;
  }
  return any && column > 0;
}

}  // namespace

std::string markdown_cell(const std::string& text) {
  std::string out;
  for (const char c : one_line(text)) {
    if (c == '|' || c == '<' || c == '*' || c == '_' || c == '`') out += '\\';
    out += c;
  }
  return out;
}

std::string markdown_table(const Rows& rows) {
  std::string out;
  for (size_t i = 0; i < rows.size(); ++i) {
    out += "|";
    for (const std::string& cell : rows[i]) out += " " + (cell.empty() ? "" : cell + " ") + "|";
    out += "\n";
    if (i > 0) continue;
    out += "|";
    for (size_t j = 0; j < rows[0].size(); ++j) out += all_numbers(rows, j) ? "---:|" : "---|";
    out += "\n";
  }
  return out;
}

std::string markdown_table_of_texts(Rows rows) {
  for (std::vector<std::string>& row : rows) {
    for (std::string& cell : row) cell = markdown_cell(cell);
  }
  return markdown_table(rows);
}

std::vector<std::string> markdown_cells(const std::string& row) {
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

}  // namespace tenfold
