#pragma once
// What lesson 29 evaluates: the GPT on held-out plays, or a convnet with batch normalisation on held-out images; and
// the metric of a held-out set, batch by batch.

#include <torch/torch.h>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/record_function.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/harness/lesson.h"
#include "common/models/convnet.h"
#include "common/models/gpt.h"
#include "common/models/host_batch.h"

namespace tenfold::inline lesson_29 {

inline constexpr Setting<int64_t> kEvaluationBatch{
    "evaluation_batch", {16, 16, 32}, "sequences or images in an evaluation batch"};
inline constexpr Setting<int64_t> kLargerBatch{"larger_batch", {32, 20, 64}, "the same of 'no_grad, larger batch'"};
/// One more than a multiple of both batches: the last batch has one row.
inline constexpr Setting<int64_t> kHeldOut{"held_out", {33, 81, 129}, "sequences or images to evaluate on"};

/// The convnet with a batch normalisation behind each convolution: its running statistics are what eval() reads, and
/// what a forward pass in train mode changes.
struct NormalisedConvNetImpl : torch::nn::Module {
  explicit NormalisedConvNetImpl(const ConvNetOptions& options)
      : net(options), norm1(options.channels), norm2(2 * options.channels) {
    register_module("net", net);
    register_module("norm1", norm1);
    register_module("norm2", norm2);
  }

  torch::Tensor forward(const torch::Tensor& images) {  // (B, 1, 28, 28) -> (B, 10)
    torch::Tensor h = net->conv1(images);               // (B, C, 28, 28)
    h = norm1(h);
    h = torch::relu(h);
    h = net->conv2(h);  // (B, 2 C, 14, 14)
    h = norm2(h);
    h = torch::relu(h);
    return net->head(torch::max_pool2d(h, {2, 2}).flatten(1));
  }

  ConvNet net;
  torch::nn::BatchNorm2d norm1, norm2;
};
TORCH_MODULE(NormalisedConvNet);

using Batch = std::pair<torch::Tensor, torch::Tensor>;  // inputs and targets

/// A model with what it trains on and what it is evaluated on.
struct Evaluated {
  std::shared_ptr<torch::nn::Module> model;
  std::shared_ptr<torch::optim::Optimizer> optimizer;
  Parameters state;  ///< parameters, and running statistics: an evaluation must change neither
  std::function<Batch()> next_batch;
  /// Mean over a batch's targets, with the model in the mode that it is in.
  std::function<torch::Tensor(const torch::Tensor& inputs, const torch::Tensor& targets)> loss;
  torch::Tensor inputs, targets;  ///< held out, on the device: (N, T) ids, or (N, 1, 28, 28) images and (N) labels
  int64_t batch_rows = 0, larger_batch_rows = 0;
  int64_t items = 0;  ///< tokens or images of a step: those trained on and those evaluated

  /// One update. Its gradients stay in .grad(), and alive while the model is evaluated, as in most training loops.
  void train_one_batch() {
    RECORD_USER_SCOPE("update");
    const auto [x, y] = next_batch();
    optimizer->zero_grad();
    loss(x, y).backward();
    optimizer->step();
  }

  /// The held-out set in batches of so many rows, in order; the last has those that are left.
  std::vector<Batch> batches(int64_t batch_rows) const {
    std::vector<Batch> all;
    for (int64_t begin = 0; begin < inputs.size(0); begin += batch_rows) {
      const int64_t end = std::min(begin + batch_rows, inputs.size(0));
      all.emplace_back(inputs.slice(0, begin, end), targets.slice(0, begin, end));
    }
    return all;
  }
};

/// Mean loss over all held-out targets, whatever the batches' sizes: a sum and a count. Reads nothing back to the host.
/// With padding the count is that of the targets which are none, as in the exercise.
inline torch::Tensor mean_loss(const Evaluated& work, int64_t batch_rows) {
  torch::Tensor sum = torch::zeros({}, work.targets.options().dtype(torch::kFloat));
  int64_t count = 0;
  for (const auto& [x, y] : work.batches(batch_rows)) {
    sum += work.loss(x, y).detach() * y.numel();  // a mean times its count; detach(): the graph must not outlive it
    count += y.numel();
  }
  return sum / count;
}

inline void evaluate_gpt(Evaluated& work, const Trial& trial) {
  auto training = std::make_shared<GptTraining>(trial);
  const GptOptions& options = training->model->options;
  const TextBatch held_out = sample_batch(shakespeare_tokens(options.tokens, /*train=*/false), trial.get(kHeldOut),
                                          options.length, at::detail::createCPUGenerator(/*seed=*/1));
  work.inputs = tensor_on(trial.device, held_out.ids);
  work.targets = tensor_on(trial.device, held_out.targets);
  work.model = training->model.ptr();
  work.optimizer = {training, training->optimizer.get()};
  work.state = training->parameters();
  work.next_batch = [training] { return training->next_batch(); };
  work.loss = [training](const torch::Tensor& ids, const torch::Tensor& targets) {
    return training->model->loss(training->model->hidden(ids), targets);
  };
  work.items = training->tokens_per_step() + work.targets.numel();
}

inline void evaluate_convnet(Evaluated& work, const Trial& trial) {
  const ConvNetOptions options = convnet_options(trial);
  const ImageSet set = fashion_mnist(/*train=*/false);
  const int64_t images = trial.get(kHeldOut);
  TORCH_CHECK_VALUE(images <= set.size(), "held_out=", images, ": there are ", set.size(), " images");
  NormalisedConvNet model(options);
  model->to(trial.device);
  const auto training = std::make_shared<FashionBatches>(trial, trial.get(convnet::kBatch));
  work.inputs = normalise_images(tensor_on(trial.device, set.images.slice(0, 0, images)));
  work.targets = tensor_on(trial.device, set.labels.slice(0, 0, images));
  work.model = model.ptr();
  work.optimizer = std::make_shared<torch::optim::SGD>(model->parameters(),
                                                       torch::optim::SGDOptions(options.learning_rate).momentum(0.9));
  work.state = model->named_parameters();
  for (const auto& buffer : model->named_buffers()) {
    if (buffer.value().is_floating_point()) work.state.insert(buffer.key(), buffer.value());
  }
  work.next_batch = [training] { return training->next(); };
  work.loss = [model](const torch::Tensor& x, const torch::Tensor& labels) {
    return torch::cross_entropy_loss(model.ptr()->forward(x), labels);
  };
  work.items = training->batch() + images;
}

inline std::shared_ptr<Evaluated> make_evaluated(const Trial& trial) {
  auto work = std::make_shared<Evaluated>();
  work->batch_rows = trial.get(kEvaluationBatch);
  work->larger_batch_rows = trial.get(kLargerBatch);
  (trial.workload == gpt_workload ? evaluate_gpt : evaluate_convnet)(*work, trial);
  return work;
}

/// A step of the harness: one update, then an evaluation, whose metric is the step's loss. Without an update nothing
/// would change from step to step, and the agreement check could not notice anything.
inline Step update_and_evaluate(const Trial& trial, torch::Tensor (*evaluate)(Evaluated&)) {
  const auto work = make_evaluated(trial);
  return {.items = work->items, .parameters = work->state, .update = [work, evaluate] {
            work->train_one_batch();
            RECORD_USER_SCOPE("evaluation");
            return evaluate(*work);
          }};
}

}  // namespace tenfold::inline lesson_29
