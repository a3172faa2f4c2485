#include "common/cli/left_overs.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <system_error>
#include <vector>

#include "common/base/files.h"
#include "common/cli/paths.h"
#include "common/result/result.h"

namespace tenfold::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kEarlier = ".earlier";
constexpr const char* kPartial = ".partial.";  // of write_atomically(), with the writer's process behind it

/// Cases of a result file; 0 when there is none that can be read.
size_t cases_in(const fs::path& file) {
  try {
    return fs::exists(file) ? read_result(file).cases.size() : 0;
  } catch (const FileError&) {
    return 0;
  }
}

bool same_content(const fs::path& a, const fs::path& b) {
  std::error_code error;
  return fs::file_size(a, error) == fs::file_size(b, error) && !error && read_text(a) == read_text(b);
}

/// "X.json.partial.123" of a process that is gone.
bool is_half_written(const std::string& name) {
  const size_t at = name.rfind(kPartial);
  if (at == std::string::npos) return false;
  const std::string digits = name.substr(at + std::string(kPartial).size());
  if (digits.empty() || digits.size() > 9 || digits.find_first_not_of("0123456789") != std::string::npos) return false;
  return kill(std::stoi(digits), 0) != 0 && errno == ESRCH;
}

}  // namespace

FolderLock::FolderLock(const fs::path& folder, Kind kind)
    : descriptor_(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
  held_ = descriptor_ >= 0 && flock(descriptor_, (kind == shared ? LOCK_SH : LOCK_EX) | LOCK_NB) == 0;
}

FolderLock::~FolderLock() {
  if (descriptor_ >= 0) close(descriptor_);
}

void remove_left_folders() {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(fs::temp_directory_path(error), error)) {
    if (!entry.path().filename().string().starts_with(kTemporaryName)) continue;
    struct stat status{};
    if (lstat(entry.path().c_str(), &status) != 0 || !S_ISDIR(status.st_mode) || status.st_uid != getuid()) continue;
    // One that is being made has no lock yet.
    const auto age = std::chrono::system_clock::now() - std::chrono::system_clock::from_time_t(status.st_mtime);
    if (age < std::chrono::minutes(1)) continue;
    const FolderLock lock(entry.path(), FolderLock::exclusive);
    std::error_code ignored;
    if (lock.held()) fs::remove_all(entry.path(), ignored);
  }
}

fs::path earlier_of(const fs::path& file) { return file.string() + kEarlier; }

void tidy_results(const fs::path& folder) {
  const FolderLock lock(folder, FolderLock::exclusive);
  if (!lock.held()) return;
  std::error_code ignored;
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) files.push_back(entry.path());
  for (const fs::path& path : files) {
    if (is_half_written(path.filename().string())) fs::remove(path, ignored);
    if (path.extension() != kEarlier) continue;
    const fs::path file = fs::path(path).replace_extension();
    if (!fs::exists(file)) {
      fs::rename(path, file, ignored);
    } else if (same_content(path, file)) {
      fs::remove(path, ignored);
    }
  }
}

void set_aside(const fs::path& file, bool keep) {
  std::error_code ignored;
  const fs::path earlier = earlier_of(file);
  if (!fs::exists(file)) return;
  if (fs::exists(earlier) && cases_in(earlier) > cases_in(file)) {
    if (!keep) fs::remove(file, ignored);
  } else if (keep) {
    fs::copy_file(file, earlier, fs::copy_options::overwrite_existing, ignored);
  } else {
    fs::rename(file, earlier, ignored);
  }
}

std::string settle(const fs::path& file, bool stopped) {
  std::error_code ignored;
  const fs::path earlier = earlier_of(file);
  if (!fs::exists(earlier)) return "";
  if (!fs::exists(file)) {
    fs::rename(earlier, file, ignored);
    return "";
  }
  const size_t before = cases_in(earlier), now = cases_in(file);
  if (!stopped || before <= now) {
    fs::remove(earlier, ignored);
    return "";
  }
  return "the earlier result of " + std::to_string(before) + " cases, of which " + std::to_string(now) +
         " were measured again, stays as " + shown(earlier);
}

}  // namespace tenfold::cli
