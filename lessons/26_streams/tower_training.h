#pragma once
// What lesson 26 trains: towers, MLPs that all read the same batch and whose logits are added. No tower needs another
// before their outputs are added, nor after: forward and backward of each can run by themselves.

#include <torch/torch.h>

#include <ATen/record_function.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/machine/fingerprint.h"
#include "common/models/mlp.h"

namespace tenfold::inline lesson_26 {

inline constexpr Setting<int64_t> kTowers{"towers", 1, "MLPs whose logits are added; 1 is the mlp workload"};
inline constexpr Setting<int64_t> kLastWidth{"last_width", 0,
                                             "features of the last tower's inner layers; 0: as the others'"};
inline constexpr Setting<int64_t> kStreams{"streams", 2, "that run at the same time, the caller's among them"};
inline constexpr Setting<int64_t> kIntraOp{
    .name = "intra_op", .value = 1, .meaning = "threads of one operator on a CPU; 0: all cores", .least = 0};

inline constexpr Setting<int64_t> kHalves{"halves", 0, "1: the baseline runs two halves of the batch, in turn"};

inline MlpOptions tower_options(const Trial& trial, int64_t tower) {
  MlpOptions options = mlp_options(trial);
  const int64_t last = trial.get(kLastWidth);
  if (last > 0 && tower + 1 == trial.get(kTowers)) options.width = last;
  return options;
}

/// Of the baseline, which runs tower after tower, each counted as if alone; or two halves, of which the second has
/// gradients of its own before they are added to the first's.
inline int64_t towers_most_bytes(const Trial& trial) {
  int64_t bytes = 0;
  for (int64_t i = 0; i < trial.get(kTowers); ++i)
    bytes += step_peak_bytes(tower_options(trial, i), trial.get(mlp::kBatch));
  if (trial.get(kHalves) != 0) bytes += parameter_bytes(tower_options(trial, 0));
  return bytes;
}

/// With one tower it is the mlp workload.
class TowerTraining {
 public:
  explicit TowerTraining(const Trial& trial) : batches(trial, trial.get(mlp::kBatch)) {
    const int64_t intra_op = trial.get(kIntraOp), towers = trial.get(kTowers);
    // This variant's alone: the harness keeps it apart.
    if (intra_op != 1) at::set_num_threads(static_cast<int>(intra_op > 0 ? intra_op : usable_cores()));
    std::vector<torch::Tensor> all;
    for (int64_t i = 0; i < towers; ++i) {
      this->towers.emplace_back(tower_options(trial, i));
      this->towers.back()->to(trial.device);
      for (const auto& item : this->towers.back()->named_parameters()) {
        parameters.insert("tower" + std::to_string(i) + "." + item.key(), item.value());
        all.push_back(item.value());
      }
    }
    optimizer =
        std::make_unique<torch::optim::SGD>(all, torch::optim::SGDOptions(trial.get(mlp::kLearningRate)).momentum(0.9));
    // Before the first step, as after each: what a branch left behind.
    outputs.assign(this->towers.size(), torch::zeros({batches.batch(), 10}, trial.device));
  }

  /// One tower's forward pass and, once the loss is known, its backward pass. What `outputs` holds besides its values
  /// is the tower's own graph, cut off from the others': so each tower's backward() can run on a stream of its own.
  void forward(size_t tower, const torch::Tensor& images) {
    RECORD_USER_SCOPE("tower " + std::to_string(tower));
    {
      RECORD_USER_SCOPE("forward");
      outputs[tower] = towers[tower]->forward(images);  // (B, 10)
    }
  }
  void backward(size_t tower) {
    RECORD_USER_SCOPE("tower " + std::to_string(tower));
    outputs[tower].backward(read[tower].grad());
  }

  /// What the branches have left, to be read here: without their graphs, with gradients of their own.
  std::vector<torch::Tensor> read_outputs(size_t count) {
    read.clear();
    for (size_t i = 0; i < count; ++i) read.push_back(outputs[i].detach().requires_grad_());
    return read;
  }

  FashionBatches batches;
  std::vector<Mlp> towers;
  std::vector<torch::Tensor> outputs, read;
  Parameters parameters;
  std::unique_ptr<torch::optim::Optimizer> optimizer;
};

}  // namespace tenfold::inline lesson_26
