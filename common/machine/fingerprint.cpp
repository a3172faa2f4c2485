#include "common/machine/fingerprint.h"

#include <sched.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>

#include "common/base/files.h"
#include "common/machine/control_groups.h"
#include "common/machine/hardware.h"
#include "common/machine/nvml.h"

namespace tenfold {
namespace {

std::string first_line_with(const char* path, const std::string& key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(key)) return line.substr(key.size());
  }
  return "";
}

std::string trim(std::string text) {
  const auto keep = [](unsigned char c) { return !std::isspace(c) && c != '"'; };
  text.erase(text.begin(), std::find_if(text.begin(), text.end(), keep));
  text.erase(std::find_if(text.rbegin(), text.rend(), keep).base(), text.end());
  return text;
}

/// Physical memory, but no more than the control group allows.
int64_t usable_ram() {
  const int64_t bytes = static_cast<int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE);
  return std::min(bytes, control_group_limits().memory_bytes.value_or(bytes));
}

std::string os_name() {
  const std::string name = trim(first_line_with("/etc/os-release", "PRETTY_NAME="));
  utsname system{};
  const std::string kernel = uname(&system) == 0 ? std::string(system.sysname) + " " + system.release : "";
  return name.empty() ? kernel : name + (kernel.empty() ? "" : ", " + kernel);
}

std::string compiler_name() {
#ifdef __clang__
  return "Clang " __clang_version__;
#else
  return "GCC " __VERSION__;
#endif
}

/// Letters, digits and single dashes; trade marks, clock speeds and words that only explain a number left out.
std::string as_folder_name(std::string text) {
  for (const char* noise : {"(R)", "(TM)", "(r)", "(tm)", " CPU", " Processor", "NVIDIA ", "(family", ", model"}) {
    for (size_t at = text.find(noise); at != std::string::npos; at = text.find(noise))
      text.replace(at, std::string(noise).size(), " ");
  }
  if (const size_t at = text.find('@'); at != std::string::npos) text.resize(at);
  std::string name;
  for (const unsigned char c : text) {
    if (std::isalnum(c)) {
      name += static_cast<char>(std::tolower(c));
    } else if (!name.empty() && name.back() != '-') {
      name += '-';
    }
  }
  while (!name.empty() && name.back() == '-') name.pop_back();
  return name.empty() ? "unknown" : name;
}

std::string cpu_of_this_machine() {
  std::ifstream cpuinfo("/proc/cpuinfo");
  const std::string name = cpu_name(cpuinfo);
  if (!name.empty()) return name;
  utsname system{};
  return uname(&system) == 0 ? std::string(system.machine) + " CPU" : "unknown CPU";
}

}  // namespace

std::string cpu_name(std::istream& cpuinfo) {
  std::map<std::string, std::string> fields;  // of the first core
  for (std::string line; std::getline(cpuinfo, line);) {
    const size_t colon = line.find(':');
    if (colon != std::string::npos) fields.try_emplace(trim(line.substr(0, colon)), trim(line.substr(colon + 1)));
  }
  std::string name = fields["model name"];
  if (name.empty()) name = fields["Model"];  // many ARM kernels
  const bool has_number = std::ranges::any_of(name, [](unsigned char c) { return std::isdigit(c); });
  if (!name.empty() && !has_number && !fields["cpu family"].empty() && !fields["model"].empty())
    name += " (family " + fields["cpu family"] + ", model " + fields["model"] + ")";
  return name;
}

int usable_cores() {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  int cores = sched_getaffinity(0, sizeof(mask), &mask) == 0 ? CPU_COUNT(&mask)
                                                             : static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
  if (const auto quota = control_group_limits().cores)
    cores = std::min(cores, std::max(1, static_cast<int>(std::ceil(std::min(*quota, 1e6)))));
  return std::max(cores, 1);
}

Machine fingerprint() {
  Machine machine;
  machine.cpu = cpu_of_this_machine();
  machine.cores = usable_cores();
  machine.ram_bytes = usable_ram();
  machine.os = os_name();
  machine.compiler = compiler_name();
  GpuReport report = read_gpus();
  machine.driver = report.driver;
  machine.gpus = std::move(report.gpus);
  // A GPU names its machine: what surrounds it matters less to the numbers.
  if (machine.gpus.empty()) {
    machine.id = std::to_string(machine.cores) + "x-" + as_folder_name(machine.cpu);
  } else {
    const std::string count = machine.gpus.size() > 1 ? std::to_string(machine.gpus.size()) + "x-" : "";
    machine.id = count + as_folder_name(machine.gpus.front().name);
  }
  const char* own = std::getenv(kOwnId);
  if (own != nullptr && own == own_id(machine)) machine.id = own;
  return machine;
}

std::filesystem::path ceilings_file(const std::string& machine_id) {
  return cache_folder() / "probe" / (machine_id + ".json");
}

std::map<std::string, double> read_ceilings(const std::string& machine_id) {
  const std::filesystem::path path = ceilings_file(machine_id);
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) return {};  // never probed
  const auto json = nlohmann::json::parse(read_text(path), nullptr, false);
  const auto damaged = [&](const std::string& what) {
    return FileError(path.string() + ": " + what + "; measure again with: ./tenfold probe");
  };
  if (json.is_discarded() || !json.is_object()) throw damaged("is not a JSON object");
  std::map<std::string, double> ceilings;
  for (const auto& [name, value] : json.items()) {
    if (!value.is_number() || !std::isfinite(value.get<double>()) || value.get<double>() <= 0)
      throw damaged(name + ": is not a positive number");
    ceilings[name] = value.get<double>();
  }
  return ceilings;
}

}  // namespace tenfold
