#pragma once
// A folder of the test's own, and a cache folder made of copies that a test may damage.

#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace tenfold::test {

/// An empty folder that goes with the object.
class Scratch {
 public:
  Scratch() {
    std::string name = (std::filesystem::temp_directory_path() / "tenfold-test-XXXXXX").string();
    path_ = mkdtemp(name.data());
  }
  ~Scratch() { std::filesystem::remove_all(path_); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

/// While it lives, $TENFOLD_CACHE is this folder.
class CacheAt {
 public:
  explicit CacheAt(const std::filesystem::path& folder) {
    const char* before = getenv("TENFOLD_CACHE");
    had_ = before != nullptr;
    if (had_) before_ = before;
    setenv("TENFOLD_CACHE", folder.c_str(), 1);
  }
  ~CacheAt() { had_ ? setenv("TENFOLD_CACHE", before_.c_str(), 1) : unsetenv("TENFOLD_CACHE"); }
  CacheAt(const CacheAt&) = delete;
  CacheAt& operator=(const CacheAt&) = delete;

 private:
  bool had_ = false;
  std::string before_;
};

inline void write_text(const std::filesystem::path& path, const std::string& text) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << text;
}

}  // namespace tenfold::test
