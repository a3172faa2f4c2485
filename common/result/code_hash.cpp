#include "common/result/code_hash.h"

#include <map>
#include <set>

#include "common/base/files.h"
#include "common/base/sha256.h"
#include "common/result/code_tokens.h"
#include "common/result/result.h"

namespace tenfold {

namespace {

namespace fs = std::filesystem;

bool is_code(const fs::path& file) {
  const std::string type = file.extension().string();
  return type == ".h" || type == ".cpp" || type == ".cu" || type == ".cuh";
}

/// Models and readers are what a step trains and what on; the rest of common/ measures it.
bool is_trained(const std::string& place) {
  return place.starts_with("common/models/") || place.starts_with("common/data/");
}

/// What a scan follows: the code that is measured, or every file of the tree that a program is made of.
enum class Follow { measured, everything };

/// Files of a tree, found by following #include.
class Scan {
 public:
  explicit Scan(const fs::path& root, Follow follow = Follow::measured) : root_(root), follow_(follow) {}

  /// All that a lesson's or a kernel's folder holds, but tests, a kernel's case, page and reference.
  void add_folder(const fs::path& folder) {
    const bool of_kernel = folder.parent_path() == root_ / "kernels";
    for (const auto& entry : fs::directory_iterator(folder)) {
      const std::string name = entry.path().filename().string();
      const bool extra = of_kernel && (name.ends_with("_microscope.cpp") || name.ends_with("_reference.h") ||
                                       name.ends_with("_case.h"));
      if (is_code(entry.path()) && entry.is_regular_file() && !name.ends_with("_test.cpp") && !extra) add(entry.path());
    }
  }

  void add(const fs::path& file) {
    const std::string place = file.lexically_relative(root_).generic_string();
    if (place.starts_with("../")) return;
    const bool trained = is_trained(place);
    if (follow_ == Follow::measured && ((place.starts_with("common/") && !trained) || file.stem() == "prediction"))
      return;
    const auto [added, is_new] = tokens.try_emplace(file);
    if (!is_new) return;
    CodeTokens code = code_tokens(read_text(file));
    added->second = std::move(code.text);
    for (const std::string& include : code.includes) add_included(include, file.parent_path());
    // A kernel's launcher, or its operator for LibTorch.
    const std::string kernel = file.parent_path().filename().string(), name = file.filename().string();
    if (place.starts_with("kernels/") && (name == kernel + ".h" || name == kernel + "_torch.h"))
      add_folder(file.parent_path());
    // What else a header is linked with, by its name.
    const fs::path source = fs::path(file).replace_extension(".cpp");
    if ((follow_ == Follow::everything || trained) && file.extension() == ".h" && fs::is_regular_file(source))
      add(source);
  }

  std::map<fs::path, std::string> tokens;  ///< of each file

 private:
  /// A quoted include names a file of the same folder, or of the tree.
  void add_included(const std::string& include, const fs::path& folder) {
    if (!include.starts_with('"')) return;
    const fs::path path = include.substr(1, include.size() - 2);
    for (const fs::path& from : {folder, root_}) {
      if (fs::is_regular_file(from / path)) return add((from / path).lexically_normal());
    }
  }

  fs::path root_;  // absolute and normal
  Follow follow_;
};

std::map<fs::path, std::string> scan(const fs::path& lesson_folder) {
  if (!fs::is_directory(lesson_folder)) return {};
  fs::path folder = fs::absolute(lesson_folder).lexically_normal();
  if (!folder.has_filename()) folder = folder.parent_path();  // written with a slash at its end
  Scan found(folder.parent_path().parent_path());
  found.add_folder(folder);
  return std::move(found.tokens);
}

std::string hash_of_tokens(const std::vector<std::string>& files) {
  std::multiset<std::string> digests;  // sorted, so that neither a file's name nor its place matters
  for (const std::string& tokens : files) {
    if (!tokens.empty()) digests.insert(sha256(tokens));
  }
  std::string all;
  for (const std::string& digest : digests) all += digest;
  return sha256(all);
}

}  // namespace

std::vector<fs::path> measured_files(const fs::path& lesson_folder) {
  std::vector<fs::path> files;
  for (const auto& [file, tokens] : scan(lesson_folder)) files.push_back(file);
  return files;
}

std::vector<fs::path> files_of_program(const fs::path& root, const fs::path& source) {
  Scan scan(fs::absolute(root).lexically_normal(), Follow::everything);
  const fs::path place = fs::absolute(source).lexically_normal();
  if (fs::is_directory(place))
    scan.add_folder(place);
  else if (fs::exists(place))
    scan.add(place);
  std::vector<fs::path> files;
  for (const auto& [file, tokens] : scan.tokens) files.push_back(file);
  return files;
}

std::string code_hash(const fs::path& lesson_folder) {
  if (!fs::is_directory(lesson_folder)) return "";
  std::vector<std::string> tokens;
  for (auto& [file, text] : scan(lesson_folder)) tokens.push_back(std::move(text));
  return hash_of_tokens(tokens);
}

std::string hash_of_code(const std::vector<std::string>& files) {
  std::vector<std::string> tokens;
  for (const std::string& file : files) tokens.push_back(code_tokens(file).text);
  return hash_of_tokens(tokens);
}

}  // namespace tenfold
