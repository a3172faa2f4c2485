#pragma once
// Shakespeare for several ranks: what one process would draw, of which each takes its own rows.

#include <torch/torch.h>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/record_function.h>

#include <string>
#include <utility>

#include "common/measure/trial.h"
#include "common/models/gpt.h"
#include "common/models/host_batch.h"

namespace tenfold {

/// The batches that one process draws; of `places` each takes its own rows, number `place`. Skips the trial unless the
/// places divide the batch.
struct Batches {
  Batches(const Trial& trial, const GptOptions& options, int64_t place = 0, int64_t places = 1)
      : options_(options),
        device_(trial.device),
        place_(place),
        places_(places),
        text_(shakespeare_tokens(options.tokens, /*train=*/true)),
        generator_(at::detail::createCPUGenerator(trial.seed)) {
    if (options.batch % places != 0) trial.skip(std::to_string(places) + " ranks do not divide the batch");
  }

  /// Ids and next ids, (B / places, T) each.
  std::pair<torch::Tensor, torch::Tensor> next() {
    RECORD_USER_SCOPE("data");
    const TextBatch batch = sample_batch(text_, options_.batch, options_.length, generator_);
    const int64_t rows = options_.batch / places_;
    const auto own = [&](const torch::Tensor& t) { return tensor_on(device_, t.narrow(0, place_ * rows, rows)); };
    return {own(batch.ids), own(batch.targets)};
  }

 private:
  GptOptions options_;
  torch::Device device_;
  int64_t place_, places_;
  torch::Tensor text_;
  at::Generator generator_;
};

}  // namespace tenfold
