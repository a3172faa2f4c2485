#include "common/data/speeches.h"

#include <algorithm>
#include <cctype>
#include <optional>
#include <utility>

namespace tenfold {
namespace {

struct Play {
  std::string_view name;
  Genre genre;
  bool capitals = true;  ///< speakers are printed in capitals; otherwise as "Ham."
};

constexpr std::array<Play, 37> kPlays = {{
    {"alls_well_that_ends_well", Genre::comedy},
    {"antony_and_cleopatra", Genre::tragedy},
    {"as_you_like_it", Genre::comedy},
    {"comedy_of_errors", Genre::comedy},
    {"coriolanus", Genre::tragedy},
    {"cymbeline", Genre::tragedy},
    {"hamlet", Genre::tragedy, false},
    {"henry_iv_part_1", Genre::history},
    {"henry_iv_part_2", Genre::history},
    {"henry_v", Genre::history},
    {"henry_vi_part_1", Genre::history},
    {"henry_vi_part_2", Genre::history},
    {"henry_vi_part_3", Genre::history},
    {"henry_viii", Genre::history},
    {"john", Genre::history},
    {"julius_caesar", Genre::tragedy},
    {"lear", Genre::tragedy, false},
    {"loves_labours_lost", Genre::comedy},
    {"macbeth", Genre::tragedy},
    {"measure_for_measure", Genre::comedy},
    {"merchant_of_venice", Genre::comedy},
    {"merry_wives_of_windsor", Genre::comedy},
    {"midsummer_nights_dream", Genre::comedy},
    {"much_ado_about_nothing", Genre::comedy},
    {"othello", Genre::tragedy},
    {"pericles", Genre::comedy},
    {"richard_ii", Genre::history},
    {"richard_iii", Genre::history},
    {"romeo_and_juliet", Genre::tragedy, false},
    {"taming_of_the_shrew", Genre::comedy},
    {"tempest", Genre::comedy},
    {"timon_of_athens", Genre::tragedy},
    {"tragedy_of_titus_andronicus", Genre::tragedy},
    {"troilus_and_cressida", Genre::tragedy},
    {"twelfth_night", Genre::comedy},
    {"two_gentlemen_of_verona", Genre::comedy},
    {"winters_tale", Genre::comedy},
}};

using Paragraph = std::vector<std::string>;  // lines, trimmed, none of them empty

std::string_view trim(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t\r");
  return begin == std::string_view::npos ? std::string_view()
                                         : text.substr(begin, text.find_last_not_of(" \t\r") - begin + 1);
}

bool is_blank(std::string_view text) { return trim(text).empty(); }
bool upper(char c) { return c >= 'A' && c <= 'Z'; }
bool letter(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0; }

/// The end of the direction that opens at `at`: past its closing bracket, or past the line when none closes it in its
/// paragraph. The texts close some with a brace.
size_t direction_end(std::string_view text, size_t at) {
  int depth = 0;
  for (size_t i = at; i < text.size(); ++i) {
    if (text[i] == '[' || text[i] == '{') ++depth;
    if ((text[i] == ']' || text[i] == '}') && --depth == 0) return i + 1;
    if (text[i] == '\n' && is_blank(text.substr(i + 1, text.find('\n', i + 1) - i - 1))) break;
  }
  return std::min(text.size(), text.find('\n', at));
}

std::string without_directions(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size();) {
    if (text[i] == '[' || text[i] == '{') {
      i = direction_end(text, i);
    } else {
      if (text[i] != ']' && text[i] != '}') out += text[i];
      ++i;
    }
  }
  return out;
}

std::vector<Paragraph> paragraphs(std::string_view text) {
  std::vector<Paragraph> out(1);
  while (!text.empty()) {
    const size_t end = std::min(text.size(), text.find('\n'));
    const std::string_view line = trim(text.substr(0, end));
    if (!line.empty()) {
      out.back().emplace_back(line);
    } else if (!out.back().empty()) {
      out.emplace_back();
    }
    text.remove_prefix(std::min(text.size(), end + 1));
  }
  if (out.back().empty()) out.pop_back();
  return out;
}

std::vector<std::string> words(std::string_view line) {
  std::vector<std::string> out(1);
  for (const char c : line) {
    if (c != ' ' && c != '.' && c != ',') {
      out.back() += c;
    } else if (!out.back().empty()) {
      out.emplace_back();
    }
  }
  if (out.back().empty()) out.pop_back();
  return out;
}

/// The first word in capitals: "ACT", "SCENE", "PROLOGUE"...
std::string heading_word(std::string_view line) {
  if (line.starts_with("THE ")) line.remove_prefix(4);
  std::string word(line.substr(0, line.find_first_of(" .,:-")));
  std::ranges::transform(word, word.begin(),
                         [](char c) { return static_cast<char>(std::toupper(static_cast<unsigned char>(c))); });
  return word;
}

bool is_scene(std::string_view word) { return word == "ACT" || word == "SCENE" || word == "INDUCTION"; }
/// What a play begins or ends with is said by somebody, often unnamed.
bool is_frame(std::string_view word) { return word == "PROLOGUE" || word == "EPILOGUE"; }

bool is_small(const std::string& word) {
  static constexpr std::array<std::string_view, 6> kSmall = {"and", "of", "the", "to", "in", "&"};
  return std::ranges::find(kSmall, word) != kSmall.end();
}

bool in_capitals(const std::string& word) {
  return std::ranges::none_of(word, [](char c) { return letter(c) && !upper(c); });
}

bool is_roman(const std::string& word) { return word.find_first_not_of("IVX") == std::string::npos; }

/// Who speaks, and what of the paragraph's first line is said already; nothing when that line names no speaker.
std::optional<std::pair<std::string, std::string>> speaker_of(const Paragraph& paragraph, bool capitals) {
  const std::string& line = paragraph.front();
  constexpr size_t kLongestLine = 44, kMostWords = 6;
  const std::vector<std::string> parts = words(line);
  const auto name = [](std::string text) {
    while (!text.empty() && (text.back() == '.' || text.back() == '-' || text.back() == ' ')) text.pop_back();
    return text;
  };
  const bool plain = std::ranges::all_of(line, [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || std::string_view(" .,&'-").find(c) != std::string_view::npos;
  });
  if (plain && line.size() <= kLongestLine && parts.size() <= kMostWords) {
    const bool all =
        std::ranges::all_of(parts, [](const std::string& word) { return in_capitals(word) || is_small(word); });
    const bool named = std::ranges::any_of(
        parts, [](const std::string& word) { return word.size() > 1 && letter(word[0]) && in_capitals(word); });
    if (all && named && !(parts.size() == 1 && is_roman(parts[0])) && line != "SONG.")
      return std::pair(name(line), std::string());
    // "Ham.", "Ros. and Guil.", "1 Clown.": a short verse with its stop would have a comma or stand alone.
    const bool named_so = std::ranges::all_of(parts, [](const std::string& word) {
      return upper(word[0]) || std::isdigit(static_cast<unsigned char>(word[0])) || is_small(word);
    });
    if (!capitals && paragraph.size() > 1 && !parts.empty() && parts.size() <= 3 && line.ends_with('.') &&
        line.find(',') == std::string::npos && named_so)
      return std::pair(name(line), std::string());
  }
  // "WIDOW. So, now they come:--"
  const size_t stop = line.find(". ");
  if (stop == std::string::npos || stop < 3) return std::nullopt;
  const bool name_only = std::ranges::all_of(line.substr(0, stop), [](char c) { return upper(c) || c == ' '; });
  if (!name_only) return std::nullopt;
  return std::pair(line.substr(0, stop), std::string(trim(std::string_view(line).substr(stop + 1))));
}

}  // namespace

std::vector<Speech> speeches_of(const Book& book) {
  const auto play = std::ranges::find(kPlays, book.name, &Play::name);
  std::vector<Speech> out;
  if (play == kPlays.end()) return out;
  bool begun = false, speaking = false;
  const auto say = [&](const std::string& line) { out.back().text += (out.back().text.empty() ? "" : "\n") + line; };
  const auto begin_speech = [&](const std::string& speaker) {
    if (!out.empty() && out.back().text.empty()) out.pop_back();
    out.push_back({book.name, speaker, "", play->genre});
    speaking = true;
  };
  for (const Paragraph& paragraph : paragraphs(without_directions(book.text))) {
    const std::string heading = heading_word(paragraph.front());
    // Before the first act stand the persons and the place ("SCENE: Ephesus").
    begun = begun || heading == "ACT" || heading == "INDUCTION" || heading == "PROLOGUE";
    if (!begun) continue;
    if (is_scene(heading)) {
      speaking = false;
      continue;
    }
    if (is_frame(heading) && words(paragraph.front()).size() <= 2) {
      begin_speech(heading);
      for (size_t i = 1; i < paragraph.size(); ++i) say(paragraph[i]);
      continue;
    }
    if (const auto found = speaker_of(paragraph, play->capitals)) {
      begin_speech(found->first);
      if (!found->second.empty()) say(found->second);
      for (size_t i = 1; i < paragraph.size(); ++i) say(paragraph[i]);
    } else if (speaking) {
      for (const std::string& line : paragraph) say(line);
    }
  }
  if (!out.empty() && out.back().text.empty()) out.pop_back();
  return out;
}

std::vector<Speech> speeches(bool train) {
  std::vector<Speech> out;
  for (const Book& book : shakespeare(train)) {
    std::vector<Speech> more = speeches_of(book);
    out.insert(out.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
  }
  return out;
}

}  // namespace tenfold
