#include "common/base/text.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <cstdio>
#include <numeric>
#include <sstream>

namespace tenfold {
namespace {

std::string print(const char* format, double value) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), format, value);
  return text.data();
}

// Three significant digits, with no exponent where a person would write none.
std::string three_digits(double value) {
  const double size = std::abs(value);
  if (size == 0) return "0";
  if (size < 1e-4) return print("%.2e", value);
  if (size >= 99.95) return print("%.0f", value);
  if (size >= 9.995) return print("%.1f", value);
  if (size >= 0.9995) return print("%.2f", value);
  return print("%.3g", value);
}

}  // namespace

std::string human_number(double value) {
  const double size = std::abs(value);
  if (size >= 9.995e8) return three_digits(value / 1e9) + " G";
  if (size >= 9.995e5) return three_digits(value / 1e6) + " M";
  if (size >= 9999.5) return three_digits(value / 1e3) + " k";
  if (size < 1e15 && value == std::floor(value)) return print("%.0f", value);
  return three_digits(value);
}

std::string human_bytes(double bytes) {
  const std::array<const char*, 5> units = {" B", " KiB", " MiB", " GiB", " TiB"};
  size_t unit = 0;
  while (std::abs(bytes) >= 1023.5 && unit + 1 < units.size()) bytes /= 1024, ++unit;
  return (unit == 0 ? print("%.0f", bytes) : three_digits(bytes)) + units[unit];
}

std::string human_seconds(double seconds) {
  const double size = std::abs(seconds);
  if (size == 0) return "0 s";
  if (size < 0.9995e-6) return three_digits(seconds * 1e9) + " ns";
  if (size < 0.9995e-3) return three_digits(seconds * 1e6) + " us";
  if (size < 0.9995) return three_digits(seconds * 1e3) + " ms";
  if (size < 9.95) return print("%.1f s", seconds);
  const auto whole = static_cast<int64_t>(std::llround(seconds));
  if (whole < 60) return std::to_string(whole) + " s";
  const int64_t rest = whole % 60;
  return std::to_string(whole / 60) + " min " + (rest < 10 ? "0" : "") + std::to_string(rest) + " s";
}

std::string human_ratio(double ratio) {
  return (std::abs(ratio) < 0.9995 ? print("%.3f", ratio) : three_digits(ratio)) + "x";
}

std::string human_ratio(double ratio, double low, double high) {
  const auto bare = [](double value) { return human_ratio(value).substr(0, human_ratio(value).size() - 1); };
  return human_ratio(ratio) + " [" + bare(low) + ", " + bare(high) + "]";
}

std::string human_percent(double share, bool sign) {
  const double percent = share * 100;
  const bool digits = std::abs(percent) < 9.95;
  const bool zero = std::abs(percent) < 0.05;  // a sign would be of a rounding
  return print(sign && !zero ? (digits ? "%+.1f" : "%+.0f") : (digits ? "%.1f" : "%.0f"), zero ? 0 : percent) + " %";
}

size_t display_width(const std::string& text) {
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

std::string wrap_text(const std::string& text, size_t width, size_t indent) {
  std::istringstream words(text);
  std::string out, word;
  size_t used = 0;
  while (words >> word) {
    const size_t size = display_width(word);
    if (used > 0 && used + 1 + size > width) {
      out += "\n" + std::string(indent, ' ');
      used = indent;
    } else if (used > 0) {
      out += ' ', ++used;
    }
    out += word, used += size;
  }
  return out;
}

std::string one_line(const std::string& text) {
  std::string out;
  for (const char c : text) {
    const bool space = c == '\n' || c == '\t' || c == '\r' || c == ' ';
    if (space) {
      if (!out.empty() && out.back() != ' ') out += ' ';
    } else if (static_cast<unsigned char>(c) >= 0x20 && c != 0x7F) {
      out += c;
    }
  }
  while (!out.empty() && out.back() == ' ') out.pop_back();
  return out;
}

std::string format_columns(const std::vector<std::vector<std::string>>& rows, const std::string& alignment,
                           size_t width, size_t indent) {
  const size_t columns = alignment.size();
  std::vector<size_t> widths(columns, 0);
  const auto heading = [](const std::vector<std::string>& row) {
    return std::all_of(row.begin() + 1, row.end(), [](const std::string& cell) { return cell.empty(); });
  };
  for (const auto& row : rows) {
    if (heading(row)) continue;
    for (size_t i = 0; i < std::min(row.size(), columns); ++i) widths[i] = std::max(widths[i], display_width(row[i]));
  }
  const size_t others = std::accumulate(widths.begin() + 1, widths.end(), indent + 2 * (columns - 1));
  if (others + widths[0] > width) widths[0] = std::max<size_t>(width > others ? width - others : 0, 8);

  std::string out;
  const auto end_line = [&out](std::string line) {
    while (!line.empty() && line.back() == ' ') line.pop_back();
    out += line + "\n";
  };
  bool first = true;
  for (const auto& row : rows) {
    if (row.size() == 1) {
      end_line(std::string(indent + 4, ' ') + wrap_text(one_line(row[0]), width - indent - 4, indent + 4));
      continue;
    }
    std::string line(indent, ' ');
    if (heading(row)) {
      end_line(line + row[0]);
      continue;
    }
    for (size_t i = 0; i < std::min(row.size(), columns); ++i) {
      std::string cell = row[i];
      if (i == 0 && display_width(cell) > widths[0]) {
        end_line(line + cell);
        cell.clear();
      }
      const std::string gap(widths[i] - std::min(widths[i], display_width(cell)), ' ');
      line += (i > 0 ? "  " : "") + (alignment[i] == 'r' ? gap + cell : cell + gap);
    }
    end_line(line);
    if (first) end_line(std::string(indent, ' ') + std::string(std::min(width, others + widths[0]) - indent, '-'));
    first = false;
  }
  return out;
}

std::string trimmed(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r\n";
  const size_t first = text.find_first_not_of(kBlank);
  return first == std::string_view::npos ? std::string()
                                         : std::string(text.substr(first, text.find_last_not_of(kBlank) - first + 1));
}

std::string joined(const std::vector<std::string>& words, const std::string& separator) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : separator) + word;
  return text;
}

std::string file_part(std::string name) {
  for (char& c : name) c = std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
  return name;
}

std::string number_of_name(const std::string& name) { return name.substr(0, name.find('_')); }

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

size_t edit_distance(const std::string& a, const std::string& b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t above = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, diagonal + (a[i - 1] == b[j - 1] ? 0 : 1)});
      diagonal = above;
    }
  }
  return row[b.size()];
}

std::string nearest(const std::string& word, const std::vector<std::string>& candidates) {
  std::string best;
  size_t least = std::max<size_t>(2, word.size() / 2) + 1;
  for (const std::string& candidate : candidates) {
    const size_t distance = edit_distance(word, candidate);
    if (distance < least) least = distance, best = candidate;
  }
  return best;
}

std::string escape_html(const std::string& text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

}  // namespace tenfold
