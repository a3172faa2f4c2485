#include "support.h"

#include <stdlib.h>

#include <array>
#include <cstdio>
#include <fstream>
#include <memory>
#include <regex>
#include <sstream>
#include <stdexcept>

namespace tenfold::test {

namespace fs = std::filesystem;

fs::path source_folder() { return TENFOLD_SOURCE_DIR; }
fs::path build_folder() { return TENFOLD_BUILD_DIR; }
fs::path environment_program(const std::string& name) { return source_folder() / ".venv/bin" / name; }

Scratch::Scratch() {
  std::string name = (fs::temp_directory_path() / "tenfold_test.XXXXXX").string();
  if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("cannot make the folder " + name);
  path_ = name;
}
Scratch::~Scratch() { fs::remove_all(path_); }

std::map<std::string, std::string> flags_of_help(const std::string& help) {
  std::map<std::string, std::string> flags;
  const std::regex first(R"(^\s+(?:-\w,)?(--[a-z-]+)\s+(.*)$)"), further(R"(^\s{20,}(\S.*)$)");
  std::istringstream lines(help);
  std::string name;
  for (std::string line; std::getline(lines, line);) {
    std::smatch match;
    if (std::regex_match(line, match, first)) {
      name = match[1];
      flags[name] = std::regex_replace(match[2].str(), std::regex("\\s+"), " ");
    } else if (!name.empty() && std::regex_match(line, match, further)) {
      flags[name] += " " + match[1].str();
    } else {
      name.clear();
    }
  }
  return flags;
}

std::string help_of_driver(const std::string& command) {
  const std::string program = (build_folder() / "tenfold-driver").string() + " " + command + " --help";
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(program.c_str(), "r"), pclose);
  if (!pipe) throw std::runtime_error("cannot start " + program);
  std::string text;
  std::array<char, 4096> buffer{};
  while (std::fgets(buffer.data(), buffer.size(), pipe.get()) != nullptr) text += buffer.data();
  return text;
}

std::string read_text(const fs::path& file) {
  std::ostringstream text;
  text << std::ifstream(file, std::ios::binary).rdbuf();
  return text.str();
}

void write_text(const fs::path& file, const std::string& text) {
  fs::create_directories(file.parent_path());
  std::ofstream(file, std::ios::binary) << text;
}

}  // namespace tenfold::test
