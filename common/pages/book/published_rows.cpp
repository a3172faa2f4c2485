#include "common/pages/book/published_rows.h"

#include <algorithm>

#include "common/base/files.h"
#include "common/base/text.h"

namespace tenfold {

using Json = nlohmann::json;

std::string PublishedRow::arithmetic() const {
  const std::string precision = text("precision");
  return precision == "fp32" ? kArithmetics[0] : precision == "tf32" ? kArithmetics[1] : kArithmetics[2];
}

double PublishedRow::faster(const Json& value, const Json& than) const {
  const double ratio = value.get<double>() / than.get<double>();
  return text("what") == "ms/step" ? 1 / ratio : ratio;
}

Json read_rows(const std::filesystem::path& file) {
  try {
    return Json::parse(read_text(file));
  } catch (const Json::exception& error) {
    throw FileError(file.string() + ": " + one_line(error.what()));
  }
}

const Json* row_of(const Json& rows, const std::string& id) {
  const auto found = std::ranges::find_if(rows, [&](const Json& row) { return row.at("id") == id; });
  return found == rows.end() ? nullptr : &*found;
}

std::string within(const std::vector<double>& ratios, double factor) {
  const auto count =
      std::ranges::count_if(ratios, [&](double ratio) { return ratio <= factor && ratio >= 1 / factor; });
  return std::to_string(count) + " of " + std::to_string(ratios.size());
}

}  // namespace tenfold
