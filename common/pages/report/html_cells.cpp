#include "common/pages/report/html_cells.h"

#include "common/base/text.h"

namespace tenfold {

std::string kind_of(const std::string& speed) {
  if (speed == "FASTER") return "faster";
  if (speed == "SLOWER") return "slower";
  if (speed == "SAME") return "same";
  if (speed == "INVALID") return "invalid";
  return "open";
}

std::string memory_kind(const MemoryResult& memory) {
  return memory.label == "SMALLER" ? "smaller" : memory.label == "LARGER" ? "larger" : "same";
}

std::string cell(const std::string& text, const char* kind) {
  return std::string("<td") + (*kind ? " class=\"" + std::string(kind) + "\"" : "") + ">" + escape_html(text) + "</td>";
}

std::string chip(const std::string& text, const std::string& kind) {
  return "<td class=\"v " + kind + "\">" + escape_html(text) + "</td>";
}

}  // namespace tenfold
