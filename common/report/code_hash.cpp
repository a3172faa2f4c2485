#include <tenfold/code_hash.h>

#include <fstream>
#include <map>

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
    if (!file) throw ResultError(path.string() + ": cannot be read");
    all += "\n=== " + name + "\n";
    for (std::string line; std::getline(file, line);) {
      const size_t begin = line.find_first_not_of(" \t\r");
      if (begin != std::string::npos && line.compare(begin, 2, "//") != 0) all += line + "\n";
    }
  }
  return sha256(all);
}

}  // namespace tenfold
