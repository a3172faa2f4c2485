#include "support.h"

#include <stdlib.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <fstream>
#include <memory>
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
  std::istringstream lines(help);
  std::string name;
  for (std::string line; std::getline(lines, line);) {
    const size_t indent = std::min(line.find_first_not_of(' '), line.size());
    std::istringstream words(line);
    std::string word;
    if (const size_t at = line.find("--"); indent > 0 && (at == indent || (at == indent + 3 && line[at - 1] == ','))) {
      words.seekg(static_cast<std::streamoff>(at));
      words >> name;
      flags[name];
    } else if (name.empty() || indent < 20 || indent == line.size()) {
      name.clear();
      continue;
    }
    while (words >> word) flags[name] += (flags[name].empty() ? "" : " ") + word;
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
