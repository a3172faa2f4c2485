#pragma once
// What a lesson's page says in its first table: whether the technique is for this reader.

#include <string>

namespace tenfold {

/// The cells of the table "| use it when | skip it when | you pay | in PyTorch |", as Markdown.
struct FirstScreen {
  std::string use, skip, pay, line;
};

/// Of the text of a lesson's page. Throws std::invalid_argument, one line, when the table is not above the first
/// heading, lacks one of the four columns, or has an empty cell.
FirstScreen first_screen_of(const std::string& page_text);

}  // namespace tenfold
