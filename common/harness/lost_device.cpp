#include "common/harness/lost_device.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <sstream>
#include <vector>

#include "common/base/text.h"

namespace tenfold {
namespace {

/// Lines of part, variant and reason, with tabs between.
constexpr const char* kLost = "TENFOLD_LOST";

std::string lost_until_now() {
  const char* const lines = std::getenv(kLost);
  return lines == nullptr ? "" : lines;
}

}  // namespace

LostIn::LostIn(std::string part_name, std::string variant_name, const std::string& reason)
    : DeviceLost(reason), part(std::move(part_name)), variant(std::move(variant_name)) {}

std::string lost_before(const std::string& part, const std::string& variant) {
  std::istringstream lines(lost_until_now());
  const std::string wanted = part + "\t" + variant + "\t";
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(wanted)) return line.substr(wanted.size());
  }
  return "";
}

void start_again_without(const LostIn& lost, char** argv) {
  const std::string line = lost.part + "\t" + lost.variant + "\t" + one_line(lost.what());
  setenv(kLost, (lost_until_now() + line + "\n").c_str(), /*replace=*/1);
  std::vector<char*> arguments;
  for (char** argument = argv; *argument != nullptr; ++argument) arguments.push_back(*argument);
  std::string resume = "--resume";
  if (std::ranges::find(arguments, resume) == arguments.end()) arguments.push_back(resume.data());
  arguments.push_back(nullptr);
  execv("/proc/self/exe", arguments.data());
}

}  // namespace tenfold
