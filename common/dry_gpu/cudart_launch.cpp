// CUDA's runtime: kernels. They are known by name, checked against the card's limits, counted, and do nothing.

#include <algorithm>
#include <cstring>

#include "common/dry_gpu/places.h"
#include "common/dry_gpu/races.h"

namespace tenfold::dry {
namespace {

// What a compiler would have said of a kernel is not known here.
constexpr int kRegisters = 32;
constexpr int kThreads = 1024;
constexpr int kUsualShared = 48 << 10;

struct Configuration {
  dim3 grid, block;
  size_t shared = 0;
  cudaStream_t stream = nullptr;
};
thread_local std::vector<Configuration> configurations;

const Card& card_here() { return *state().devices[static_cast<size_t>(current_device())].card; }

/// The kernel's name with its template's arguments, without what it takes. LibTorch has tens of thousands: only those
/// that are launched are read.
const std::string& readable(const char* mangled) {
  static auto* const known = new std::unordered_map<const char*, std::string>;
  std::string& name = (*known)[mangled];
  if (!name.empty()) return name;
  name = demangled(mangled);
  size_t depth = 0;
  for (size_t i = 0; i < name.size(); ++i) {
    if (name[i] == '<') ++depth;
    if (name[i] == '>' && depth > 0) --depth;
    if (name[i] == '(' && depth == 0 && name.compare(i, 21, "(anonymous namespace)") != 0) {
      name.resize(i);
      break;
    }
  }
  if (name.starts_with("void ")) name.erase(0, 5);
  return name;
}

/// Of each parameter of a kernel whether it is a pointer, and to what.
enum class Parameter { value, to_const, to_variable };

std::vector<Parameter> parameters_of(const char* mangled) {
  const std::string name = demangled(mangled);
  std::vector<Parameter> parameters;
  if (!name.ends_with(')')) return parameters;
  // From the last parenthesis back to the one that it closes; what a type has in brackets is its own.
  std::string type;
  int depth = 0;
  const auto add = [&] {
    while (!type.empty() && (type.back() == ' ' || type.ends_with("__restrict")))
      type.resize(type.size() - (type.back() == ' ' ? 1 : 10));
    const bool pointer = type.ends_with('*');
    parameters.push_back(!pointer                   ? Parameter::value
                         : type.ends_with("const*") ? Parameter::to_const
                                                    : Parameter::to_variable);
    type.clear();
  };
  for (size_t i = name.size(); i-- > 0;) {
    const char c = name[i];
    if (c == ')' || c == '>') ++depth;
    if (c == '(' || c == '<') --depth;
    if (depth == 0 || (depth == 1 && c == ',')) {
      std::ranges::reverse(type);
      add();
      if (depth == 0) break;
    } else if (depth > 1 || c != ')') {
      type += c;
    }
  }
  std::ranges::reverse(parameters);
  return parameters;
}

/// What a kernel of the program's own uses: of each pointer that it is handed, the byte that it points to. How many
/// more is not known.
std::vector<Access> accesses_of(const char* mangled, void** arguments) {
  static auto* const known = new std::unordered_map<const char*, std::vector<Parameter>>;
  const auto [at, fresh] = known->try_emplace(mangled);
  if (fresh) at->second = parameters_of(mangled);
  std::vector<Access> accesses;
  for (size_t i = 0; i < at->second.size() && arguments != nullptr; ++i) {
    if (at->second[i] == Parameter::value) continue;
    const auto address = *static_cast<const uintptr_t*>(arguments[i]);
    if (block_of(reinterpret_cast<const void*>(address)) == nullptr) continue;
    accesses.push_back({{.begin = address, .end = address + 1}, at->second[i] == Parameter::to_variable});
  }
  return accesses;
}

cudaError_t check(const dim3& grid, const dim3& block, size_t shared, const void* kernel) {
  if (grid.x == 0 || grid.y == 0 || grid.z == 0 || block.x == 0 || block.y == 0 || block.z == 0 || grid.y > 65535 ||
      grid.z > 65535 || grid.x > 2147483647U || block.x > 1024 || block.y > 1024 || block.z > 64 ||
      size_t{block.x} * block.y * block.z > kThreads)
    return cudaErrorInvalidConfiguration;
  const auto raised = state().most_dynamic_shared.find(kernel);
  const int most = raised == state().most_dynamic_shared.end() ? kUsualShared : std::max(kUsualShared, raised->second);
  return shared > static_cast<size_t>(most) ? cudaErrorInvalidValue : cudaSuccess;
}

cudaError_t launch(const void* kernel, const dim3& grid, const dim3& block, void** arguments, size_t shared,
                   cudaStream_t stream) {
  std::string name;
  std::vector<Access> accesses;
  {
    const std::lock_guard guard(state().lock);
    const Stream* const on = stream_of(stream);
    if (on == nullptr || on->device != current_device()) return fail(cudaErrorInvalidResourceHandle);
    const auto known = state().kernels.find(kernel);
    if (known == state().kernels.end()) return fail(cudaErrorInvalidDeviceFunction);
    if (const cudaError_t error = check(grid, block, shared, kernel); error != cudaSuccess) return fail(error);
    name = readable(known->second);
    // LibTorch's operators say more of what their kernels use.
    if (follows_order() && !is_using()) accesses = accesses_of(known->second, arguments);
  }
  return launched(name, stream, std::move(accesses));
}

int blocks_of_an_sm(int threads, size_t shared) {
  const Card& card = card_here();
  if (threads <= 0 || threads > kThreads) return 0;
  const int warps = (threads + 31) / 32;
  int blocks = std::min({card.most_blocks, card.most_threads / (warps * 32), 65536 / (kRegisters * warps * 32)});
  const int64_t bytes = static_cast<int64_t>(shared) + (card.major >= 8 ? 1024 : 0);
  if (bytes > 0) blocks = std::min(blocks, static_cast<int>(card.shared_bytes / bytes));
  return blocks;
}

}  // namespace

extern "C" {

void** __cudaRegisterFatBinary(void*) {
  static void* handle = nullptr;
  return &handle;
}

void __cudaRegisterFatBinaryEnd(void**) {}
void __cudaUnregisterFatBinary(void**) {}
char __cudaInitModule(void**) { return 1; }

void __cudaRegisterFunction(void**, const char* host, char*, const char* name, int, uint3*, uint3*, dim3*, dim3*,
                            int*) {
  const std::lock_guard guard(state().lock);
  state().kernels[host] = name;
}

void __cudaRegisterVar(void**, char* host, char*, const char*, int, size_t bytes, int, int) {
  const std::lock_guard guard(state().lock);
  state().symbols[host] = {bytes, nullptr};
}

unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, cudaStream_t stream) {
  configurations.push_back({grid, block, shared, stream});
  return 0;
}

cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, size_t* shared, void* stream) {
  if (configurations.empty()) return fail(cudaErrorMissingConfiguration);
  const Configuration top = configurations.back();
  configurations.pop_back();
  *grid = top.grid;
  *block = top.block;
  *shared = top.shared;
  *static_cast<cudaStream_t*>(stream) = top.stream;
  return cudaSuccess;
}

cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* host) {
  *kernel = reinterpret_cast<cudaKernel_t>(const_cast<void*>(host));
  return cudaSuccess;
}

cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void** arguments, size_t shared,
                               cudaStream_t stream) {
  return launch(kernel, grid, block, arguments, shared, stream);
}

cudaError_t cudaLaunchKernel(const void* kernel, dim3 grid, dim3 block, void** arguments, size_t shared,
                             cudaStream_t stream) {
  return launch(kernel, grid, block, arguments, shared, stream);
}

cudaError_t cudaLaunchCooperativeKernel(const void* kernel, dim3 grid, dim3 block, void** arguments, size_t shared,
                                        cudaStream_t stream) {
  const size_t blocks = size_t{grid.x} * grid.y * grid.z;
  const int fit = blocks_of_an_sm(static_cast<int>(block.x * block.y * block.z), shared);
  if (blocks > static_cast<size_t>(fit) * static_cast<size_t>(card_here().sms))
    return fail(cudaErrorCooperativeLaunchTooLarge);
  return launch(kernel, grid, block, arguments, shared, stream);
}

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* with, const void* kernel, void** arguments) {
  return launch(kernel, with->gridDim, with->blockDim, arguments, with->dynamicSmemBytes, with->stream);
}

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void* kernel) {
  const std::lock_guard guard(state().lock);
  if (!state().kernels.contains(kernel)) return fail(cudaErrorInvalidDeviceFunction);
  std::memset(attributes, 0, sizeof *attributes);
  attributes->maxThreadsPerBlock = kThreads;
  // LibTorch's wheels have no code of 8.9, and a card of it runs that of 8.6 (torch.cuda.get_arch_list()). CUB finds
  // its tunings by this number, and refuses one that it was not compiled for.
  const int version = 10 * card_here().major + card_here().minor;
  attributes->binaryVersion = attributes->ptxVersion = version == 89 ? 86 : version;
  attributes->numRegs = kRegisters;
  const auto raised = state().most_dynamic_shared.find(kernel);
  attributes->maxDynamicSharedSizeBytes = raised == state().most_dynamic_shared.end() ? kUsualShared : raised->second;
  return cudaSuccess;
}

cudaError_t cudaFuncSetAttribute(const void* kernel, cudaFuncAttribute attribute, int value) {
  const std::lock_guard guard(state().lock);
  if (!state().kernels.contains(kernel)) return fail(cudaErrorInvalidDeviceFunction);
  if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize) return cudaSuccess;
  if (value < 0 || value > card_here().shared_bytes_of_block()) return fail(cudaErrorInvalidValue);
  state().most_dynamic_shared[kernel] = value;
  return cudaSuccess;
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, const void*, int threads, size_t shared,
                                                                   unsigned) {
  *blocks = blocks_of_an_sm(threads, shared);
  return cudaSuccess;
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void* kernel, int threads, size_t shared) {
  return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, kernel, threads, shared, 0);
}
}

}  // namespace tenfold::dry
