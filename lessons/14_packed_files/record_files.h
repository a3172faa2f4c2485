#pragma once
// The same records by two ways: each in a file of its own, or as a view into one mapped shard.

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/data/data_files.h"
#include "common/data/shard.h"

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace tenfold::inline lesson_14 {

/// The bytes of record i. They may lie in `buffer` and then hold until it is used again. Called by many threads at
/// once, each with a buffer of its own. Throws DataError for a record that cannot be read, std::out_of_range for one
/// that does not exist.
using ReadRecord = std::function<std::span<const uint8_t>(int64_t i, std::vector<uint8_t>& buffer)>;

/// A whole file, by the fewest system calls that can do it: open, ask for the size, read, close. Throws DataError, one
/// line with the file's name, when it is missing, no file, or shrinks meanwhile.
inline std::span<const uint8_t> read_small_file(const std::string& path, std::vector<uint8_t>& buffer) {
  const auto fail = [&](const std::string& what) {
    throw DataError(path + ": " + what + "; to fix: ./tenfold data pack");
  };
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0)
    fail(errno == ENOENT ? std::string("is missing") : std::string("cannot be opened (") + std::strerror(errno) + ")");
  struct stat status{};
  std::string problem;
  if (fstat(file, &status) != 0) {
    problem = std::string("cannot be read (") + std::strerror(errno) + ")";
  } else if (!S_ISREG(status.st_mode)) {
    problem = "is not a file";
  } else {
    buffer.resize(static_cast<size_t>(status.st_size));
    size_t got = 0;
    while (got < buffer.size() && problem.empty()) {  // once, unless a signal interrupts or the disk is slow
      const ssize_t bytes = read(file, buffer.data() + got, buffer.size() - got);
      if (bytes > 0) got += static_cast<size_t>(bytes);
      if (bytes == 0) problem = "shrank while it was read";
      if (bytes < 0 && errno != EINTR) problem = std::string("cannot be read (") + std::strerror(errno) + ")";
    }
  }
  close(file);
  if (!problem.empty()) fail(problem);
  return buffer;
}

/// Record i is the file paths[i].
inline ReadRecord read_files(std::vector<std::string> paths) {
  return [paths = std::move(paths)](int64_t i, std::vector<uint8_t>& buffer) {
    return read_small_file(paths.at(static_cast<size_t>(i)), buffer);
  };
}

/// Record i of a shard: no system call and no copy, an address. The bytes are not looked at.
inline ReadRecord read_packed(std::shared_ptr<const Shard> shard) {
  return [shard = std::move(shard)](int64_t i, std::vector<uint8_t>&) { return shard->record(i); };
}

/// The same, held against the record's checksum first: a shard that was altered on the disk is an error and not another
/// image.
inline ReadRecord read_packed_and_checked(std::shared_ptr<const Shard> shard) {
  return [shard = std::move(shard)](int64_t i, std::vector<uint8_t>&) {
    shard->verify(i);
    return shard->record(i);
  };
}

/// A shard's records as files in a temporary folder, which goes with the object. Files are named by number: the names
/// in a shard come out of a file, and one with ".." in it would write outside the folder.
class UnpackedRecords {
 public:
  /// Throws DataError when the disk does not take them.
  explicit UnpackedRecords(const Shard& shard) {
    std::string name = (std::filesystem::temp_directory_path() / "tenfold-records-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr)
      throw DataError(name + ": cannot be made (" + std::strerror(errno) + "); to fix: set TMPDIR");
    folder_ = name;
    for (int64_t i = 0; i < shard.size(); ++i) {
      paths_.push_back(name + "/" + std::to_string(i));
      std::ofstream out(paths_.back(), std::ios::binary);
      const auto bytes = shard.record(i);
      out.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
      out.close();
      if (out) continue;
      remove();
      throw DataError(paths_.back() + ": cannot be written; to fix: free some space, or set TMPDIR");
    }
  }
  UnpackedRecords(const UnpackedRecords&) = delete;
  UnpackedRecords& operator=(const UnpackedRecords&) = delete;
  ~UnpackedRecords() { remove(); }

  const std::filesystem::path& folder() const { return folder_; }
  const std::vector<std::string>& paths() const { return paths_; }  ///< of record i

 private:
  void remove() noexcept {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }

  std::filesystem::path folder_;
  std::vector<std::string> paths_;
};

}  // namespace tenfold::inline lesson_14
