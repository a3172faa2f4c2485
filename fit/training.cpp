#include "fit/training.h"

#include <ATen/cuda/CUDAContextLight.h>
#include <torch/torch.h>

#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "common/base/text.h"
#include "common/measure/dry.h"
#include "common/measure/memory.h"
#include "common/models/gpt.h"
#include "lessons/21_mixed_precision/autocast.h"
#include "lessons/21_mixed_precision/grad_scaler.h"
#include "lessons/31_activation_checkpointing/checkpoint.h"
#include "lessons/33_optimizer_memory/eight_bit_adamw.h"
#include "lessons/44_cross_entropy/chunked_linear_cross_entropy.h"

namespace tenfold::fit {
namespace {

using torch::Tensor;

const torch::Device kCard(torch::kCUDA, 0);

/// Of 8-bit AdamW: most values of an average that are in 32 bits at a time, as in lesson 33 on a GPU of 80 GB.
constexpr int64_t kChunk = 1 << 24;

/// The workload's own loss knows two vocabularies; this one takes the head's. In 32 bits, as there.
Tensor whole_loss(GptImpl& model, const Tensor& h, const Tensor& targets) {
  const Tensor logits = model.logits(h).flatten(0, -2).to(torch::kFloat);  // (B T, V)
  return torch::nn::functional::cross_entropy(logits, targets.flatten());
}

Tensor loss_in_chunks(GptImpl& model, const Tensor& h, const Tensor& targets) {
  return chunked_linear_cross_entropy(model.norm(h), model.head->weight, targets);
}

/// While it lives, new parameters have this type.
class DefaultType {
 public:
  explicit DefaultType(at::ScalarType type) : before_(torch::get_default_dtype()) {
    torch::set_default_dtype(c10::scalarTypeToTypeMeta(type));
  }
  ~DefaultType() { torch::set_default_dtype(before_); }
  DefaultType(const DefaultType&) = delete;
  DefaultType& operator=(const DefaultType&) = delete;

 private:
  caffe2::TypeMeta before_;
};

/// In the host's memory, of which no page is touched: weights are not drawn where nothing is computed. So 16-bit
/// weights are made as such; to convert them would read and write all of them here.
Gpt model_of(const Sizes& sizes, const Levers& levers) {
  const DefaultType type(levers.contains(Lever::sixteen_bit_weights) ? torch::kBFloat16 : torch::kFloat);
  const GptOptions options{
      .layers = sizes.layers, .width = sizes.width, .heads = sizes.heads, .length = sizes.length, .batch = sizes.batch};
  Gpt model(options, GptParts{.loss = levers.contains(Lever::chunked_loss) ? loss_in_chunks : whole_loss});
  model->tokens = model->replace_module("tokens", torch::nn::Embedding(sizes.vocabulary, sizes.width));
  model->head = model->replace_module(
      "head", torch::nn::Linear(torch::nn::LinearOptions(sizes.width, sizes.vocabulary).bias(false)));
  return model;
}

/// Seconds in which the dry GPU's card is busy with this work, by its model. The host's part is left out: it is that of
/// this machine and of what else runs on it, and a model that may not fit keeps its card busy.
double busy_seconds(const std::function<void()>& work) {
  const double before = dry_times().busy;
  work();
  synchronize(kCard);
  return dry_times().busy - before;
}

class Training {
 public:
  /// `doing` is kept up to date: what is under way.
  Training(const Sizes& sizes, Way way, std::string& doing)
      : way_(std::move(way)), doing_(doing), model_(model_of(sizes, way_.levers)) {
    doing_ = "the parameters";
    model_->to(kCard);
    doing_ = "the optimizer's state";
    const std::vector<Tensor> parameters = model_->parameters();
    if (uses(Lever::eight_bit_adamw)) {
      update_ = [optimizer = std::make_shared<EightBitAdamW>(parameters, AdamWSettings{}, kChunk)] {
        optimizer->step();
      };
    } else {
      update_ = [optimizer = std::make_shared<AdamW>(parameters, AdamWSettings{})] { optimizer->step(); };
    }
    // Weights of 16 bits need no autocast.
    autocast_ = uses(Lever::autocast) && !uses(Lever::sixteen_bit_weights);
    if (autocast_ && type() == torch::kHalf) {
      scaler_.emplace();
      scaled_ = std::make_unique<torch::optim::SGD>(parameters, /*lr=*/0.0);
    }
    doing_ = "the batch";
    const auto tokens = torch::TensorOptions(torch::kLong).device(kCard);
    ids_ = torch::empty({way_.at_once, sizes.length}, tokens);  // (B, T); nobody reads what is in it
    targets_ = torch::empty_like(ids_);
  }

  /// One update. Its seconds by the dry GPU's model, where it has one.
  double update() {
    for (const Tensor& parameter : model_->parameters()) parameter.mutable_grad() = Tensor();
    const int64_t micro_batches = way_.batch / way_.at_once;
    double first = 0, next = 0;
    first = next = busy_seconds([&] { micro_batch(micro_batches); });
    if (micro_batches > 1) next = busy_seconds([&] { micro_batch(micro_batches); });
    doing_ = "the update";
    const double last = busy_seconds([&] {
      if (scaler_) scaler_->unscale_(*scaled_);
      update_();
      if (scaler_) scaler_->update();
    });
    return first + static_cast<double>(micro_batches - 1) * next + last;
  }

 private:
  bool uses(Lever lever) const { return way_.levers.contains(lever); }

  /// bfloat16 where tensor cores take it.
  static at::ScalarType type() {
    return at::cuda::getCurrentDeviceProperties()->major >= 8 ? torch::kBFloat16 : torch::kHalf;
  }

  void micro_batch(int64_t of) {
    doing_ = "the forward pass";
    Tensor loss;
    {
      const Autocast scope(torch::kCUDA, type(), autocast_);
      Tensor h = model_->embed(ids_);  // (B, T, D)
      for (GptBlock& block : model_->blocks) h = uses(Lever::checkpointing) ? checkpoint(block, h) : block->forward(h);
      loss = model_->loss(h, targets_) / of;
    }
    if (scaler_) loss = scaler_->scale(loss);
    doing_ = "the backward pass";
    loss.backward();
  }

  Way way_;
  std::string& doing_;
  Gpt model_;
  bool autocast_ = false;
  std::function<void()> update_;
  std::optional<GradScaler> scaler_;
  std::unique_ptr<torch::optim::Optimizer> scaled_;  // a scaler asks an optimizer for its gradients
  Tensor ids_, targets_;
};

}  // namespace

int64_t parameters_of(const Sizes& sizes) {
  const int64_t embeddings = (sizes.vocabulary + sizes.length) * sizes.width;
  const int64_t head = (sizes.vocabulary + 2) * sizes.width;  // with the last norm
  return sizes.layers * block_parameter_bytes(sizes.width) / 4 + embeddings + head;
}

int64_t card_bytes() { return device_memory_bytes(kCard); }

Counted train(const Sizes& sizes, const Way& way, int64_t memory_bytes) {
  limit_dry_memory(std::numeric_limits<int64_t>::max() / 2);
  torch::empty({1}, kCard);  // LibTorch makes its allocator when the first tensor asks for it
  // As if the process were a new one: the workspaces of cuBLAS count, too.
  at::cuda::clearCublasWorkspaces();
  release_cached_memory(kCard);
  reset_peak(kCard);
  limit_dry_memory(memory_bytes);
  Counted counted;
  std::string doing;
  try {
    Training training(sizes, way, doing);
    training.update();
    const double seconds = training.update();
    if (dry_times().modelled) counted.step_seconds = seconds;
    counted.fits = true;
  } catch (const c10::OutOfMemoryError& error) {
    counted.stopped_in = doing;
    counted.error = first_line(error.what_without_backtrace());
  }
  const auto by_kind = peaks(kCard);
  counted.reserved_bytes = by_kind.at("reserved");
  counted.allocated_bytes = by_kind.at("allocated");
  counted.requested_bytes = by_kind.at("requested");
  return counted;
}

}  // namespace tenfold::fit
