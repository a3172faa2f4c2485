#pragma once
// How much of a generated text is words.

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace tenfold::inline lesson_91 {

/// Runs of letters and of apostrophes between them, in lower case.
inline std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> words;
  std::string word;
  const auto end_word = [&] {
    while (word.ends_with('\'')) word.pop_back();
    if (!word.empty()) words.push_back(word);
    word.clear();
  };
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (std::isalpha(byte) != 0) {
      word += static_cast<char>(std::tolower(byte));
    } else if (c == '\'' && !word.empty()) {
      word += c;
    } else {
      end_word();
    }
  }
  end_word();
  return words;
}

/// Of a text's words of at least so many letters the share that is among `known`; 0 for a text without such words.
inline double known_share(std::string_view text, const std::set<std::string>& known, size_t letters) {
  std::vector<std::string> words = words_of(text);
  std::erase_if(words, [letters](const std::string& word) { return word.size() < letters; });
  if (words.empty()) return 0;
  const auto found = std::ranges::count_if(words, [&](const std::string& word) { return known.contains(word); });
  return static_cast<double>(found) / static_cast<double>(words.size());
}

}  // namespace tenfold::inline lesson_91
