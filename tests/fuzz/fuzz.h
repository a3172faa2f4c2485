#pragma once
// What every fuzz target shares. A target is a file NAME_fuzz.cpp that defines LLVMFuzzerTestOneInput: it feeds any
// bytes to one reader and ends the program when the reader breaks a promise of its header. CMakeLists.txt tells how it
// is run.

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <span>
#include <string>
#include <string_view>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace tenfold::fuzz {

using Bytes = std::span<const uint8_t>;

/// Ends the program when a promise is broken.
inline void require(bool kept, const char* promise) {
  if (kept) return;
  std::fprintf(stderr, "broken: %s\n", promise);
  std::abort();
}

/// Runs `read`, which may refuse its input with an E of one line; true when it did not. Any other exception ends the
/// program.
template <class E, class Read>
bool reads(Read&& read) {
  try {
    read();
    return true;
  } catch (const E& error) {
    const std::string_view line = error.what();
    if (line.find('\n') != std::string_view::npos) std::fprintf(stderr, "%s\n", error.what());
    require(!line.empty() && line.find('\n') == std::string_view::npos, "a refusal is one line");
    return false;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    require(false, "bad bytes are refused with the error that is documented");
    return false;
  }
}

inline std::string text_of(Bytes bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }

}  // namespace tenfold::fuzz
