#include "common/dry_gpu/views.h"

namespace tenfold::dry {

at::Tensor cpu_view(const at::Tensor& tensor) {
  if (!tensor.defined() || !tensor.is_cuda()) return tensor;
  // Of the whole storage, so that views which overlap go on doing so.
  const c10::Storage& storage = tensor.storage();
  const at::Tensor bytes = at::from_blob(const_cast<void*>(storage.data()), {static_cast<int64_t>(storage.nbytes())},
                                         at::TensorOptions().dtype(at::kByte));
  at::Tensor view = at::empty({0}, tensor.options().device(at::kCPU).pinned_memory(false));
  view.set_(bytes.storage(), tensor.storage_offset(), tensor.sizes(), tensor.strides());
  if (tensor.is_conj()) view = view.conj();
  if (tensor.is_neg()) view._set_neg(true);
  return view;
}

c10::IValue cpu_view(const c10::IValue& value) {
  if (value.isTensor()) return cpu_view(value.toTensor());
  if (value.isTensorList()) {
    c10::List<at::Tensor> list;
    for (const at::Tensor& tensor : value.toTensorVector()) list.push_back(cpu_view(tensor));
    return list;
  }
  if (value.isOptionalTensorList()) {
    c10::List<std::optional<at::Tensor>> list;
    for (const std::optional<at::Tensor>& tensor : value.toOptionalTensorVector())
      list.push_back(tensor ? std::optional(cpu_view(*tensor)) : std::nullopt);
    return list;
  }
  if (value.isDevice() && value.toDevice().is_cuda()) return c10::Device(c10::kCPU);
  return value;
}

std::vector<at::Tensor> tensors_of(const c10::IValue& value) {
  if (value.isTensor()) return value.toTensor().defined() ? std::vector{value.toTensor()} : std::vector<at::Tensor>();
  if (value.isTensorList()) return value.toTensorVector();
  std::vector<at::Tensor> all;
  if (value.isOptionalTensorList()) {
    for (const std::optional<at::Tensor>& tensor : value.toOptionalTensorVector()) {
      if (tensor && tensor->defined()) all.push_back(*tensor);
    }
  }
  return all;
}

bool on_card(const c10::IValue& value) {
  if (value.isDevice()) return value.toDevice().is_cuda();
  for (const at::Tensor& tensor : tensors_of(value)) {
    if (tensor.defined() && tensor.is_cuda()) return true;
  }
  return false;
}

bool write_results(const std::vector<c10::IValue>& computed, const std::vector<c10::IValue>& results) {
  if (computed.size() != results.size()) return false;
  for (size_t i = 0; i < results.size(); ++i) {
    if (computed[i].isNone()) continue;  // nobody reads it on a CPU
    const std::vector<at::Tensor> from = tensors_of(computed[i]), to = tensors_of(results[i]);
    if (to.empty() && !results[i].isTensorList()) continue;  // nobody asked for it
    if (from.size() != to.size()) return false;
    for (size_t j = 0; j < to.size(); ++j) {
      if (!to[j].defined() || !from[j].defined()) continue;
      if (from[j].sizes() != to[j].sizes()) return false;
      if (from[j].data_ptr() != to[j].data_ptr() || from[j].strides() != to[j].strides()) to[j].copy_(from[j]);
    }
  }
  return true;
}

}  // namespace tenfold::dry
