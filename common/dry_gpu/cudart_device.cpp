// CUDA's runtime: devices and what they are.

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "common/dry_gpu/races.h"

namespace tenfold::dry {
namespace {

constexpr int kVersion = 13000;  // of the runtime and of the driver that there would be

const Card& card_of(int device) { return *state().devices[static_cast<size_t>(device)].card; }

bool is_device(int device) { return device >= 0 && device < static_cast<int>(state().devices.size()); }

/// Another one for each device, and the same in each process.
cudaUUID_t uuid_of(int device) {
  cudaUUID_t uuid{};
  std::snprintf(uuid.bytes, sizeof uuid.bytes, "dry-%s", card_of(device).key.c_str());
  uuid.bytes[15] = static_cast<char>(state().devices[static_cast<size_t>(device)].number);
  return uuid;
}

int attribute_of(const Card& card, cudaDeviceAttr attribute, bool& known) {
  switch (attribute) {
    case cudaDevAttrMaxThreadsPerBlock:
    case cudaDevAttrMaxBlockDimX:
    case cudaDevAttrMaxBlockDimY:
      return 1024;
    case cudaDevAttrMaxBlockDimZ:
      return 64;
    case cudaDevAttrMaxGridDimX:
      return 2147483647;
    case cudaDevAttrMaxGridDimY:
    case cudaDevAttrMaxGridDimZ:
      return 65535;
    case cudaDevAttrWarpSize:
      return 32;
    case cudaDevAttrMaxSharedMemoryPerBlock:
      return 48 << 10;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      return static_cast<int>(card.shared_bytes_of_block());
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor:
      return static_cast<int>(card.shared_bytes);
    case cudaDevAttrReservedSharedMemoryPerBlock:
      return card.major >= 8 ? 1024 : 0;
    case cudaDevAttrTotalConstantMemory:
      return 64 << 10;
    case cudaDevAttrMaxRegistersPerBlock:
    case cudaDevAttrMaxRegistersPerMultiprocessor:
      return 65536;
    case cudaDevAttrMultiProcessorCount:
      return card.sms;
    case cudaDevAttrMaxThreadsPerMultiProcessor:
      return card.most_threads;
    case cudaDevAttrMaxBlocksPerMultiprocessor:
      return card.most_blocks;
    case cudaDevAttrComputeCapabilityMajor:
      return card.major;
    case cudaDevAttrComputeCapabilityMinor:
      return card.minor;
    case cudaDevAttrL2CacheSize:
      return static_cast<int>(card.l2_bytes);
    case cudaDevAttrGlobalMemoryBusWidth:
      return card.bus_bits;
    case cudaDevAttrClockRate:
      return card.clock_khz;
    case cudaDevAttrMemoryClockRate:
      return card.memory_clock_khz;
    case cudaDevAttrAsyncEngineCount:
      return card.copy_engines;
    case cudaDevAttrUnifiedAddressing:
    case cudaDevAttrConcurrentKernels:
    case cudaDevAttrCanMapHostMemory:
    case cudaDevAttrHostRegisterSupported:
    case cudaDevAttrStreamPrioritiesSupported:
    case cudaDevAttrMemoryPoolsSupported:
    case cudaDevAttrCooperativeLaunch:
      return 1;
    case cudaDevAttrIntegrated:
    case cudaDevAttrPciBusId:
    case cudaDevAttrPciDeviceId:
    case cudaDevAttrPciDomainId:
    case cudaDevAttrManagedMemory:
    case cudaDevAttrConcurrentManagedAccess:
    case cudaDevAttrPageableMemoryAccess:
    case cudaDevAttrComputeMode:
    case cudaDevAttrTccDriver:
      return 0;
    default:
      known = false;
      return 0;
  }
}

}  // namespace

extern "C" {

cudaError_t cudaGetDeviceCount(int* count) {
  announce();
  *count = static_cast<int>(state().devices.size());
  return *count > 0 ? cudaSuccess : fail(cudaErrorNoDevice);
}

cudaError_t cudaGetDevice(int* device) {
  *device = current_device();
  return cudaSuccess;
}

cudaError_t cudaSetDevice(int device) { return set_current_device(device); }

cudaError_t cudaDriverGetVersion(int* version) {
  *version = kVersion;
  return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = kVersion;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* of, int device) {
  announce();
  if (!is_device(device)) return fail(cudaErrorInvalidDevice);
  const Card& card = card_of(device);
  std::memset(of, 0, sizeof *of);
  std::snprintf(of->name, sizeof of->name, "%s", card.name.c_str());
  of->uuid = uuid_of(device);
  of->totalGlobalMem = static_cast<size_t>(card.memory_bytes);
  of->sharedMemPerBlock = 48 << 10;
  of->sharedMemPerBlockOptin = static_cast<size_t>(card.shared_bytes_of_block());
  of->sharedMemPerMultiprocessor = static_cast<size_t>(card.shared_bytes);
  of->reservedSharedMemPerBlock = card.major >= 8 ? 1024 : 0;
  of->regsPerBlock = of->regsPerMultiprocessor = 65536;
  of->warpSize = 32;
  of->memPitch = 2147483647;
  of->maxThreadsPerBlock = of->maxThreadsDim[0] = of->maxThreadsDim[1] = 1024;
  of->maxThreadsDim[2] = 64;
  of->maxGridSize[0] = 2147483647;
  of->maxGridSize[1] = of->maxGridSize[2] = 65535;
  of->totalConstMem = 64 << 10;
  of->major = card.major;
  of->minor = card.minor;
  of->textureAlignment = of->surfaceAlignment = 512;
  of->texturePitchAlignment = 32;
  of->multiProcessorCount = card.sms;
  of->maxThreadsPerMultiProcessor = card.most_threads;
  of->maxBlocksPerMultiProcessor = card.most_blocks;
  of->canMapHostMemory = of->hostRegisterSupported = of->canUseHostPointerForRegisteredMem = 1;
  of->concurrentKernels = of->streamPrioritiesSupported = of->cooperativeLaunch = of->unifiedAddressing = 1;
  of->globalL1CacheSupported = of->localL1CacheSupported = of->computePreemptionSupported = 1;
  of->memoryPoolsSupported = 1;
  of->asyncEngineCount = card.copy_engines;
  of->memoryBusWidth = card.bus_bits;
  of->l2CacheSize = static_cast<int>(card.l2_bytes);
  of->pciBusID = device + 1;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  announce();
  if (!is_device(device)) return fail(cudaErrorInvalidDevice);
  bool known = true;
  *value = attribute_of(card_of(device), attribute, known);
  if (attribute == cudaDevAttrPciBusId) *value = device + 1;
  if (!known) refuse(("cudaDeviceGetAttribute(" + std::to_string(attribute) + ")").c_str());
  return cudaSuccess;
}

cudaError_t cudaDeviceGetPCIBusId(char* text, int size, int device) {
  if (!is_device(device)) return fail(cudaErrorInvalidDevice);
  std::snprintf(text, static_cast<size_t>(size), "0000:%02x:00.0", device + 1);
  return cudaSuccess;
}

cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  const std::lock_guard guard(state().lock);
  const Device& device = state().devices[static_cast<size_t>(current_device())];
  *total = static_cast<size_t>(device.memory_bytes);
  *free = static_cast<size_t>(std::max<int64_t>(device.memory_bytes - device.used, 0));
  return cudaSuccess;
}

cudaError_t cudaDeviceSynchronize() {
  if (const cudaError_t error = forbidden_while_capturing(); error != cudaSuccess) return error;
  const LeftOut left_out = leaves_out_call("cudaDeviceSynchronize");
  if (left_out.now) return cudaSuccess;
  {
    const std::lock_guard guard(state().lock);
    ++state().counts.waits;
    if (follows_order()) note_host_waits_for_device(current_device(), left_out.without);
  }
  run_device(current_device());
  return cudaSuccess;
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  if (least != nullptr) *least = 0;
  if (greatest != nullptr) *greatest = -5;
  return cudaSuccess;
}

// Cards of one machine reach each other's memory: through NVLink or PCIe, which costs other times and no other bytes.
cudaError_t cudaDeviceCanAccessPeer(int* can, int device, int peer) {
  if (!is_device(device) || !is_device(peer)) return fail(cudaErrorInvalidDevice);
  *can = device != peer;
  return cudaSuccess;
}

cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned flags) {
  if (flags != 0) return fail(cudaErrorInvalidValue);
  return is_device(peer) && peer != current_device() ? cudaSuccess : fail(cudaErrorInvalidDevice);
}

cudaError_t cudaProfilerStart() { return cudaSuccess; }
cudaError_t cudaProfilerStop() { return cudaSuccess; }
}

}  // namespace tenfold::dry
