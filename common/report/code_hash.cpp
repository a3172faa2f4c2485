#include <tenfold/code_hash.h>

#include <map>
#include <sstream>
#include <string_view>

#include <tenfold/result.h>
#include <tenfold/sha256.h>

namespace tenfold {

namespace {

namespace fs = std::filesystem;

using Files = std::map<std::string, std::string>;  // name -> text; sorted, whatever order the file system gives

/// Not a test, and of a kernel neither its page nor its float64 reference.
bool is_measured(const fs::path& file, bool of_kernel) {
  const std::string name = file.filename().string(), type = file.extension().string();
  const bool code = type == ".h" || type == ".cpp" || type == ".cu" || type == ".cuh";
  return code && !name.ends_with("_test.cpp") && !(of_kernel && (name.ends_with("_microscope.cpp") || name.ends_with("_reference.h")));
}

void add_kernel_file(const fs::path& kernels, const fs::path& file, Files& files);

/// Adds kernels/NAME for every <tenfold/NAME.h> or <tenfold/NAME_torch.h> in `text`, and what it includes by "PATH" relative to
/// `folder`, where that lies in kernels/. Both folders are absolute and normal.
void add_included(const fs::path& kernels, const std::string& text, const fs::path& folder, Files& files) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    constexpr std::string_view kPublic = "#include <tenfold/", kOwn = "#include \"";
    if (line.starts_with(kPublic)) {
      std::string name = line.substr(kPublic.size(), line.find(".h>") - kPublic.size());
      if (name.ends_with("_torch")) name.resize(name.size() - std::string_view("_torch").size());
      std::error_code missing;  // not every header is a kernel's
      for (const auto& entry : fs::directory_iterator(kernels / name, missing)) {
        if (entry.is_regular_file()) add_kernel_file(kernels, entry.path(), files);
      }
    } else if (line.starts_with(kOwn)) {
      const fs::path file = (folder / line.substr(kOwn.size(), line.find('"', kOwn.size()) - kOwn.size())).lexically_normal();
      const bool of_kernels = !file.lexically_relative(kernels).string().starts_with("..");
      if (of_kernels && fs::is_regular_file(file)) add_kernel_file(kernels, file, files);
    }
  }
}

void add_kernel_file(const fs::path& kernels, const fs::path& file, Files& files) {
  if (!is_measured(file, true)) return;
  const auto [added, is_new] = files.try_emplace("kernels/" + file.lexically_relative(kernels).generic_string());
  if (!is_new) return;
  added->second = read_text(file);
  add_included(kernels, added->second, file.parent_path(), files);
}

}  // namespace

std::string code_hash(const fs::path& lesson_folder) {
  Files files;
  std::error_code missing;
  for (const auto& entry : fs::directory_iterator(lesson_folder, missing)) {
    if (is_measured(entry.path(), false) && entry.is_regular_file()) files[entry.path().filename().string()] = read_text(entry.path());
  }
  if (missing) return "";
  // A lesson that launches a kernel measures that kernel.
  const fs::path folder = fs::absolute(lesson_folder).lexically_normal();
  const fs::path kernels = (folder / "../../kernels").lexically_normal();
  for (const auto& [name, text] : Files(files)) add_included(kernels, text, folder, files);
  std::string all;
  for (const auto& [name, text] : files) {
    all += "\n=== " + name + "\n";
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
      const size_t begin = line.find_first_not_of(" \t\r");
      if (begin != std::string::npos && line.compare(begin, 2, "//") != 0) all += line + "\n";
    }
  }
  return sha256(all);
}

}  // namespace tenfold
