#pragma once
// The pipeline on texts: from speeches to an update of the GPT.

#include <memory>
#include <utility>
#include <vector>

#include "common/models/speech_batches.h"
#include "lessons/15_variable_length/packed_gpt.h"
#include "trainer.h"

namespace tenfold::inline lesson_90 {

/// Everything that one variant trains with.
struct TextTraining {
  TextTraining(const Trial& trial, const Levers& levers)
      : levers(levers),
        device(trial.device),
        packing(std::make_shared<Packing>()),
        gpt(trial, gpt_options(trial.size),
            levers.packed
                ? with_packed_attention(packing, trial.device.is_cuda() ? attention_in_one_kernel : attention_of_each)
                : GptParts{}),
        speeches({gpt.model->options.tokens, trial.get(kSpeeches), gpt.model->options.length}, trial.seed),
        rank(levers.ranks ? trial.rank : 0),
        ranks(levers.ranks ? trial.world_size : 1),
        trainer(trial, levers, gpt.model.ptr(), gpt_options(trial.size).learning_rate, held_out(trial)) {}

  /// The mean over the tokens of all ranks' texts: each rank's part, times the ranks, since gradients are averaged.
  torch::Tensor update() {
    std::vector<TextIds> own;
    double all_tokens = 0, own_tokens = 0;
    {
      RECORD_USER_SCOPE("data");
      const std::vector<TextIds> texts = speeches.next();
      for (size_t i = 0; i < texts.size(); ++i) {
        const auto tokens = static_cast<double>(texts[i].size() - 1);
        all_tokens += tokens;
        if (static_cast<int64_t>(i) % ranks != rank) continue;
        own_tokens += tokens;
        own.push_back(texts[i]);
      }
    }
    const double weight = static_cast<double>(ranks) * own_tokens / all_tokens;
    return trainer.update([&] { return weight * (levers.packed ? packed(own) : padded(own)); });
  }

  /// One row with nothing between, and attention that keeps the texts apart.
  torch::Tensor packed(const std::vector<TextIds>& texts) {
    return packed_loss(*gpt.model, packing, pack_batch(texts, device));
  }
  /// Each text filled up to the longest of all, as padding="max_length" has it.
  torch::Tensor padded(const std::vector<TextIds>& texts) {
    const auto [ids, targets] = pad_batch(texts, speeches.longest_of_all(), device);  // (B, T) each
    return gpt.model->loss(gpt.model->hidden(ids), targets);
  }

  Levers levers;
  torch::Device device;
  CurrentPacking packing;
  GptTraining gpt;
  SpeechBatches speeches;
  int64_t rank, ranks;
  Trainer trainer;

 private:
  /// Windows of the plays that are not trained on. Whole windows: no text has to be kept from another one.
  HeldOut held_out(const Trial& trial) {
    const GptOptions& options = gpt.model->options;
    constexpr int64_t kWindows = 128;
    const TextBatch windows = sample_batch(shakespeare_tokens(options.tokens, /*train=*/false), kWindows,
                                           options.length, at::detail::createCPUGenerator(/*seed=*/1));
    return {tensor_on(trial.device, windows.ids), tensor_on(trial.device, windows.targets),
            [this](const torch::Tensor& ids, const torch::Tensor& targets) { return window_loss(ids, targets); }};
  }

  torch::Tensor window_loss(const torch::Tensor& ids, const torch::Tensor& targets) {
    if (!levers.packed) return gpt.model->loss(gpt.model->hidden(ids), targets);
    const auto count = static_cast<size_t>(ids.size(0));
    return packed_loss(
        *gpt.model, packing,
        {ids.flatten(), targets.flatten(), make_packing(std::vector<int64_t>(count, ids.size(1)), device)});
  }
};

inline Step text_step(const Trial& trial, const Levers& levers) {
  auto work = std::make_shared<TextTraining>(trial, levers);
  return training_step(trial, work, work->speeches.tokens_per_step());
}

}  // namespace tenfold::inline lesson_90
