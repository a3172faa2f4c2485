// CUDA's runtime: what its errors are called ("CUDA Runtime API", enum cudaError).

#include <dlfcn.h>

#include "common/dry_gpu/state.h"

namespace tenfold::dry {
namespace {

struct Name {
  cudaError_t error;
  const char* name;
  const char* text;
};

#define TENFOLD_ERROR(name, text) \
  Name { name, #name, text }
constexpr Name kNames[] = {
    TENFOLD_ERROR(cudaSuccess, "no error"),
    TENFOLD_ERROR(cudaErrorInvalidValue, "invalid argument"),
    TENFOLD_ERROR(cudaErrorMemoryAllocation, "out of memory"),
    TENFOLD_ERROR(cudaErrorInvalidConfiguration, "invalid configuration argument"),
    TENFOLD_ERROR(cudaErrorInvalidPitchValue, "invalid pitch argument"),
    TENFOLD_ERROR(cudaErrorInvalidSymbol, "invalid device symbol"),
    TENFOLD_ERROR(cudaErrorMissingConfiguration, "__global__ function call is not configured"),
    TENFOLD_ERROR(cudaErrorInvalidDeviceFunction, "invalid device function"),
    TENFOLD_ERROR(cudaErrorNoDevice, "no CUDA-capable device is detected"),
    TENFOLD_ERROR(cudaErrorInvalidDevice, "invalid device ordinal"),
    TENFOLD_ERROR(cudaErrorOperatingSystem, "OS call failed or operation not supported on this OS"),
    TENFOLD_ERROR(cudaErrorInvalidResourceHandle, "invalid resource handle"),
    TENFOLD_ERROR(cudaErrorIllegalState, "the operation cannot be performed in the present state"),
    TENFOLD_ERROR(cudaErrorSymbolNotFound, "named symbol not found"),
    TENFOLD_ERROR(cudaErrorNotReady, "device not ready"),
    TENFOLD_ERROR(cudaErrorHostMemoryAlreadyRegistered, "part or all of the requested memory range is already mapped"),
    TENFOLD_ERROR(cudaErrorHostMemoryNotRegistered, "pointer does not correspond to a registered memory region"),
    TENFOLD_ERROR(cudaErrorCooperativeLaunchTooLarge, "too many blocks in cooperative launch"),
    TENFOLD_ERROR(cudaErrorNotSupported, "operation not supported"),
    TENFOLD_ERROR(cudaErrorStreamCaptureUnsupported, "operation not permitted when stream is capturing"),
    TENFOLD_ERROR(cudaErrorStreamCaptureInvalidated, "operation failed due to a previous error during capture"),
    TENFOLD_ERROR(cudaErrorStreamCaptureMerge, "operation would result in a merge of separate capture sequences"),
    TENFOLD_ERROR(cudaErrorStreamCaptureUnmatched, "capture was not ended in the same stream as it began"),
    TENFOLD_ERROR(cudaErrorStreamCaptureUnjoined, "capturing stream has unjoined work"),
    TENFOLD_ERROR(cudaErrorStreamCaptureIsolation, "dependency created on uncaptured work in another stream"),
    TENFOLD_ERROR(cudaErrorStreamCaptureImplicit, "operation would make the legacy stream depend on a capturing one"),
    TENFOLD_ERROR(cudaErrorCapturedEvent, "operation not permitted on an event last recorded in a capturing stream"),
    TENFOLD_ERROR(cudaErrorStreamCaptureWrongThread, "attempt to terminate a thread-local capture from another thread"),
};
#undef TENFOLD_ERROR

const Name* name_of(cudaError_t error) {
  for (const Name& name : kNames) {
    if (name.error == error) return &name;
  }
  return nullptr;
}

}  // namespace

extern "C" {

const char* cudaGetErrorName(cudaError_t error) {
  const Name* const name = name_of(error);
  return name == nullptr ? "unrecognized error code" : name->name;
}

const char* cudaGetErrorString(cudaError_t error) {
  const Name* const name = name_of(error);
  return name == nullptr ? "unrecognized error code" : name->text;
}

// The driver's functions, which LibTorch asks the runtime for by name.
cudaError_t cudaGetDriverEntryPointByVersion(const char* name, void** function, unsigned, unsigned long long,
                                             cudaDriverEntryPointQueryResult* result) {
  void* const driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
  *function = driver == nullptr ? nullptr : dlsym(driver, name);
  if (driver != nullptr) dlclose(driver);
  if (result != nullptr)
    *result = *function == nullptr ? cudaDriverEntryPointSymbolNotFound : cudaDriverEntryPointSuccess;
  if (*function == nullptr) refuse(name);
  return *function == nullptr ? fail(cudaErrorSymbolNotFound) : cudaSuccess;
}
}

}  // namespace tenfold::dry
