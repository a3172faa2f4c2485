#include "common/kernel_page/picture.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <map>
#include <set>
#include <sstream>
#include <vector>

#include "common/base/text.h"

namespace tenfold::simt {
namespace {

// A page shows a picture 400 pixels wide at least: 14 of these 480 units are then 11.7 pixels, letters one can read.
constexpr double kWidth = 480, kMargin = 10, kLeft = 48, kRight = 14, kRow = 9, kLine = 19;
constexpr double kMostColumn = 48, kMostJump = 7;
constexpr double kBold = 9.5, kPlain = 8.4;  // pixels for a letter, as in a wide font
constexpr int kLanes = 32, kBanks = 32, kSector = 32, kWord = 4, kNumberedLanes = 4;

// Every rule begins with .access, so that a picture inside a page changes nothing around it. What colours say, outlines
// say too: a conflict is hollow, a lane that is off is struck through.
constexpr const char* kStyle =
    ".access .bg{fill:#fff}.access text{fill:#1f2328;font-size:14px}.access .title{font-size:15px;font-weight:600}"
    ".access .code{font-family:ui-monospace,monospace;fill:#57606a}.access .dim{fill:#57606a}"
    ".access .column{fill:#f3f5f7;stroke:#848d97}.access .row{stroke:#d0d7de;stroke-width:.5}"
    ".access .touched{fill:#b6d4fe;stroke:#0a58ca;stroke-width:.7}.access .bytes{fill:#0a58ca}"
    ".access .conflict{fill:#ffd0b0;stroke:#bc4c00}.access .conflict-bytes{fill:none;stroke:#bc4c00;stroke-width:1.5}"
    ".access .jump{stroke:#848d97;stroke-dasharray:3 3}.access .off{stroke:#848d97}"
    "@media (prefers-color-scheme:dark){.access .bg{fill:#0d1117}.access text{fill:#e6edf3}.access .code{fill:#9198a1}"
    ".access .dim{fill:#9198a1}.access .column{fill:#161b22;stroke:#6e7681}.access .row{stroke:#30363d}"
    ".access .touched{fill:#1c3d6e;stroke:#6cb0ff}.access .bytes{fill:#6cb0ff}.access "
    ".conflict{fill:#5c2d0e;stroke:#ff9b57}"
    ".access .conflict-bytes{fill:none;stroke:#ff9b57}.access .jump{stroke:#6e7681}.access .off{stroke:#6e7681}}";

std::string num(double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.1f", value);
  return text.data();
}

std::string attr(const char* name, double value) { return std::string(" ") + name + "=\"" + num(value) + "\""; }

std::string rect(double x, double y, double width, double height, const char* kind) {
  return "<rect" + attr("x", x) + attr("y", y) + attr("width", width) + attr("height", height) + " class=\"" + kind +
         "\"/>\n";
}

std::string line(double x1, double y1, double x2, double y2, const char* kind) {
  return "<line" + attr("x1", x1) + attr("y1", y1) + attr("x2", x2) + attr("y2", y2) + " class=\"" + kind + "\"/>\n";
}

std::string text_at(double x, double y, const std::string& text, const std::string& kind, const char* anchor = "start",
                    const std::string& more = "") {
  return "<text" + attr("x", x) + attr("y", y) + " text-anchor=\"" + anchor + "\" class=\"" + kind + "\"" + more + ">" +
         escape_html(text) + "</text>\n";
}

std::string turned(double x, double y, const std::string& text, const std::string& kind, const char* anchor) {
  return text_at(x, y, text, kind, anchor, " transform=\"rotate(-90 " + num(x) + " " + num(y) + ")\"");
}

/// So many pixels of a font with characters `advance` wide.
std::string fitted(const std::string& text, double pixels, double advance) {
  const auto most = static_cast<size_t>(pixels / advance);
  if (display_width(text) <= most) return text;
  size_t end = 0;
  for (size_t seen = 0; end < text.size(); ++end) {
    if ((static_cast<unsigned char>(text[end]) & 0xC0) != 0x80 && ++seen + 3 > most) break;
  }
  return text.substr(0, end) + "...";
}

/// Lines below one another, broken where they reach the margin. `y` is the first one's baseline, then the next one's.
std::string paragraph(double& y, const std::string& text, const char* kind, double advance) {
  const double pixels = kWidth - 2 * kMargin;
  std::istringstream lines(wrap_text(text, static_cast<size_t>(pixels / advance)));
  std::string out;
  for (std::string next; std::getline(lines, next); y += kLine)
    out += text_at(kMargin, y, fitted(next, pixels, advance), kind);
  return out;
}

/// The part of a lane's bytes that lies in one column.
struct Cell {
  int lane;
  int64_t column;   ///< sector number, or bank
  double from, to;  ///< of the column's width, 0..1
  bool conflict = false;
};

std::set<int64_t> sectors_touched(const Access& access) {
  std::set<int64_t> sectors;
  for (const int64_t offset : access.example) {
    if (offset < 0) continue;
    for (int64_t sector = offset / kSector; sector <= (offset + access.bytes - 1) / kSector; ++sector)
      sectors.insert(sector);
  }
  return sectors;
}

std::vector<Cell> cells_in_units(const Access& access, int unit, int64_t columns) {
  std::vector<Cell> cells;
  for (int lane = 0; lane < kLanes; ++lane) {
    const int64_t begin = access.example[static_cast<size_t>(lane)], end = begin + access.bytes;
    if (begin < 0) continue;
    for (int64_t i = begin / unit; i * unit < end; ++i) {
      const int64_t from = std::max(begin, i * unit) - i * unit, to = std::min(end, (i + 1) * unit) - i * unit;
      cells.push_back(
          {lane, columns > 0 ? i % columns : i, static_cast<double>(from) / unit, static_cast<double>(to) / unit});
    }
  }
  return cells;
}

/// Marks cells whose bank holds another word for the same pass; returns the words in the worst bank. A warp's 8-byte
/// accesses pass in two halves and its 16-byte ones in four quarters, so that only lanes of one group can conflict.
size_t mark_conflicts(const Access& access, std::vector<Cell>& cells) {
  const int group_lanes = access.bytes <= 4 ? 32 : access.bytes <= 8 ? 16 : 8;
  std::map<std::pair<int, int64_t>, std::set<int64_t>> words;  // (group, bank) -> words
  for (int lane = 0; lane < kLanes; ++lane) {
    const int64_t begin = access.example[static_cast<size_t>(lane)];
    if (begin < 0) continue;
    for (int64_t word = begin / kWord; word * kWord < begin + access.bytes; ++word) {
      words[{lane / group_lanes, word % kBanks}].insert(word);
    }
  }
  size_t worst = 0;
  for (Cell& cell : cells) {
    const size_t ways = words[{cell.lane / group_lanes, cell.column}].size();
    cell.conflict = ways > 1;
    worst = std::max(worst, ways);
  }
  return worst;
}

std::string plural(int64_t count, const std::string& word) {
  return std::to_string(count) + " " + word + (count == 1 ? "" : "s");
}

/// Digits of the largest offset.
size_t longest_number(const std::vector<int64_t>& columns) {
  return columns.empty() ? 0 : std::to_string(columns.back() * kSector).size();
}

/// Numbers below the columns, banks upright and offsets turned; as many as keep a distance.
std::string column_numbers(const std::vector<int64_t>& columns, const std::map<int64_t, double>& at, double width,
                           double bottom, bool shared) {
  std::string out;
  double free_from = 0;
  for (const int64_t column : columns) {
    const double middle = at.at(column) + width / 2;
    if (middle < free_from) continue;
    free_from = middle + (shared ? 40 : 17);
    out += shared ? text_at(middle, bottom + 17, std::to_string(column), "", "middle")
                  : turned(middle + 5, bottom + 6, std::to_string(column * kSector), "", "end");
  }
  return out;
}

}  // namespace

int64_t sectors_of_example(const Access& access) { return static_cast<int64_t>(sectors_touched(access).size()); }

std::string picture(const Access& access, const std::string& title, const std::string& code) {
  const bool shared = access.space == Space::shared;
  std::vector<int64_t> columns;
  if (shared) {
    for (int64_t bank = 0; bank < kBanks; ++bank) columns.push_back(bank);
  } else {
    const std::set<int64_t> sectors = sectors_touched(access);
    columns.assign(sectors.begin(), sectors.end());
  }
  std::vector<Cell> cells = shared ? cells_in_units(access, kWord, kBanks) : cells_in_units(access, kSector, 0);
  const size_t ways = shared ? mark_conflicts(access, cells) : 0;
  const auto active =
      std::count_if(access.example.begin(), access.example.end(), [](int64_t offset) { return offset >= 0; });

  // Where each column stands; one that does not follow on the one before keeps a distance.
  const auto follows = [&](size_t i) { return i == 0 || columns[i] == columns[i - 1] + 1; };
  int64_t gaps = 0;
  for (size_t i = 0; i < columns.size(); ++i) gaps += follows(i) ? 0 : 1;
  const double room = kWidth - kLeft - kRight, pitch = room / std::max<double>(1, static_cast<double>(columns.size()));
  const double gap = std::min(kMostJump, 0.3 * pitch);
  const double width = std::min(kMostColumn, pitch - gap * static_cast<double>(gaps) * pitch / room);
  std::map<int64_t, double> at;
  std::vector<double> jumps;
  double x = kLeft;
  for (size_t i = 0; i < columns.size(); ++i) {
    if (!follows(i)) jumps.push_back(x + gap / 2), x += gap;
    at[columns[i]] = x;
    x += width;
  }
  const double grid_right = x;

  const int64_t least = std::max<int64_t>(1, (static_cast<int64_t>(active) * access.bytes + kSector - 1) / kSector);
  const std::string count =
      shared ? "one request: " + plural(active, "lane") + "; " +
                   (ways > 1 ? std::to_string(ways) + " words in the worst bank" : "no bank conflict")
             : "one request: " + plural(active, "lane") + " of " + std::to_string(access.bytes) + " B touch " +
                   plural(static_cast<int64_t>(columns.size()), "sector") + "; side by side they would touch " +
                   std::to_string(least);

  double y = 24;
  std::string body = paragraph(y, title, "title", kBold);
  body += paragraph(y, code, "code", kPlain);
  body += paragraph(y, count, "dim", kPlain);
  const double top = y - 6, bottom = top + kLanes * kRow;

  for (const int64_t column : columns) body += rect(at[column], top, width, kLanes * kRow, "column");
  for (const Cell& cell : cells) {
    const double row = top + cell.lane * kRow;
    body += rect(at[cell.column] + 0.5, row + 0.5, width - 1, kRow - 1, cell.conflict ? "touched conflict" : "touched");
    body +=
        rect(at[cell.column] + 0.5 + cell.from * (width - 1), row + 1.5,
             std::max((cell.to - cell.from) * (width - 1), 1.5), kRow - 3, cell.conflict ? "conflict-bytes" : "bytes");
  }
  for (const double jump : jumps) body += line(jump, top - 4, jump, bottom + 4, "jump");
  for (int lane = 0; lane < kLanes; ++lane) {
    const double row = top + lane * kRow;
    if (lane > 0) body += line(kLeft, row, grid_right, row, "row");
    if (access.example[static_cast<size_t>(lane)] < 0)
      body += line(kLeft - 4, row + kRow / 2, std::max(grid_right, kLeft + kMostColumn), row + kRow / 2, "off");
    if (lane % kNumberedLanes == 0) body += text_at(kLeft - 6, row + 9, std::to_string(lane), "lane", "end");
  }
  body += turned(16, top + kLanes * kRow / 2, "lane of the warp", "dim", "middle");
  body += column_numbers(columns, at, width, bottom, shared);

  y = bottom + (shared ? 0 : 9.0 * static_cast<double>(longest_number(columns))) + 40;
  const std::string place = access.buffer.empty() ? "memory" : "buffer '" + access.buffer + "'";
  body += paragraph(y,
                    shared ? "columns: banks of shared memory (4 bytes wide)"
                           : "columns: 32-byte sectors, by their byte offset in " + place,
                    "dim", kPlain);
  std::vector<std::string> legend;
  if (std::ranges::any_of(cells, [](const Cell& cell) { return !cell.conflict; }))
    legend.emplace_back("filled: the lane's own bytes");
  if (!shared) legend.emplace_back("pale: the rest of the sector, which moves with them");
  if (!jumps.empty()) legend.emplace_back("dashes: the address jumps");
  if (active < kLanes) legend.emplace_back("struck through: the lane takes no part");
  if (ways > 1) legend.emplace_back("hollow: lanes want other words of this bank too, so it passes more than once");
  for (const std::string& entry : legend) body += paragraph(y, entry, "dim", kPlain);

  const double height = y - kLine + kMargin;
  return "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"access\" width=\"" + num(kWidth) + "\" height=\"" +
         num(height) + "\" viewBox=\"0 0 " + num(kWidth) + " " + num(height) +
         "\" font-family=\"system-ui,sans-serif\" role=\"img\" aria-label=\"" + escape_html(title + "; " + count) +
         "\">\n<title>" + escape_html(title) + "</title>\n<style>" + kStyle + "</style>\n" +
         rect(0, 0, kWidth, height, "bg") + body + "</svg>\n";
}

}  // namespace tenfold::simt
