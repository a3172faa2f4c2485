#include "common/base/progress_line.h"

#include <algorithm>
#include <cstdio>
#include <sstream>

namespace tenfold {
namespace {

constexpr const char* kMark = "@progress ";

}  // namespace

void print_progress(double fraction, const std::string& text) {
  std::fprintf(stderr, "%s%.3f %s\n", kMark, fraction, text.c_str());
  std::fflush(stderr);
}

std::optional<ProgressLine> progress_in(const std::string& line) {
  if (!line.starts_with(kMark)) return std::nullopt;
  std::istringstream rest(line.substr(std::string(kMark).size()));
  double fraction = 0;
  if (!(rest >> fraction)) return std::nullopt;
  ProgressLine progress{.fraction = std::clamp(fraction, 0.0, 1.0)};
  std::getline(rest >> std::ws, progress.text);
  return progress;
}

}  // namespace tenfold
