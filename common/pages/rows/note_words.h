#pragma once
// Numbers that a variant noted, in words.

#include <string>

#include "common/result/result.h"

namespace tenfold {

/// A note's value with its unit: bytes and seconds scaled, others as they are.
std::string note_text(const Note& note);
/// The same behind its name, which may tell the unit: "256" of the note "images" in images.
std::string note_text(const std::string& name, const Note& note);
/// The word stands in the text, not as a part of another one; the empty word always does.
bool has_word(const std::string& text, const std::string& word);
/// "reduce.cuh:31 global load" is "global load, worst line": a look has many lines, and their numbers change with every
/// edit of the kernel. `./tenfold kernel` shows them line by line.
std::string without_line(const std::string& thing);

}  // namespace tenfold
