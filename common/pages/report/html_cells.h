#pragma once
// Cells that the tables of the report share.

#include <string>

#include "common/pages/rows/rows.h"

namespace tenfold {

/// The style class of a tone; empty for plain text.
std::string class_of(Tone tone);

/// A table cell: a verdict's is coloured as a whole.
std::string cell(const Cell& cell);

/// A table cell with escaped text.
std::string cell(const std::string& text, const char* kind = "");

}  // namespace tenfold
