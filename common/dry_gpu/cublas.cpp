// cuBLAS: handles and what is set on them are kept; every product is one launch.

#include <cublas_v2.h>

#include "common/dry_gpu/state.h"

struct cublasContext {
  cudaStream_t stream = nullptr;
  cublasPointerMode_t pointer_mode = CUBLAS_POINTER_MODE_HOST;
  cublasMath_t math_mode = CUBLAS_DEFAULT_MATH;
  cublasAtomicsMode_t atomics = CUBLAS_ATOMICS_NOT_ALLOWED;
  int sms = 0;
};

namespace tenfold::dry {
namespace {

cublasStatus_t launch(cublasHandle_t handle, const char* name) {
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  return launched(name, handle->stream) == cudaSuccess ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED;
}

template <class Value>
cublasStatus_t get(cublasHandle_t handle, Value cublasContext::* member, Value* value) {
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  *value = handle->*member;
  return CUBLAS_STATUS_SUCCESS;
}

template <class Value>
cublasStatus_t set(cublasHandle_t handle, Value cublasContext::* member, Value value) {
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  handle->*member = value;
  return CUBLAS_STATUS_SUCCESS;
}

}  // namespace

extern "C" {

// A handle has memory of its own on a card, whose size is not documented and not counted.
cublasStatus_t cublasCreate(cublasHandle_t* handle) {
  *handle = new cublasContext;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasDestroy(cublasHandle_t handle) {
  delete handle;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasGetVersion(cublasHandle_t, int* version) {
  *version = 130000;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetStream(cublasHandle_t handle, cudaStream_t stream) {
  return set(handle, &cublasContext::stream, stream);
}
cublasStatus_t cublasGetStream(cublasHandle_t handle, cudaStream_t* stream) {
  return get(handle, &cublasContext::stream, stream);
}
cublasStatus_t cublasSetPointerMode(cublasHandle_t handle, cublasPointerMode_t mode) {
  return set(handle, &cublasContext::pointer_mode, mode);
}
cublasStatus_t cublasGetPointerMode(cublasHandle_t handle, cublasPointerMode_t* mode) {
  return get(handle, &cublasContext::pointer_mode, mode);
}
cublasStatus_t cublasSetMathMode(cublasHandle_t handle, cublasMath_t mode) {
  return set(handle, &cublasContext::math_mode, mode);
}
cublasStatus_t cublasGetMathMode(cublasHandle_t handle, cublasMath_t* mode) {
  return get(handle, &cublasContext::math_mode, mode);
}
cublasStatus_t cublasSetAtomicsMode(cublasHandle_t handle, cublasAtomicsMode_t mode) {
  return set(handle, &cublasContext::atomics, mode);
}
cublasStatus_t cublasGetAtomicsMode(cublasHandle_t handle, cublasAtomicsMode_t* mode) {
  return get(handle, &cublasContext::atomics, mode);
}
cublasStatus_t cublasSetSmCountTarget(cublasHandle_t handle, int sms) { return set(handle, &cublasContext::sms, sms); }
cublasStatus_t cublasGetSmCountTarget(cublasHandle_t handle, int* sms) { return get(handle, &cublasContext::sms, sms); }

// LibTorch hands in a workspace of its own allocator for each handle and stream.
cublasStatus_t cublasSetWorkspace(cublasHandle_t handle, void*, size_t) {
  return handle == nullptr ? CUBLAS_STATUS_NOT_INITIALIZED : CUBLAS_STATUS_SUCCESS;
}
}

// What computes is one launch, whatever it takes: stand_ins.py writes a function for each that LibTorch asks for.
extern "C" int tenfold_dry_launch_cublas(void* handle, const char* name) {
  return launch(static_cast<cublasHandle_t>(handle), name);
}

}  // namespace tenfold::dry
