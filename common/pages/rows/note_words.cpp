#include "common/pages/rows/note_words.h"

#include <cctype>
#include <regex>

#include "common/base/text.h"

namespace tenfold {

std::string note_text(const Note& note) {
  if (note.unit == "bytes" || note.unit == "B") return human_bytes(note.value);
  if (note.unit == "s" || note.unit == "seconds") return human_seconds(note.value);
  return human_number(note.value) + (note.unit.empty() ? "" : " " + note.unit);
}

std::string note_text(const std::string& name, const Note& note) {
  const std::string text = note_text(note), unit = " " + note.unit;
  return has_word(name, note.unit) && text.ends_with(unit) ? text.substr(0, text.size() - unit.size()) : text;
}

bool has_word(const std::string& text, const std::string& word) {
  if (word.empty()) return true;
  const auto letter = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; };
  for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) {
    const size_t end = at + word.size();
    if ((at == 0 || !letter(text[at - 1])) && (end == text.size() || !letter(text[end]))) return true;
  }
  return false;
}

std::string without_line(const std::string& thing) {
  static const std::regex line(R"(^\S+\.cuh:\d+ (.+)$)");
  std::smatch match;
  return std::regex_match(thing, match, line) ? match[1].str() + ", worst line" : thing;
}

}  // namespace tenfold
