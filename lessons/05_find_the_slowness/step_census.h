#pragma once
// Counts what a training program does, by the scopes that it marks with RECORD_USER_SCOPE: operators, reads of a
// number by the host, elements written, forward passes over images, bytes alive. No clock decides anything here.

#include <torch/torch.h>

#include <ATen/record_function.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/measure/memory.h"
#include "common/measure/observe.h"

namespace tenfold::inline lesson_05 {

/// Totals of a scope over all its calls, without scopes within it. "" is outside of any scope.
struct ScopeCount {
  int64_t calls = 0;
  int64_t operators = 0;      ///< with those that an operator calls itself
  int64_t reads = 0;          ///< of a number from a tensor: item(), which waits on a GPU
  int64_t elements = 0;       ///< largest result of an operator, of all calls
  int64_t forwards = 0;       ///< convolutions of images, with `channels` channels
  double seconds = 0;         ///< to print; under this observer, hence longer than alone
  std::vector<int64_t> live;  ///< tensor bytes when it begins, of each call
  std::vector<int64_t> live_at_forward;
};

struct Census {
  std::map<std::string, ScopeCount> scopes;
  int64_t image_gradients = 0;  ///< backward passes that computed a gradient for the images

  const ScopeCount& of(const std::string& scope) const {
    static const ScopeCount none;
    const auto found = scopes.find(scope);
    return found == scopes.end() ? none : found->second;
  }
  /// Bytes by which what is alive grows from one value to the next: the least such growth of all, without the first,
  /// in which gradients and optimizer state come.
  static int64_t growth(const std::vector<int64_t>& live) {
    if (live.size() < 3) return 0;
    int64_t least = live[2] - live[1];
    for (size_t i = 3; i < live.size(); ++i) least = std::min(least, live[i] - live[i - 1]);
    return std::max<int64_t>(0, least);
  }
};

/// Counts a program that runs on this thread, on the CPU, while it lives.
class CensusTaker {
 public:
  /// `channels` of the images: what a convolution's input has when it is the first.
  explicit CensusTaker(int64_t channels = 1)
      : channels_(channels),
        observe_(slot(), *this,
                 {at::RecordFunctionCallback(begin, end)
                      .needsInputs(true)
                      .needsOutputs(true)
                      .scopes({at::RecordScope::FUNCTION, at::RecordScope::USER_SCOPE})}) {}

  const Census& census() const { return census_; }

 private:
  using Clock = std::chrono::steady_clock;
  struct Entered : at::ObserverContext {
    Clock::time_point at = Clock::now();
  };

  static CensusTaker*& slot() {
    static thread_local CensusTaker* taker = nullptr;
    return taker;
  }
  ScopeCount& here() { return census_.scopes[open_.empty() ? std::string() : open_.back()]; }
  bool is_images(const c10::IValue& value) const {
    return value.isTensor() && value.toTensor().defined() && value.toTensor().dim() == 4 &&
           value.toTensor().size(1) == channels_;
  }

  static std::unique_ptr<at::ObserverContext> begin(const at::RecordFunction& function) {
    CensusTaker* taker = slot();
    if (taker == nullptr) return nullptr;
    const std::string name = function.name();
    if (function.scope() == at::RecordScope::USER_SCOPE) {
      taker->open_.push_back(name);
      ScopeCount& scope = taker->here();
      ++scope.calls;
      scope.live.push_back(live_bytes(torch::kCPU));
      return std::make_unique<Entered>();
    }
    ScopeCount& scope = taker->here();
    ++scope.operators;
    if (name == "aten::_local_scalar_dense") ++scope.reads;
    if (name == "aten::conv2d" && !function.inputs().empty() && taker->is_images(function.inputs()[0])) {
      ++scope.forwards;
      scope.live_at_forward.push_back(live_bytes(torch::kCPU));
    }
    return nullptr;
  }

  static void end(const at::RecordFunction& function, at::ObserverContext* context) {
    CensusTaker* taker = slot();
    if (taker == nullptr) return;
    if (function.scope() == at::RecordScope::USER_SCOPE) {
      if (taker->open_.empty()) return;  // it began before this lived
      const auto* entered = static_cast<Entered*>(context);
      if (entered != nullptr)
        taker->here().seconds += std::chrono::duration<double>(Clock::now() - entered->at).count();
      taker->open_.pop_back();
      return;
    }
    const auto& outputs = function.outputs();
    ScopeCount& scope = taker->here();
    for (const c10::IValue& output : outputs) {
      if (output.isTensor() && output.toTensor().defined() && output.toTensor().is_floating_point())
        scope.elements = std::max(scope.elements, output.toTensor().numel());
    }
    const std::string name = function.name();
    if (name == "aten::convolution_backward" && !outputs.empty() && taker->is_images(outputs[0]))
      ++taker->census_.image_gradients;
  }

  int64_t channels_;
  Census census_;
  std::vector<std::string> open_;  ///< scopes, the innermost last
  Observe<CensusTaker> observe_;   // last: it calls back as long as it lives
};

}  // namespace tenfold::inline lesson_05
