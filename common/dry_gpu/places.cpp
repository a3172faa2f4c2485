#include "common/dry_gpu/places.h"

#include <cxxabi.h>
#include <link.h>
#include <unistd.h>
#include <unwind.h>
#if __has_include(<backtrace.h>)
#include <backtrace.h>
#endif

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <mutex>
#include <string_view>
#include <unordered_map>

namespace tenfold::dry {
namespace {

constexpr size_t kMostCalls = 256;
constexpr size_t kCallsShown = 2;

std::mutex& lock() {
  static auto& all = *new std::mutex;
  return all;
}

// --- whose code it is -----------------------------------------------------------------------------------------------

struct Part {
  uintptr_t begin, end;
  Owner owner;
};

Owner owner_of_file(const std::string& path) {
  const std::string name = path.substr(path.rfind('/') + 1);
  const auto begins = [&name](std::initializer_list<std::string_view> with) {
    return std::ranges::any_of(with, [&name](std::string_view beginning) { return name.starts_with(beginning); });
  };
  if (begins({"libtorch_python"})) return Owner::python;
  if (begins({"libtorch_cuda", "libc10_cuda"})) return Owner::allocators;
  if (begins({"libtorch", "libc10", "libshm"})) return Owner::libtorch;
  if (begins({"python", "libpython", "libtenfold_dry_", "libc.so", "libc-", "libm.so", "libm-", "libstdc++", "libgcc_s",
              "libpthread", "ld-linux", "libcu", "libnv", "libgomp", "libiomp", "linux-vdso"}))
    return Owner::others;
  return Owner::program;
}

int add_parts(dl_phdr_info* info, size_t, void* data) {
  auto& parts = *static_cast<std::vector<Part>*>(data);
  std::string path = info->dlpi_name;
  if (path.empty()) {
    std::error_code none;
    path = std::filesystem::read_symlink("/proc/self/exe", none).string();
  }
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const auto& header = info->dlpi_phdr[i];
    if (header.p_type != PT_LOAD || (header.p_flags & PF_X) == 0) continue;
    const uintptr_t begin = info->dlpi_addr + header.p_vaddr;
    parts.push_back({begin, begin + header.p_memsz, owner_of_file(path)});
  }
  return 0;
}

const Part* part_of(const std::vector<Part>& parts, uintptr_t address) {
  const auto at = std::ranges::upper_bound(parts, address, {}, &Part::begin);
  if (at == parts.begin() || std::prev(at)->end <= address) return nullptr;
  return &*std::prev(at);
}

_Unwind_Reason_Code add_call(_Unwind_Context* context, void* data) {
  auto& calls = *static_cast<std::vector<uintptr_t>*>(data);
  calls.push_back(_Unwind_GetIP(context));
  return calls.size() < kMostCalls ? _URC_NO_REASON : _URC_END_OF_STACK;
}

// --- what is there --------------------------------------------------------------------------------------------------

struct Function {
  std::string name, file;  // the file as it was compiled
  int line = 0;
};

/// A lambda that is inlined into the std::function that holds it: the lambda.
std::string without_holder(const std::string& name) {
  constexpr std::string_view kHolder = "std::_Function_handler<";
  if (!name.starts_with(kHolder)) return name;
  int depth = 0;
  for (size_t i = kHolder.size(); i < name.size(); ++i) {
    if (name[i] == '<' || name[i] == '(') ++depth;
    if (name[i] == '>' || name[i] == ')') --depth;
    if (depth < 0) break;
    if (depth > 0 || name.compare(i, 2, ", ") != 0) continue;
    const std::string held = name.substr(i + 2);
    return held.substr(0, held.rfind(">::"));
  }
  return name;
}

/// Without what a function takes, and without what templates were made for: tenfold::Copies::copy.
std::string without_parameters(const std::string& whole) {
  const std::string name = without_holder(whole);
  std::string out;
  int depth = 0;
  for (size_t i = 0; i < name.size(); ++i) {
    const char c = name[i];
    const bool named = name.compare(i, 11, "(anonymous ") == 0 || name.compare(i, 10, "operator()") == 0;
    if (depth == 0 && named) {
      const size_t length = name[i] == 'o' ? 10 : 21;
      out += name[i] == 'o' ? "operator()" : "";
      i += length - 1;
      continue;
    }
    if (c == '<' || c == '(' || c == '{') ++depth;
    if (depth == 0) out += c;
    if ((c == '>' && (i == 0 || name[i - 1] != '-')) || c == ')' || c == '}') --depth;
  }
  // "auto f(int)::{lambda(auto)#1}::operator()(int) const": a lambda is where it stands.
  for (const std::string_view part : {"::operator()", " const", "[abi:cxx11]"}) {
    for (size_t at = out.find(part); at != std::string::npos; at = out.find(part)) out.erase(at, part.size());
  }
  while (out.find("::::") != std::string::npos) out.replace(out.find("::::"), 4, "::");
  while (out.ends_with(":")) out.pop_back();
  if (out.starts_with("::")) out.erase(0, 2);
  if (const size_t space = out.rfind(' '); space != std::string::npos) out.erase(0, space + 1);
  return out;
}

#if __has_include(<backtrace.h>)
void ignore_error(void*, const char*, int) {}

int add_function(void* data, uintptr_t, const char* file, int line, const char* function) {
  if (function != nullptr)
    static_cast<std::vector<Function>*>(data)->push_back({demangled(function), file == nullptr ? "" : file, line});
  return 0;
}

void add_symbol(void* data, uintptr_t, const char* name, uintptr_t, uintptr_t) {
  if (name != nullptr) static_cast<std::vector<Function>*>(data)->push_back({demangled(name), "", 0});
}

/// From the inside out: those that are inlined there first. The caller holds the lock.
const std::vector<Function>& functions_at(uintptr_t call) {
  static backtrace_state* const known_to = backtrace_create_state(nullptr, 1, ignore_error, nullptr);
  static auto& known = *new std::unordered_map<uintptr_t, std::vector<Function>>;
  const auto [at, fresh] = known.try_emplace(call);
  if (fresh && known_to != nullptr) {
    backtrace_pcinfo(known_to, call - 1, add_function, ignore_error, &at->second);
    if (at->second.empty()) backtrace_syminfo(known_to, call - 1, add_symbol, ignore_error, &at->second);
  }
  return at->second;
}
#else
const std::vector<Function>& functions_at(uintptr_t) {
  static const std::vector<Function> none;
  return none;
}
#endif

bool is_wrapper(const Function& function) {
  // Of a function that is inlined, -g1 says the file and no namespace.
  if (function.line > 0)
    return function.file.find("/torch/include/") != std::string::npos ||
           function.file.find("/include/c++/") != std::string::npos;
  const std::string name = without_parameters(function.name);
  for (const std::string_view of : {"at::", "c10::", "torch::", "std::", "__gnu_cxx::"}) {
    if (name.starts_with(of)) return true;
  }
  return false;
}

/// The last two parts of a path say which file it is.
std::string short_path(const std::string& path) {
  const std::filesystem::path whole = std::filesystem::path(path).lexically_normal();
  return (whole.parent_path().filename() / whole.filename()).string();
}

struct Calls final : Where {
  explicit Calls(std::vector<uintptr_t> of) : calls(std::move(of)) {}
  std::string text() const override { return text_of(calls); }
  std::vector<uintptr_t> calls;
};

}  // namespace

Owner owner_of(uintptr_t address) {
  const std::lock_guard guard(lock());
  static auto& parts = *new std::vector<Part>;
  const Part* part = part_of(parts, address);
  if (part == nullptr) {
    // A library that was loaded meanwhile.
    parts.clear();
    dl_iterate_phdr(add_parts, &parts);
    std::ranges::sort(parts, {}, &Part::begin);
    part = part_of(parts, address);
  }
  return part == nullptr ? Owner::others : part->owner;
}

std::vector<uintptr_t> calls_here() {
  std::vector<uintptr_t> calls;
  calls.reserve(64);
  _Unwind_Backtrace(add_call, &calls);
  return calls;
}

std::vector<uintptr_t> own_calls(const std::vector<uintptr_t>& calls, size_t most) {
  thread_local std::unordered_map<uintptr_t, bool> known;
  std::vector<uintptr_t> own;
  for (const uintptr_t call : calls) {
    const auto [at, fresh] = known.try_emplace(call);
    if (fresh) at->second = owner_of(call) == Owner::program;
    if (!at->second) continue;
    own.push_back(call);
    if (own.size() == most) break;
  }
  return own;
}

std::shared_ptr<const Where> place_of(const std::vector<uintptr_t>& own) {
  if (own.empty()) return nullptr;
  static auto& known = *new std::map<std::vector<uintptr_t>, std::shared_ptr<const Where>>;
  const std::lock_guard guard(lock());
  auto& place = known[own];
  if (place == nullptr) place = std::make_shared<Calls>(own);
  return place;
}

bool in_wrapper(uintptr_t address) {
  const std::lock_guard guard(lock());
  const std::vector<Function>& functions = functions_at(address);
  return !functions.empty() && std::ranges::all_of(functions, is_wrapper);
}

std::string text_of(const std::vector<uintptr_t>& own) {
  const std::lock_guard guard(lock());
  std::vector<std::string> shown;
  for (const uintptr_t call : own) {
    for (const Function& function : functions_at(call)) {
      if (is_wrapper(function)) continue;
      std::string text = without_parameters(function.name);
      if (function.line > 0) text += " (" + short_path(function.file) + ":" + std::to_string(function.line) + ")";
      if (shown.empty() || shown.back() != text) shown.push_back(text);
    }
    if (shown.size() >= kCallsShown) break;
  }
  if (shown.empty()) return "";
  std::string text = shown.front();
  for (size_t i = 1; i < std::min(shown.size(), kCallsShown); ++i) text += ", called by " + shown[i];
  return text;
}

std::string demangled(const char* name) {
  int status = 0;
  char* const text = abi::__cxa_demangle(name, nullptr, nullptr, &status);
  std::string readable = status == 0 ? text : name;
  std::free(text);
  return readable;
}

}  // namespace tenfold::dry
