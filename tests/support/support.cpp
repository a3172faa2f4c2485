#include "support.h"

#include <stdlib.h>

#include <fstream>
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
