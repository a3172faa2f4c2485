#pragma once
// What lesson 28 trains, and where it logs: the MLP, or the GPT where the case says so.

#include <torch/torch.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <numeric>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "common/harness/lesson.h"
#include "common/models/gpt.h"
#include "common/models/mlp.h"

namespace tenfold {

inline constexpr Setting<std::string> kTrained{"trained", "mlp", "the workload that is trained", {"mlp", "gpt"}};

/// The settings of both workloads, with a lesson's own. Of the names that they share (layers, width, batch,
/// learning_rate) help shows the MLP's default; the GPT reads its own.
inline std::vector<DeclaredSetting> settings_of_both(const std::vector<DeclaredSetting>& more) {
  std::vector<DeclaredSetting> all = mlp_settings(more);
  all.emplace_back(kTrained);
  for (const DeclaredSetting& setting : gpt_settings()) {
    const auto same_name = [&](const DeclaredSetting& declared) { return declared.name == setting.name; };
    if (std::none_of(all.begin(), all.end(), same_name)) all.push_back(setting);
  }
  return all;
}

/// Most bytes of a step of the baseline.
inline int64_t logged_training_bytes(const Trial& trial) {
  if (trial.get(kTrained) == "gpt") return gpt_most_bytes(trial);
  return step_peak_bytes(mlp_options(trial), trial.get(mlp::kBatch));
}

/// Tensors of parameters that the workload has; `settings` is a Trial or what was counted.
template <class Settings>
int64_t parameter_tensors(const Settings& settings) {
  if (settings.get(kTrained) == "mlp") return 2 * settings.get(mlp::kLayers);
  return 12 * settings.get(gpt::kLayers) + 5;  // 12 of each block; two embeddings, the last norm and the head
}

struct LoggedTraining {
  int64_t items;
  Parameters parameters;
  torch::optim::Optimizer* optimizer;
  /// Of the next batch: the classes' logits, (N, C), and the right classes, (N); nothing stands for "does not count".
  std::function<std::pair<torch::Tensor, torch::Tensor>()> next;
};

inline LoggedTraining logged_mlp(const Trial& trial) {
  auto work = std::make_shared<MlpTraining>(trial);
  return {work->batches.batch(), work->parameters(), work->optimizer.get(), [work] {
            auto [images, labels] = work->next_batch();
            return std::pair(work->model->forward(images), labels);
          }};
}

inline LoggedTraining logged_gpt(const Trial& trial) {
  auto work = std::make_shared<GptTraining>(trial);
  return {work->tokens_per_step(), work->parameters(), work->optimizer.get(), [work] {
            auto [ids, targets] = work->next_batch();
            return std::pair(work->model->forward(ids).flatten(0, 1), targets.flatten());
          }};
}

inline LoggedTraining logged_training(const Trial& trial) {
  return trial.get(kTrained) == "gpt" ? logged_gpt(trial) : logged_mlp(trial);
}

/// The mean loss over the rows that count: those whose target is not negative.
using MeanLoss = torch::Tensor (*)(const torch::Tensor& logits, const torch::Tensor& targets);

/// The operator leaves out the rows that do not count; how many there are stays on the device.
inline torch::Tensor ignoring(const torch::Tensor& logits, const torch::Tensor& targets) {
  return torch::nn::functional::cross_entropy(logits, targets);  // ignore_index is -100
}

/// The rows that count are picked first. The size of what is picked is a number that the host needs.
inline torch::Tensor masking(const torch::Tensor& logits, const torch::Tensor& targets) {
  const torch::Tensor counts = targets.ge(0);
  return torch::nn::functional::cross_entropy(logits.index({counts}), targets.index({counts}));
}

/// A log that nobody reads: each line is formatted and written at once, as to a file.
class LogFile {
 public:
  LogFile() : file_(std::fopen("/dev/null", "w"), &std::fclose) {
    if (!file_) throw std::runtime_error("/dev/null cannot be opened: the lesson's log goes there");
  }
  void mean_loss(double mean) { write("mean loss " + std::to_string(mean) + "\n"); }
  /// As LibTorch prints a tensor.
  void print(const torch::Tensor& loss) {
    std::ostringstream line;
    line << "loss " << loss << "\n";
    write(line.str());
  }

 private:
  void write(const std::string& line) {
    std::fputs(line.c_str(), file_.get());
    std::fflush(file_.get());
  }
  std::unique_ptr<FILE, int (*)(FILE*)> file_;
};

template <class T>
double mean_of(const std::vector<T>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

}  // namespace tenfold
