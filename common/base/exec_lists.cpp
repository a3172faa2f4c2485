#include "common/base/exec_lists.h"

#include <unistd.h>

namespace tenfold {
namespace {

std::vector<char*> pointers_to(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

}  // namespace

ExecLists::ExecLists(const std::vector<std::string>& arguments, const std::map<std::string, std::string>& environment)
    : arguments_(arguments) {
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    if (!environment.contains(text.substr(0, text.find('=')))) settings_.push_back(text);
  }
  for (const auto& [name, value] : environment) settings_.push_back(name + "=" + value);
  argument_pointers_ = pointers_to(arguments_);
  setting_pointers_ = pointers_to(settings_);
}

}  // namespace tenfold
