#pragma once
// Trainings to the end: the loss of text that is not trained on, and the text that the model writes.

#include <torch/torch.h>

#include <ATen/CPUGeneratorImpl.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "common/base/files.h"
#include "common/harness/lesson.h"
#include "generated_text.h"
#include "survey.h"
#include "training.h"

namespace tenfold::inline lesson_91 {

/// Mean loss in 32 bits of 64 windows of the plays that are not trained on, always the same ones.
inline double held_out_loss(const Trial& trial, Gpt2& model) {
  constexpr int64_t kBatches = 8;
  const torch::NoGradGuard no_grad;
  const Tensor text = shakespeare_tokens(encoding_named(trial.get(gpt2::kTokens)), /*train=*/false);
  const at::Generator windows = at::detail::createCPUGenerator(1);
  double sum = 0;
  for (int64_t i = 0; i < kBatches; ++i) {
    const TextBatch batch = sample_batch(text, 8, trial.get(gpt2::kLength), windows);
    sum += model->loss(batch.ids.to(trial.device), batch.targets.to(trial.device)).item<double>();
  }
  return sum / static_cast<double>(kBatches);
}

/// A run of a training.
inline std::function<Learned(const Trial&)> to_the_end(const Techniques& techniques) {
  return [techniques](const Trial& trial) {
    const auto training = std::make_shared<Gpt2Training>(trial, techniques);
    return train_to_the_end(
        trial.device, {.items = training->tokens_per_step(), .update = [training] { return training->update(); }},
        {.updates = trial.get(kUpdates), .evaluations = 4}, [&] { return held_out_loss(trial, training->model); });
  };
}

/// Characters (T) as text.
inline std::string text_of(const Tensor& ids) {
  std::string text;
  for (int64_t i = 0; i < ids.size(0); ++i) text += static_cast<char>(ids[i].item<int64_t>());
  return text;
}

/// After so many updates: the held-out loss, and how many words of a generated text the training text has. Text and
/// weights are left in the suite's cache, for whoever wants to read them: check_transformers.py does.
inline void note_text(const Trial& trial, int64_t updates, const std::string& name) {
  constexpr int64_t kCharacters = 400;
  Gpt2Training training(trial, stack_of(3));
  for (int64_t i = 0; i < updates; ++i) training.update();
  const Tensor begin = torch::tensor({int64_t{'\n'}}, torch::kLong).to(trial.device);
  const std::string text = text_of(generate(training.model, begin, kCharacters, {.temperature = 0.8, .top_k = 20},
                                            at::detail::createCPUGenerator(trial.seed)));
  const auto& known = trial.shared<std::set<std::string>>("words of the training text", [] {
    const std::vector<std::string> words = words_of(text_of(shakespeare_tokens(Encoding::characters, /*train=*/true)));
    return std::set<std::string>(words.begin(), words.end());
  });
  trial.note("updates", static_cast<double>(updates), "updates");
  trial.note("held-out loss", held_out_loss(trial, training.model), "nats");
  trial.note("known words", 100 * known_share(text, known), "%");
  const std::filesystem::path folder = cache_folder() / "gpt2";
  std::filesystem::create_directories(folder);
  write_atomically(folder / (name + ".txt"), text);
  write_safetensors(folder / (name + ".safetensors"), gpt2_tensors(training.model), {{"format", "pt"}});
}

inline void untrained_text(const Trial& trial) { note_text(trial, 0, "untrained"); }
inline void trained_text(const Trial& trial) { note_text(trial, trial.get(kUpdates), "trained"); }

}  // namespace tenfold::inline lesson_91
