#pragma once
// The training step of lesson 91 with all techniques in it, and the files that it shares with other programs.

#include <torch/torch.h>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/record_function.h>
#include <unistd.h>

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/base/files.h"
#include "common/models/host_batch.h"
#include "gpt2_layout.h"
#include "lessons/21_mixed_precision/autocast.h"
#include "lessons/31_activation_checkpointing/checkpoint.h"
#include "lessons/45_fused_adamw/adamw_steps.h"
#include "settings.h"
#include "techniques.h"

namespace tenfold::inline lesson_91 {

using torch::Tensor;

/// As usual, but for epsilon. A gradient that is zero but for rounding (that of the keys' bias) is another one as soon
/// as sums are added in another order, and with 1e-8 AdamW makes an update of it.
inline kernels::AdamWSettings adamw_settings(const Trial& trial) {
  return {.learning_rate = trial.get(kAdamWLearningRate), .beta2 = 0.95, .epsilon = 1e-6, .weight_decay = 0};
}

/// How a variant differs from GPT-2 as it is: the traps do, and what is loaded from a file.
struct Changes {
  Gpt2Parts parts = {};
  std::function<Tensor(Gpt2& model, const Tensor& ids, const Tensor& targets)> loss = nullptr;  ///< null: the model's
  std::function<void(Gpt2& model)> prepare = nullptr;  ///< of the model on the CPU, before it trains
  std::vector<Tensor> more_parameters = {};            ///< that train, too
};

/// A block of which only the input is kept. It draws no random numbers: there is no dropout.
inline Tensor recomputed(Gpt2BlockImpl& block, const Tensor& x) {
  return checkpoint_with({.keep_random_state = false}, [&block](const Tensor& of) { return block.forward(of); }, x);
}

class Gpt2Training {
 public:
  Gpt2Training(const Trial& trial, const Techniques& techniques, Changes changes = {})
      : techniques_(techniques),
        device_(trial.device),
        batch_(trial.get(gpt2::kBatch)),
        length_(trial.get(gpt2::kLength)),
        text_(shakespeare_tokens(encoding_named(trial.get(gpt2::kTokens)), /*train=*/true)),
        generator_(at::detail::createCPUGenerator(trial.seed)),
        loss_(changes.loss ? std::move(changes.loss) : [](Gpt2& gpt2, const Tensor& ids, const Tensor& targets) {
          return gpt2->loss(ids, targets);
        }) {
    const int64_t pad_to = trial.get(kPadTo);  // read by all: predictions are made from the baseline's settings
    Gpt2Options options = gpt2_options(trial);
    if (techniques.padded_vocabulary) options.pad_vocabulary_to = pad_to;
    if (!techniques.fused_attention && !changes.parts.attention) changes.parts.attention = eager_causal_attention;
    if (techniques.checkpointing) changes.parts.block = recomputed;
    const int64_t wanted = trial.get(kMicroBatches);  // read by all, too
    if (techniques.accumulation) micro_batches_ = wanted;
    TORCH_CHECK_VALUE(batch_ % micro_batches_ == 0, "micro_batches=", micro_batches_, " do not divide batch=", batch_);
    torch::manual_seed(trial.seed);
    model = Gpt2(options, std::move(changes.parts));
    if (changes.prepare) changes.prepare(model);
    model->to(device_);
    if (techniques.tf32) {
      at::globalContext().setAllowTF32CuBLAS(true);  // the harness puts the flag back around every block
    }
    for (const Tensor& parameter : model->parameters()) parameters_.push_back(parameter);
    for (Tensor& more : changes.more_parameters) parameters_.push_back(more);
    optimizer_step_ = make_optimizer(adamw_settings(trial));
  }

  /// One update; its mean loss. backward() adds to the gradients, so that the batch may come in micro-batches.
  Tensor update() {
    const auto [ids, targets] = next_batch();  // (B, T) each
    for (Tensor& parameter : parameters_) parameter.mutable_grad() = Tensor();
    const auto micro_ids = ids.chunk(micro_batches_), micro_targets = targets.chunk(micro_batches_);
    Tensor mean;
    for (size_t i = 0; i < micro_ids.size(); ++i) {
      Tensor loss;
      {
        const Autocast scope(device_.type(), torch::kBFloat16, techniques_.bf16);
        loss = loss_(model, micro_ids[i], micro_targets[i]) / micro_batches_;
      }
      loss.backward();
      mean = i == 0 ? loss.detach() : mean + loss.detach();
    }
    RECORD_USER_SCOPE("optimizer");
    optimizer_step_();
    return mean;
  }

  int64_t tokens_per_step() const { return batch_ * length_; }
  Parameters parameters() const { return model->named_parameters(); }

  /// Parameters and gradients without the padding of the vocabulary, for the agreement check.
  Gathered without_padding() const {
    Gathered whole;
    for (const auto& item : model->named_parameters()) {
      const auto rows = [&](const Tensor& t) {
        return t.defined() && item.key() == "wte.weight" ? t.narrow(0, 0, model->options.vocabulary) : t;
      };
      whole.parameters.insert(item.key(), rows(item.value().detach()));
      whole.gradients.insert(item.key(), rows(item.value().grad()));
    }
    return whole;
  }

  Gpt2 model{nullptr};

 private:
  std::pair<Tensor, Tensor> next_batch() {
    RECORD_USER_SCOPE("data");
    const TextBatch sampled = sample_batch(text_, batch_, length_, generator_);
    return {tensor_on(device_, sampled.ids), tensor_on(device_, sampled.targets)};
  }

  std::function<void()> make_optimizer(const kernels::AdamWSettings& settings) {
    if (techniques_.fused_adamw) {
      return [state = std::make_shared<AdamWState>(parameters_), settings] { fused_adamw(*state, settings); };
    }
    const auto options = torch::optim::AdamWOptions(settings.learning_rate)
                             .betas({settings.beta1, settings.beta2})
                             .eps(settings.epsilon)
                             .weight_decay(settings.weight_decay);
    return [adamw = std::make_shared<torch::optim::AdamW>(parameters_, options)] { adamw->step(); };
  }

  Techniques techniques_;
  torch::Device device_;
  int64_t batch_, length_, micro_batches_ = 1;
  Tensor text_;
  at::Generator generator_;
  std::function<Tensor(Gpt2&, const Tensor&, const Tensor&)> loss_;
  std::vector<Tensor> parameters_;
  std::function<void()> optimizer_step_;
};

/// A file of the suite's cache, made where it is missing; several processes may ask at once.
inline std::filesystem::path shared_file(const std::string& name, const std::function<NamedTensors()>& tensors) {
  const std::filesystem::path folder = cache_folder() / "gpt2", file = folder / name;
  if (std::filesystem::exists(file)) return file;
  std::filesystem::create_directories(folder);
  const std::filesystem::path own = file.string() + "." + std::to_string(getpid());
  write_safetensors(own, tensors(), {{"format", "pt"}});
  std::filesystem::rename(own, file);
  return file;
}

/// The text to train on as GPT-2's ids, for programs that have no tokenizer.
inline std::filesystem::path token_file() {
  return shared_file("shakespeare.safetensors", [] {
    return NamedTensors{{"ids", shakespeare_tokens(Encoding::gpt2, /*train=*/true).to(torch::kInt)}};
  });
}

/// The weights that this trial's training begins with, in GPT-2's layout. serve.py and python.py make the same name.
inline std::filesystem::path start_file(const Trial& trial) {
  const Gpt2Options options = gpt2_options(trial);
  std::string name = "start";
  for (const int64_t size : {options.layers, options.width, options.heads, options.length, options.vocabulary})
    name += "_" + std::to_string(size);
  return shared_file(name + "_" + std::to_string(trial.seed) + ".safetensors", [&] {
    torch::manual_seed(trial.seed);
    return gpt2_tensors(Gpt2(options));
  });
}

}  // namespace tenfold::inline lesson_91
