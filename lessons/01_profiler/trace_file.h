#pragma once
// A place for a trace that nobody asked to keep.

#include <torch/torch.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>

namespace tenfold::inline lesson_01 {

/// A file in a temporary folder, both gone with the object. Throws c10::Error when there can be no such folder.
class TraceFile {
 public:
  TraceFile() {
    std::string name = (std::filesystem::temp_directory_path() / "tenfold-trace-XXXXXX").string();
    TORCH_CHECK(mkdtemp(name.data()) != nullptr, name, ": cannot be made (", std::strerror(errno),
                "); to fix: set TMPDIR");
    folder_ = name;
  }
  TraceFile(const TraceFile&) = delete;
  TraceFile& operator=(const TraceFile&) = delete;
  ~TraceFile() {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }

  std::string path() const { return (folder_ / "trace.json").string(); }
  /// Of what was saved last; 0 before.
  int64_t bytes() const {
    std::error_code missing;
    const auto size = std::filesystem::file_size(path(), missing);
    return missing ? 0 : static_cast<int64_t>(size);
  }

 private:
  std::filesystem::path folder_;
};

}  // namespace tenfold::inline lesson_01
