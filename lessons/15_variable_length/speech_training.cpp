#include "speech_training.h"

#include <ATen/record_function.h>

#include "lessons/21_mixed_precision/autocast.h"
#include "varlen_attention.h"

namespace tenfold::inline lesson_15 {

SpeechTraining::SpeechTraining(const Trial& trial, GptParts parts)
    : gpt(trial, std::move(parts)),
      speeches(speech_settings(trial), trial.seed),
      device(trial.device),
      under_autocast(in_16_bits(trial)) {
  plan = {speeches.longest_of_all(), trial.get(kBuckets)};
  TORCH_CHECK_VALUE(plan.buckets >= 1, "setting buckets=", plan.buckets, " must be at least 1");
}

torch::Tensor SpeechTraining::forward(const std::function<torch::Tensor()>& loss_of) const {
  const Autocast scope(device.type(), torch::kBFloat16, under_autocast);
  return loss_of();
}

torch::Tensor SpeechTraining::loss(const PaddedBatch& batch) {
  return forward([&] { return gpt.model->loss(gpt.model->hidden(batch.ids), batch.targets); });
}

std::vector<TextIds> SpeechTraining::next_texts() {
  RECORD_USER_SCOPE("data");
  return speeches.next();
}

PaddedBatch SpeechTraining::padded(const MicroBatch& part, int64_t target_of_padding) const {
  RECORD_USER_SCOPE("data");
  return pad_batch(part.texts, part.length, device, target_of_padding);
}

PackedBatch SpeechTraining::packed(const std::vector<TextIds>& texts) const {
  RECORD_USER_SCOPE("data");
  return pack_batch(texts, device);
}

Step speech_step(const std::shared_ptr<SpeechTraining>& work,
                 const std::function<torch::Tensor(const std::vector<TextIds>&)>& backward_of) {
  return {
      .items = work->speeches.tokens_per_step(), .parameters = work->gpt.parameters(), .update = [work, backward_of] {
        const std::vector<TextIds> texts = work->next_texts();
        work->gpt.optimizer->zero_grad();  // before forward: gradients must not live through the activation peak
        torch::Tensor loss = backward_of(texts);
        RECORD_USER_SCOPE("update");
        work->gpt.optimizer->step();
        return loss;
      }};
}

}  // namespace tenfold::inline lesson_15
