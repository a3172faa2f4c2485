#pragma once
// What lesson 28 trains, and where it logs: the MLP, or the GPT where the case says so.

#include <torch/torch.h>

#include <cstdint>
#include <cstdio>
#include <memory>
#include <numeric>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "common/harness/lesson.h"
#include "common/models/gpt.h"
#include "common/models/mlp.h"

namespace tenfold::inline lesson_28 {

/// Tensors of parameters that the workload has; `settings` is a Trial or what was counted.
template <class Settings>
int64_t parameter_tensors(const Settings& settings) {
  if (settings.workload == mlp_workload) return 2 * settings.get(mlp::kLayers);
  return 12 * settings.get(gpt::kLayers) + 5;  // 12 of each block; two embeddings, the last norm and the head
}

/// The mean loss over the rows that count: those whose target is not negative.
using MeanLoss = torch::Tensor (*)(const torch::Tensor& logits, const torch::Tensor& targets);

/// The operator leaves out the rows that do not count; how many there are stays on the device.
inline torch::Tensor ignoring(const torch::Tensor& logits, const torch::Tensor& targets) {
  return torch::nn::functional::cross_entropy(logits, targets);  // ignore_index is -100
}

/// The rows that count are picked first. The size of what is picked is a number that the host needs.
inline torch::Tensor masking(const torch::Tensor& logits, const torch::Tensor& targets) {
  const torch::Tensor counts = targets.ge(0);
  return torch::nn::functional::cross_entropy(logits.index({counts}), targets.index({counts}));
}

/// A log that nobody reads: each line is formatted and written at once, as to a file.
class LogFile {
 public:
  LogFile() : file_(std::fopen("/dev/null", "w"), &std::fclose) {
    if (!file_) throw std::runtime_error("/dev/null cannot be opened: the lesson's log goes there");
  }
  void mean_loss(double mean) { write("mean loss " + std::to_string(mean) + "\n"); }
  /// As LibTorch prints a tensor.
  void print(const torch::Tensor& loss) {
    std::ostringstream line;
    line << "loss " << loss << "\n";
    write(line.str());
  }

 private:
  void write(const std::string& line) {
    std::fputs(line.c_str(), file_.get());
    std::fflush(file_.get());
  }
  std::unique_ptr<FILE, int (*)(FILE*)> file_;
};

template <class T>
double mean_of(const std::vector<T>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

}  // namespace tenfold::inline lesson_28
