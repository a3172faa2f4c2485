#include "common/dry_gpu/preload.h"

#include <cctype>
#include <cstdlib>
#include <stdexcept>

#include "common/machine/machine.h"

namespace tenfold::dry {
namespace {

namespace fs = std::filesystem;

/// In the order in which a program must find them: the others are built on the first.
constexpr const char* kLibraries[] = {"cudart", "cuda",  "nvrtc",    "cublas",  "cublas_lt",
                                      "cudnn",  "cufft", "cusolver", "cusparse"};

std::string library(const fs::path& build, const std::string& name) {
  const std::string file = (build / "common/dry_gpu" / ("libtenfold_dry_" + name + ".so")).string();
  if (!fs::exists(file)) throw std::runtime_error(file + " is not built; build with: ./tenfold setup");
  // The loader takes both for a separator.
  if (file.find_first_of(" :") != std::string::npos)
    throw std::runtime_error("a dry GPU needs a build folder without spaces and colons in its path, not " + file);
  return file;
}

}  // namespace

std::string card_of_device(const std::string& device) {
  const std::string prefix = "dry:";
  return device.starts_with(prefix) ? device.substr(prefix.size()) : "";
}

std::string machine_id(const std::string& card) {
  std::string id = kDryMachine;
  for (const unsigned char letter : card) id += static_cast<char>(std::tolower(letter));
  return id;
}

std::map<std::string, std::string> environment(const Start& start, const fs::path& build) {
  std::string preloaded;
  for (const char* const name : kLibraries) preloaded += (preloaded.empty() ? "" : ":") + library(build, name);
  // A build without NCCL's header has none.
  if (fs::exists(build / "common/dry_gpu/libtenfold_dry_nccl.so")) preloaded += ":" + library(build, "nccl");
  if (!start.arithmetic.empty()) preloaded += ":" + library(build, "arithmetic");
  if (start.timed) preloaded += ":" + library(build, "durations");
  if (const char* const others = std::getenv("LD_PRELOAD"); others != nullptr && *others != '\0')
    preloaded += std::string(":") + others;
  return {{"LD_PRELOAD", preloaded},
          {"TENFOLD_DRY_ARITHMETIC", start.arithmetic},
          {"TENFOLD_DRY_GPU", start.gpu},
          {"TENFOLD_DRY_GPUS", std::to_string(start.gpus)},
          {"TENFOLD_DRY_REPORT", start.report},
          {"TENFOLD_DRY_TIME", start.timed ? "modelled" : ""},
          // What LibTorch compiles at run time is nothing here, and must not be found by a real card later.
          {"USE_PYTORCH_KERNEL_CACHE", "0"}};
}

}  // namespace tenfold::dry
