#include "common/kernel_page/picture.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <map>
#include <set>
#include <vector>

#include "common/base/text.h"

namespace tenfold::simt {
namespace {

constexpr double kLeft = 70, kTop = 76, kRow = 13, kRight = 24, kJump = 7, kLeastWidth = 700;
constexpr int kLanes = 32, kBanks = 32, kSector = 32, kWord = 4;

// Every rule begins with .access, so that a picture inside a page changes nothing around it.
constexpr const char* kStyle =
    ".access .bg{fill:#fff}.access text{fill:#1f2328;font-size:11px}.access .title{font-size:14px;font-weight:600}"
    ".access .code{font-family:ui-monospace,monospace;fill:#57606a}.access .dim{fill:#6e7781}.access "
    ".small{font-size:9px}"
    ".access .column{fill:#f3f5f7;stroke:#d0d7de}.access .row{stroke:#d0d7de;stroke-width:.5}"
    ".access .touched{fill:#b6d4fe}.access .bytes{fill:#0a58ca}.access .conflict{fill:#ffd0b0}"
    ".access .conflict-bytes{fill:#bc4c00}.access .jump{stroke:#8c959f;stroke-dasharray:3 3}"
    "@media (prefers-color-scheme:dark){.access .bg{fill:#0d1117}.access text{fill:#e6edf3}.access .code{fill:#9198a1}"
    ".access .dim{fill:#9198a1}.access .column{fill:#161b22;stroke:#30363d}.access .row{stroke:#30363d}"
    ".access .touched{fill:#1c3d6e}.access .bytes{fill:#6cb0ff}.access .conflict{fill:#5c2d0e}"
    ".access .conflict-bytes{fill:#ff9b57}.access .jump{stroke:#6e7681}}";

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
  const double width = std::clamp(640.0 / std::max<double>(1, static_cast<double>(columns.size())), 11.0, 48.0);
  std::map<int64_t, double> at;
  std::vector<double> jumps;
  double x = kLeft;
  for (size_t i = 0; i < columns.size(); ++i) {
    if (i > 0 && columns[i] != columns[i - 1] + 1) jumps.push_back(x + kJump / 2), x += kJump;
    at[columns[i]] = x;
    x += width;
  }
  const double grid_right = x, grid_bottom = kTop + kLanes * kRow;
  size_t longest = 1;
  for (const int64_t column : columns)
    longest = std::max(longest, std::to_string(shared ? column : column * kSector).size());
  const double label_height = shared ? 16 : 6.0 * static_cast<double>(longest) + 8;
  const double all_width = std::max(kLeastWidth, grid_right + kRight), all_height = grid_bottom + label_height + 46;

  const int64_t least = std::max<int64_t>(1, (static_cast<int64_t>(active) * access.bytes + kSector - 1) / kSector);
  const std::string count =
      shared ? "one request: " + plural(active, "lane") + "; " +
                   (ways > 1 ? std::to_string(ways) + " words in the worst bank" : "no bank conflict")
             : "one request: " + plural(active, "lane") + " of " + std::to_string(access.bytes) + " B touch " +
                   plural(static_cast<int64_t>(columns.size()), "sector") + "; side by side they would touch " +
                   std::to_string(least);

  std::string out = "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"access\" width=\"" + num(all_width) +
                    "\" height=\"" + num(all_height) + "\" viewBox=\"0 0 " + num(all_width) + " " + num(all_height) +
                    "\" font-family=\"system-ui,sans-serif\" role=\"img\" aria-label=\"" +
                    escape_html(title + "; " + count) + "\">\n";
  out += "<title>" + escape_html(title) + "</title>\n<style>" + kStyle + "</style>\n";
  out += rect(0, 0, all_width, all_height, "bg");
  out += text_at(14, 22, fitted(title, all_width - 28, 7.6), "title");
  out += text_at(14, 41, fitted(code, all_width - 28, 6.8), "code");
  out += text_at(14, 60, fitted(count, all_width - 28, 6.2), "dim");

  for (const int64_t column : columns) out += rect(at[column], kTop, width, kLanes * kRow, "column");
  for (const Cell& cell : cells) {
    const double y = kTop + cell.lane * kRow;
    out += rect(at[cell.column] + 0.5, y + 0.5, width - 1, kRow - 1, cell.conflict ? "touched conflict" : "touched");
    out +=
        rect(at[cell.column] + 0.5 + cell.from * (width - 1), y + 1.5,
             std::max((cell.to - cell.from) * (width - 1), 1.0), kRow - 3, cell.conflict ? "conflict-bytes" : "bytes");
  }
  for (const double jump : jumps) out += line(jump, kTop - 4, jump, grid_bottom + 4, "jump");
  for (int lane = 0; lane < kLanes; ++lane) {
    const double y = kTop + lane * kRow;
    if (lane > 0) out += line(kLeft, y, grid_right, y, "row");
    const bool off = access.example[static_cast<size_t>(lane)] < 0;
    out += text_at(kLeft - 6, y + 10, (off ? "off " : "") + std::to_string(lane), off ? "lane dim small" : "lane small",
                   "end");
  }
  for (const int64_t column : columns) {
    const double middle = at[column] + width / 2;
    out += shared ? text_at(middle, grid_bottom + 12, std::to_string(column), "small", "middle")
                  : turned(middle + 3, grid_bottom + 5, std::to_string(column * kSector), "small", "end");
  }
  out += turned(20, kTop + kLanes * kRow / 2, "lane of the warp", "dim", "middle");
  const std::string place = access.buffer.empty() ? "memory" : "buffer '" + access.buffer + "'";
  std::string axis = shared ? "bank of shared memory (4 bytes wide)" : "32-byte sector, by its byte offset in " + place;
  out += text_at(kLeft, grid_bottom + label_height + 18, axis, "dim");
  std::string legend = "strong colour: the lane's own bytes";
  if (!jumps.empty()) legend += "; dashes: the address jumps";
  if (ways > 1) legend += "; orange: lanes want other words of this bank too, so it passes more than once";
  out += text_at(kLeft, grid_bottom + label_height + 35, legend, "dim");
  return out + "</svg>\n";
}

}  // namespace tenfold::simt
