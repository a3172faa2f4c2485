#pragma once
// The launch-bound workload: an MLP of many small layers on Fashion-MNIST. Each operator is so short that launching it
// is what costs.

#include <torch/torch.h>

#include <memory>
#include <utility>
#include <vector>

#include "common/measure/step.h"
#include "common/measure/trial.h"
#include "common/models/fashion_mnist.h"

namespace tenfold {

namespace mlp {
inline constexpr Setting<int64_t> kBatch{"batch", 32, "images in a batch"};
inline constexpr Setting<int64_t> kLayers{"layers", 8, "linear layers"};
inline constexpr Setting<int64_t> kWidth{"width", 64, "features of the inner layers"};
inline constexpr Setting<double> kLearningRate{"learning_rate", 0.05, "of SGD with momentum 0.9"};
}  // namespace mlp

struct MlpOptions {
  int64_t layers = 8, width = 64;
  double learning_rate = 0.05;
};
/// As the trial's settings have them.
MlpOptions mlp_options(const Trial& trial);

struct MlpImpl : torch::nn::Module {
  explicit MlpImpl(const MlpOptions& options);
  torch::Tensor forward(const torch::Tensor& images);  // (B, 1, 28, 28) -> (B, 10); images are averaged to 7 x 7

  torch::nn::Sequential layers;
};
TORCH_MODULE(Mlp);

/// What a variant trains with. `next_batch` gives (B, 1, 28, 28) and (B).
struct MlpTraining {
  explicit MlpTraining(const Trial& trial) : MlpTraining(trial, mlp_options(trial), trial.get(mlp::kBatch)) {}
  MlpTraining(const Trial& trial, const MlpOptions& options, int64_t batch);
  std::pair<torch::Tensor, torch::Tensor> next_batch() { return batches.next(); }
  Parameters parameters() const { return model->named_parameters(); }

  FashionBatches batches;
  Mlp model;
  std::unique_ptr<torch::optim::Optimizer> optimizer;
};

/// Most bytes of tensors alive at a time in a training step: next_batch(), zero_grad(), forward, backward, update, in
/// 32-bit numbers. Parameters and momentum are in it; allocators' rounding and libraries' workspaces are not.
int64_t step_peak_bytes(const MlpOptions& options, int64_t batch);
int64_t parameter_bytes(const MlpOptions& options);
/// The first with the trial's settings.
int64_t mlp_most_bytes(const Trial& trial);

inline const Workload mlp_workload{.name = "mlp",
                                   .items = "images",
                                   .settings = {mlp::kBatch, mlp::kLayers, mlp::kWidth, mlp::kLearningRate},
                                   .most_bytes = mlp_most_bytes,
                                   .make = image_work<MlpTraining>};

}  // namespace tenfold
