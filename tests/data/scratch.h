#pragma once
// A cache folder made of copies that a test may damage.

#include <stdlib.h>

#include <filesystem>
#include <string>

#include "tests/support/support.h"

namespace tenfold::test {

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

}  // namespace tenfold::test
