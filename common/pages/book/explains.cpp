#include "common/pages/book/explains.h"

#include <sstream>
#include <string_view>

#include "common/base/text.h"
#include "common/pages/rows/references.h"
#include "common/result/judge.h"

namespace tenfold {
namespace {

constexpr std::string_view kOpen = "<!-- explains ", kClose = " -->";

std::string row_name(const CaseResult& c, const Verdict& verdict) { return c.name + " | " + verdict.technique; }

/// Of the first row of this name; "is no published row" without one.
std::string misdirected_in(const Result& result, const Explained& explained) {
  for (const CaseResult& c : result.cases) {
    for (const Verdict& verdict : c.verdicts) {
      const VariantResult* const technique = variant_of(c, verdict.technique);
      if (technique != nullptr && row_name(c, verdict) == explained.row)
        return misdirected(explained, *technique, verdict);
    }
  }
  return "is no published row";
}

}  // namespace

std::vector<Explained> explained_in(const std::string& page_text) {
  std::vector<Explained> all;
  for (size_t at = page_text.find(kOpen); at != std::string::npos; at = page_text.find(kOpen, at + 1)) {
    const size_t begin = at + kOpen.size();
    std::istringstream said(page_text.substr(begin, page_text.find(kClose, begin) - begin));
    std::vector<std::string> fields;
    for (std::string field; std::getline(said, field, '|');) fields.push_back(trimmed(field));
    Explained explained{.row = "", .direction = fields.size() > 2 ? fields[2] : "", .at = at};
    if (!fields.empty()) explained.row = fields[0] + (fields.size() > 1 ? " | " + fields[1] : "");
    all.push_back(std::move(explained));
  }
  return all;
}

std::string misdirected(const Explained& explained, const VariantResult& technique, const Verdict& verdict) {
  const std::string& direction = explained.direction;
  if (direction.empty()) return "";
  if (direction != "slower" && direction != "faster") return "'" + direction + "' is neither slower nor faster";
  const auto& predicted = technique.predicted.speed_ratio;
  const auto& measured = verdict.speed.ratio;
  if (!predicted || !measured) return "has no predicted speed beside a measured one";
  if (direction == "slower" ? *measured < *predicted : *measured > *predicted) return "";
  return "was predicted at " + human_ratio(*predicted) + " and measured at " + human_ratio(*measured) +
         ", which is not " + direction;
}

void check_explained(const std::string& page_text, const std::filesystem::path& page,
                     const std::vector<Result>& references, std::vector<std::string>& wrong) {
  const Result* const result = result_of(references, page.parent_path().filename().string());
  if (result == nullptr) return;
  for (const Explained& explained : explained_in(page_text)) {
    if (explained.direction.empty()) continue;
    if (const std::string why = misdirected_in(*result, explained); !why.empty())
      wrong.push_back(page.string() + ": explains " + explained.row + " | " + explained.direction + ": " + why +
                      "; the paragraph wants to be rewritten");
  }
}

}  // namespace tenfold
