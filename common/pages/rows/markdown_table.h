#pragma once
// A table as Markdown.

#include <string>
#include <vector>

namespace tenfold {

/// A cell: | and < escaped, one line.
std::string markdown_cell(const std::string& text);
std::string markdown_table(const std::vector<std::vector<std::string>>& rows);

}  // namespace tenfold
