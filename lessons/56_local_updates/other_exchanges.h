#pragma once
// Other ways to send less than the gradients of every update: compressed, or late.

#include <torch/torch.h>

#include <memory>

#include "common/measure/step.h"
#include "common/measure/trial.h"
#include "gradient_compression.h"
#include "local_training.h"
#include "settings.h"
#include "stale_gradients.h"

namespace tenfold::inline lesson_56 {

/// Something else takes the mean's place: `make_exchange(training)` makes what leaves it in the gradients, and says
/// whether there is any.
inline Step exchanged(const Trial& trial, const auto& make_exchange) {
  auto training = std::make_shared<LocalTraining>(trial, own_shard(trial));
  auto exchange = make_exchange(*training);
  return step_of(trial, training, [training, exchange] {
    torch::Tensor total = training->no_loss_yet();
    for (int64_t i = 0; i < training->inner_updates; ++i) {
      total += training->backward();  // of this rank's own sequences
      if (exchange(training->flat.gradients)) training->optimizer_step();
    }
    return total / training->inner_updates;
  });
}

/// By a TopK or a PowerSgd.
inline Step compressed_by(const Trial& trial, const auto& make_compression) {
  return exchanged(trial, [&](const LocalTraining& training) {
    return [compression = make_compression(training)](const torch::Tensor& gradients) {
      compression->mean(gradients);
      return true;
    };
  });
}

inline Step power_sgd_by(const Trial& trial, const PowerSgdOptions& options) {
  return compressed_by(trial, [&](const LocalTraining& training) {
    return std::make_shared<PowerSgd>(training.model->parameters(), training.group, options);
  });
}

inline Step top_k_by(const Trial& trial, const TopKOptions& options) {
  return compressed_by(trial,
                       [&](const LocalTraining& training) { return std::make_shared<TopK>(training.group, options); });
}

inline Step power_sgd(const Trial& trial) { return power_sgd_by(trial, power_sgd_options(trial)); }
inline Step top_k(const Trial& trial) { return top_k_by(trial, {.share = trial.get(kShare)}); }

inline Step bf16(const Trial& trial) {
  return exchanged(trial, [](const LocalTraining& training) {
    return [group = training.group](const torch::Tensor& gradients) {
      mean_in_bf16(gradients, group);
      return true;
    };
  });
}

inline Step one_step_stale(const Trial& trial) {
  return exchanged(trial, [](const LocalTraining& training) {
    auto stale = std::make_shared<StaleMean>(training.group);
    return [stale](const torch::Tensor& gradients) { return stale->exchange(gradients); };
  });
}

/// Nothing is left out: these must compute what data parallel training does.
inline Step power_sgd_full_rank(const Trial& trial) { return power_sgd_by(trial, kFullRank); }
inline Step top_k_all_values(const Trial& trial) { return top_k_by(trial, {.share = 1}); }

/// Mistakes: what was not sent is lost.
inline Step power_sgd_no_feedback(const Trial& trial) {
  return power_sgd_by(trial, {.rank = trial.get(kRank), .error_feedback = false});
}
inline Step top_k_no_feedback(const Trial& trial) {
  return top_k_by(trial, {.share = trial.get(kShare), .error_feedback = false});
}

}  // namespace tenfold::inline lesson_56
