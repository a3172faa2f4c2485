#include <tenfold/writable.h>

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <stdexcept>

#include <tenfold/humanize.h>

namespace tenfold {
namespace {

namespace fs = std::filesystem;

/// Why not, in words; empty when it can be written.
std::string objection(const fs::path& file) {
  std::error_code error;
  if (!file.has_filename() || fs::is_directory(file, error)) return "it names a folder";
  // A file is replaced by a rename, which would put one in the place of a device.
  if (fs::exists(file, error) && !fs::is_regular_file(file, error)) return "it is not a regular file";

  fs::path folder = fs::absolute(file).parent_path();
  while (fs::symlink_status(folder, error).type() == fs::file_type::not_found) folder = folder.parent_path();
  if (error) return folder.string() + ": " + error.message();
  if (!fs::is_directory(folder, error)) return folder.string() + " is not a folder";

  const fs::path probe = folder / (file.filename().string() + ".partial." + std::to_string(getpid()));
  errno = 0;
  std::ofstream tried(probe, std::ios::binary | std::ios::trunc);
  tried << std::string(4096, 'x');  // a full disk takes an empty file
  tried.close();
  const int failed = errno;
  const bool good = static_cast<bool>(tried);
  fs::remove(probe, error);
  return good ? "" : std::strerror(failed != 0 ? failed : EIO);
}

}  // namespace

void require_writable(const fs::path& file, const std::string& what, const std::string& advice) {
  const std::string why = objection(file);
  if (!why.empty()) throw std::invalid_argument(one_line(what + ": cannot be written: " + why + "; " + advice));
}

}  // namespace tenfold
