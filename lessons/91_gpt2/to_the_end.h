#pragma once
// Trainings to the end: the loss of text that is not trained on, and the text that the model writes.

#include <torch/torch.h>

#include <ATen/CPUGeneratorImpl.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "common/base/files.h"
#include "common/harness/lesson.h"
#include "common/measure/device.h"
#include "generated_text.h"
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

/// Characters (T) as text.
inline std::string text_of(const Tensor& ids) {
  std::string text;
  for (int64_t i = 0; i < ids.size(0); ++i) text += static_cast<char>(ids[i].item<int64_t>());
  return text;
}

/// Notes how many of a generated text's words the training text has. Text and weights are left in the suite's cache,
/// for whoever wants to read them: check_transformers.py does.
inline void note_text(const Trial& trial, Gpt2& model) {
  constexpr int64_t kCharacters = 200;
  constexpr size_t kLetters = 3;  // of shorter words any text has some
  const Tensor begin = torch::tensor({int64_t{'\n'}}, torch::kLong).to(trial.device);
  const std::string text = text_of(generate(model, begin, kCharacters, {.temperature = 0.8, .top_k = 20},
                                            at::detail::createCPUGenerator(trial.seed)));
  const auto& known = trial.shared<std::set<std::string>>("words of the training text", [] {
    const Tensor ids = shakespeare_tokens(Encoding::characters, /*train=*/true).to(torch::kChar);
    const auto* const bytes = reinterpret_cast<const char*>(ids.const_data_ptr<int8_t>());
    const std::vector<std::string> words = words_of({bytes, static_cast<size_t>(ids.numel())});
    return std::set<std::string>(words.begin(), words.end());
  });
  trial.note("known words", 100 * known_share(text, known, kLetters), "%");
  const std::filesystem::path folder = cache_folder() / "gpt2";
  std::filesystem::create_directories(folder);
  write_atomically(folder / "trained.txt", text);
  write_safetensors(folder / "trained.safetensors", gpt2_tensors(model), {{"format", "pt"}});
}

/// A run of a training.
inline std::function<Learned(const Trial&)> to_the_end(const Techniques& techniques) {
  return [techniques](const Trial& trial) {
    if (techniques.bf16 && trial.device.is_cpu() && !multiplies_bfloat16(trial.device))
      trial.skip("this processor has no matmuls of 16 bits: the training would take half a minute");
    const auto training = std::make_shared<Gpt2Training>(trial, techniques);
    const Step step{.items = training->tokens_per_step(), .update = [training] { return training->update(); }};
    Learned learned = train_to_the_end(trial.device, step, {.updates = trial.get(kUpdates), .evaluations = 4},
                                       [&] { return held_out_loss(trial, training->model); });
    note_text(trial, training->model);
    return learned;
  };
}

}  // namespace tenfold::inline lesson_91
