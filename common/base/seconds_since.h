#pragma once

#include <chrono>

namespace tenfold {

/// By the steady clock, until now.
inline double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

}  // namespace tenfold
