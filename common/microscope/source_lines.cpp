// From a return address to the kernel's source line. GCC's libbacktrace reads the debug information once and then
// answers in about a microsecond. Where GCC came without it, an address stands for the line.
#if __has_include(<backtrace.h>)
#include <backtrace.h>

#include <array>
#include <filesystem>
#include <string>
#include <string_view>
#include <unordered_map>
#endif

#include "common/microscope/engine.h"

namespace tenfold::simt {

#if __has_include(<backtrace.h>)
namespace {

/// The path from the checkout's top folder on: the build may have been made under another name.
std::string below_checkout(const std::string& as_compiled) {
  const std::string path = std::filesystem::path(as_compiled).lexically_normal().string();  // "softmax/../rows.cuh"
  size_t at = std::string::npos;
  for (const std::string_view folder : {"kernels/", "lessons/", "tests/", "common/", "bench/"}) {
    const size_t found = path.find("/" + std::string(folder));
    if (found != std::string::npos) at = std::min(at, found + 1);
  }
  return at == std::string::npos ? path : path.substr(at);
}

struct Search {
  Where innermost, kernel;
  std::string outside;  // of the kernel's line: the lines that it is inlined into
};

int note_frame(void* data, uintptr_t /*pc*/, const char* file, int line, const char* /*function*/) {
  auto& search = *static_cast<Search*>(data);
  if (file == nullptr) return 0;
  const Where where{below_checkout(file), line};
  if (search.innermost.file.empty()) search.innermost = where;
  if (!search.kernel.file.empty()) search.outside += text_of(where) + " ";
  // Frames come from the inside out; what a header of CUDA's or ours does for the kernel is the kernel's line.
  const bool built_in = where.file.starts_with("common/microscope/") ||
                        where.file.find("/include/") != std::string::npos ||
                        where.file.starts_with("kernels/launch.cuh") || where.file.starts_with("kernels/ptx");
  if (search.kernel.file.empty() && !built_in) search.kernel = where;
  return 0;
}

void ignore_error(void*, const char*, int) {}

}  // namespace

Where where_is(uintptr_t pc) {
  static backtrace_state* const state = backtrace_create_state(nullptr, 1, ignore_error, nullptr);
  static std::unordered_map<uintptr_t, Where> known;
  const auto [found, fresh] = known.try_emplace(pc);
  if (fresh && state != nullptr) {
    Search search;
    backtrace_pcinfo(state, pc - 1, note_frame, ignore_error, &search);
    found->second = search.kernel.file.empty() ? search.innermost : search.kernel;
  }
  return found->second;
}

std::string inlined_into(uintptr_t pc) {
  static backtrace_state* const state = backtrace_create_state(nullptr, 1, ignore_error, nullptr);
  Search search;
  if (state != nullptr) backtrace_pcinfo(state, pc - 1, note_frame, ignore_error, &search);
  return search.outside;
}

std::string symbol_at(uintptr_t pc) {
  static backtrace_state* const state = backtrace_create_state(nullptr, 1, ignore_error, nullptr);
  std::string symbol;
  if (state != nullptr) {
    backtrace_syminfo(
        state, pc,
        [](void* data, uintptr_t, const char* name, uintptr_t, uintptr_t) {
          if (name != nullptr) *static_cast<std::string*>(data) = name;
        },
        ignore_error, &symbol);
  }
  return symbol;
}

#else

std::string inlined_into(uintptr_t /*pc*/) { return ""; }
std::string symbol_at(uintptr_t /*pc*/) { return ""; }

Where where_is(uintptr_t pc) { return {"address", static_cast<int>(pc & 0x7fffffff)}; }

#endif

}  // namespace tenfold::simt
