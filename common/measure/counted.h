#pragma once
// What one step of the baseline does: time, bytes and operations by region. Predictions are made from it.
//
// A region is a named scope of the step, marked with PyTorch's own RECORD_USER_SCOPE("name"), so that it also shows in
// profiler traces. Three names are known to the step split: "data", "copy" and "communication".

#include <torch/torch.h>

#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "common/measure/setting.h"
#include "common/measure/step.h"
#include "common/measure/workload.h"

namespace tenfold {

/// Totals of one region within one step.
struct Region {
  int64_t calls = 0;
  double seconds = 0;          ///< from a pass without operator counting; on CUDA of the device's time
  double host_seconds = 0;     ///< the same by the host's clock: what the thread that queues the work spends there
  int64_t retained_bytes = 0;  ///< growth of live tensor bytes from entry to exit, over all calls: what it keeps alive
  int64_t largest_retained_bytes = 0;  ///< of a single call
  int64_t largest_peak_bytes = 0;      ///< most live bytes at a time above those at entry, of a single call
  double flops = 0;  ///< multiplications and additions of matrix products and convolutions, from operator shapes
  double operator_bytes = 0;  ///< bytes of all operators' tensor inputs and outputs
  int64_t operators = 0;
};

/// The baseline's step, counted. Bytes are those of tensors on the trial's device.
struct Counted {
  torch::Device device{torch::kCPU};
  double step_seconds = 0;    ///< of steps without any observer
  int64_t peak_bytes = 0;     ///< of the counted step
  int64_t resting_bytes = 0;  ///< live between two steps: parameters, gradients, optimizer state, whatever else stays
  int64_t parameter_bytes = 0;
  int64_t gradient_bytes = 0;  ///< alive between two steps
  Region whole;  ///< the step itself: times of the steps that the regions' come from, and work; its bytes are above
  std::map<std::string, Region> regions;
  std::map<std::string, double> ceilings;        ///< of this device, by `tenfold probe`; empty when not probed
  std::map<std::string, SettingValue> settings;  ///< what the variants read, with the values they got
  Workload workload;                             ///< the part's
  int ranks = 1;
  /// False on a dry GPU, which has no clock: ceilings are then no numbers, and so is what follows from them.
  bool timed = true;
  /// Set by ceiling() when it has no number to give: no speed follows then, even where std::max() or std::min() has
  /// dropped the NaN.
  mutable bool lacked_ceiling = false;

  /// Throws std::invalid_argument for a region that the step never entered.
  const Region& region(const std::string& name) const;
  /// Part of the step's time spent in a region, 0 to 1.
  double share(const std::string& name) const;
  /// Throws std::invalid_argument for a setting that no variant read.
  template <class T>
  T get(const Setting<T>& setting) const {
    return std::get<T>(value_of(std::string(setting.name)));
  }
  /// A measured ceiling of this device. NaN where `tenfold probe` did not measure it; the harness then keeps the
  /// prediction's bytes and leaves its speed out, so that no prediction has to ask.
  double ceiling(const std::string& name) const;
  /// Parameters and optimizer state: what rests besides the gradients.
  int64_t state_bytes() const { return resting_bytes - gradient_bytes; }

 private:
  const SettingValue& value_of(const std::string& name) const;
};

/// Builds a step, runs a few updates and counts one. `build` is called under the counting allocator.
Counted count_step(torch::Device device, const std::function<Step()>& build);

}  // namespace tenfold
