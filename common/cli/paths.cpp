#include "paths.h"

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>

namespace tenfold::cli {
namespace {

std::filesystem::path from_environment(const char* name, const char* otherwise) {
  const char* value = std::getenv(name);
  return value && *value ? std::filesystem::path(value) : std::filesystem::path(otherwise);
}

}  // namespace

std::filesystem::path source_folder() { return from_environment("TENFOLD_SOURCE_DIR", TENFOLD_SOURCE_DIR); }
std::filesystem::path build_folder() { return from_environment("TENFOLD_BUILD_DIR", TENFOLD_BUILD_DIR); }

void require_writable(const std::filesystem::path& folder) {
  std::error_code failed;
  std::filesystem::create_directories(folder, failed);
  const auto refuse = [&](const std::string& why) {
    throw UsageError("output folder " + folder.string() + " cannot be written: " + why + "; name another with --out");
  };
  if (failed) refuse(failed.message());
  const std::filesystem::path probe = folder / (".writable." + std::to_string(getpid()));
  errno = 0;
  std::ofstream file(probe);
  file << std::string(4096, 'x');  // a full disk takes an empty file
  file.close();
  const int error = errno;
  const bool good = static_cast<bool>(file);
  std::filesystem::remove(probe, failed);
  if (!good) refuse(std::strerror(error ? error : EIO));
}

std::string shown(const std::filesystem::path& path) {
  std::error_code ignored;
  const std::filesystem::path relative = std::filesystem::relative(path, ignored);
  const std::string text = relative.string();
  return text.empty() || text.starts_with("..") ? path.string() : text;
}

}  // namespace tenfold::cli
