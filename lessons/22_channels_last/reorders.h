#pragma once
// Survey "reorders" of lesson 22: how often a training step copies a tensor from one layout into the other, how many
// bytes that moves, and in which operator. What oneDNN and cuDNN reorder inside of an operator is not seen from
// outside.

#include <ATen/record_function.h>
#include <torch/torch.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "common/harness/lesson.h"
#include "common/measure/observe.h"

namespace tenfold::inline lesson_22 {

enum class Layout {
  nchw,
  channels_last,
  either,  ///< one channel, or one pixel: the same bytes in both
  neither  ///< other strides, or not of 4 dimensions
};

inline Layout layout_of(const torch::Tensor& tensor) {
  if (tensor.dim() != 4) return Layout::neither;
  const bool nchw = tensor.is_contiguous(), last = tensor.is_contiguous(at::MemoryFormat::ChannelsLast);
  return nchw && last ? Layout::either : nchw ? Layout::nchw : last ? Layout::channels_last : Layout::neither;
}

/// A copy that only moves numbers from one layout to the other.
inline bool is_reorder(const torch::Tensor& to, const torch::Tensor& from) {
  if (!to.defined() || !from.defined() || to.sizes() != from.sizes()) return false;
  const Layout now = layout_of(to), before = layout_of(from);
  return (now == Layout::nchw && before == Layout::channels_last) ||
         (now == Layout::channels_last && before == Layout::nchw);
}

struct Copies {
  int64_t count = 0, bytes = 0;  ///< bytes read and bytes written
};

/// What a step reorders, and in what layout its convolutions compute.
struct Reorders {
  Copies all;
  std::map<std::string, Copies> in;  ///< by operator, or by node of the backward pass: "aten::flatten"
  int64_t convolutions = 0;          ///< of the forward pass
  int64_t in_channels_last = 0;      ///< of these: those whose output is
};

namespace reorders {
// RecordFunction callbacks are plain function pointers: they find the pass through this pointer.
struct Pass {
  Reorders counted;
  std::vector<std::string> open;  ///< operators and nodes, the outermost first
};
inline Pass* pass = nullptr;
inline std::mutex guard;  // backward() of a CUDA model runs on autograd's own thread

struct Opened final : at::ObserverContext {
  bool convolution = false;
};

template <class Values>
torch::Tensor tensor_at(const Values& values, size_t place) {
  return place < values.size() && values[place].isTensor() ? values[place].toTensor() : torch::Tensor();
}

/// The engine wraps each node in a function of its own, which says nothing more.
inline std::string outermost(const std::vector<std::string>& open) {
  for (const std::string& name : open) {
    if (!name.starts_with("autograd::engine")) return name.starts_with("torch::autograd::") ? name.substr(17) : name;
  }
  return "nothing";
}

inline std::unique_ptr<at::ObserverContext> begin(const at::RecordFunction& fn) {
  const std::scoped_lock lock(guard);
  auto opened = std::make_unique<Opened>();
  if (pass == nullptr || fn.isAsync()) return opened;
  const std::string name = fn.name();
  pass->open.push_back(name);
  opened->convolution = name == "aten::convolution";
  if (name != "aten::copy_") return opened;
  const torch::Tensor to = tensor_at(fn.inputs(), 0), from = tensor_at(fn.inputs(), 1);
  if (!is_reorder(to, from)) return opened;
  const auto bytes = static_cast<int64_t>(to.nbytes() + from.nbytes());
  for (Copies* copies : {&pass->counted.all, &pass->counted.in[outermost(pass->open)]}) {
    ++copies->count;
    copies->bytes += bytes;
  }
  return opened;
}

inline void end(const at::RecordFunction& fn, at::ObserverContext* context) {
  const std::scoped_lock lock(guard);
  if (pass == nullptr || fn.isAsync()) return;
  if (!pass->open.empty()) pass->open.pop_back();
  const auto* opened = dynamic_cast<const Opened*>(context);
  if (opened == nullptr || !opened->convolution) return;
  ++pass->counted.convolutions;
  const torch::Tensor output = tensor_at(fn.outputs(), 0);
  if (output.defined() && layout_of(output) == Layout::channels_last) ++pass->counted.in_channels_last;
}
}  // namespace reorders

/// Of all that `step` runs on this thread, and of the backward pass that it starts.
inline Reorders count_reorders(const std::function<void()>& step) {
  reorders::Pass pass;
  {
    const Observe observing(reorders::pass, pass,
                            {at::RecordFunctionCallback(reorders::begin, reorders::end)
                                 .needsInputs(true)
                                 .needsOutputs(true)
                                 .scopes({at::RecordScope::FUNCTION, at::RecordScope::BACKWARD_FUNCTION})},
                            &reorders::guard);
    step();
  }
  return pass.counted;
}

/// Notes those of one step, after two that warm up.
inline void note_reorders(const Trial& trial, const Step& step) {
  for (int i = 0; i < 2; ++i) step.update();
  const Reorders counted = count_reorders([&] { step.update(); });
  trial.note("reorders", static_cast<double>(counted.all.count), "copies");
  trial.note("bytes reordered", static_cast<double>(counted.all.bytes), "bytes");
  trial.note("convolutions in channels_last", static_cast<double>(counted.in_channels_last),
             "of " + std::to_string(counted.convolutions));
  for (const auto& [name, copies] : counted.in)
    trial.note("reorders in " + name, static_cast<double>(copies.count), "copies");
}

inline Look reorders_of(const std::string& name, Step (*build)(const Trial&)) {
  return {name, [build](const Trial& trial) { note_reorders(trial, build(trial)); }};
}

}  // namespace tenfold::inline lesson_22
