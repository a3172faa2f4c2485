#include "common/base/files.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>

#include "common/base/flags.h"
#include "common/base/text.h"

namespace tenfold {
namespace {

namespace fs = std::filesystem;

/// The file that a path means: behind links, which stay when it is replaced. Throws std::runtime_error, in words, on
/// links that go round, and on one of /proc, as /dev/stdout is: it leads to a file that somebody has open, and who
/// replaces that takes it away from him.
fs::path behind_links(const fs::path& path) {
  std::error_code error;
  fs::path file = path;
  for (int links = 0; fs::is_symlink(file, error); ++links) {
    if (links == 40) throw std::runtime_error("its links go round");
    const fs::path folder = fs::weakly_canonical(file.has_parent_path() ? file.parent_path() : ".", error);
    if (folder.string().starts_with("/proc/")) throw std::runtime_error("it is an open stream and no file");
    const fs::path target = fs::read_symlink(file, error);
    file = target.is_absolute() ? target : folder / target;
  }
  return file;
}

/// What stands where the file would: in words; empty when it is nothing, or a file that may be replaced.
std::string in_the_way(const fs::path& path) {
  if (path == "-") return "'-' is no file here: the table goes to standard output, this to a file";
  std::error_code error;
  fs::path file;
  try {
    file = behind_links(path);
  } catch (const std::runtime_error& problem) {
    return problem.what();
  }
  if (!file.has_filename() || fs::is_directory(file, error)) return "it names a folder";
  // A file is replaced by a rename, which would put one in the place of a device.
  if (fs::exists(file, error) && !fs::is_regular_file(file, error)) return "it is not a regular file";
  return "";
}

/// Why not, in words; empty when it can be written.
std::string objection(const fs::path& path) {
  if (std::string why = in_the_way(path); !why.empty()) return why;
  const fs::path file = behind_links(path);
  std::error_code error;
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

std::string read_text(const fs::path& path) {
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  // An empty file fails here too, with no error; a folder opens, and fails at its first byte.
  const bool copied = file && text << file.rdbuf();
  if (!copied && (!file || errno != 0)) throw FileError(path.string() + ": " + std::strerror(errno != 0 ? errno : EIO));
  return text.str();
}

void write_atomically(const fs::path& path, const std::string& text) {
  if (const std::string why = in_the_way(path); !why.empty())
    throw FileError(path.string() + ": cannot be written: " + why + "; nothing was changed");
  const fs::path target = behind_links(path);
  std::error_code ignored;
  if (target.has_parent_path()) fs::create_directories(target.parent_path(), ignored);
  const fs::path beside = target.string() + ".partial." + std::to_string(getpid());
  errno = 0;
  std::ofstream file(beside, std::ios::binary | std::ios::trunc);
  file << text;
  file.close();
  if (!file) {
    const int error = errno;
    fs::remove(beside, ignored);
    throw FileError(path.string() + ": cannot be written: " + std::strerror(error ? error : EIO) +
                    "; nothing was changed");
  }
  std::error_code failed;
  if (fs::exists(target, ignored)) fs::permissions(beside, fs::status(target, ignored).permissions(), ignored);
  fs::rename(beside, target, failed);
  if (failed) {
    fs::remove(beside, ignored);
    throw FileError(path.string() + ": cannot be written: " + failed.message() + "; nothing was changed");
  }
}

void require_writable(const fs::path& file, const std::string& what, const std::string& advice) {
  const std::string why = objection(file);
  if (!why.empty()) throw UsageError(one_line(what + ": cannot be written: " + why + "; " + advice));
}

std::vector<fs::path> json_files_in(const fs::path& folder) {
  std::vector<fs::path> files;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(folder, none)) {
    if (entry.path().extension() == ".json") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

fs::path cache_folder() {
  const auto variable = [](const char* name) {
    const char* value = std::getenv(name);
    return fs::path(value ? value : "");
  };
  if (auto cache = variable("TENFOLD_CACHE"); !cache.empty()) return cache;
  if (auto cache = variable("XDG_CACHE_HOME"); !cache.empty()) return cache / "tenfold";
  return variable("HOME") / ".cache" / "tenfold";
}

}  // namespace tenfold
