#pragma once
// UTF-8 and the three character classes that GPT-2's pattern asks for.

#include "common/data/unicode_classes.h"

#include <array>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace tenfold {

enum class CharacterClass : uint8_t { other, letter, number, space };

/// The class of every code point, as a table of pages: two loads per question.
class CharacterClasses {
 public:
  CharacterClasses() : pages_(256, CharacterClass::other) {
    fill(kLetters, CharacterClass::letter);
    fill(kNumbers, CharacterClass::number);
    fill(kSpaces, CharacterClass::space);
  }

  /// Any value up to U+10FFFF.
  CharacterClass operator[](uint32_t code_point) const { return pages_[page_[code_point >> 8] + (code_point & 255)]; }

 private:
  template <size_t N>
  void fill(const CodePointRange (&ranges)[N], CharacterClass value) {
    for (const auto [first, last] : ranges) {
      for (uint32_t c = first; c <= last; ++c) {
        uint32_t& page = page_[c >> 8];
        if (page == 0) {  // page 0 of the store is the shared empty one
          page = static_cast<uint32_t>(pages_.size());
          pages_.resize(pages_.size() + 256, CharacterClass::other);
        }
        pages_[page + (c & 255)] = value;
      }
    }
  }

  std::array<uint32_t, 0x1100> page_{};  // where a page of 256 code points starts in pages_
  std::vector<CharacterClass> pages_;
};

/// The table, built once (a constant).
inline const CharacterClasses& character_classes() {
  static const CharacterClasses classes;
  return classes;
}

/// Length in bytes of the character that `lead` begins; of valid UTF-8 only.
inline int utf8_length(unsigned char lead) { return lead < 0x80 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4; }

/// The code point at `at`; of valid UTF-8 only.
inline uint32_t utf8_code_point(const unsigned char* at) {
  if (at[0] < 0x80) return at[0];
  if (at[0] < 0xe0) return (at[0] & 0x1fu) << 6 | (at[1] & 0x3fu);
  if (at[0] < 0xf0) return (at[0] & 0x0fu) << 12 | (at[1] & 0x3fu) << 6 | (at[2] & 0x3fu);
  return (at[0] & 0x07u) << 18 | (at[1] & 0x3fu) << 12 | (at[2] & 0x3fu) << 6 | (at[3] & 0x3fu);
}

/// Bytes of the longest valid or broken-off character at the front of `text` (not empty), and whether it is whole.
/// Source: The Unicode Standard, table 3-7 (well-formed byte sequences) and section 3.9 (maximal subparts).
struct Utf8Step {
  size_t bytes;
  bool valid;
};
inline Utf8Step utf8_step(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned lead = byte(0);
  if (lead < 0x80) return {1, true};
  if (lead < 0xc2 || lead > 0xf4) return {1, false};
  const size_t length = static_cast<size_t>(utf8_length(static_cast<unsigned char>(lead)));
  // The second byte excludes overlong forms, surrogates and values past U+10FFFF.
  const unsigned low = lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : 0x80;
  const unsigned high = lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : 0xbf;
  if (text.size() < 2 || byte(1) < low || byte(1) > high) return {1, false};
  for (size_t i = 2; i < length; ++i) {
    if (i >= text.size() || (byte(i) & 0xc0) != 0x80) return {i, false};
  }
  return {length, true};
}

/// The first byte that is not part of a valid character; text.size() when all is valid.
inline size_t valid_utf8_prefix(std::string_view text) {
  size_t at = 0;
  while (at < text.size()) {
    uint64_t eight;
    if (at + 8 <= text.size() && (std::memcpy(&eight, text.data() + at, 8), (eight & 0x8080808080808080u) == 0)) {
      at += 8;
      continue;
    }
    const Utf8Step step = utf8_step(text.substr(at));
    if (!step.valid) return at;
    at += step.bytes;
  }
  return at;
}

/// `text` with each maximal broken part replaced by U+FFFD, as Python's bytes.decode("utf-8", errors="replace") does.
inline std::string replace_invalid_utf8(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const size_t valid = valid_utf8_prefix(text);
    out.append(text.substr(0, valid));
    text.remove_prefix(valid);
    if (text.empty()) break;
    out += "\xef\xbf\xbd";
    text.remove_prefix(utf8_step(text).bytes);
  }
  return out;
}

}  // namespace tenfold
