#include "common/pages/book/excerpt.h"

#include <algorithm>
#include <cctype>
#include <sstream>
#include <stdexcept>

#include "common/base/text.h"

namespace tenfold {
namespace {

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }
bool is_space(char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; }

/// The source with everything inside comments, strings and characters blanked out; same length, same lines.
std::string without_text(const std::string& source) {
  std::string mask = source;
  const auto blank = [&](size_t from, size_t to) {
    for (size_t i = from; i < std::min(to, mask.size()); ++i) {
      if (mask[i] != '\n') mask[i] = ' ';
    }
  };
  for (size_t i = 0; i < source.size();) {
    size_t end = i + 1;
    if (source.compare(i, 2, "//") == 0) {
      end = std::min(source.find('\n', i), source.size());
      blank(i, end);
    } else if (source.compare(i, 2, "/*") == 0) {
      end = std::min(source.find("*/", i + 2), source.size() - 2) + 2;
      blank(i, end);
    } else if (source.compare(i, 2, "R\"") == 0 && (i == 0 || !is_word(source[i - 1]))) {
      const size_t open = source.find('(', i);
      const std::string close = open == std::string::npos ? "" : ")" + source.substr(i + 2, open - i - 2) + "\"";
      const size_t found = open == std::string::npos ? open : source.find(close, open);
      end = found == std::string::npos ? source.size() : found + close.size();
      blank(i, end);
    } else if (source[i] == '"' || (source[i] == '\'' && (i == 0 || !is_word(source[i - 1])))) {  // 1'000 is a number
      while (end < source.size() && source[end] != source[i] && source[end] != '\n') end += source[end] == '\\' ? 2 : 1;
      ++end;
      blank(i, end);
    }
    i = end;
  }
  // An attribute of CUDA's whose parentheses are no parameter list.
  for (size_t at = mask.find("__launch_bounds__"); at != std::string::npos; at = mask.find("__launch_bounds__")) {
    blank(at, std::min(mask.find(')', at), mask.size() - 1) + 1);
  }
  return mask;
}

size_t matching(const std::string& mask, size_t open, char left, char right) {
  int depth = 0;
  for (size_t i = open; i < mask.size(); ++i) {
    if (mask[i] == left) ++depth;
    if (mask[i] == right && --depth == 0) return i;
  }
  return std::string::npos;
}

/// Where the statement that holds `at` begins: after the last ; { } or preprocessor line before it.
size_t statement_start(const std::string& mask, size_t at) {
  size_t start = at;
  while (start > 0 && mask[start - 1] != ';' && mask[start - 1] != '{' && mask[start - 1] != '}') --start;
  for (size_t hash = mask.find('#', start); hash < at; hash = mask.find('#', start)) {
    const size_t line_end = mask.find('\n', hash);
    if (line_end >= at) break;
    start = line_end + 1;
  }
  if (const size_t access = mask.find("public:", start); access < at) start = access + 7;
  if (const size_t access = mask.find("private:", start); access < at) start = access + 8;
  while (start < at && is_space(mask[start])) ++start;
  return start;
}

bool contains_word(const std::string& text, const std::string& word) {
  for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) {
    const bool left = at == 0 || !is_word(text[at - 1]),
               right = at + word.size() >= text.size() || !is_word(text[at + word.size()]);
    if (left && right) return true;
  }
  return false;
}

/// The end of a function's definition whose parameter list opens at `paren`; npos when it is a call or a declaration.
size_t function_end(const std::string& mask, size_t paren) {
  const size_t close = matching(mask, paren, '(', ')');
  if (close == std::string::npos) return close;
  bool initializers = false;
  for (size_t i = close + 1; i < mask.size(); ++i) {
    const char c = mask[i];
    if (c == '{') {
      if (initializers && is_word(mask[i - 1])) {  // member{value}
        i = matching(mask, i, '{', '}');
        if (i == std::string::npos) return i;
        continue;
      }
      const size_t end = matching(mask, i, '{', '}');
      return end == std::string::npos ? end : end + 1;
    }
    if (c == '(') {
      i = matching(mask, i, '(', ')');
      if (i == std::string::npos) return i;
    } else if (c == ':' && mask[i + 1] != ':' && mask[i - 1] != ':') {
      initializers = true;
    } else if (!is_word(c) && !is_space(c) && std::string("&*<>:,-[]").find(c) == std::string::npos) {
      return std::string::npos;
    }
  }
  return std::string::npos;
}

/// A type without what stands in its angle brackets: std::function<void(int)> is a type, and no call.
std::string without_arguments(const std::string& type) {
  std::string out;
  int depth = 0;
  for (const char c : type) {
    if (c == '>' && depth > 0) --depth;
    if (depth == 0) out += c;
    if (c == '<') ++depth;
  }
  return out;
}

/// The end of the definition of the name at [at, after), or npos when this is only a use of it.
size_t definition_end(const std::string& mask, size_t start, size_t at, size_t after) {
  const std::string before = without_arguments(mask.substr(start, at - start));
  size_t next = after;
  while (next < mask.size() && is_space(mask[next])) ++next;
  if (next >= mask.size()) return std::string::npos;
  const bool type = contains_word(before, "struct") || contains_word(before, "class") ||
                    contains_word(before, "enum") || contains_word(before, "union");
  if (type && mask[next] != '(' && before.find('(') == std::string::npos) {
    const size_t brace = mask.find_first_of("{;(=", next);
    if (brace == std::string::npos || mask[brace] != '{') return std::string::npos;
    const size_t end = matching(mask, brace, '{', '}');
    return end == std::string::npos ? end : mask.find(';', end) + 1;
  }
  // A definition starts with a type: something stands before the name, and no operator or keyword of a statement.
  if (before.empty() || before.find('=') != std::string::npos || before.find('(') != std::string::npos)
    return std::string::npos;
  for (const char* word : {"return", "using", "throw", "new", "delete", "case", "goto", "else"}) {
    if (contains_word(before, word)) return std::string::npos;
  }
  if (at > 0 && (mask[at - 1] == '.' || mask[at - 1] == ':' || mask[at - 1] == '>')) return std::string::npos;
  if (mask[next] == '(') return function_end(mask, next);
  if (mask[next] == '=' || mask[next] == '{' || mask[next] == '[') {
    int depth = 0;
    for (size_t i = next; i < mask.size(); ++i) {
      if (std::string("({[").find(mask[i]) != std::string::npos) ++depth;
      if (std::string(")}]").find(mask[i]) != std::string::npos) --depth;
      if (mask[i] == ';' && depth == 0) return i + 1;
    }
  }
  return std::string::npos;
}

/// Back over the comment lines that stand directly above.
size_t with_comment(const std::string& source, size_t start) {
  size_t line = start == 0 ? 0 : source.rfind('\n', start - 1) + 1;  // npos + 1 is 0
  while (line > 0) {
    const size_t previous = line < 2 ? 0 : source.rfind('\n', line - 2) + 1;
    size_t text = previous;
    while (text < line - 1 && is_space(source[text])) ++text;
    const bool comment = source.compare(text, 2, "//") == 0;
    const bool spaced = source.substr(text, 6) == "// ---";  // a section's heading is not the definition's comment
    if (!comment || spaced) break;
    line = previous;
  }
  return line;
}

std::string dedent(const std::string& text) {
  size_t common = std::string::npos;
  for (size_t line = 0; line < text.size();) {
    const size_t end = std::min(text.find('\n', line), text.size());
    size_t first = line;
    while (first < end && text[first] == ' ') ++first;
    if (first < end) common = std::min(common, first - line);
    line = end + 1;
  }
  if (common == std::string::npos || common == 0) return text;
  std::string out;
  for (size_t line = 0; line < text.size();) {
    const size_t end = std::min(text.find('\n', line), text.size());
    if (end - line > common) out += text.substr(line + common, end - line - common);
    if (end < text.size()) out += '\n';
    line = end + 1;
  }
  return out;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::istringstream in(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

size_t indentation(const std::string& line) { return std::min(line.find_first_not_of(' '), line.size()); }

/// Lines [first, last) without blank ones at the ends.
std::string joined_lines(const std::vector<std::string>& lines, size_t first, size_t last) {
  while (first < last && trimmed(lines[first]).empty()) ++first;
  while (last > first && trimmed(lines[last - 1]).empty()) --last;
  std::string text;
  for (size_t i = first; i < last; ++i) text += (i == first ? "" : "\n") + lines[i];
  return dedent(text);
}

/// The line behind a definition's last: the first that is indented no further than its head and is neither blank, nor a
/// comment, nor what closes the head.
size_t python_end(const std::vector<std::string>& lines, size_t head) {
  size_t end = head + 1;
  for (size_t i = head + 1; i < lines.size(); ++i) {
    const std::string text = trimmed(lines[i]);
    if (text.empty() || text[0] == '#') continue;
    const bool inside = indentation(lines[i]) > indentation(lines[head]) || text[0] == ')';
    if (!inside) break;
    end = i + 1;
  }
  return end;
}

}  // namespace

std::string cut_definition(const std::string& source, const std::string& symbol) {
  const std::string mask = without_text(source);
  std::string found;
  size_t deepest = std::string::npos;  // that a definition may stand in to be taken instead of `found`
  for (size_t at = mask.find(symbol); at != std::string::npos && !symbol.empty(); at = mask.find(symbol, at + 1)) {
    const size_t after = at + symbol.size();
    if ((at > 0 && is_word(mask[at - 1])) || (after < mask.size() && is_word(mask[after]))) continue;
    const size_t start = statement_start(mask, at);
    const size_t end = definition_end(mask, start, at, after);
    if (end == std::string::npos || end == 0) continue;
    const size_t line = start == 0 ? 0 : source.rfind('\n', start - 1) + 1;  // npos + 1 is 0
    if (start - line >= deepest) continue;
    deepest = start - line;
    const size_t from = with_comment(source, start);
    size_t to = end;
    const size_t line_end = std::min(source.find('\n', end), source.size());
    if (source.find_first_not_of(" \t", end) < line_end &&
        source.compare(source.find_first_not_of(" \t", end), 2, "//") == 0)
      to = line_end;
    found = dedent(source.substr(from, to - from));
  }
  if (found.empty()) throw std::invalid_argument("no definition of '" + symbol + "'");
  return found;
}

std::string cut_python(const std::string& source, const std::string& name) {
  const std::vector<std::string> lines = lines_of(source);
  const auto find = [&](const std::string& text, size_t from) {
    while (from < lines.size() && trimmed(lines[from]) != text) ++from;
    return from;
  };
  if (const size_t begin = find("# region " + name, 0); begin < lines.size()) {
    const size_t end = find("# endregion", begin);
    if (end == lines.size()) throw std::invalid_argument("no '# endregion' behind '# region " + name + "'");
    return joined_lines(lines, begin + 1, end);
  }
  for (size_t head = 0; head < lines.size(); ++head) {
    const std::string text = trimmed(lines[head]);
    const size_t after = text.starts_with("def ") ? 4 : text.starts_with("class ") ? 6 : 0;
    if (after == 0 || text.compare(after, name.size(), name) != 0 || name.empty()) continue;
    if (after + name.size() < text.size() && is_word(text[after + name.size()])) continue;
    size_t first = head;
    while (first > 0 && (trimmed(lines[first - 1]).starts_with("@") || trimmed(lines[first - 1]).starts_with("#")))
      --first;
    return joined_lines(lines, first, python_end(lines, head));
  }
  throw std::invalid_argument("no definition and no region of '" + name + "'");
}

}  // namespace tenfold
