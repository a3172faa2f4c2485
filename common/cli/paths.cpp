#include "common/cli/paths.h"

#include <cstdlib>

#include "common/base/built_in.h"
#include "common/base/files.h"

namespace tenfold::cli {
namespace {

std::filesystem::path from_environment(const char* name, const char* otherwise) {
  const char* value = std::getenv(name);
  return value && *value ? std::filesystem::path(value) : std::filesystem::path(otherwise);
}

}  // namespace

std::filesystem::path source_folder() { return from_environment("TENFOLD_SOURCE_DIR", source_folder_of_build()); }
std::filesystem::path build_folder() { return from_environment("TENFOLD_BUILD_DIR", folder_of_build()); }

void require_writable_folder(const std::filesystem::path& folder) {
  require_writable(folder / "result.json", "output folder " + folder.string(), "name another with --out");
}

std::string shown(const std::filesystem::path& path) {
  std::error_code ignored;
  const std::filesystem::path relative = std::filesystem::relative(path, ignored);
  const std::string text = relative.string();
  return text.empty() || text.starts_with("..") ? path.string() : text;
}

}  // namespace tenfold::cli
