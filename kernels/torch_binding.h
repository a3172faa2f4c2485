#pragma once
// What the kernels' LibTorch bindings share: which rows, which type, and where the launch goes.

#include <torch/torch.h>

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "common/microscope/device.h"
#include "kernels/dry_launch.h"

#ifdef TENFOLD_WITH_CUDA
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#endif

namespace tenfold::fused {

/// A tensor as the kernels see it: its last dimension is the row.
struct Shape {
  int64_t rows, columns;
};

// The checks read sizes as symbols, so that they hold for tensors of no size yet, too: torch.compile asks a kernel's
// function for the shapes of its results, with tensors on `meta`.

/// Throws c10::Error for a tensor of a type or on a device that no kernel takes; `name` is the operation's.
inline void check_type_and_device(const char* name, const at::Tensor& input) {
  TORCH_CHECK(input.is_cpu() || input.is_cuda() || input.is_meta(), name,
              ": the input must be on the CPU or on CUDA, not on ", input.device());
  const auto type = input.scalar_type();
  TORCH_CHECK(type == at::kFloat || type == at::kHalf || type == at::kBFloat16, name,
              ": takes float, half and bfloat16, not ", type);
}

/// Throws c10::Error for a tensor that no kernel takes.
inline void check_input(const char* name, const at::Tensor& input) {
  TORCH_CHECK(input.defined() && input.dim() >= 1 && input.sym_numel() > 0, name,
              ": the input must have a dimension and an element");
  check_type_and_device(name, input);
}

/// The rows of a tensor that has been checked.
inline Shape rows_of(const at::Tensor& input) { return {input.numel() / input.size(-1), input.size(-1)}; }

/// Both.
inline Shape shape_of(const char* name, const at::Tensor& input) {
  check_input(name, input);
  return rows_of(input);
}

/// Throws c10::Error unless `vector` has an entry for each of the input's columns, with its type and on its device.
inline void check_vector(const char* name, const char* what, const at::Tensor& vector, const at::Tensor& input) {
  TORCH_CHECK(vector.defined() && vector.dim() == 1 && vector.sym_size(0) == input.sym_size(-1), name, ": ", what,
              " must have shape (", input.sym_size(-1), ")",
              vector.defined() ? "; it has " + c10::str(vector.sym_sizes()) : "");
  TORCH_CHECK(vector.scalar_type() == input.scalar_type() && vector.device() == input.device(), name, ": ", what,
              " is ", vector.scalar_type(), " on ", vector.device(), " and the input ", input.scalar_type(), " on ",
              input.device());
}

/// Throws c10::Error unless `tensor` has these sizes, this type, and the device of `like`: what a backward pass is
/// given by whoever calls it without autograd.
inline void check_sizes(const char* name, const char* what, const at::Tensor& tensor, at::SymIntArrayRef sizes,
                        at::ScalarType type, const at::Tensor& like) {
  TORCH_CHECK(tensor.defined() && tensor.sym_sizes() == sizes, name, ": ", what, " must have shape ", sizes,
              tensor.defined() ? "; it has " + c10::str(tensor.sym_sizes()) : "");
  TORCH_CHECK(tensor.scalar_type() == type && tensor.device() == like.device(), name, ": ", what, " is ",
              tensor.scalar_type(), " on ", tensor.device(), "; it must be ", type, " on ", like.device());
}

/// The same, as a gradient of `like`.
inline void check_gradient(const char* name, const at::Tensor& gradient, const at::Tensor& like) {
  check_sizes(name, "the gradient", gradient, like.sym_sizes(), like.scalar_type(), like);
}

/// An uninitialised float for each of the input's rows, (rows).
inline at::Tensor float_per_row(const at::Tensor& input) {
  return at::empty_symint({input.sym_numel() / input.sym_size(-1)}, input.options().dtype(at::kFloat));
}

/// The kernels leave no graph of their own behind.
inline void check_first_order(const char* name) {
  TORCH_CHECK(!at::GradMode::is_enabled(), name, ": backward(create_graph = true) is not supported");
}

template <class T>
T* data_of(const at::Tensor& tensor) {
  return static_cast<T*>(tensor.data_ptr());
}

/// A tensor that a kernel touches.
struct NamedTensor {
  const char* name;  ///< in reports
  at::Tensor tensor;
  double passes = 1;  ///< how often its bytes must cross the memory: 2 where it changes, a half where half is touched
};
using NamedTensors = std::vector<NamedTensor>;

/// All that `tensors` must move, and the operation's products.
inline KernelDemand demand_of(const NamedTensors& tensors, double product_flops) {
  KernelDemand demand{.flops = product_flops, .sixteen_bits = tensors.front().tensor.element_size() == 2};
  for (const NamedTensor& each : tensors) demand.bytes += each.passes * static_cast<double>(each.tensor.nbytes());
  return demand;
}

/// The bytes of a tensor, or of several that overlap.
struct MemoryRange {
  std::string name;
  std::byte *begin, *end;
  size_t element_bytes;
};

/// Where the tensors lie, ascending and apart. Some may be the same, as a result and the gradient of its own square.
inline std::vector<MemoryRange> ranges_of(const NamedTensors& tensors) {
  std::vector<MemoryRange> each, merged;
  for (const auto& [name, tensor, passes] : tensors) {
    auto* begin = static_cast<std::byte*>(tensor.data_ptr());
    each.push_back({name, begin, begin + tensor.nbytes(), static_cast<size_t>(tensor.element_size())});
  }
  std::sort(each.begin(), each.end(), [](const MemoryRange& a, const MemoryRange& b) { return a.begin < b.begin; });
  for (const MemoryRange& next : each) {
    if (merged.empty() || next.begin >= merged.back().end) {
      merged.push_back(next);
      continue;
    }
    MemoryRange& last = merged.back();
    last.name += " and " + next.name;
    last.end = std::max(last.end, next.end);
    last.element_bytes = std::min(last.element_bytes, next.element_bytes);
  }
  return merged;
}

/// launch(stream, T()) with T the tensor's type.
template <class Stream, class Launch>
void launch_with_type(const at::Tensor& tensor, Stream stream, const Launch& launch) {
  if (tensor.scalar_type() == at::kHalf) return launch(stream, __half());
  if (tensor.scalar_type() == at::kBFloat16) return launch(stream, __nv_bfloat16());
  launch(stream, float());
}

/// The kernel's body under the microscope, where the tensors' bytes lie. Throws std::runtime_error for a fault.
template <class Launch>
void launch_under_microscope(const NamedTensors& tensors, const Launch& launch) {
  simt::Device device({.count = false, .races = false});
  std::vector<std::shared_ptr<void>> lent;
  for (const MemoryRange& range : ranges_of(tensors)) {
    lent.push_back(
        device.adopt(range.name, range.begin, static_cast<size_t>(range.end - range.begin), range.element_bytes));
  }
  launch_with_type(tensors.front().tensor, &device, launch);
  for (const simt::Fault& fault : device.report().faults)
    throw std::runtime_error(simt::text_of(fault.where) + ": " + fault.text);
}

/// Calls launch(stream, T()) with T the first tensor's type. CUDA: on the current stream of the tensors' device. CPU:
/// under the microscope, very slow, for tests and for looking; `tensors` are then all that the kernel may touch, and a
/// fault that is found throws std::runtime_error. Tensors may overlap where the kernel only reads them.
/// `product_flops`: of matrix products, which a card that is not there takes time for besides the tensors' bytes.
template <class Launch>
void launch_where_they_are(const NamedTensors& tensors, const Launch& launch,
                           [[maybe_unused]] double product_flops = 0) {
#ifdef TENFOLD_WITH_CUDA
  if (const at::Tensor& first = tensors.front().tensor; first.is_cuda()) {
    const c10::cuda::CUDAGuard guard(first.device());
    const auto stream = c10::cuda::getCurrentCUDAStream().stream();
    const DryLaunch dry(stream, demand_of(tensors, product_flops));
    launch_with_type(first, stream, launch);
    if (dry.wants_body()) launch_under_microscope(tensors, launch);
    return;
  }
#endif
  launch_under_microscope(tensors, launch);
}

}  // namespace tenfold::fused
