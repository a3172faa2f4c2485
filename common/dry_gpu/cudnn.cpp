// cuDNN: the backend's descriptors keep what is set on them, and one engine without a workspace does everything. How
// much workspace cuDNN's engines would take is not known: what is counted with them is "at least".

#include <cudnn.h>

#include <cstring>

#include "common/dry_gpu/state.h"

struct cudnnContext {
  cudaStream_t stream = nullptr;
};

namespace tenfold::dry {
namespace {

struct Backend {
  cudnnBackendDescriptorType_t type;
  bool finished = false;
  std::map<int, std::pair<int64_t, std::vector<char>>> attributes;  ///< how many, and their bytes
};

size_t size_of(cudnnBackendAttributeType_t type) {
  switch (type) {
    case CUDNN_TYPE_HANDLE:
    case CUDNN_TYPE_VOID_PTR:
    case CUDNN_TYPE_BACKEND_DESCRIPTOR:
    case CUDNN_TYPE_INT64:
    case CUDNN_TYPE_DOUBLE:
      return 8;
    case CUDNN_TYPE_BOOLEAN:
    case CUDNN_TYPE_CHAR:
      return 1;
    case CUDNN_TYPE_FRACTION:
      return 16;
    default:
      return 4;  // its enumerations, int32_t, float
  }
}

cudnnStatus_t launch(cudnnHandle_t handle, const char* name) {
  if (handle == nullptr) return CUDNN_STATUS_NOT_INITIALIZED;
  {
    const std::lock_guard guard(state().lock);
    ++state().counts.unknown_workspaces;
  }
  return launched(name, handle->stream) == cudaSuccess ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_EXECUTION_FAILED;
}

/// A descriptor of the older interface, whose contents nobody asks for.
struct Description {
  int kind = 0;
};

template <class Handle>
cudnnStatus_t make(Handle* handle) {
  *handle = reinterpret_cast<Handle>(new Description);
  return CUDNN_STATUS_SUCCESS;
}

template <class Handle>
cudnnStatus_t forget(Handle handle) {
  delete reinterpret_cast<Description*>(handle);
  return CUDNN_STATUS_SUCCESS;
}

}  // namespace

extern "C" {

size_t cudnnGetVersion() { return CUDNN_VERSION; }
size_t cudnnGetCudartVersion() { return 13000; }

cudnnStatus_t cudnnGetProperty(libraryPropertyType type, int* value) {
  *value = type == MAJOR_VERSION ? CUDNN_MAJOR : type == MINOR_VERSION ? CUDNN_MINOR : CUDNN_PATCHLEVEL;
  return CUDNN_STATUS_SUCCESS;
}

const char* cudnnGetErrorString(cudnnStatus_t status) {
  return status == CUDNN_STATUS_SUCCESS         ? "CUDNN_STATUS_SUCCESS"
         : status == CUDNN_STATUS_NOT_SUPPORTED ? "CUDNN_STATUS_NOT_SUPPORTED (dry GPU)"
                                                : "CUDNN_STATUS (dry GPU)";
}

void cudnnGetLastErrorString(char* text, size_t size) {
  if (size > 0) *text = '\0';
}

cudnnStatus_t cudnnCreate(cudnnHandle_t* handle) {
  *handle = new cudnnContext;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) {
  delete handle;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
  handle->stream = stream;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetStream(cudnnHandle_t handle, cudaStream_t* stream) {
  *stream = handle->stream;
  return CUDNN_STATUS_SUCCESS;
}

// --- the backend: convolutions
// ----------------------------------------------------------------------------------------

cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type, cudnnBackendDescriptor_t* of) {
  *of = reinterpret_cast<cudnnBackendDescriptor_t>(new Backend{type});
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t of) {
  delete reinterpret_cast<Backend*>(of);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t of) {
  reinterpret_cast<Backend*>(of)->finished = true;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t of, cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t count, const void* values) {
  auto* const backend = reinterpret_cast<Backend*>(of);
  if (backend->finished) return CUDNN_STATUS_NOT_INITIALIZED;
  const char* const bytes = static_cast<const char*>(values);
  backend->attributes[name] = {count, std::vector<char>(bytes, bytes + static_cast<size_t>(count) * size_of(type))};
  return CUDNN_STATUS_SUCCESS;
}

// What was not set is one zero: one engine, of number 0, that needs a workspace of 0 bytes.
cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t of, cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t wanted, int64_t* count, void* values) {
  const auto* const backend = reinterpret_cast<const Backend*>(of);
  const auto set = backend->attributes.find(name);
  const int64_t known = set == backend->attributes.end() ? 1 : set->second.first;
  if (count != nullptr) *count = known;
  if (values == nullptr || wanted <= 0 || type == CUDNN_TYPE_BACKEND_DESCRIPTOR) return CUDNN_STATUS_SUCCESS;
  const size_t bytes = static_cast<size_t>(std::min(known, wanted)) * size_of(type);
  if (set == backend->attributes.end()) {
    std::memset(values, 0, bytes);
  } else {
    std::memcpy(values, set->second.second.data(), bytes);
  }
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t, cudnnBackendDescriptor_t) {
  return launch(handle, "cudnnBackendExecute");
}

// --- batch norm, and the descriptors that it takes
// ----------------------------------------------------------------------

cudnnStatus_t cudnnCreateTensorDescriptor(cudnnTensorDescriptor_t* of) { return make(of); }
cudnnStatus_t cudnnDestroyTensorDescriptor(cudnnTensorDescriptor_t of) { return forget(of); }
cudnnStatus_t cudnnSetTensorNdDescriptor(cudnnTensorDescriptor_t, cudnnDataType_t, int, const int*, const int*) {
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnCreateFilterDescriptor(cudnnFilterDescriptor_t* of) { return make(of); }
cudnnStatus_t cudnnDestroyFilterDescriptor(cudnnFilterDescriptor_t of) { return forget(of); }
cudnnStatus_t cudnnSetFilterNdDescriptor(cudnnFilterDescriptor_t, cudnnDataType_t, cudnnTensorFormat_t, int,
                                         const int*) {
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnCreateActivationDescriptor(cudnnActivationDescriptor_t* of) { return make(of); }
cudnnStatus_t cudnnDestroyActivationDescriptor(cudnnActivationDescriptor_t of) { return forget(of); }
cudnnStatus_t cudnnSetActivationDescriptor(cudnnActivationDescriptor_t, cudnnActivationMode_t, cudnnNanPropagation_t,
                                           double) {
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetBatchNormalizationForwardTrainingExWorkspaceSize(
    cudnnHandle_t, cudnnBatchNormMode_t, cudnnBatchNormOps_t, const cudnnTensorDescriptor_t,
    const cudnnTensorDescriptor_t, const cudnnTensorDescriptor_t, const cudnnTensorDescriptor_t,
    const cudnnActivationDescriptor_t, size_t* bytes) {
  *bytes = 0;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetBatchNormalizationBackwardExWorkspaceSize(
    cudnnHandle_t, cudnnBatchNormMode_t, cudnnBatchNormOps_t, const cudnnTensorDescriptor_t,
    const cudnnTensorDescriptor_t, const cudnnTensorDescriptor_t, const cudnnTensorDescriptor_t,
    const cudnnTensorDescriptor_t, const cudnnTensorDescriptor_t, const cudnnActivationDescriptor_t, size_t* bytes) {
  *bytes = 0;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetBatchNormalizationTrainingExReserveSpaceSize(cudnnHandle_t, cudnnBatchNormMode_t,
                                                                   cudnnBatchNormOps_t,
                                                                   const cudnnActivationDescriptor_t,
                                                                   const cudnnTensorDescriptor_t, size_t* bytes) {
  *bytes = 0;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBatchNormalizationForwardTrainingEx(cudnnHandle_t handle, cudnnBatchNormMode_t, cudnnBatchNormOps_t,
                                                       const void*, const void*, const cudnnTensorDescriptor_t,
                                                       const void*, const cudnnTensorDescriptor_t, const void*,
                                                       const cudnnTensorDescriptor_t, void*,
                                                       const cudnnTensorDescriptor_t, const void*, const void*, double,
                                                       void*, void*, double, void*, void*, cudnnActivationDescriptor_t,
                                                       void*, size_t, void*, size_t) {
  return launch(handle, "cudnnBatchNormalizationForwardTrainingEx");
}

cudnnStatus_t cudnnBatchNormalizationForwardInference(cudnnHandle_t handle, cudnnBatchNormMode_t, const void*,
                                                      const void*, const cudnnTensorDescriptor_t, const void*,
                                                      const cudnnTensorDescriptor_t, void*,
                                                      const cudnnTensorDescriptor_t, const void*, const void*,
                                                      const void*, const void*, double) {
  return launch(handle, "cudnnBatchNormalizationForwardInference");
}

cudnnStatus_t cudnnBatchNormalizationBackwardEx(
    cudnnHandle_t handle, cudnnBatchNormMode_t, cudnnBatchNormOps_t, const void*, const void*, const void*, const void*,
    const cudnnTensorDescriptor_t, const void*, const cudnnTensorDescriptor_t, const void*,
    const cudnnTensorDescriptor_t, const void*, const cudnnTensorDescriptor_t, void*, const cudnnTensorDescriptor_t,
    void*, const cudnnTensorDescriptor_t, const void*, const void*, void*, void*, double, const void*, const void*,
    cudnnActivationDescriptor_t, void*, size_t, void*, size_t) {
  return launch(handle, "cudnnBatchNormalizationBackwardEx");
}

// --- the CTC loss
// -----------------------------------------------------------------------------------------------------

cudnnStatus_t cudnnCreateCTCLossDescriptor(cudnnCTCLossDescriptor_t* of) { return make(of); }
cudnnStatus_t cudnnDestroyCTCLossDescriptor(cudnnCTCLossDescriptor_t of) { return forget(of); }
cudnnStatus_t cudnnSetCTCLossDescriptorEx(cudnnCTCLossDescriptor_t, cudnnDataType_t, cudnnLossNormalizationMode_t,
                                          cudnnNanPropagation_t) {
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetCTCLossDescriptor_v9(cudnnCTCLossDescriptor_t, cudnnDataType_t, cudnnLossNormalizationMode_t,
                                           cudnnCTCGradMode_t, int) {
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetCTCLossWorkspaceSize(cudnnHandle_t, const cudnnTensorDescriptor_t, const cudnnTensorDescriptor_t,
                                           const int*, const int*, const int*, cudnnCTCLossAlgo_t,
                                           cudnnCTCLossDescriptor_t, size_t* bytes) {
  *bytes = 0;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetCTCLossWorkspaceSize_v8(cudnnHandle_t, cudnnCTCLossAlgo_t, cudnnCTCLossDescriptor_t,
                                              const cudnnTensorDescriptor_t, const cudnnTensorDescriptor_t,
                                              size_t* bytes) {
  *bytes = 0;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnCTCLoss(cudnnHandle_t handle, const cudnnTensorDescriptor_t, const void*, const int*, const int*,
                           const int*, void*, const cudnnTensorDescriptor_t, void*, cudnnCTCLossAlgo_t,
                           cudnnCTCLossDescriptor_t, void*, size_t) {
  return launch(handle, "cudnnCTCLoss");
}

cudnnStatus_t cudnnCTCLoss_v8(cudnnHandle_t handle, cudnnCTCLossAlgo_t, cudnnCTCLossDescriptor_t,
                              const cudnnTensorDescriptor_t, const void*, const int*, const int*, const int*, void*,
                              const cudnnTensorDescriptor_t, void*, size_t, void*) {
  return launch(handle, "cudnnCTCLoss_v8");
}
}

}  // namespace tenfold::dry
