#pragma once
// A workload's model, optimizer and batches behind one face, for lessons whose cases train one or another.

#include <torch/torch.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/measure/step.h"
#include "common/measure/trial.h"

namespace tenfold {

/// What a training step needs. Copies share the model and its data.
struct Workload {
  int64_t items = 0;  ///< of a batch: images or tokens
  Parameters parameters;
  std::shared_ptr<torch::optim::Optimizer> optimizer;
  /// Of the next batch: the classes' logits, (N, C), and the right classes, (N). For a loss of the lesson's own.
  std::function<std::pair<torch::Tensor, torch::Tensor>()> next_logits;
  std::function<torch::Tensor()> next_loss;  ///< mean loss of the next batch, of logits in 32 bits
};

/// `name`: "convnet", "gpt" or "mlp"; sizes from the trial's settings, of which the lesson declares those of both.
Workload make_workload(const Trial& trial, const std::string& name);

/// Most bytes of tensors alive at a time in a training step, as step_peak_bytes() of the workload says.
int64_t workload_bytes(const Trial& trial, const std::string& name);

/// `first`, and what `second` has besides. Of a name in both (batch, learning_rate) each workload has its own default:
/// the second's is in `in_others` of the first's.
std::vector<DeclaredSetting> settings_of_both(std::vector<DeclaredSetting> first,
                                              const std::vector<DeclaredSetting>& second);

}  // namespace tenfold
