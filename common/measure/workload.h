#pragma once
// A workload: what a part of a lesson trains, as a value. The three of reference stand beside their models, in
// common/models; a lesson may have one of its own.

#include <torch/torch.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/measure/setting.h"
#include "common/measure/step.h"

namespace tenfold {

class Trial;

/// A workload's model, optimizer and batches behind one face: what a training step needs. Copies share the model and
/// its data.
struct Work {
  int64_t items = 0;  ///< of a batch: images or tokens
  Parameters parameters;
  std::shared_ptr<torch::optim::Optimizer> optimizer;
  /// Of the next batch: the classes' logits, (N, C), and the right classes, (N). For a loss of the lesson's own.
  std::function<std::pair<torch::Tensor, torch::Tensor>()> next_logits;
  std::function<torch::Tensor()> next_loss;  ///< mean loss of the next batch, of logits in 32 bits
  std::shared_ptr<torch::nn::Module> model;  ///< that all of the above belong to
  /// Mean loss of data that no training sees, the same for every seed and variant: without gradients, and with nothing
  /// of the training changed. What a training to an end is judged by.
  std::function<double()> held_out_loss;
};

struct Workload {
  std::string name;                            ///< "gpt"
  std::string items = "items";                 ///< what its batches are counted in: "images", "tokens"
  std::vector<DeclaredSetting> settings = {};  ///< of its model and its batches
  /// Most bytes of tensors alive at a time in a training step, by formula, as Lesson::most_bytes wants it.
  std::function<int64_t(const Trial&)> most_bytes = nullptr;
  /// Weights and batches of the trial's seed, sizes from its settings, on its device.
  std::function<Work(const Trial&)> make = nullptr;

  /// By name: a lesson has one of each.
  bool operator==(const Workload& other) const { return name == other.name; }
  /// With other sizes or more of them: the same but for the settings, of which those named in `own` go before its own.
  Workload with(const std::vector<DeclaredSetting>& own) const;
};

/// `own`, and before them what `settings` has of other names.
std::vector<DeclaredSetting> with_own(const std::vector<DeclaredSetting>& settings,
                                      const std::vector<DeclaredSetting>& own);

}  // namespace tenfold
