#include "common/pages/report/html_cells.h"

#include "common/base/text.h"

namespace tenfold {

std::string class_of(Tone tone) {
  switch (tone) {
    case Tone::plain:
      return "";
    case Tone::number:
      return "n";
    case Tone::faint:
      return "dim";
    case Tone::faster:
      return "faster";
    case Tone::slower:
      return "slower";
    case Tone::smaller:
      return "smaller";
    case Tone::larger:
      return "larger";
    case Tone::same:
      return "same";
    case Tone::open:
      return "open";
    case Tone::invalid:
      return "invalid";
    case Tone::surprise:
      return "surprise";
  }
  return "";
}

std::string cell(const Cell& cell) {
  const bool verdict =
      cell.tone != Tone::plain && cell.tone != Tone::number && cell.tone != Tone::faint && cell.tone != Tone::surprise;
  return tenfold::cell(with_detail(cell), ((verdict ? "v " : "") + class_of(cell.tone)).c_str());
}

std::string cell(const std::string& text, const char* kind) {
  return std::string("<td") + (*kind ? " class=\"" + std::string(kind) + "\"" : "") + ">" + escape_html(text) + "</td>";
}

}  // namespace tenfold
