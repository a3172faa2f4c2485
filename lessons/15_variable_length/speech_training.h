#pragma once
// The GPT on speeches: what all variants of lesson 15 share.

#include <torch/torch.h>

#include <functional>
#include <memory>
#include <vector>

#include "common/measure/trial.h"
#include "common/models/gpt.h"
#include "common/models/precision.h"
#include "common/models/speech_batches.h"
#include "packing.h"
#include "padding_plans.h"

namespace tenfold::inline lesson_15 {

inline constexpr Setting<int64_t> kEqual{
    "equal", 0, "tokens that every speech is cut to, shorter ones left out; 0: speeches as they are"};
inline constexpr Setting<int64_t> kBuckets{"buckets", 4, "rectangles that a step's speeches are sorted into"};

/// The GPT and its optimizer, from the trial's seed, size and settings; what it reads is speeches, each a text of its
/// own, instead of windows of the plays.
struct SpeechTraining {
  /// Skips bfloat16 on a GPU without instructions for it.
  explicit SpeechTraining(const Trial& trial, GptParts parts = {});

  /// A step's texts, and texts as tensors on the trial's device. Region "data".
  std::vector<TextIds> next_texts();
  PaddedBatch padded(const MicroBatch& part, int64_t target_of_padding) const;
  PackedBatch packed(const std::vector<TextIds>& texts) const;

  /// Of a rectangle of texts, and what `loss_of` returns: forward and loss in the trial's precision.
  torch::Tensor loss(const PaddedBatch& batch);
  torch::Tensor forward(const std::function<torch::Tensor()>& loss_of) const;

  GptTraining gpt;
  SpeechBatches speeches;
  PlanSettings plan;
  torch::Device device;
  bool under_autocast;  // in 16 bits
};

/// One update on the next texts; `backward_of` makes their gradients and returns their loss. Items are tokens of
/// speeches, without padding. Marks the region "update".
Step speech_step(const std::shared_ptr<SpeechTraining>& work,
                 const std::function<torch::Tensor(const std::vector<TextIds>&)>& backward_of);

/// What the variants read, by the settings of a Trial or of Counted.
template <class Settings>
SpeechSettings speech_settings(const Settings& settings) {
  return {encoding_named(settings.get(gpt::kTokens)), settings.get(gpt::kBatch), settings.get(gpt::kLength),
          settings.get(kEqual)};
}

}  // namespace tenfold::inline lesson_15
