#include "common/data/shakespeare.h"
#include "common/data/data_files.h"

#include <algorithm>
#include <filesystem>
#include <sstream>

namespace tenfold {
namespace {

constexpr std::string_view kSuffix = "_gut.txt";

bool held_out(std::string_view name) { return std::ranges::find(kHeldOutPlays, name) != kHeldOutPlays.end(); }

}  // namespace

std::vector<Work> shakespeare() {
  const std::filesystem::path folder = data_folder() / "shakespeare", sums = folder / "SHA256SUMS";
  if (!std::filesystem::exists(sums)) fail_data_file(sums, "is missing");
  // The list, not the folder, says which works there are: a work that is gone must not go unnoticed.
  std::vector<Work> works;
  std::istringstream lines(read_file(sums));
  for (std::string line; std::getline(lines, line);) {
    if (line.size() <= 66 + kSuffix.size() || !line.ends_with(kSuffix)) fail_data_file(sums, "is damaged");
    const std::string file = line.substr(66);
    works.push_back({file.substr(0, file.size() - kSuffix.size()), read_data_file(folder / file)});
    const bool ascii =
        std::ranges::all_of(works.back().text, [](char c) { return static_cast<unsigned char>(c) < 128; });
    if (!ascii) fail_data_file(folder / file, "is not ASCII");
  }
  for (const std::string_view play : kHeldOutPlays) {
    if (std::ranges::find(works, play, &Work::name) == works.end())
      fail_data_file(sums, "does not list " + std::string(play));
  }
  std::ranges::sort(works, {}, &Work::name);
  return works;
}

std::vector<Work> shakespeare(bool train) {
  std::vector<Work> works = shakespeare();
  std::erase_if(works, [&](const Work& work) { return held_out(work.name) == train; });
  return works;
}

}  // namespace tenfold
