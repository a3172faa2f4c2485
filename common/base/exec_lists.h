#pragma once
// What a program is started with, as execvpe() takes it.

#include <map>
#include <string>
#include <vector>

namespace tenfold {

/// A program's arguments, and our environment with some variables set on top. Made before fork(), after which nothing
/// may be allocated.
class ExecLists {
 public:
  ExecLists(const std::vector<std::string>& arguments, const std::map<std::string, std::string>& environment);
  ExecLists(const ExecLists&) = delete;
  ExecLists& operator=(const ExecLists&) = delete;

  char* const* arguments() const { return argument_pointers_.data(); }
  char* const* environment() const { return setting_pointers_.data(); }

 private:
  std::vector<std::string> arguments_, settings_;
  std::vector<char*> argument_pointers_, setting_pointers_;  // into them, each ended by a null
};

}  // namespace tenfold
