#pragma once
// What lesson 51 counts on more devices than a machine has: bytes that pass the first device, and those of a rank of
// DDP. Devices are the CPU several times, ranks are threads.

#include <torch/torch.h>

#include <memory>
#include <string>
#include <vector>

#include "common/harness/lesson.h"
#include "common/measure/rank_counts.h"
#include "common/models/gpt.h"
#include "data_parallel.h"
#include "lessons/52_ddp/gradient_buckets.h"

namespace tenfold::inline lesson_51 {

inline std::vector<Assignment> small_model() {
  return {gpt::kLayers(2), gpt::kWidth(32), gpt::kHeads(2),
          gpt::kLength(8), gpt::kBatch(8),  gpt::kTokens("characters")};
}

/// Out of the first device and into it. A ring's rank sends what it receives.
struct PassedBytes {
  double out = 0, in = 0;
};

/// By formula: N - 1 copies of the parameters out and as many gradients in. Of the rows that are not the first device's
/// ids go out, logits come in, and gradients of the logits go out.
inline PassedBytes passed_by_formula(const GptOptions& options, int devices) {
  const double others = devices - 1;
  const double share = others / devices * static_cast<double>(options.batch * options.length);
  const double ids = 8 * share, logits = 4 * share * static_cast<double>(options.vocabulary());
  const auto parameters = static_cast<double>(parameter_bytes(options));
  return {others * parameters + ids + logits, others * parameters + logits};
}

inline PassedBytes passed_by_count(const GptOptions& options, int devices) {
  const auto model = std::make_shared<GptImpl>(options);
  DataParallel<GptImpl> parallel(model, std::vector<torch::Device>(static_cast<size_t>(devices), torch::kCPU),
                                 [&] { return std::make_shared<GptImpl>(options); });
  const torch::Tensor batch = torch::zeros({options.batch, options.length}, torch::kLong);
  const auto ids = parallel.scatter(batch);
  parallel.replicate();
  const torch::Tensor logits =
      parallel.gather(parallel.apply(ids.size(), [&](GptImpl& each, size_t i) { return each.forward(ids[i]); }));
  torch::nn::functional::cross_entropy(logits.flatten(0, 1), batch.flatten()).backward();
  return {static_cast<double>(parallel.traffic().out_of_first()), static_cast<double>(parallel.traffic().into_first())};
}

/// What a rank of DDP sends in a step, if its all-reduces go around a ring.
inline double sent_by_ddp(const GptOptions& options, int ranks) {
  double sent = 0;
  on_counted_ranks(ranks, [&](int rank, const auto& group, RequestCounter& asked) {
    Gpt model(options);
    const torch::Tensor ids = torch::zeros({1, options.length}, torch::kLong);
    model->loss(model->hidden(ids), ids).backward();
    average_in_buckets(model->parameters(), assign_buckets(model->parameters(), {}), *group);
    if (rank == 0) sent = static_cast<double>(sent_bytes_of(asked.take(), ranks));
  });
  return sent;
}

/// Over the bytes of the parameters. The small model's logits are a large part: they are noted alone.
inline std::vector<Look> passed_looks() {
  const auto look = [](const auto& note) {
    return [note](const Trial& trial) {
      for (const int devices : {2, 4, 8}) {
        const GptOptions options = gpt_options(trial);
        note(trial, options, devices,
             std::to_string(devices) + " devices: ", static_cast<double>(parameter_bytes(options)));
      }
    };
  };
  const char* const unit = "times the parameters";
  return {
      {"DataParallel",
       look([unit](const Trial& trial, const GptOptions& options, int devices, const std::string& on, double whole) {
         const PassedBytes counted = passed_by_count(options, devices);
         const PassedBytes formula = passed_by_formula(options, devices);
         trial.note(on + "out of the first", counted.out / whole, unit);
         trial.note(on + "out, formula", formula.out / whole, unit);
         trial.note(on + "into the first", counted.in / whole, unit);
         trial.note(on + "in, formula", formula.in / whole, unit);
       })},
      {"DDP",
       look([unit](const Trial& trial, const GptOptions& options, int devices, const std::string& on, double whole) {
         const double sent = sent_by_ddp(options, devices), formula = 2.0 * (devices - 1) / devices;
         trial.note(on + "out of the first", sent / whole, unit);
         trial.note(on + "out, formula", formula, unit);
         trial.note(on + "into the first", sent / whole, unit);
         trial.note(on + "in, formula", formula, unit);
       })}};
}

}  // namespace tenfold::inline lesson_51
