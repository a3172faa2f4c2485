#pragma once
// What lesson 04 trains: a convnet that looks at its validation loss after every update. A step of the harness is an
// epoch of some updates, at whose end all that was kept goes: so a leak is as large as an epoch is long.

#include <torch/torch.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "common/measure/trial.h"
#include "common/models/convnet.h"

namespace tenfold::inline lesson_04 {

inline constexpr Setting<int64_t> kUpdates{"updates", 4, "updates in an epoch, which is one step"};

/// What loops keep that are no variants: other_loops.h.
struct Kept {
  int64_t step = 0;
  torch::Tensor last;
  std::deque<torch::Tensor> recent;
  std::vector<torch::Tensor> outputs, best;
};

struct Loop : FashionConvNet {
  explicit Loop(const Trial& trial) : FashionConvNet(trial), held_out(next_batch()) {}

  torch::Tensor training_loss(const torch::Tensor& images, const torch::Tensor& labels) {
    RECORD_USER_SCOPE("forward");
    return torch::cross_entropy_loss(model(images), labels);
  }
  torch::Tensor validation_loss() {
    RECORD_USER_SCOPE("validation");
    return torch::cross_entropy_loss(model(held_out.first), held_out.second);
  }
  /// The mean loss of the updates since the last call; lets go of everything.
  torch::Tensor end_epoch() {
    const torch::NoGradGuard no_grad;
    torch::Tensor mean = torch::stack(losses).mean();
    losses.clear();
    validation.clear();
    kept_batches.clear();
    for (const unsigned hook : hooks) model->head->weight.remove_hook(hook);
    hooks.clear();
    return mean;
  }

  std::pair<torch::Tensor, torch::Tensor> held_out;  ///< images and labels
  std::vector<torch::Tensor> losses, validation;     ///< of the epoch's updates
  std::vector<std::pair<torch::Tensor, torch::Tensor>> kept_batches;
  std::vector<unsigned> hooks;  ///< on the head's weights
  Kept kept;
};

/// Trains one update, and keeps what it keeps.
using Update = void (*)(Loop&);

/// The variant that trains epochs of such updates.
inline std::function<Step(const Trial&)> epochs_of(Update update) {
  return [update](const Trial& trial) -> Step {
    const int64_t updates = trial.get(kUpdates);
    TORCH_CHECK_VALUE(updates > 0, "updates=", updates, " must be at least 1");
    auto loop = std::make_shared<Loop>(trial);
    return {.items = updates * loop->batches.batch(), .parameters = loop->parameters(), .update = [=] {
              for (int64_t i = 0; i < updates; ++i) update(*loop);
              return loop->end_epoch();
            }};
  };
}

/// The most bytes that a healthy epoch needs: the convnet's, and a second batch to validate on.
inline int64_t loop_most_bytes(const Trial& trial) {
  return convnet_most_bytes(trial) + fashion_batch_bytes(trial.get(convnet::kBatch)) + 8 * 512 * trial.get(kUpdates);
}

}  // namespace tenfold::inline lesson_04
