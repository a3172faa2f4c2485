#pragma once
// What a test may expect of the processor that it happens to run on.

#include <cstdlib>
#include <set>
#include <string>

namespace tenfold::test {

/// Whether oneDNN's convolutions keep copies in a layout of their own, as the formulas of memory count them: with AVX2
/// and later they do. Below (seen with ONEDNN_MAX_CPU_ISA=AVX and SSE41) a step takes up to a fifth less.
inline bool convolutions_keep_copies() {
  const char* limit = std::getenv("ONEDNN_MAX_CPU_ISA");
  const bool below = limit != nullptr && std::set<std::string>{"SSE41", "AVX"}.contains(limit);
  return __builtin_cpu_supports("avx2") && !below;
}

}  // namespace tenfold::test
