#pragma once
// The workload that a compiler of kernels is made for: elementwise operators one after the other. Each is so little
// arithmetic that reading its inputs and writing its result is what takes the time.

#include <torch/torch.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/harness/lesson.h"

namespace tenfold::inline lesson_24 {

namespace elementwise {
inline constexpr Setting<int64_t> kLayers{"layers", 4, "residual layers of elementwise operators"};
inline constexpr Setting<int64_t> kRows{"rows", {2048, 16384, 32768}, "rows of the batch"};
inline constexpr Setting<int64_t> kFeatures{"features", {512, 1024, 1024}, "features of a row"};
}  // namespace elementwise

/// Residual layers h + gate * relu(scale * h + shift), each of the three with a number for every feature. Always the
/// same batch, of normal numbers. serve.py has the same in Python, drawn in the same order.
struct Elementwise {
  explicit Elementwise(const Trial& trial) {
    const int64_t rows = trial.get(elementwise::kRows), features = trial.get(elementwise::kFeatures);
    torch::manual_seed(trial.seed);
    const auto parameter = [&](int64_t layer, const char* name) {
      torch::Tensor drawn = torch::randn({features}).to(trial.device).requires_grad_();
      parameters.insert(name + ("." + std::to_string(layer)), drawn);
      return drawn;
    };
    for (int64_t layer = 0; layer < trial.get(elementwise::kLayers); ++layer) {
      scale.push_back(parameter(layer, "scale"));
      shift.push_back(parameter(layer, "shift"));
      gate.push_back(parameter(layer, "gate"));
    }
    inputs = torch::randn({rows, features}).to(trial.device);
    targets = torch::randn({rows, features}).to(trial.device);
  }

  torch::Tensor forward(torch::Tensor h) const {  // (N, D) -> (N, D)
    for (size_t layer = 0; layer < scale.size(); ++layer)
      h = h + gate[layer] * torch::relu(h * scale[layer] + shift[layer]);
    return h;
  }

  Parameters parameters;                          // "scale.0", "shift.0", "gate.0", "scale.1", ...
  std::vector<torch::Tensor> scale, shift, gate;  // (D) each
  torch::Tensor inputs, targets;                  // (N, D)
};

inline Work elementwise_work(const Trial& trial) {
  constexpr double kLearningRate = 0.3;
  const auto model = std::make_shared<Elementwise>(trial);
  Work work{.items = trial.get(elementwise::kRows), .parameters = model->parameters};
  work.optimizer = std::make_shared<torch::optim::SGD>(model->parameters.values(), kLearningRate);
  work.next_loss = [model] { return torch::mse_loss(model->forward(model->inputs), model->targets); };
  return work;
}

/// Of each layer its result and what the ReLU gave are kept for backward; batch, targets, and at the end of a backward
/// a few gradients of their size.
inline int64_t elementwise_most_bytes(const Trial& trial) {
  const int64_t layers = trial.get(elementwise::kLayers), features = trial.get(elementwise::kFeatures);
  return 4 * features * ((2 * layers + 6) * trial.get(elementwise::kRows) + 6 * layers);
}

inline const Workload elementwise_workload{
    .name = "elementwise",
    .items = "rows",
    .settings = {elementwise::kLayers, elementwise::kRows, elementwise::kFeatures},
    .most_bytes = elementwise_most_bytes,
    .make = elementwise_work};

}  // namespace tenfold::inline lesson_24
