#pragma once
// A lesson's part of the report, and the cells that its tables share with the table of all verdicts.

#include <string>

#include "common/result/result.h"

namespace tenfold {

/// The style class of a speed label: faster, slower, same, invalid, open.
std::string kind_of(const std::string& speed);
std::string memory_kind(const MemoryResult& memory);
/// Whether what expectation_text() says needs a reader's attention.
bool is_surprise(const std::string& expectation);

/// A table cell with escaped text.
std::string cell(const std::string& text, const char* kind = "");
std::string chip(const std::string& text, const std::string& kind);

/// Heading with an anchor of the lesson's name, then tables and figures of each case.
std::string lesson_section(const Result& result);

}  // namespace tenfold
