#include <tenfold/speech_training.h>

#include <ATen/record_function.h>

namespace tenfold {
namespace {

bool gpt2_tokens(const Trial& trial) { return trial.get("gpt2_tokens", trial.by_size(0, 1, 1)) != 0; }

/// GptTraining takes its vocabulary from the size.
Trial with_vocabulary(Trial trial) {
  if (gpt2_tokens(trial) && trial.size == Size::cpu) trial.size = Size::gpu8;
  return trial;
}

}  // namespace

SpeechTraining::SpeechTraining(const Trial& trial)
    : gpt(with_vocabulary(trial)), speeches(speech_settings(trial), trial.seed), device(trial.device) {
  plan = {speeches.longest_of_all(), trial.get("buckets", 4)};
  TORCH_CHECK_VALUE(plan.buckets >= 1, "setting buckets=", plan.buckets, " must be at least 1");
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
  return {work->speeches.tokens_per_step(), work->gpt.parameters(), [work, backward_of] {
            const std::vector<TextIds> texts = work->next_texts();
            work->gpt.optimizer->zero_grad();  // before forward: gradients must not live through the activation peak
            torch::Tensor loss = backward_of(texts);
            RECORD_USER_SCOPE("update");
            work->gpt.optimizer->step();
            return loss;
          }};
}

SpeechSettings speech_settings(const Trial& trial) {
  return {gpt2_tokens(trial) ? Encoding::gpt2 : Encoding::characters, trial.get("batch", trial.by_size(8, 8, 16)),
          trial.get("length", trial.by_size(64, 512, 1024)), trial.get("equal", 0)};
}

SpeechSettings speech_settings(const Counted& baseline) {
  const auto setting = [&](const char* name) { return static_cast<int64_t>(baseline.setting(name)); };
  return {setting("gpt2_tokens") != 0 ? Encoding::gpt2 : Encoding::characters, setting("batch"), setting("length"), setting("equal")};
}

}  // namespace tenfold
