// kernel: a CUDA kernel's page under the microscope, or the list of the kernels that are built.

#include <algorithm>
#include <iostream>
#include <nlohmann/json.hpp>

#include "common/base/process.h"
#include "common/base/text.h"
#include "common/cli/commands.h"
#include "common/cli/paths.h"
#include "common/pages/book/kernel_times.h"

namespace tenfold::cli {
namespace {

namespace fs = std::filesystem;

fs::path kernel_folder() { return build_folder() / "kernels"; }

/// The page programs, by name. The folder also holds what the build left there; only programs can be run and have no
/// dot.
std::vector<std::string> find_kernels() {
  std::vector<std::string> names;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(kernel_folder(), none)) {
    const std::string name = entry.path().filename().string();
    const bool runs = (entry.status().permissions() & fs::perms::owner_exec) != fs::perms::none;
    if (entry.is_regular_file() && runs && name.find('.') == std::string::npos) names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  if (names.empty())
    throw UsageError("no kernel is built in " + kernel_folder().string() + "; build with: ./tenfold setup");
  return names;
}

int list_kernels(const std::vector<std::string>& names) {
  std::vector<std::vector<std::string>> rows = {{"kernel", "rungs", "what it is"}};
  for (const std::string& name : names) {
    const std::string text = output_of({(kernel_folder() / name).string(), "--describe"});
    try {
      const auto json = nlohmann::json::parse(text);
      rows.push_back({name, std::to_string(json.at("rungs").size()), json.at("title").get<std::string>()});
    } catch (const nlohmann::json::exception&) {
      throw UsageError((kernel_folder() / name).string() +
                       " does not say what it is; build again with: ./tenfold setup");
    }
  }
  std::cout << format_columns(rows, "lrl") << "\nOne under the microscope: ./tenfold kernel " << names.front() << "\n";
  return 0;
}

/// What a GPU would make of it: of the whole ladder, or of the rung that was asked for.
std::string modelled(const KernelOptions& options) {
  const fs::path root = source_folder();
  if (!fs::exists(kernel_times_file(root))) return "";
  const auto given = [&](const char* flag) { return std::find(options.flags.begin(), options.flags.end(), flag); };
  if (options.flags.empty()) return "\n" + kernel_times_text(root, options.name);
  if (given("--rung") == options.flags.end() || given("--describe") != options.flags.end()) return "";
  return "\n" + kernel_bounds_text(root, options.name, *(given("--rung") + 1));
}

}  // namespace

int kernel(const KernelOptions& options) {
  const std::vector<std::string> names = find_kernels();
  if (options.name.empty()) {
    if (!options.flags.empty())
      throw UsageError(options.flags.front() + " needs a kernel: ./tenfold kernel NAME " + options.flags.front());
    return list_kernels(names);
  }
  if (std::find(names.begin(), names.end(), options.name) == names.end()) {
    std::string all;
    for (const std::string& name : names) all += (all.empty() ? "" : ", ") + name;
    throw UsageError("unknown kernel '" + options.name + "'; there are: " + all);
  }
  std::vector<std::string> program = {(kernel_folder() / options.name).string()};
  program.insert(program.end(), options.flags.begin(), options.flags.end());
  // The page quotes lines of the kernel's source, which it names relative to the checkout.
  const Command command{program, {{"TENFOLD_SOURCE_DIR", source_folder().string()}}, ""};
  const End end = run_child(command, {[](const std::string& text) { std::cout << text << std::flush; },
                                      [](const std::string& line) { std::cerr << "tenfold: " << line << "\n"; }});
  if (asked_to_stop()) return kInterrupted;
  if (end.code == 0) std::cout << modelled(options);
  if (end.signal != 0)
    std::cerr << "tenfold: kernel " << options.name << " crashed with " << signal_name(end.signal) << "\n";
  return end.code;
}

}  // namespace tenfold::cli
