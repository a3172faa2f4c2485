#include "common/result/time_model.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <sstream>
#include <vector>

#include <nlohmann/json.hpp>

#include "common/base/files.h"
#include "common/result/code_hash.h"
#include "common/result/git.h"

namespace tenfold {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFolder = "common/dry_gpu";
constexpr const char* kCeilings = "common/machine/gpu_ceilings";

/// `place`: relative to the tree.
bool decides_time(const fs::path& place) {
  if (place.extension() != ".h" && place.extension() != ".cpp") return false;
  if (fs::path(place).replace_extension() == kCeilings) return true;
  // They compute, or watch what computes: nothing does where time is modelled.
  static const std::set<std::string> kOfNumbers = {"order", "races", "places", "nccl/reduction"};
  const std::string name = fs::path(place).replace_extension().generic_string(), folder = std::string(kFolder) + "/";
  return name.starts_with(folder) && !name.starts_with(folder + "arithmetic/") &&
         !kOfNumbers.contains(name.substr(folder.size()));
}

}  // namespace

std::string time_model_hash(const fs::path& root) {
  if (!fs::is_directory(root / kFolder)) return "";
  std::vector<std::string> texts;
  const auto add = [&](const fs::path& file) {
    if (decides_time(file.lexically_relative(root))) texts.push_back(read_text(file));
  };
  for (const auto& entry : fs::recursive_directory_iterator(root / kFolder)) add(entry.path());
  for (const char* const type : {".h", ".cpp"}) {
    if (const fs::path file = root / (std::string(kCeilings) + type); fs::exists(file)) add(file);
  }
  return hash_of_code(texts);
}

std::string time_model_hash(const fs::path& root, const std::string& commit) {
  // Whoever wrote the file may have written anything there.
  const bool is_one =
      commit.size() == 40 && std::ranges::all_of(commit, [](unsigned char c) { return std::isxdigit(c); });
  if (!is_one || !fs::exists(root / ".git")) return "";
  // Every line of all these files by one call: "COMMIT:PATH", a zero, the line.
  std::istringstream lines(git_answer(
      root, {"grep", "--text", "--null", "--no-color", "--no-line-number", "--no-column", "--no-textconv", "-e", "",
             commit, "--", kFolder, std::string(kCeilings) + ".h", std::string(kCeilings) + ".cpp"}));
  std::map<std::string, std::string> files;
  for (std::string line; std::getline(lines, line);) {
    const size_t colon = line.find(':'), zero = line.find('\0');
    if (colon >= zero || zero == std::string::npos) return "";
    const std::string place = line.substr(colon + 1, zero - colon - 1);
    if (decides_time(place)) files[place] += line.substr(zero + 1) + "\n";
  }
  std::vector<std::string> texts;
  for (auto& [place, text] : files) texts.push_back(std::move(text));
  return texts.empty() ? "" : hash_of_code(texts);
}

std::map<std::string, std::string> time_models(const fs::path& root, const std::set<std::string>& commits) {
  std::map<std::string, std::string> kept, models;
  if (!fs::is_directory(root / kFolder)) return models;
  if (fs::exists(root / kTimeModels)) {
    try {
      kept = nlohmann::json::parse(read_text(root / kTimeModels)).get<decltype(kept)>();
    } catch (const nlohmann::json::exception& error) {
      throw FileError((root / kTimeModels).string() + ": " + error.what() + "; to fix: git checkout " + kTimeModels);
    }
  }
  for (const std::string& commit : commits) {
    std::string model = time_model_hash(root, commit);
    if (model.empty() && kept.contains(commit)) model = kept.at(commit);
    if (!model.empty()) models[commit] = model;
  }
  return models;
}

std::set<std::string> earlier_models(const fs::path& root, std::set<std::string> commits,
                                     const std::map<std::string, std::string>& models) {
  const std::string now = time_model_hash(root);
  if (now.empty()) return {};
  std::erase_if(commits,
                [&](const std::string& commit) { return models.contains(commit) && models.at(commit) == now; });
  return commits;
}

}  // namespace tenfold
