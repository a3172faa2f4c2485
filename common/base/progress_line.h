#pragma once
// How far a child program is: "@progress FRACTION TEXT", a line of its standard error that the driver draws.

#include <optional>
#include <string>

namespace tenfold {

struct ProgressLine {
  double fraction = 0;  ///< of the whole, 0 to 1
  std::string text;     ///< what it is at
};

/// Writes the line to standard error, at once.
void print_progress(double fraction, const std::string& text);

/// What such a line says, its fraction held between 0 and 1; none of any other line.
std::optional<ProgressLine> progress_in(const std::string& line);

}  // namespace tenfold
