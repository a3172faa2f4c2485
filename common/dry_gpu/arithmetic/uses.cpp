#include "common/dry_gpu/arithmetic/uses.h"

#include <ATen/SequenceNumber.h>
#include <ATen/record_function.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <dlfcn.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/profiler/combined_traceback.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <unordered_map>

#include "common/dry_gpu/places.h"
#include "common/dry_gpu/races.h"
#include "common/dry_gpu/views.h"

namespace tenfold::dry {
namespace {

constexpr size_t kCallsKept = 8;
constexpr size_t kMostForwards = 1 << 16;  // then they are forgotten, and backward's operators have no place

bool ends_with(const std::string& name, std::string_view ending) { return name.ends_with(ending); }

/// Shape and type of the arguments is all that it wants to know.
bool reads_nothing(const std::string& name) {
  return ends_with(name, "_like") || name.starts_with("aten::new_") || name.starts_with("aten::empty");
}

/// Batch norm's statistics are written to, of which its schema says nothing.
bool writes_statistics(const c10::FunctionSchema& schema, const std::vector<c10::IValue>& arguments, size_t i) {
  if (!schema.arguments()[i].name().starts_with("running_")) return false;
  for (size_t j = 0; j < arguments.size(); ++j) {
    const std::string& name = schema.arguments()[j].name();
    if ((name == "training" || name == "train") && arguments[j].isBool()) return arguments[j].toBool();
  }
  return false;
}

bool written(const c10::FunctionSchema& schema, const std::vector<c10::IValue>& arguments, size_t i) {
  const c10::AliasInfo* const alias = schema.arguments()[i].alias_info();
  return (alias != nullptr && alias->isWrite()) || writes_statistics(schema, arguments, i);
}

// --- where ----------------------------------------------------------------------------------------------------------

/// Lines of a Python program.
struct PythonLines final : Where {
  explicit PythonLines(std::shared_ptr<torch::CapturedTraceback> of) : calls(std::move(of)) {}
  std::string text() const override {
    static const auto alive = reinterpret_cast<int (*)()>(dlsym(RTLD_DEFAULT, "Py_IsInitialized"));
    if (alive == nullptr || alive() == 0) return "";
    const torch::SymbolizedTracebacks named = torch::symbolize({calls.get()});
    for (const uint64_t at : named.tracebacks.at(0)) {
      const torch::unwind::Frame& frame = named.all_frames.at(at);
      // The first that is none of PyTorch's own.
      if (frame.filename.find("/torch/") != std::string::npos) continue;
      return frame.funcname + " (" + frame.filename.substr(frame.filename.rfind('/') + 1) + ":" +
             std::to_string(frame.lineno) + ")";
    }
    return "";
  }
  std::shared_ptr<torch::CapturedTraceback> calls;
};

std::shared_ptr<const Where> place_here() {
  if (in_python()) return std::make_shared<PythonLines>(torch::CapturedTraceback::gather(true, false, false));
  // Much faster than the compiler's own unwinding, for there are many operators.
  const std::vector<void*> calls = torch::unwind::unwind();
  std::vector<uintptr_t> addresses;
  addresses.reserve(calls.size());
  for (void* const call : calls) addresses.push_back(reinterpret_cast<uintptr_t>(call));
  return place_of(own_calls(addresses, kCallsKept));
}

struct InBackward final : Where {
  explicit InBackward(std::shared_ptr<const Where> of) : forward(std::move(of)) {}
  std::string text() const override {
    const std::string place = forward == nullptr ? "" : forward->text();
    return "backward()" + (place.empty() ? "" : " of " + place);
  }
  std::shared_ptr<const Where> forward;
};

/// Where the forward pass of a node of autograd's was asked for, by the thread and its count of nodes.
struct Forwards {
  std::mutex lock;
  std::unordered_map<uint64_t, std::shared_ptr<const Where>> places;
  std::map<std::shared_ptr<const Where>, std::shared_ptr<const Where>> backwards;  // the same object for the same place
};

Forwards& forwards() {
  static auto& all = *new Forwards;
  return all;
}

uint64_t key_of(uint64_t thread, uint64_t node) { return thread << 48 ^ node; }

std::shared_ptr<const Where> in_backward(const torch::autograd::Node& node) {
  Forwards& all = forwards();
  const std::lock_guard guard(all.lock);
  const auto found = all.places.find(key_of(node.thread_id(), node.sequence_nr()));
  const std::shared_ptr<const Where> forward = found == all.places.end() ? nullptr : found->second;
  if (in_python()) return std::make_shared<InBackward>(forward);
  auto& place = all.backwards[forward];
  if (place == nullptr) place = std::make_shared<InBackward>(forward);
  return place;
}

/// The node that autograd has just made for this operator, if it has.
void remember_forward(const std::shared_ptr<const Where>& where) {
  const uint64_t next = at::sequence_number::peek();
  if (next == 0) return;
  Forwards& all = forwards();
  const std::lock_guard guard(all.lock);
  if (all.places.size() >= kMostForwards) all.places.clear();
  // Later operators without a node of their own come by here, too.
  all.places.try_emplace(key_of(at::RecordFunction::currentThreadId(), next - 1), where);
}

}  // namespace

// --- what -----------------------------------------------------------------------------------------------------------

Bytes bytes_of(const at::Tensor& tensor) {
  const auto begin = reinterpret_cast<uintptr_t>(tensor.const_data_ptr());
  const uint64_t size = tensor.element_size();
  if (tensor.numel() == 0 || begin == 0) return {};
  std::vector<std::pair<uint64_t, uint64_t>> steps;  // bytes, times
  uint64_t last = 0;
  for (int64_t i = 0; i < tensor.dim(); ++i) {
    const auto step = static_cast<uint64_t>(tensor.stride(i)) * size, times = static_cast<uint64_t>(tensor.size(i));
    if (times < 2 || step == 0) continue;
    steps.emplace_back(step, times);
    last += step * (times - 1);
  }
  std::ranges::sort(steps);
  uint64_t run = size;
  size_t i = 0;
  for (; i < steps.size() && steps[i].first == run; ++i) run *= steps[i].second;
  Bytes bytes{.begin = begin, .end = begin + last + size};
  if (i == steps.size() || run > steps[i].first) return bytes;
  const uint64_t period = steps[i].first;
  if (std::ranges::any_of(steps.begin() + static_cast<std::ptrdiff_t>(i), steps.end(),
                          [period](const auto& step) { return step.first % period != 0; }))
    return bytes;
  bytes.period = period;
  bytes.width = run;
  return bytes;
}

std::vector<Access> uses_of(const c10::FunctionSchema& schema, const std::vector<c10::IValue>& arguments,
                            const std::vector<c10::IValue>& results) {
  std::vector<Access> uses;
  const auto add = [&uses](const c10::IValue& value, bool writes) {
    for (const at::Tensor& tensor : tensors_of(value)) {
      if (tensor.defined() && tensor.is_cuda() && tensor.has_storage()) uses.push_back({bytes_of(tensor), writes});
    }
  };
  if (!reads_nothing(schema.name())) {
    for (size_t i = 0; i < arguments.size(); ++i) {
      if (!written(schema, arguments, i)) add(arguments[i], false);
    }
  }
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (written(schema, arguments, i)) add(arguments[i], true);
  }
  // Memory that was handed out for them, unless they are arguments that were counted.
  for (size_t i = 0; i < results.size(); ++i) {
    if (i >= schema.returns().size() || schema.returns()[i].alias_info() == nullptr) add(results[i], true);
  }
  return uses;
}

bool in_python() {
  static const bool loaded = dlsym(RTLD_DEFAULT, "Py_IsInitialized") != nullptr;
  return loaded;
}

std::shared_ptr<const User> user_of(const std::string& name) {
  const auto node = torch::autograd::get_current_node();
  std::shared_ptr<const Where> where = node != nullptr && in_python() ? nullptr : place_here();
  if (where == nullptr && node != nullptr) {
    where = in_backward(*node);
  } else if (node == nullptr) {
    remember_forward(where);
  }
  return std::make_shared<User>(name, std::move(where));
}

void check_pinned(const c10::FunctionSchema& schema, const std::vector<c10::IValue>& arguments) {
  {
    const std::lock_guard guard(state().lock);
    if (state().pinned.empty() || !follows_order()) return;
  }
  for (size_t i = 0; i < arguments.size(); ++i) {
    const bool writes = written(schema, arguments, i);
    if (!writes && reads_nothing(schema.name())) continue;
    for (const at::Tensor& tensor : tensors_of(arguments[i])) {
      if (!tensor.defined() || !tensor.is_cpu() || !tensor.has_storage() || tensor.numel() == 0) continue;
      if (!is_pinned(tensor.const_data_ptr())) continue;
      std::vector<Race> races;
      {
        const std::lock_guard guard(state().lock);
        races = state().ordering->host_uses({bytes_of(tensor), writes});
      }
      if (races.empty()) continue;
      const auto user = user_of(schema.name());
      for (Race& race : races) {
        race.later_user = user;
        note_race(race);
      }
    }
  }
}

void follow_allocator() {
  using c10::cuda::CUDACachingAllocator::TraceEntry;
  auto* const allocator = c10::cuda::CUDACachingAllocator::get();
  if (!follows_order() || allocator->name() != "native") return;  // the driver's own pools are not followed
  allocator->attachAllocatorTraceTracker([](const TraceEntry& entry) {
    void* const address = reinterpret_cast<void*>(entry.addr_);
    if (entry.action_ == TraceEntry::ALLOC)
      note_hand_out(address, entry.size_, static_cast<cudaStream_t>(entry.stream_), entry.device_);
  });
}

}  // namespace tenfold::dry
