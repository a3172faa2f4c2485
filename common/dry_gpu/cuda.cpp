// CUDA's driver: contexts, virtual memory (LibTorch's expandable segments), modules and launches (Triton, NVRTC).

#include <cuda.h>
#include <sys/mman.h>

#include <cstring>

#include "common/dry_gpu/state.h"

namespace tenfold::dry {
namespace {

struct Module {
  std::map<std::string, std::unique_ptr<std::string>> functions;
};

/// Physical memory of a card that virtual addresses can be mapped to.
struct Physical {
  int device = 0;
  size_t bytes = 0;
  int references = 1;
};

CUcontext context_of(int device) { return reinterpret_cast<CUcontext>(static_cast<uintptr_t>(device) + 1); }

int device_of(CUcontext context) { return static_cast<int>(reinterpret_cast<uintptr_t>(context)) - 1; }

CUresult result_of(cudaError_t error) {
  cudaGetLastError();  // the runtime's; the driver has none
  return static_cast<CUresult>(error);
}

void forget(Physical* memory) {
  if (--memory->references > 0) return;
  take(memory->device, -static_cast<int64_t>(memory->bytes));
  delete memory;
}

std::map<CUdeviceptr, std::pair<size_t, Physical*>>& mapped() {
  static auto* const all = new std::map<CUdeviceptr, std::pair<size_t, Physical*>>;
  return *all;
}

}  // namespace

extern "C" {

CUresult cuInit(unsigned flags) { return flags == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE; }

CUresult cuDriverGetVersion(int* version) { return result_of(cudaDriverGetVersion(version)); }

CUresult cuGetErrorString(CUresult error, const char** text) {
  *text = cudaGetErrorString(static_cast<cudaError_t>(error));
  return CUDA_SUCCESS;
}

CUresult cuGetErrorName(CUresult error, const char** text) {
  *text = cudaGetErrorName(static_cast<cudaError_t>(error));
  return CUDA_SUCCESS;
}

CUresult cuDeviceGet(CUdevice* device, int ordinal) {
  *device = ordinal;
  return ordinal >= 0 && ordinal < static_cast<int>(state().devices.size()) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

CUresult cuDeviceGetCount(int* count) {
  *count = static_cast<int>(state().devices.size());
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetName(char* name, int length, CUdevice device) {
  cudaDeviceProp properties;
  const cudaError_t error = cudaGetDeviceProperties(&properties, device);
  if (error == cudaSuccess) std::snprintf(name, static_cast<size_t>(length), "%s", properties.name);
  return result_of(error);
}

CUresult cuDeviceGetUuid(CUuuid* uuid, CUdevice device) {
  cudaDeviceProp properties;
  const cudaError_t error = cudaGetDeviceProperties(&properties, device);
  if (error == cudaSuccess) *uuid = properties.uuid;
  return result_of(error);
}

CUresult cuDeviceTotalMem(size_t* bytes, CUdevice device) {
  cudaDeviceProp properties;
  const cudaError_t error = cudaGetDeviceProperties(&properties, device);
  if (error == cudaSuccess) *bytes = properties.totalGlobalMem;
  return result_of(error);
}

// The driver's attributes have the runtime's numbers.
CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice device) {
  switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED:
      *value = 1;
      return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED:
      *value = 0;
      return CUDA_SUCCESS;
    default:
      return result_of(cudaDeviceGetAttribute(value, static_cast<cudaDeviceAttr>(attribute), device));
  }
}

CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  *context = context_of(device);
  return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRelease(CUdevice) { return CUDA_SUCCESS; }

CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned* flags, int* active) {
  *flags = 0;
  *active = device >= 0 && device < static_cast<int>(state().devices.size());
  return CUDA_SUCCESS;
}

CUresult cuCtxGetCurrent(CUcontext* context) {
  *context = context_of(current_device());
  return CUDA_SUCCESS;
}

CUresult cuCtxSetCurrent(CUcontext context) {
  return context == nullptr ? CUDA_SUCCESS : result_of(set_current_device(device_of(context)));
}

CUresult cuCtxGetDevice(CUdevice* device) {
  *device = current_device();
  return CUDA_SUCCESS;
}

CUresult cuCtxSynchronize() { return result_of(cudaDeviceSynchronize()); }

CUresult cuPointerGetAttribute(void* value, CUpointer_attribute attribute, CUdeviceptr address) {
  cudaPointerAttributes of;
  cudaPointerGetAttributes(&of, reinterpret_cast<void*>(address));
  const bool known = of.type == cudaMemoryTypeDevice || of.type == cudaMemoryTypeHost;
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
      *static_cast<CUdeviceptr*>(value) = address;
      return known ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      *static_cast<int*>(value) = of.device;
      return known ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
      *static_cast<unsigned*>(value) = of.type == cudaMemoryTypeDevice ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
      return known ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    default:
      refuse("cuPointerGetAttribute");
      return CUDA_ERROR_NOT_SUPPORTED;
  }
}

// --- virtual memory: addresses first, memory of the card behind them later
// --------------------------------------------

CUresult cuMemGetAllocationGranularity(size_t* bytes, const CUmemAllocationProp*, CUmemAllocationGranularity_flags) {
  *bytes = size_t{2} << 20;
  return CUDA_SUCCESS;
}

CUresult cuMemAddressReserve(CUdeviceptr* address, size_t bytes, size_t, CUdeviceptr, unsigned long long) {
  void* const memory = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  *address = reinterpret_cast<CUdeviceptr>(memory);
  return memory == MAP_FAILED ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

CUresult cuMemAddressFree(CUdeviceptr address, size_t bytes) {
  return munmap(reinterpret_cast<void*>(address), bytes) == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemCreate(CUmemGenericAllocationHandle* handle, size_t bytes, const CUmemAllocationProp* of,
                     unsigned long long) {
  if (bytes == 0 || bytes % (size_t{2} << 20) != 0) return CUDA_ERROR_INVALID_VALUE;
  if (!take(of->location.id, static_cast<int64_t>(bytes))) return CUDA_ERROR_OUT_OF_MEMORY;
  *handle = reinterpret_cast<CUmemGenericAllocationHandle>(new Physical{.device = of->location.id, .bytes = bytes});
  const std::lock_guard guard(state().lock);
  ++state().counts.allocations;
  return CUDA_SUCCESS;
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
  const std::lock_guard guard(state().lock);
  forget(reinterpret_cast<Physical*>(handle));
  return CUDA_SUCCESS;
}

CUresult cuMemMap(CUdeviceptr address, size_t bytes, size_t, CUmemGenericAllocationHandle handle, unsigned long long) {
  const std::lock_guard guard(state().lock);
  auto* const memory = reinterpret_cast<Physical*>(handle);
  if (bytes > memory->bytes) return CUDA_ERROR_INVALID_VALUE;
  ++memory->references;
  mapped()[address] = {bytes, memory};
  state().blocks[reinterpret_cast<char*>(address)] = {memory->device, bytes, bytes};
  return CUDA_SUCCESS;
}

CUresult cuMemSetAccess(CUdeviceptr address, size_t bytes, const CUmemAccessDesc*, size_t) {
  // As for what cudaMalloc hands out: a page of 2 MiB for a value of 4 bytes would be RAM that nobody asked for.
  madvise(reinterpret_cast<void*>(address), bytes, MADV_NOHUGEPAGE);
  return mprotect(reinterpret_cast<void*>(address), bytes, PROT_READ | PROT_WRITE) == 0 ? CUDA_SUCCESS
                                                                                        : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemUnmap(CUdeviceptr address, size_t bytes) {
  run_device(-1);
  const std::lock_guard guard(state().lock);
  for (auto at = mapped().lower_bound(address); at != mapped().end() && at->first < address + bytes;) {
    state().blocks.erase(reinterpret_cast<char*>(at->first));
    forget(at->second.second);
    at = mapped().erase(at);
    ++state().counts.frees;
  }
  if (state().ordering != nullptr) state().ordering->gone({.begin = address, .end = address + bytes});
  // What was there is gone; the addresses stay reserved.
  void* const again = mmap(reinterpret_cast<void*>(address), bytes, PROT_NONE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  return again == MAP_FAILED ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

// --- modules: machine code that is loaded as bytes, and named
// ----------------------------------------------------------

CUresult cuModuleLoadData(CUmodule* module, const void*) {
  *module = reinterpret_cast<CUmodule>(new Module);
  return CUDA_SUCCESS;
}

CUresult cuModuleLoadDataEx(CUmodule* module, const void* image, unsigned, CUjit_option*, void**) {
  return cuModuleLoadData(module, image);
}

CUresult cuModuleLoad(CUmodule* module, const char*) { return cuModuleLoadData(module, nullptr); }

CUresult cuModuleUnload(CUmodule module) {
  delete reinterpret_cast<Module*>(module);
  return CUDA_SUCCESS;
}

CUresult cuModuleGetFunction(CUfunction* function, CUmodule module, const char* name) {
  auto& known = reinterpret_cast<Module*>(module)->functions[name];
  if (known == nullptr) known = std::make_unique<std::string>(name);
  *function = reinterpret_cast<CUfunction>(known.get());
  return CUDA_SUCCESS;
}

CUresult cuFuncGetAttribute(int* value, CUfunction_attribute attribute, CUfunction) {
  *value = attribute == CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK ? 1024
           : attribute == CU_FUNC_ATTRIBUTE_NUM_REGS            ? 32
                                                                : 0;
  return CUDA_SUCCESS;
}

CUresult cuFuncSetAttribute(CUfunction, CUfunction_attribute, int) { return CUDA_SUCCESS; }
CUresult cuFuncSetCacheConfig(CUfunction, CUfunc_cache) { return CUDA_SUCCESS; }

CUresult cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                        unsigned block_y, unsigned block_z, unsigned, CUstream stream, void**, void**) {
  const size_t threads = size_t{block_x} * block_y * block_z;
  if (grid_x == 0 || grid_y == 0 || grid_z == 0 || threads == 0 || threads > 1024) return CUDA_ERROR_INVALID_VALUE;
  return result_of(launched(*reinterpret_cast<const std::string*>(function), stream));
}

CUresult cuLaunchKernelEx(const CUlaunchConfig* with, CUfunction function, void** arguments, void** extra) {
  return cuLaunchKernel(function, with->gridDimX, with->gridDimY, with->gridDimZ, with->blockDimX, with->blockDimY,
                        with->blockDimZ, with->sharedMemBytes, with->hStream, arguments, extra);
}

CUresult cuLaunchCooperativeKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                                   unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared,
                                   CUstream stream, void** arguments) {
  return cuLaunchKernel(function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared, stream, arguments,
                        nullptr);
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, CUfunction, int threads, size_t shared) {
  return result_of(cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, nullptr, threads, shared, 0));
}
}

}  // namespace tenfold::dry
