// What tables in a terminal and on a page say of a case in the same words.
#include <numeric>

#include "common/base/text.h"
#include "common/pages/rows/table.h"

namespace tenfold {

std::vector<std::string> split_cells(const Split& split) {
  const auto parts = {split.data, split.host, split.device, split.copy, split.communication};
  const double step = std::accumulate(parts.begin(), parts.end(), 0.0);
  std::vector<std::string> cells = {human_seconds(step)};
  for (const double part : parts) cells.push_back(step > 0 && part > 0 ? human_percent(part / step) : "-");
  return cells;
}

std::vector<std::string> request_texts(const VariantResult& variant) {
  std::vector<std::string> texts;
  for (const auto& [collective, bytes] : variant.sent_bytes) {
    const auto calls = variant.counted.find("calls of " + collective);
    texts.push_back("asked of " + collective + " in a step " + human_bytes(static_cast<double>(bytes)) +
                    (calls == variant.counted.end()
                         ? ""
                         : " in " + human_number(calls->second) + (calls->second == 1 ? " call" : " calls")));
  }
  return texts;
}

std::string settings_text(const CaseResult& c, const std::string& left_out) {
  std::string out;
  for (const auto& [name, value] : c.settings) {
    if (name == left_out) continue;
    const std::string setting = name + "=" + to_string(value);
    if ((" " + c.name + " ").find(" " + setting + " ") != std::string::npos) continue;
    out += (out.empty() ? "" : ", ") + setting;
  }
  return out;
}

}  // namespace tenfold
