#pragma once
// Lesson 24's inference: a GPT that goes on training after its forward pass was compiled; and where the package of the
// compiled one comes from.

#include <torch/torch.h>

#include <ATen/Version.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <regex>
#include <string>
#include <utility>
#include <vector>

#include "common/base/files.h"
#include "common/base/sha256.h"
#include "common/harness/lesson.h"
#include "common/models/gpt.h"
#include "lessons/35_quantization/inference.h"

namespace tenfold::inline lesson_24 {

inline constexpr Setting<bool> kForwardOnly{"forward_only", false, "the step is a forward pass; gpt alone"};

/// The program that runs this lesson's steps in Python, and answers what else Python is asked for.
inline OtherProcess in_python(std::map<std::string, std::string> environment = {}) {
  return {.environment = std::move(environment), .command = {"python", "lessons/24_compile/serve.py"}};
}

/// A GPT's weights by the names that they have in Python: "blocks.0.up.bias" for "block0.up.bias".
inline Parameters named_as_in_python(const Parameters& weights) {
  static const std::regex block("^block([0-9]+)");
  Parameters named;
  for (const auto& weight : weights) named.insert(std::regex_replace(weight.key(), block, "blocks.$1"), weight.value());
  return named;
}

/// (B, T) -> (B, T, V), without a graph.
using Forward = std::function<torch::Tensor(const torch::Tensor& ids)>;

/// The last training steps, after which a GPT only serves. Without optimizer nothing more is to be done.
inline void end_training(GptTraining& work) {
  for (int update = 0; update < 3 && work.optimizer; ++update) {
    auto [ids, targets] = work.next_batch();
    torch::cross_entropy_loss(work.model(ids).flatten(0, 1), targets.flatten()).backward();
    work.optimizer->step();
    work.optimizer->zero_grad();
  }
  work.optimizer.reset();  // and its momentum
}

/// A GPT's forward pass, which `make` prepares before the last training steps.
inline Step serve(const Trial& trial, const std::function<Forward(GptTraining&)>& make) {
  const auto work = std::make_shared<GptTraining>(trial);
  const Forward forward = make(*work);
  // What the agreement check compares: outputs of the last steps.
  const auto outputs =
      std::make_shared<OutputLog>(trial.device, work->tokens_per_step(), work->model->options.vocabulary());
  return {.items = work->tokens_per_step(), .parameters = outputs->parameters(), .update = [work, forward, outputs] {
            end_training(*work);  // in the first step
            const torch::NoGradGuard no_graph;
            const auto [ids, targets] = work->next_batch();
            const torch::Tensor logits = forward(ids).flatten(0, 1);  // (N, V)
            outputs->add(logits);
            return torch::cross_entropy_loss(logits, targets.flatten());
          }};
}

/// Where the package of the trial's GPT lies in the suite's cache. Whatever it depends on is in its name; of the Python
/// that makes it a number, which is raised when that makes something else.
inline std::filesystem::path package_file(const Trial& trial) {
  constexpr int kMadeBy = 1;
  std::string made_from = std::string(TORCH_VERSION) + " " + at::get_cpu_capability() + " " + std::to_string(kMadeBy);
  for (const auto& size : {gpt::kLayers, gpt::kWidth, gpt::kHeads, gpt::kLength, gpt::kBatch})
    made_from += " " + std::to_string(trial.get(size));
  return cache_folder() / "inductor" / ("gpt_" + sha256(made_from).substr(0, 16) + ".pt2");
}

/// The package of the trial's GPT: from the cache, or made there by Python, once. Skips where there is no Python with
/// PyTorch, or no C++ compiler. Notes what compiling took.
inline std::filesystem::path package_of(const Trial& trial) {
  const std::filesystem::path file = package_file(trial);
  if (!std::filesystem::exists(file)) {
    TrainingProcess python(trial, "package", in_python({{"TENFOLD_PACKAGE", file.string()}}));
    try {
      python.build();
    } catch (const Skipped&) {
      throw;
    } catch (const RemoteFailure& failure) {
      throw std::runtime_error("making the package: " + std::string(failure.what()));
    } catch (const std::runtime_error& error) {
      trial.skip(std::string("needs Python with PyTorch, which makes the package: ") + error.what());
    }
  }
  double seconds = 0;
  if (std::ifstream(file.string() + ".seconds") >> seconds)
    trial.note("export and compile, once", seconds, "s of a core");
  trial.note("package", static_cast<double>(std::filesystem::file_size(file)) / (1 << 20), "MiB");
  return file;
}

}  // namespace tenfold::inline lesson_24
