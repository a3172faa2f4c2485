#include "common/result/code_tokens.h"

#include <algorithm>
#include <array>
#include <cctype>

namespace tenfold {

namespace {

bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }
bool in_word(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || static_cast<unsigned char>(c) >= 0x80;
}

template <size_t N>
bool is_one_of(const std::array<std::string_view, N>& words, std::string_view word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

/// Behind `what`, or the text's end where there is none from `at` on.
size_t behind(std::string_view text, std::string_view what, size_t at) {
  const size_t found = text.find(what, at);
  return found == std::string_view::npos ? text.size() : found + what.size();
}

/// The next token or line feed from `at` on: behind blanks, comments and spliced lines.
size_t skip_space(std::string_view text, size_t at) {
  while (at < text.size()) {
    const std::string_view rest = text.substr(at);
    if (rest.starts_with("//")) {
      at = std::min(text.find('\n', at), text.size());
    } else if (rest.starts_with("/*")) {
      at = behind(text, "*/", at + 2);
    } else if (rest.starts_with("\\\n")) {
      at += 2;
    } else if (rest[0] != '\n' && std::isspace(static_cast<unsigned char>(rest[0])) != 0) {
      ++at;
    } else {
      break;
    }
  }
  return at;
}

/// `quote` is the place of the opening quote. The ends of a literal that nobody closes: its line's, a raw one's the
/// text's.
size_t end_of_literal(std::string_view text, size_t quote, bool raw) {
  if (raw) {
    const size_t open = std::min(text.find('(', quote), text.size());
    return behind(text, ")" + std::string(text.substr(quote + 1, open - quote - 1)) + "\"", open);
  }
  size_t at = quote + 1;
  while (at < text.size() && text[at] != text[quote] && text[at] != '\n') at += text[at] == '\\' ? 2 : 1;
  return at < text.size() && text[at] == text[quote] ? at + 1 : std::min(at, text.size());
}

/// The end of the token that begins at `at`.
size_t end_of_token(std::string_view text, size_t at) {
  static constexpr std::array<std::string_view, 10> kPrefixes = {"", "L", "u", "U", "u8", "R", "LR", "uR", "UR", "u8R"};
  // The longer ones first.
  static constexpr std::array<std::string_view, 27> kOperators = {
      "<<=", ">>=", "<=>", "->*", "...", "++", "--", "<<", ">>", "&&", "||", "==", "!=", "<=",
      ">=",  "+=",  "-=",  "*=",  "/=",  "%=", "&=", "|=", "^=", "->", "::", ".*", "##"};
  const auto letter = [&](size_t i) { return i < text.size() ? text[i] : '\0'; };
  size_t end = at;
  if (is_digit(text[at]) || (text[at] == '.' && is_digit(letter(at + 1)))) {  // 1'000'000, .5f, 0x1p-3
    const auto has_sign = [&] {
      return (text[end] == '+' || text[end] == '-') && std::string_view("eEpP").find(text[end - 1]) < 4;
    };
    const auto in_number = [&] { return in_word(text[end]) || text[end] == '.' || text[end] == '\'' || has_sign(); };
    ++end;
    while (end < text.size() && in_number()) ++end;
    return end;
  }
  while (in_word(letter(end))) ++end;
  const std::string_view word = text.substr(at, end - at);
  if ((letter(end) == '"' || letter(end) == '\'') && is_one_of(kPrefixes, word)) {
    end = end_of_literal(text, end, word.ends_with('R'));
    while (in_word(letter(end))) ++end;  // "text"sv
    return end;
  }
  if (!word.empty()) return end;
  const auto found =
      std::find_if(kOperators.begin(), kOperators.end(), [&](auto one) { return text.substr(at).starts_with(one); });
  return at + (found == kOperators.end() ? 1 : found->size());
}

}  // namespace

CodeTokens code_tokens(std::string_view text) {
  CodeTokens code;
  std::string directive;  // the tokens of the one that is open
  for (size_t at = 0; at <= text.size();) {
    at = skip_space(text, at);
    if (at >= text.size() || text[at] == '\n') {
      if (constexpr std::string_view kInclude = "#\ninclude\n"; directive.starts_with(kInclude)) {
        std::erase(directive, '\n');
        code.includes.push_back(directive.substr(kInclude.size() - 2));
      } else if (!directive.empty() && directive != "#\npragma\nonce\n") {
        code.text += directive + "\n";
      }
      directive.clear();
      ++at;
      continue;
    }
    size_t end = end_of_token(text, at);
    if (directive == "#\ndefine\n" && text.substr(end).starts_with('('))
      ++end;  // `F(x)` has a parameter, `F (x)` has none
    const std::string_view token = text.substr(at, end - at);
    std::string& tokens = token == "#" || !directive.empty() ? directive : code.text;
    tokens.append(token) += '\n';
    at = end;
  }
  return code;
}

}  // namespace tenfold
