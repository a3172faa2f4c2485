#pragma once
// Counts the operators that make the host wait for a GPU, on any machine: on a CPU they are called just the same.

#include <torch/torch.h>

#include <ATen/record_function.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>

#include "common/harness/lesson.h"
#include "common/measure/observe.h"

namespace tenfold::inline lesson_28 {

/// Calls that wait where their tensor lies on a GPU.
struct SynchronisingCalls {
  int64_t values = 0;  ///< aten::_local_scalar_dense, which item() calls, and `if (tensor)`
  int64_t sizes = 0;   ///< aten::nonzero, which indexing with a boolean mask calls: the size depends on the values
  /// aten::to with the CPU as its destination, without non_blocking, as the program calls it: within an operator it
  /// names the device that the tensor is on.
  int64_t to_host = 0;
  int64_t all() const { return values + sizes + to_host; }
};

namespace synchronising_calls_detail {

struct Pass {
  SynchronisingCalls calls;
  int in_data = 0;  // open regions "data": batches are made on the host, and ask nothing of the device
};
inline thread_local int depth = 0;  // operators that are open on this thread
inline Pass* pass = nullptr;        // not thread-local: backward() of a CUDA model runs on autograd's own thread

/// Whether the call names the CPU as a device, and does not say non_blocking.
inline bool to_the_host(const at::RecordFunction& call) {
  bool host = false;
  for (const c10::IValue& input : call.inputs()) host = host || (input.isDevice() && input.toDevice().is_cpu());
  if (!host) return false;
  // to(self, ..., bool non_blocking, bool copy, memory_format)
  const auto inputs = call.inputs();
  return inputs.size() < 3 || !inputs[inputs.size() - 3].isBool() || !inputs[inputs.size() - 3].toBool();
}

inline std::unique_ptr<at::ObserverContext> begin_operator(const at::RecordFunction& call) {
  const bool is_outermost = depth++ == 0;
  if (pass == nullptr || pass->in_data > 0) return nullptr;
  const std::string_view name = call.name();
  if (name == "aten::_local_scalar_dense") ++pass->calls.values;
  if (name == "aten::nonzero") ++pass->calls.sizes;
  if (name == "aten::to" && is_outermost && to_the_host(call)) ++pass->calls.to_host;
  return nullptr;
}
inline void end_operator(const at::RecordFunction&, at::ObserverContext*) { --depth; }

inline std::unique_ptr<at::ObserverContext> begin_scope(const at::RecordFunction& scope) {
  if (pass != nullptr && std::string_view(scope.name()) == "data") ++pass->in_data;
  return nullptr;
}
inline void end_scope(const at::RecordFunction& scope, at::ObserverContext*) {
  if (pass != nullptr && std::string_view(scope.name()) == "data") --pass->in_data;
}

}  // namespace synchronising_calls_detail

/// Of all that `work` calls, but for what it does in regions named "data". One at a time in a process.
inline SynchronisingCalls count_synchronising_calls(const std::function<void()>& work) {
  using namespace synchronising_calls_detail;
  Pass counted;
  const Observe observe(
      pass, counted,
      {at::RecordFunctionCallback(begin_operator, end_operator).needsInputs(true).scopes({at::RecordScope::FUNCTION}),
       at::RecordFunctionCallback(begin_scope, end_scope).scopes({at::RecordScope::USER_SCOPE})});
  work();
  return counted.calls;
}

/// Notes the synchronising calls of one step, as a mean over `steps` steps.
void note_synchronising_calls(const Trial& trial, const Step& step, int64_t steps);

/// Notes the operators of one step, and the bytes that those move which zeroing adds or takes away: `aten::zero_`
/// writes a gradient, and `aten::add_` reads two tensors and writes one.
void note_gradient_traffic(const Trial& trial, const Step& step, int64_t steps);

}  // namespace tenfold::inline lesson_28
