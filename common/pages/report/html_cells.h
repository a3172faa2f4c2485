#pragma once
// Cells that the tables of the report share.

#include <string>

#include "common/result/result.h"

namespace tenfold {

/// The style class of a speed label: faster, slower, same, invalid, open.
std::string kind_of(const std::string& speed);
std::string memory_kind(const MemoryResult& memory);

/// A table cell with escaped text.
std::string cell(const std::string& text, const char* kind = "");
std::string chip(const std::string& text, const std::string& kind);

}  // namespace tenfold
