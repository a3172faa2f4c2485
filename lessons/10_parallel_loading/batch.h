// installs as <tenfold/batch.h>
#pragma once
// A batch under construction: samples are written straight to their rows of tensors that are used again and again,
// page-locked where a GPU copies from them. So nothing is collated afterwards, and nothing is allocated while training.

#include <torch/torch.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#ifdef TENFOLD_WITH_CUDA
#include <ATen/cuda/CUDAEvent.h>
#include <c10/core/DeviceGuard.h>
#include <c10/cuda/CUDAStream.h>
#endif

namespace tenfold {

/// One tensor of a batch, without the batch's dimension: {{3, 64, 64}, torch::kFloat} becomes (B, 3, 64, 64). A
/// dimension may be 0; then a sample has no number there.
struct Field {
  std::vector<int64_t> shape;
  torch::Dtype dtype = torch::kFloat;
};

/// One sample's place in a batch.
class Row {
 public:
  Row(const std::vector<torch::Tensor>& fields, int64_t row) : fields_(fields), row_(row) {}

  /// The numbers of field k, to be written in full. Throws c10::Error when T is not the field's type, std::out_of_range
  /// when there is no field k.
  template <class T>
  std::span<T> field(size_t k) const {
    const torch::Tensor& tensor = fields_.at(k);
    const auto count = static_cast<size_t>(tensor.numel() / tensor.size(0));  // not stride(0), which is 1 for 0 numbers
    return {tensor.data_ptr<T>() + static_cast<size_t>(row_) * count, count};
  }

 private:
  const std::vector<torch::Tensor>& fields_;
  int64_t row_;
};

/// "The device has read this memory": recorded after the copy was queued, waited for before the memory is written
/// again. Does nothing for copies that are over when they return.
class CopyDone {
 public:
#ifdef TENFOLD_WITH_CUDA
  void record(torch::Device device) {
    if (device.is_cuda()) event_.record(c10::cuda::getCurrentCUDAStream(device.index()));
  }
  /// Returns at once for an event that was never recorded. A worker thread's current device is GPU 0, and what it asks
  /// of CUDA there costs a context, some hundred MiB of that GPU for each rank: hence the guard.
  void wait() const {
    const c10::OptionalDeviceGuard guard(event_.device());
    event_.synchronize();
  }

 private:
  at::cuda::CUDAEvent event_;
#else
  void record(torch::Device) {}
  void wait() const {}
#endif
};

/// A batch as its caller sees it. The tensors are views of a buffer that is filled again: they hold until next() is
/// called again.
struct Batch {
  std::vector<torch::Tensor> fields;  ///< (rows, ...) each, on the host; who copies them but by to() records `copied`
  std::vector<int64_t> samples;       ///< which samples the rows hold; empty for a stream
  int64_t epoch = 0, index = 0;       ///< index: which batch of the epoch
  CopyDone* copied = nullptr;

  int64_t rows() const { return fields.front().size(0); }

  /// The fields on a device. From page-locked buffers the copy goes on while the host does: the buffer is not filled
  /// again before it is done, and work queued later on the current stream finds the data in place.
  std::vector<torch::Tensor> to(torch::Device device) const {
    std::vector<torch::Tensor> there;
    for (const torch::Tensor& field : fields) there.push_back(field.to(device, /*non_blocking=*/true));
    copied->record(device);
    return there;
  }
};

/// Throws std::invalid_argument, "WHO: ...", unless there is a field and none has a negative dimension.
inline void require_valid(const std::vector<Field>& fields, const std::string& who) {
  if (fields.empty()) throw std::invalid_argument(who + ": there are no fields; name the tensors of a sample");
  for (size_t k = 0; k < fields.size(); ++k) {
    for (const int64_t size : fields[k].shape) {
      if (size < 0)
        throw std::invalid_argument(who + ": field " + std::to_string(k) + " has a dimension of " +
                                    std::to_string(size));
    }
  }
}

/// Tensors for batches of up to `batch` rows, at least 1: (batch, ...) each.
inline std::vector<torch::Tensor> make_buffer(const std::vector<Field>& fields, int64_t batch, bool pinned) {
  std::vector<torch::Tensor> tensors;
  for (const Field& field : fields) {
    std::vector<int64_t> shape{batch};
    shape.insert(shape.end(), field.shape.begin(), field.shape.end());
    tensors.push_back(torch::empty(shape, torch::TensorOptions(field.dtype).pinned_memory(pinned)));
  }
  return tensors;
}

/// The first `rows` rows of a buffer.
inline std::vector<torch::Tensor> first_rows(const std::vector<torch::Tensor>& buffer, int64_t rows) {
  std::vector<torch::Tensor> views;
  for (const torch::Tensor& tensor : buffer) views.push_back(tensor.narrow(0, 0, rows));
  return views;
}

}  // namespace tenfold
