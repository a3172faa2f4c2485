#pragma once
// The training step of lesson 92 with all levers in it. Each is the header of the lesson that teaches it; what stands
// here is how they go together.

#include <torch/torch.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "common/models/gpt.h"
#include "lessons/03_memory_anatomy/memory_kinds.h"
#include "lessons/12_transfer_overlap/copy_streams.h"
#include "lessons/21_mixed_precision/autocast.h"
#include "lessons/31_activation_checkpointing/checkpoint.h"
#include "lessons/33_optimizer_memory/eight_bit_adamw.h"
#include "lessons/34_offload/offload_training.h"
#include "lessons/44_cross_entropy/chunked_linear_cross_entropy.h"
#include "levers.h"
#include "settings.h"

namespace tenfold::inline lesson_92 {

using torch::Tensor;

/// As usual, but for epsilon. A gradient that is zero but for rounding (that of the keys' bias) is another one as soon
/// as sums are added in another order, and with 1e-8 AdamW makes an update of it.
inline constexpr double kEpsilon = 1e-6;

/// While it lives, backward() sends no gradient to the host: further micro-batches of the update follow.
class HoldGradients {
 public:
  explicit HoldGradients(const std::vector<Tensor>& parameters) : parameters_(parameters) {
    for (const Tensor& parameter : parameters_)
      hooks_.push_back(std::exchange(torch::autograd::impl::post_acc_grad_hooks(parameter), nullptr));
  }
  ~HoldGradients() {
    for (size_t i = 0; i < parameters_.size(); ++i)
      torch::autograd::impl::post_acc_grad_hooks(parameters_[i]) = std::move(hooks_[i]);
  }
  HoldGradients(const HoldGradients&) = delete;
  HoldGradients& operator=(const HoldGradients&) = delete;

 private:
  std::vector<Tensor> parameters_;
  std::vector<std::unique_ptr<torch::autograd::PostAccumulateGradHook>> hooks_;
};

/// AdamW on the host, with its averages there. Gradients leave during the last micro-batch's backward().
template <class Copies>
struct AveragesOnHost {
  AveragesOnHost(torch::Device device, const std::vector<Tensor>& parameters, const kernels::AdamWSettings& settings)
      : to_host(device),
        to_device(device),
        adamw(parameters.size(), settings),
        optimizer(
            to_host, to_device, parameters, std::vector<bool>(parameters.size(), true),
            [this](size_t i, Tensor& parameter, const Tensor& gradient) { adamw.update(i, parameter, gradient); }) {}
  Copies to_host, to_device;
  HostAdamW adamw;
  OptimizerOffload<Copies> optimizer;
};

/// `left_out` is for counting alone: on a card that computes nothing, the host is not asked to update.
enum class HostUpdate { runs, left_out };

class FitTraining {
 public:
  /// Told what begins, Pass::input before each batch; Pass::update also before the optimizer makes its state.
  using Enter = std::function<void(Pass)>;

  /// Of the levers those that can be pulled here. Throws c10::ValueError unless the batch divides into micro-batches.
  FitTraining(const Trial& trial, const GptOptions& options, const Levers& levers, Enter enter = nullptr,
              HostUpdate host_update = HostUpdate::runs)
      : levers_(possible_in(trial, levers)),
        device_(trial.device),
        // All of these are read by all stacks: predictions are made from the baseline's settings.
        micro_batches_(trial.get(kMicroBatches)),
        chunk_rows_(trial.get(kChunkRows)),
        chunk_values_(trial.get(lesson_33::kChunk)),
        enter_(enter ? std::move(enter) : [](Pass) {}),
        gpt_(trial, options, {.loss = levers.chunked_loss ? loss_in_chunks(chunk_rows_) : nullptr}),
        parameters_(gpt_.model->parameters()) {
    if (!levers.micro_batches) micro_batches_ = 1;
    TORCH_CHECK_VALUE(options.batch % micro_batches_ == 0, "micro_batches=", micro_batches_,
                      " does not divide batch=", options.batch);
    enter_(Pass::update);
    if (host_update == HostUpdate::runs) step_ = optimizer_of(trial);
  }

  /// One update of the batch; the mean loss of its tokens.
  Tensor update() {
    enter_(Pass::input);
    const auto [ids, targets] = gpt_.next_batch();  // (B, T) each
    for (Tensor& parameter : parameters_) parameter.mutable_grad() = Tensor();
    const int64_t rows = ids.size(0) / micro_batches_;
    Tensor total = torch::zeros({}, ids.options().dtype(torch::kFloat));
    for (int64_t i = 0; i < micro_batches_; ++i) {
      std::optional<HoldGradients> hold;  // they leave when they are complete
      if (levers_.averages_on_host && i + 1 < micro_batches_) hold.emplace(parameters_);
      enter_(Pass::forward);
      const Tensor loss = loss_of(ids.narrow(0, i * rows, rows), targets.narrow(0, i * rows, rows)) / micro_batches_;
      enter_(Pass::backward);
      loss.backward();
      total += loss.detach();
    }
    enter_(Pass::update);
    if (step_) step_();
    return total;
  }

  Parameters parameters() const { return gpt_.parameters(); }
  const std::vector<Tensor>& parameter_list() const { return parameters_; }
  int64_t tokens_per_step() const { return gpt_.tokens_per_step(); }
  GptTraining& gpt() { return gpt_; }

 private:
  /// ids and targets (b, T): one micro-batch.
  Tensor loss_of(const Tensor& ids, const Tensor& targets) {
    const Autocast scope(device_.type(), torch::kBFloat16, levers_.sixteen_bits);
    const CheckpointOptions options{.keep_random_state = gpt_.model->options.dropout > 0};
    Tensor h = gpt_.model->embed(ids);  // (b, T, D)
    for (GptBlock& block : gpt_.model->blocks)
      h = levers_.checkpointing ? checkpoint_with(options, block, h) : block->forward(h);
    return gpt_.model->loss(h, targets);
  }

  static std::function<Tensor(GptImpl&, const Tensor&, const Tensor&)> loss_in_chunks(int64_t chunk_rows) {
    return [chunk_rows](GptImpl& model, const Tensor& h, const Tensor& targets) {
      return chunked_linear_cross_entropy(model.norm(h), model.head->weight, targets, {.chunk_rows = chunk_rows});
    };
  }

  std::function<void()> optimizer_of(const Trial& trial) {
    const double rate = trial.get(lesson_33::kAdamWLearningRate);
    if (levers_.averages_on_host) {
      const kernels::AdamWSettings settings{.learning_rate = rate, .epsilon = kEpsilon};
#ifdef TENFOLD_WITH_CUDA
      if (device_.is_cuda()) return on_host<CopyStream>(settings);
#endif
      return on_host<CopyThread>(settings);
    }
    const lesson_33::AdamWSettings settings{.learning_rate = rate, .epsilon = kEpsilon};
    if (levers_.eight_bit_adamw) {
      return [adamw = std::make_shared<EightBitAdamW>(parameters_, settings, chunk_values_)] { adamw->step(); };
    }
    return [adamw = std::make_shared<AdamW>(parameters_, settings)] { adamw->step(); };
  }

  template <class Copies>
  std::function<void()> on_host(const kernels::AdamWSettings& settings) {
    return
        [away = std::make_shared<AveragesOnHost<Copies>>(device_, parameters_, settings)] { away->optimizer.step(); };
  }

  Levers levers_;
  torch::Device device_;
  int64_t micro_batches_, chunk_rows_, chunk_values_;
  Enter enter_;
  GptTraining gpt_;
  std::vector<Tensor> parameters_;
  std::function<void()> step_;
};

}  // namespace tenfold::inline lesson_92
