#pragma once
// What the variants of lesson 34 train with: a GPT whose activations, optimizer or weights wait on the host.

#include <torch/torch.h>

#include <ATen/core/CachingHostAllocator.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "activation_offload.h"
#include "common/harness/lesson.h"
#include "common/measure/memory.h"
#include "common/models/gpt.h"
#include "host_pool.h"
#include "lessons/12_transfer_overlap/copy_streams.h"
#include "lessons/21_mixed_precision/autocast.h"
#include "lessons/31_activation_checkpointing/checkpoint.h"
#include "lessons/45_fused_adamw/adamw_steps.h"
#include "optimizer_offload.h"
#include "settings.h"
#include "weight_stream.h"

namespace tenfold::inline lesson_34 {

using torch::Tensor;

#ifdef TENFOLD_WITH_CUDA
/// The mistake: copies are queued where the compute is. They need no waits, and overlap nothing.
class ComputeStream {
 public:
  using Event = StreamEvent;
  explicit ComputeStream(torch::Device device) : device_(device) {}
  torch::Device device() const { return device_; }
  void copy(const Tensor& to, const Tensor& from) { to.copy_(from, /*non_blocking=*/true); }
  void mark_copies(Event&) {}
  void mark_compute(Event&) {}
  void copies_wait_for(Event&) {}
  void compute_waits_for(Event&) {}

 private:
  torch::Device device_;
};
#endif

/// Notes what went over the link in each step.
class NoteMoved {
 public:
  explicit NoteMoved(Trial trial) : trial_(std::move(trial)) {}
  /// `offload` counts since it was made.
  void operator()(const auto& offload) {
    trial_.note("to the host", static_cast<double>(offload.bytes_to_host() - to_host_), "bytes");
    trial_.note("to the device", static_cast<double>(offload.bytes_to_device() - to_device_), "bytes");
    to_host_ = offload.bytes_to_host();
    to_device_ = offload.bytes_to_device();
  }

 private:
  Trial trial_;
  int64_t to_host_ = 0, to_device_ = 0;
};

/// What of a block waits on the host.
struct Away {
  bool only_input = false;  ///< the block is computed again from it
  bool waits = true;        ///< see ActivationOffload
  bool drop_pool = false;   ///< after each step, and page-lock again
};

/// AdamW where the parameters are.
inline auto adamw_of(const Trial& trial, GptTraining& gpt) {
  auto state = std::make_shared<AdamWState>(gpt.parameters().values());
  return [state, settings = adamw_settings(trial)] { fused_adamw(*state, settings); };
}

/// (B, T, D) -> (B, T, D), each block recomputed in backward().
inline Tensor checkpointed_blocks(GptImpl& model, Tensor h) {
  for (const GptBlock& block : model.blocks) h = checkpoint(block, h);
  return h;
}

/// A GPT whose blocks' activations wait on the host.
template <class Copies>
struct ActivationsAway {
  ActivationsAway(const Trial& trial, GptTraining& gpt, const Away& how)
      : away(how),
        copies(trial.device),
        pool(std::make_shared<HostPool>(/*pinned=*/trial.device.is_cuda())),
        stay(trial.get(kStay)),
        offload(copies, pool, gpt.model->parameters(), trial.get(kLeastBytes), how.waits) {}

  /// (B, T, D) -> (B, T, D)
  Tensor blocks_forward(GptImpl& model, Tensor h) {
    const auto layers = static_cast<int64_t>(model.blocks.size());
    for (int64_t i = 0; i < layers; ++i) {
      const GptBlock& block = model.blocks[static_cast<size_t>(i)];
      if (!away.only_input) keep_copies_of(*block);
      const auto run = [&](const Tensor& x) { return away.only_input ? checkpoint(block, x) : GptBlock(block)(x); };
      h = offload.block(run, h, /*stays=*/i >= layers - stay);
    }
    offload.end_of_forward();
    return h;
  }

  /// Under autocast a matmul saves its weight's 16-bit copy.
  void keep_copies_of(const GptBlockImpl& block) {
    for (const auto& layer : {block.qkv, block.projection, block.up, block.down})
      offload.keep(autocast_input(layer->weight));
  }

  /// All page-locked memory goes back to the driver, LibTorch's cache of it included.
  void drop_pool() {
    synchronize(copies.device());
    pool->drop();
    at::getHostAllocator(copies.device().type())->empty_cache();
  }

  Away away;
  Copies copies;
  std::shared_ptr<HostPool> pool;
  int64_t stay;
  ActivationOffload<Copies> offload;
};

/// Each of the host's parameters with its averages, there.
class HostAdamW {
 public:
  HostAdamW(size_t parameters, const kernels::AdamWSettings& settings) : states_(parameters), settings_(settings) {}
  void update(size_t i, Tensor& parameter, const Tensor& gradient) {
    parameter.mutable_grad() = gradient;
    if (!states_[i]) states_[i].emplace(std::vector<Tensor>{parameter});
    fused_adamw(*states_[i], settings_);
  }

 private:
  std::vector<std::optional<AdamWState>> states_;
  kernels::AdamWSettings settings_;
};

/// What of the model states is on the host.
enum class StatesAway { averages, gradients, parameters };

/// A GPT whose optimizer works on the host; with gradients or the blocks' weights there, too.
template <class Copies>
struct OptimizerAway {
  OptimizerAway(const Trial& trial, GptTraining& gpt, StatesAway away)
      : to_host(trial.device),
        to_device(trial.device),
        parameters(gpt.parameters()),
        adamw(parameters.size(), adamw_settings(trial)),
        optimizer(to_host, to_device, parameters.values(), come_back(parameters, away),
                  [this](size_t i, Tensor& parameter, const Tensor& gradient) { adamw.update(i, parameter, gradient); },
                  {.leave = away != StatesAway::averages}) {
    if (away == StatesAway::parameters) weights.emplace(to_device, weights_of_blocks(gpt.model->options.layers));
  }

  /// (B, T, D) -> (B, T, D)
  Tensor blocks_forward(GptImpl& model, Tensor h) {
    if (!weights) return model.blocks_forward(h);
    for (size_t i = 0; i < model.blocks.size(); ++i) {
      weights->before_forward(i);
      h = model.blocks[i]->forward(h);
      weights->after_forward(i);
      h.register_hook([this, i](const Tensor& /*gradient*/) { weights->before_backward(i); });
    }
    return h;
  }

  void step() {
    if (weights) weights->after_backward();
    optimizer.step();
  }

  /// What the host has.
  Gathered gather() const {
    Gathered whole;
    for (size_t i = 0; i < parameters.size(); ++i) {
      whole.parameters.insert(parameters[i].key(), optimizer.host_parameters()[i]);
      whole.gradients.insert(parameters[i].key(), optimizer.host_gradients()[i]);
    }
    return whole;
  }

  int64_t bytes_to_host() const { return optimizer.bytes_to_host(); }
  int64_t bytes_to_device() const { return optimizer.bytes_to_device() + (weights ? weights->bytes_to_device() : 0); }

  static bool is_of_a_block(const std::string& name) { return name.starts_with("block"); }

  static std::vector<bool> come_back(const Parameters& parameters, StatesAway away) {
    std::vector<bool> come;
    for (const auto& item : parameters) come.push_back(away != StatesAway::parameters || !is_of_a_block(item.key()));
    return come;
  }

  std::vector<std::vector<typename WeightStream<Copies>::Weight>> weights_of_blocks(int64_t layers) const {
    std::vector<std::vector<typename WeightStream<Copies>::Weight>> blocks(static_cast<size_t>(layers));
    for (size_t i = 0; i < parameters.size(); ++i) {
      const std::string& name = parameters[i].key();
      if (!is_of_a_block(name)) continue;
      const size_t block = std::stoul(name.substr(std::string("block").size()));
      blocks.at(block).push_back({parameters[i].value(), optimizer.host_parameters()[i]});
    }
    return blocks;
  }

  Copies to_host, to_device;
  Parameters parameters;
  HostAdamW adamw;
  OptimizerOffload<Copies> optimizer;
  std::optional<WeightStream<Copies>> weights;
};

}  // namespace tenfold::inline lesson_34
