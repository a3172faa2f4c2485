#include "common/pages/book/kernel_resources.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "common/base/files.h"
#include "common/base/sha256.h"
#include "common/base/text.h"
#include "common/pages/rows/markdown_table.h"
#include "common/result/result.h"

namespace tenfold {
namespace {

namespace fs = std::filesystem;

/// The machines whose published benchmark has timed the kernel; empty when there is none. A file of Google Benchmark
/// that names no benchmark is no run.
std::string machines_that_ran(const fs::path& results, const std::string& kernel) {
  std::string machines;
  std::vector<fs::path> folders;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(results, none)) folders.push_back(entry.path());
  std::sort(folders.begin(), folders.end());
  for (const fs::path& folder : folders) {
    const fs::path file = folder / "bench" / (kernel + ".json");
    if (!fs::exists(file)) continue;
    if (nlohmann::json::parse(read_text(file)).at("benchmarks").empty()) continue;
    machines += (machines.empty() ? "" : ", ") + folder.filename().string();
  }
  return machines;
}

std::string cell(const nlohmann::ordered_json& on) {
  std::string text = std::to_string(on.at("registers").get<int>());
  if (const int64_t shared = on.at("shared_bytes"); shared > 0) text += ", " + human_bytes(static_cast<double>(shared));
  if (const int64_t spills = on.at("spill_bytes"); spills > 0) text += ", **spills " + std::to_string(spills) + " B**";
  return text;
}

/// The code without comments, with one blank for each white space.
std::string code_of(const fs::path& file) {
  const std::string text = read_text(file);
  const bool python = file.extension() == ".py";
  std::string code;
  for (size_t at = 0; at < text.size();) {
    size_t next = at;
    if (python ? text[at] == '#' : text.compare(at, 2, "//") == 0) {
      next = text.find('\n', at);
    } else if (!python && text.compare(at, 2, "/*") == 0) {
      next = text.find("*/", at + 2);
      if (next != std::string::npos) next += 2;
    } else if (std::string_view(" \t\r\n").find(text[at]) != std::string_view::npos) {
      next = text.find_first_not_of(" \t\r\n", at);
    } else {
      code += text[at++];
      continue;
    }
    if (!code.ends_with(' ')) code += ' ';
    at = std::min(next, text.size());
  }
  return code;
}

/// What kernels/model/kernel_resources.py computes.
std::string hash_of(const std::vector<fs::path>& files) {
  std::string all;
  for (const fs::path& file : files) all += file.filename().string() + "\n" + code_of(file);
  return sha256(all);
}

}  // namespace

std::string kernel_model_hash(const fs::path& root) {
  const fs::path model = root / "kernels" / "model";
  return hash_of({model / "gpu_model.py", model / "kernel_time.py", model / "machine_code.py", model / "warp_model.py",
                  root / "common" / "machine" / "gpu_ceilings.cpp"});
}

std::string kernel_sources_hash(const fs::path& root, const std::string& kernel) {
  const fs::path kernels = root / "kernels";
  std::vector<fs::path> own, shared;
  const auto collect = [](const fs::path& folder, std::vector<fs::path>& files) {
    std::error_code none;
    for (const auto& entry : fs::directory_iterator(folder, none)) {
      if (entry.path().extension().string().starts_with(".cu")) files.push_back(entry.path());
    }
    std::sort(files.begin(), files.end());
  };
  collect(kernels / kernel, own);
  collect(kernels, shared);
  own.insert(own.end(), shared.begin(), shared.end());
  return hash_of(own);
}

std::string kernel_resources_markdown(const fs::path& root) {
  const fs::path file = root / "results" / "compiler" / "kernel_resources.json";
  if (!fs::exists(file))
    throw FileError(file.string() + " is missing; write it with kernels/model/kernel_resources.py");
  try {
    const auto json = nlohmann::ordered_json::parse(read_text(file));
    if (json.at("schema") != "tenfold.kernel_resources/1") throw FileError(file.string() + ": unknown schema");
    std::vector<std::vector<std::string>> rows = {{"kernel", "function"}};
    const auto architectures = json.at("architectures").get<std::vector<std::string>>();
    rows[0].insert(rows[0].end(), architectures.begin(), architectures.end());
    std::map<std::string, std::string> ran;  // by kernel; a column of its own as soon as one of them has
    for (const auto& kernel : json.at("kernels")) {
      const std::string name = kernel.at("kernel");
      if (const std::string machines = machines_that_ran(root / "results", name); !machines.empty())
        ran[name] = machines;
    }
    if (!ran.empty()) rows[0].emplace_back("run on a GPU");
    for (const auto& kernel : json.at("kernels")) {
      const std::string name = kernel.at("kernel");
      const bool stale = kernel.at("sources") != kernel_sources_hash(root, name);
      for (const auto& [function, by_arch] : kernel.at("functions").items()) {
        std::vector<std::string> row = {name + (stale ? " *stale*" : ""), "`" + function + "`"};
        for (const auto& arch : architectures) row.push_back(by_arch.contains(arch) ? cell(by_arch.at(arch)) : "-");
        if (!ran.empty()) row.push_back(ran.contains(name) ? ran.at(name) : "not yet");
        rows.push_back(row);
      }
    }
    return "nvcc " + json.at("nvcc").get<std::string>() + ", " + json.at("date").get<std::string>() +
           ". Registers per thread, static shared memory per block, spills where there are any." +
           (ran.empty() ? " No kernel was timed on a GPU yet." : "") + "\n\n" + markdown_table(rows);
  } catch (const nlohmann::json::exception& error) {
    throw FileError(file.string() + " or a file in results/*/bench is damaged: " + error.what());
  }
}

}  // namespace tenfold
