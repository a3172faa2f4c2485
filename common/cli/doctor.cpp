// doctor: what this machine has and lacks, one line each with the fix.

#include <sys/statvfs.h>

#include <cstdlib>
#include <fstream>
#include <iostream>

#include "common/base/files.h"
#include "common/base/process.h"
#include "common/base/text.h"
#include "common/cli/commands.h"
#include "common/cli/lessons.h"
#include "common/cli/paths.h"
#include "common/cli/this_machine.h"
#include "common/data/data_files.h"
#include "common/machine/fingerprint.h"
#include "common/machine/nvml.h"

namespace tenfold::cli {
namespace {

namespace fs = std::filesystem;

constexpr double kCacheBytes = 6e9;        // packages, data and compiler cache of one set-up
constexpr double kWorkingMemory = 4.0e9;   // the compiler on a LibTorch file, and the largest cpu case
constexpr int kOldestDriver = 580;         // CUDA 13
constexpr double kOldestCapability = 7.5;  // what the wheel and our kernels are built for

enum class State { ok, missing, note };

struct Line {
  State state;
  std::string what, fix;
};

double free_bytes(fs::path folder) {
  while (!folder.empty() && !fs::exists(folder) && folder != folder.parent_path()) folder = folder.parent_path();
  struct statvfs info{};
  return statvfs(folder.c_str(), &info) == 0 ? static_cast<double>(info.f_bavail) * static_cast<double>(info.f_frsize)
                                             : 0;
}

double available_memory() {
  std::ifstream file("/proc/meminfo");
  for (std::string name, unit; file >> name;) {
    double kib = 0;
    if (name == "MemAvailable:" && file >> kib) return kib * 1024;
    std::getline(file, unit);
  }
  return 0;
}

std::string word_of(const fs::path& file) {
  std::ifstream in(file);
  std::string word;
  in >> word;
  return word;
}

Line have(const std::string& what, bool there, const std::string& detail, const std::string& fix) {
  return {there ? State::ok : State::missing, what + (detail.empty() ? "" : ": " + detail), there ? "" : fix};
}

void tools(std::vector<Line>& lines) {
  const std::string compiler = first_line(output_of({TENFOLD_COMPILER, "--version"}));
  lines.push_back(have("C++ compiler", !compiler.empty(),
                       compiler.empty() ? std::string(TENFOLD_COMPILER) + ", which this was built with, is gone"
                                        : compiler + " (" + TENFOLD_COMPILER + ")",
                       "./tenfold setup"));
  const std::string gcc = first_line(output_of({"g++", "--version"}));
  lines.push_back(have("g++, for the microscope and for nvcc", !gcc.empty(), gcc, "sudo apt-get install g++"));
  if (!gcc.empty() && compiler == gcc)
    lines.push_back({State::note, "no clang: it builds the tree in a third of g++'s time",
                     "sudo apt-get install clang-16 libclang-rt-16-dev, then ./tenfold setup"});
  const std::string python = (source_folder() / ".venv" / "bin" / "python").string();
  const std::string python_version = output_of({python, "--version"});
  lines.push_back(have("Python environment", !python_version.empty(),
                       python_version.empty() ? "no " + python : python_version, "./tenfold setup"));
  const std::string torch = output_of({python, "-c", "import importlib.metadata as m; print(m.version('torch'))"});
  const bool own_torch = std::getenv("Torch_DIR") != nullptr;
  lines.push_back(have("LibTorch", !torch.empty() || own_torch,
                       !torch.empty() ? torch
                       : own_torch    ? std::string("from ") + std::getenv("Torch_DIR")
                                      : "no torch in the environment",
                       "./tenfold setup"));
  const std::string ccache = first_line(output_of({"ccache", "--version"}));
  lines.push_back(have("compiler cache", !ccache.empty(),
                       ccache.empty() ? "no ccache, so each build starts from nothing" : ccache,
                       "sudo apt-get install ccache"));

  std::string nvcc;
  for (const fs::path& folder :
       {fs::path(std::getenv("CUDA_HOME") ? std::getenv("CUDA_HOME") : ""), fs::path("/usr/local/cuda-13"),
        fs::path("/usr/local/cuda"), source_folder() / ".venv" / "cuda"}) {
    if (nvcc.empty() && !folder.empty() && fs::exists(folder / "bin" / "nvcc"))
      nvcc = (folder / "bin" / "nvcc").string();
  }
  std::string release = nvcc.empty() ? "" : output_of({nvcc, "--version"});
  if (const size_t at = release.find("release "); at != std::string::npos)
    release = release.substr(at + 8, release.find(',', at) - at - 8);
  lines.push_back(have("CUDA compiler", !release.empty(), release.empty() ? "no nvcc" : release + " (" + nvcc + ")",
                       "./tenfold setup"));
  const std::string nccl =
      output_of({python, "-c", "import importlib.metadata as m; print(m.version('nvidia-nccl-cu13'))"});
  lines.push_back(have("NCCL", !nccl.empty(),
                       nccl.empty() ? "not in the environment; lessons on several GPUs cannot run" : nccl,
                       "./tenfold setup"));
}

void gpus(std::vector<Line>& lines) {
  const GpuReport report = read_gpus();
  if (report.driver.empty()) {
    lines.push_back({State::note,
                     "GPU: none that a driver shows; every lesson runs on the CPU, GPU variants are skipped" +
                         (report.problem.empty() ? "" : " (" + report.problem + ")"),
                     ""});
    return;
  }
  const bool recent = std::atoi(report.driver.c_str()) >= kOldestDriver;
  lines.push_back(have("NVIDIA driver", recent, report.driver + ", up to CUDA " + report.cuda,
                       "install driver " + std::to_string(kOldestDriver) + " or newer, which CUDA 13 needs"));
  for (size_t i = 0; i < report.gpus.size(); ++i) {
    const bool supported = std::atof(report.capabilities[i].c_str()) >= kOldestCapability;
    lines.push_back(have("GPU " + std::to_string(i), supported,
                         report.gpus[i].name + ", compute capability " + report.capabilities[i] + ", " +
                             human_bytes(static_cast<double>(report.gpus[i].memory_bytes)),
                         "CUDA 13 supports 7.5 (Turing) and newer; run with --device cpu"));
  }
}

void data(std::vector<Line>& lines) {
  const fs::path folder = data_folder();
  const bool complete = fs::exists(folder / ".complete");
  std::string parts, damage;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(folder, none)) {
    std::ifstream sums(entry.path() / "SHA256SUMS");
    if (!sums) continue;
    parts += (parts.empty() ? "" : ", ") + entry.path().filename().string();
    for (std::string digest, name; damage.empty() && sums >> digest && std::getline(sums >> std::ws, name);) {
      try {
        read_data_file(entry.path() / name);
      } catch (const DataError& error) {
        damage = error.what();
      }
    }
  }
  const std::string where = " in " + folder.string();
  lines.push_back(have("data", complete && damage.empty(),
                       !damage.empty() ? damage.substr(0, damage.find("; to fix"))
                       : complete      ? parts + where + ", intact"
                                       : "not complete" + where,
                       "./tenfold setup"));
  const double space = free_bytes(cache_folder());
  lines.push_back(have("free disk for the cache", space > 1e9,
                       human_bytes(space) + " at " + cache_folder().string() +
                           (space > kCacheBytes ? "" : " (a first set-up takes 6 GB)"),
                       "free some, or set TENFOLD_CACHE to another disk"));
}

void machine(std::vector<Line>& lines) {
  const Machine& machine = this_machine();
  lines.push_back({State::ok, "CPU: " + machine.cpu + ", " + std::to_string(machine.cores) + " usable", ""});
  const double memory = available_memory();
  lines.push_back(have("free memory", memory > kWorkingMemory,
                       human_bytes(memory) + " of " + human_bytes(static_cast<double>(machine.ram_bytes)),
                       "close something; a compiler job needs 1 to 2 GB"));
  double load = 0;
  const bool busy = getloadavg(&load, 1) == 1 && load > 0.5 * machine.cores;
  lines.push_back(have("load average", !busy, human_number(load),
                       "other work is running; wait for it, or verdicts will be AMBIGUOUS"));
  const std::string governor = word_of("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor");
  if (governor.empty()) {
    lines.push_back({State::note, "CPU frequency governor: not shown here (usual in virtual machines)", ""});
  } else {
    lines.push_back(have("CPU frequency governor", governor == "performance", governor,
                         "for steadier times: sudo cpupower frequency-set -g performance"));
  }
  try {
    const size_t count = read_ceilings(machine.id).size();
    lines.push_back(
        have("ceilings", count > 0,
             count > 0 ? std::to_string(count) + " measured" : "never measured, so times cannot be predicted",
             "./tenfold probe"));
  } catch (const FileError& error) {
    lines.push_back({State::missing, std::string("ceilings: ") + error.what(), "./tenfold probe"});
  }
}

}  // namespace

int doctor() {
  std::vector<Line> lines;
  tools(lines);
  gpus(lines);
  data(lines);
  machine(lines);
  const std::vector<DescribedLesson> lessons = find_lessons();
  lines.push_back(
      have("lessons", !lessons.empty(),
           lessons.empty() ? "none is built" : std::to_string(lessons.size()) + " built in " + shown(build_folder()),
           "./tenfold setup"));
  int lacking = 0;
  for (const Line& line : lines) {
    const char* mark = line.state == State::ok ? "ok       " : line.state == State::missing ? "MISSING  " : "note     ";
    std::cout << mark << wrap_text(line.what, 110, 9) << "\n";
    if (!line.fix.empty()) std::cout << "         to fix: " << wrap_text(line.fix, 102, 17) << "\n", ++lacking;
  }
  std::cout << (lacking == 0 ? "\nEverything is there.\n"
                             : "\n" + std::to_string(lacking) + (lacking == 1 ? " thing" : " things") + " to mend.\n");
  return lessons.empty() ? kInvalid : 0;  // without a lesson nothing can run
}

}  // namespace tenfold::cli
