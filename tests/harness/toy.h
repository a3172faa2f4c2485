#pragma once
// A lesson small enough to run in milliseconds: a linear model on random normal data, trained for real.

#include <gtest/gtest.h>

#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "common/harness/lesson.h"
#include "common/result/result.h"

namespace toy {

using tenfold::Step;
using tenfold::Trial;
using torch::Tensor;

inline constexpr tenfold::Setting<int64_t> kRepeat{"repeat", 1, "forward passes of a step"};

struct Model {
  explicit Model(torch::Device device = torch::kCPU) {
    layer->to(device);
    inputs = inputs.to(device);
    targets = targets.to(device);
  }

  torch::nn::Linear layer{200, 50};
  torch::optim::SGD optimizer{layer->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9)};
  Tensor inputs = torch::randn({64, 200}), targets = torch::randn({64, 50});
};

/// One update; `spoil(loss)` may change what is differentiated.
template <class Spoil>
Step train(const Trial& trial, Spoil spoil) {
  auto model = std::make_shared<Model>(trial.device);
  const int64_t repeat = trial.get(kRepeat);
  return {64, model->layer->named_parameters(), [model, spoil, repeat] {
            model->optimizer.zero_grad();
            Tensor loss;
            for (int64_t i = 0; i < repeat; ++i) loss = torch::mse_loss(model->layer(model->inputs), model->targets);
            spoil(loss).backward();
            model->optimizer.step();
            return loss;
          }};
}

inline Step plain(const Trial& trial) {
  return train(trial, [](const Tensor& loss) { return loss; });
}
inline Step wrong_scale(const Trial& trial) {
  return train(trial, [](const Tensor& loss) { return 2 * loss; });
}
inline Step not_a_number(const Trial& trial) {
  return train(trial, [](const Tensor& loss) { return loss * std::numeric_limits<float>::quiet_NaN(); });
}
inline Step out_of_memory(const Trial& trial) {
  Step step = plain(trial);
  step.update = []() -> Tensor { return torch::empty({int64_t{1} << 55}); };
  return step;
}
inline Step skips(const Trial& trial) { trial.skip("needs a device that is not here"); }
inline Step throws(const Trial&) { throw std::runtime_error("a sentence that says what is wrong"); }

inline tenfold::Lesson lesson() {
  return {.title = "Toy",
          .question = "?",
          .workload = {.name = "mlp"},
          .settings = {kRepeat},
          .baseline = {"plain", plain},
          .techniques = {{"twin", plain}},
          .cases = {{"toy"}}};
}

struct Ran {
  int code = -1;
  tenfold::Result result;
  std::string out, err;
  bool wrote = false;
};

/// Runs a lesson in this process with these flags.
inline Ran run_plain(const tenfold::Lesson& lesson, std::vector<std::string> words) {
  words.insert(words.begin(), "99_toy");
  std::vector<char*> argv;
  for (auto& word : words) argv.push_back(word.data());
  Ran ran;
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  ran.code = tenfold::run(static_cast<int>(argv.size()), argv.data(), lesson);
  ran.out = testing::internal::GetCapturedStdout();
  ran.err = testing::internal::GetCapturedStderr();
  return ran;
}

/// The same, and reads what it wrote.
inline Ran run(const tenfold::Lesson& lesson, const std::vector<std::string>& flags) {
  const auto file = std::filesystem::temp_directory_path() / ("tenfold_toy_" + std::to_string(getpid()) + ".json");
  std::filesystem::remove(file);
  std::vector<std::string> words{"--json", file.string()};
  words.insert(words.end(), flags.begin(), flags.end());
  Ran ran = run_plain(lesson, words);
  ran.wrote = std::filesystem::exists(file);
  if (ran.wrote) ran.result = tenfold::read_result(file);
  std::filesystem::remove(file);
  return ran;
}

}  // namespace toy
