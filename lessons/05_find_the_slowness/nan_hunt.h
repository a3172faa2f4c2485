#pragma once
// Where did the first NaN come from? Two tools: a watch on every operator's result, and autograd's anomaly mode.

#include <torch/torch.h>

#include <ATen/record_function.h>
#include <torch/csrc/autograd/anomaly_mode.h>

#include <memory>
#include <string>
#include <vector>

#include "common/measure/observe.h"

namespace tenfold::inline lesson_05 {

/// Finds the first operator on this thread, and on a CPU in its backward (on a GPU autograd has a thread of its own,
/// which this does not see), whose result holds a NaN or an infinity while its inputs hold none. Reads every result:
/// for a hunt, not for training. On a GPU each read waits.
class FiniteWatch {
 public:
  FiniteWatch()
      : observe_(slot(), *this,
                 {at::RecordFunctionCallback(begin, end)
                      .needsInputs(true)
                      .needsOutputs(true)
                      .scopes({at::RecordScope::FUNCTION})}) {}

  /// "aten::log"; empty while all is finite.
  const std::string& first() const { return first_; }
  int64_t checked() const { return checked_; }  ///< results

 private:
  struct Inputs : at::ObserverContext {
    bool finite = true;
  };

  static FiniteWatch*& slot() {
    static thread_local FiniteWatch* watch = nullptr;
    return watch;
  }
  static bool finite(const c10::IValue& value) {
    if (!value.isTensor() || !value.toTensor().defined() || !value.toTensor().is_floating_point()) return true;
    const at::RecordFunctionGuard unobserved(/*is_enabled=*/false);
    const torch::NoGradGuard no_grad;
    return torch::isfinite(value.toTensor()).all().item<bool>();
  }

  static std::unique_ptr<at::ObserverContext> begin(const at::RecordFunction& function) {
    auto context = std::make_unique<Inputs>();
    const FiniteWatch* watch = slot();
    if (watch == nullptr || !watch->first_.empty()) return context;
    for (const c10::IValue& input : function.inputs()) context->finite = context->finite && finite(input);
    return context;
  }

  static void end(const at::RecordFunction& function, at::ObserverContext* context) {
    FiniteWatch* watch = slot();
    if (watch == nullptr || !watch->first_.empty()) return;
    if (!static_cast<Inputs*>(context)->finite) return;  // it hands on what another has made
    const std::string name = function.name();
    if (name.find("empty") != std::string::npos || name.find("resize") != std::string::npos)
      return;  // holds whatever was in memory
    for (const c10::IValue& output : function.outputs()) {
      ++watch->checked_;
      if (!finite(output)) watch->first_ = name;
    }
  }

  std::string first_;
  int64_t checked_ = 0;
  Observe<FiniteWatch> observe_;  // last: it calls back as long as it lives
};

/// What anomaly mode says of a backward pass: the node whose gradient is NaN, "SqrtBackward0"; empty when none is.
/// It sees NaN alone, no infinity, and backward alone.
inline std::string anomaly_of(const torch::Tensor& loss) {
  const torch::autograd::DetectAnomalyGuard guard(/*check_nan=*/true);
  try {
    loss.backward();
  } catch (const std::exception& error) {
    const std::string text = error.what();
    const auto begin = text.find('\''), stop = text.find('\'', begin + 1);
    if (text.find("nan") == std::string::npos || stop == std::string::npos) throw;
    return text.substr(begin + 1, stop - begin - 1);
  }
  return "";
}

/// A loss that is finite and has a NaN in its gradient: the root of 0 has an infinite slope, which is then multiplied
/// with 0. A distance between equal vectors does this.
inline torch::Tensor distance_of_equals(const torch::Tensor& features) {
  return (features - features.detach()).square().sum(1).sqrt().sum();  // (B, D) -> ()
}

/// A loss that is not finite: the logarithm of a probability that was rounded to 0.
inline torch::Tensor log_of_softmax(const torch::Tensor& logits) {
  return -torch::softmax(logits, 1).log().mean();  // log_softmax would be finite
}

}  // namespace tenfold::inline lesson_05
