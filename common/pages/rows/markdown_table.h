#pragma once
// A table as Markdown.

#include <string>
#include <vector>

namespace tenfold {

/// A cell: | and < escaped, one line.
std::string markdown_cell(const std::string& text);
/// Of cells that are Markdown already; the first row is the heading.
std::string markdown_table(const std::vector<std::vector<std::string>>& rows);
/// A table's row in its cells, as they stand there: "| a | b \| c |" is "a" and "b \| c".
std::vector<std::string> markdown_cells(const std::string& row);
/// Of cells that are plain texts, each of which becomes a markdown_cell().
std::string markdown_table_of_texts(std::vector<std::vector<std::string>> rows);

}  // namespace tenfold
