#include <tenfold/code_hash.h>

#include <fstream>
#include <map>
#include <string_view>

#include <tenfold/result.h>
#include <tenfold/sha256.h>

namespace tenfold {

namespace {

using Files = std::map<std::string, std::filesystem::path>;  // sorted by name, whatever order the file system gives

/// Adds a folder's code; false when there is no such folder.
bool add_code(const std::filesystem::path& folder, const std::string& prefix, Files& files) {
  std::error_code missing;
  for (const auto& entry : std::filesystem::directory_iterator(folder, missing)) {
    const std::string name = entry.path().filename().string(), type = entry.path().extension().string();
    const bool code = type == ".h" || type == ".cpp" || type == ".cu" || type == ".cuh";
    const bool measured = !name.ends_with("_test.cpp") && !name.ends_with("_microscope.cpp");
    if (code && measured && entry.is_regular_file()) files[prefix + name] = entry.path();
  }
  return !missing;
}

}  // namespace

std::string code_hash(const std::filesystem::path& lesson_folder) {
  Files files;
  if (!add_code(lesson_folder, "", files)) return "";
  // A lesson that launches a kernel measures that kernel.
  for (const auto& [name, path] : Files(files)) {
    std::ifstream file(path);
    for (std::string line; std::getline(file, line);) {
      constexpr std::string_view kBegin = "#include <tenfold/", kEnd = ".h>";
      if (!line.starts_with(kBegin) || line.find(kEnd) == std::string::npos) continue;
      const std::string kernel = line.substr(kBegin.size(), line.find(kEnd) - kBegin.size());
      add_code(lesson_folder / "../../kernels" / kernel, "kernels/" + kernel + "/", files);
    }
  }
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
