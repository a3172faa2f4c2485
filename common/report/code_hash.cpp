#include <tenfold/code_hash.h>

#include <fstream>
#include <map>
#include <sstream>

#include <tenfold/result.h>
#include <tenfold/sha256.h>

namespace tenfold {

std::string code_hash(const std::filesystem::path& lesson_folder) {
  std::error_code missing;
  std::map<std::string, std::filesystem::path> files;  // sorted by name, whatever order the file system gives
  for (const auto& entry : std::filesystem::directory_iterator(lesson_folder, missing)) {
    const std::string name = entry.path().filename().string(), type = entry.path().extension().string();
    const bool code = type == ".h" || type == ".cpp" || type == ".cu" || type == ".cuh";
    if (code && entry.is_regular_file() && !name.ends_with("_test.cpp")) files[name] = entry.path();
  }
  if (missing) return "";
  std::string all;
  for (const auto& [name, path] : files) {
    std::ifstream file(path, std::ios::binary);
    std::ostringstream text;
    text << file.rdbuf();
    if (!file) throw ResultError(path.string() + ": cannot be read");
    // Lengths keep the borders: moving a line from one file to the next changes the hash.
    all += name + "\n" + std::to_string(text.str().size()) + "\n" + text.str();
  }
  return sha256(all);
}

}  // namespace tenfold
