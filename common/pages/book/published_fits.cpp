#include "common/pages/book/published_fits.h"

#include <nlohmann/json.hpp>
#include <vector>

#include "common/base/files.h"
#include "common/base/text.h"
#include "common/pages/book/published_rows.h"
#include "common/pages/rows/markdown_table.h"

namespace tenfold {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr const char* kPublished = "docs/published_fits/published.json";
constexpr const char* kCounted = "docs/published_fits/counted.json";

std::string published_table(const Json& published, const Json& counted) {
  std::vector<std::vector<std::string>> rows = {{"model and training", "date", "published", "counted",
                                                 "counted / published - 1", "tokens/s, published", "modelled"}};
  std::string notes;
  for (const Json& row : published) {
    const Json* const came = row_of(counted.at("rows"), row.at("id"));
    if (came == nullptr) continue;
    const double there = row.at("peak_bytes"), here = came->at(row.at("kind").get<std::string>() + "_bytes");
    const bool timed = row.contains("tokens_per_s") && came->contains("tokens_per_s");
    rows.push_back({"[" + markdown_cell(row.at("what")) + "](" + row.at("source").get<std::string>() + ")",
                    row.at("date"), human_bytes(there), human_bytes(here),
                    human_percent(here / there - 1, /*sign=*/true),
                    timed ? human_number(row.at("tokens_per_s").get<double>()) : "-",
                    timed ? human_number(came->at("tokens_per_s").get<double>()) : "-"});
    std::vector<std::string> flags = row.at("flags");
    notes += "- *" + row.at("what").get<std::string>() + "*: " + row.at("settings").get<std::string>() + ". " +
             row.at("differs").get<std::string>() + " Counted by `./tenfold fit " + joined(flags, " ") + " --gpu " +
             row.at("card").get<std::string>() + "`.\n";
  }
  return markdown_table(rows) + "\n" + notes;
}

/// What `text` makes of what was counted. Throws FileError.
template <class Text>
std::string of_counted(const fs::path& root, const Text& text) {
  if (!fs::exists(root / kCounted)) return "Not counted yet.\n";
  const Json counted = read_rows(root / kCounted);
  try {
    return text(counted);
  } catch (const Json::exception& error) {
    throw FileError((root / kCounted).string() + ": " + one_line(error.what()));
  }
}

}  // namespace

std::string published_fits_markdown(const fs::path& root) {
  return of_counted(root,
                    [&root](const Json& counted) { return published_table(read_rows(root / kPublished), counted); });
}

std::string printed_fit_markdown(const fs::path& root) {
  return of_counted(root, [](const Json& counted) {
    const Json& example = counted.at("example");
    return "```text\n$ " + example.at("command").get<std::string>() + "\n" + example.at("printed").get<std::string>() +
           "```\n";
  });
}

}  // namespace tenfold
