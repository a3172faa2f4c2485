#pragma once
// Your answer to exercise 28. Build and check it with: ./tenfold exercise 28
#include <torch/torch.h>

#include <cstdint>
#include <functional>
#include <utility>

/// Reports the mean loss of every `every` steps.
class LossLog {
 public:
  using Report = std::function<void(int64_t steps, double mean)>;  ///< steps so far, and the mean of the last ones

  LossLog(int64_t every, Report report) : every_(every), report_(std::move(report)) {}

  /// After each step, with its loss: a scalar of any device, with its graph. Reports when `every` steps are complete.
  void add(const torch::Tensor& loss) {
    // Hint: item() waits until the device has computed the loss. Which tensor could wait in its place?
    sum_ += loss.item<double>();
    ++steps_;
    if (++added_ == every_) report();
  }

  /// At the end: reports the steps that are left over, if there are any.
  void finish() {
    if (added_ > 0) report();
  }

 private:
  void report() {
    report_(steps_, sum_ / static_cast<double>(added_));
    sum_ = 0;
    added_ = 0;
  }

  int64_t every_;
  Report report_;
  double sum_ = 0;
  int64_t steps_ = 0, added_ = 0;
};
