#pragma once
// R2 on speeches: what all variants of lesson 15 share.

#include <torch/torch.h>

#include <functional>
#include <vector>

#include <tenfold/gpt.h>
#include <tenfold/packing.h>
#include <tenfold/padding_plans.h>
#include <tenfold/speech_batches.h>

namespace tenfold {

/// R2's model and optimizer, from the trial's seed, size and settings; what it reads is speeches, each a text of its own, instead of
/// windows of the plays. As in R2 the tokens are characters on a CPU and GPT-2's above; gpt2_tokens=1 asks for those on a CPU, too.
/// Further settings: equal (see SpeechSettings), buckets.
struct SpeechTraining {
  explicit SpeechTraining(const Trial& trial);

  /// A step's texts, and texts as tensors on the trial's device. Region "data".
  std::vector<TextIds> next_texts();
  PaddedBatch padded(const MicroBatch& part, int64_t target_of_padding) const;
  PackedBatch packed(const std::vector<TextIds>& texts) const;

  GptTraining gpt;
  SpeechBatches speeches;
  PlanSettings plan;
  torch::Device device;
};

/// One update on the next texts; `backward_of` makes their gradients and returns their loss. Items are tokens of speeches, without
/// padding. Marks the region "update".
Step speech_step(const std::shared_ptr<SpeechTraining>& work, const std::function<torch::Tensor(const std::vector<TextIds>&)>& backward_of);

/// What the variants of a trial read, by their settings.
SpeechSettings speech_settings(const Trial& trial);
SpeechSettings speech_settings(const Counted& baseline);

}  // namespace tenfold
