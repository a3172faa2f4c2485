#pragma once
// Numbers and paragraphs as a person reads them. Every table, page and message prints through these.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tenfold {

std::string human_number(double value);     ///< 3 to 4 digits: "0.0123", "1234", "12.3 k", "4.56 M"
std::string human_bytes(double bytes);      ///< binary units: "512 B", "12.3 MiB"
std::string human_seconds(double seconds);  ///< "830 ns", "4.12 ms", "1.3 s", "2 min 05 s"
std::string human_ratio(double ratio);      ///< three digits and an x: "0.663x", "1.02x", "33.6x"
std::string human_ratio(double ratio, double low, double high);  ///< with its interval: "1.63x [1.54, 1.74]"
std::string human_percent(double share, bool sign = false);      ///< of a share: 0.043 is "4.3 %"; with a sign "+4.3 %"

/// Columns a terminal needs for UTF-8 text (one per code point).
size_t display_width(const std::string& text);

/// Breaks at spaces so that no line exceeds `width`; a longer word stays whole. Lines after the first start with
/// `indent` spaces.
std::string wrap_text(const std::string& text, size_t width, size_t indent = 0);

/// All of it on one line: newlines and tabs become single spaces, other control characters are dropped.
std::string one_line(const std::string& text);

/// Rows as aligned columns under their header (the first row) and a rule. `alignment` holds one l or r per column. A
/// row of one cell is a remark on the row above: it is wrapped under it. A row whose other cells are empty is a
/// heading. A first cell that is too wide gets a line of its own.
std::string format_columns(const std::vector<std::vector<std::string>>& rows, const std::string& alignment,
                           size_t width = 120, size_t indent = 2);

/// Without spaces, tabs and line breaks at both ends.
std::string trimmed(std::string_view text);

/// "a, b, c".
std::string joined(const std::vector<std::string>& words, const std::string& separator = ", ");

/// A name as a part of a file's name, letters and digits kept: "large batch" becomes "large_batch".
std::string file_part(std::string name);

/// The number before a name's first underscore: "30" of "30_gradient_accumulation", "40.1".
std::string number_of_name(const std::string& name);

/// What stands before the first line break.
std::string first_line(const std::string& text);

/// How many single-character edits (insert, delete, replace) turn one text into the other.
size_t edit_distance(const std::string& a, const std::string& b);

/// The candidate nearest to a mistyped word; empty when none is near enough to be what was meant.
std::string nearest(const std::string& word, const std::vector<std::string>& candidates);

/// &, <, >, " and ' as entities.
std::string escape_html(const std::string& text);

}  // namespace tenfold
