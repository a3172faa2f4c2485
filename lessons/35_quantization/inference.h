#pragma once
// The models of lesson 35 with replaceable linear layers, and a step that is a forward pass and no more.

#include <torch/torch.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include "common/harness/lesson.h"
#include "common/models/convnet.h"
#include "common/models/gpt.h"
#include "other_linears.h"
#include "settings.h"

namespace tenfold::inline lesson_35 {

/// A model whose linear layers may have another form.
struct Model {
  std::shared_ptr<OtherLinears> forms = std::make_shared<OtherLinears>();
  Linears linears;
  int64_t items = 0, classes = 0;  ///< of a batch: tokens or images; of its logits
  Parameters parameters;
  std::shared_ptr<torch::optim::Optimizer> optimizer;
  std::function<std::pair<torch::Tensor, torch::Tensor>()> next_batch;  ///< inputs and targets
  std::function<torch::Tensor(const torch::Tensor& inputs)> logits;     ///< (N, C), for N targets
  std::function<double()> quality;  ///< of held-out data: the GPT's loss, the convnet's accuracy in %
};

inline Model gpt_model(const Trial& trial) {
  Model made;
  const auto forms = made.forms;
  const auto training = std::make_shared<GptTraining>(
      trial,
      GptParts{.linear = [forms](torch::nn::LinearImpl& layer, const torch::Tensor& x) { return (*forms)(layer, x); },
               .head =
                   [forms](GptImpl& model, const torch::Tensor& h) {
                     return (*forms)(*model.head, model.parts->norm(*model.norm, h));
                   }});
  made.linears = linears_of(*training->model);
  made.items = training->tokens_per_step();
  made.classes = training->model->options.vocabulary();
  made.parameters = training->parameters();
  made.optimizer = {training, training->optimizer.get()};
  made.next_batch = [training] {
    auto [ids, targets] = training->next_batch();  // (B, T) each
    return std::pair(ids, targets.flatten());
  };
  made.logits = [training](const torch::Tensor& ids) { return training->model->forward(ids).flatten(0, 1); };
  made.quality = [training] { return held_out_loss(training->model); };
  return made;
}

inline Model convnet_model(const Trial& trial) {
  Model made;
  const auto training = std::make_shared<FashionConvNet>(trial);
  made.linears = linears_of(*training->model);
  made.items = training->batches.batch();
  made.classes = 10;
  made.parameters = training->parameters();
  made.optimizer = {training, training->optimizer.get()};
  made.next_batch = [training] { return training->next_batch(); };
  made.logits = [training, forms = made.forms](const torch::Tensor& images) {  // as ConvNet's forward()
    torch::Tensor h = torch::relu(training->model->conv1(images));
    h = torch::max_pool2d(torch::relu(training->model->conv2(h)), {2, 2});
    return (*forms)(*training->model->head, h.flatten(1));
  };
  made.quality = [logits = made.logits, device = trial.device] {
    constexpr int64_t kImages = 1000, kAtATime = 500;
    const ImageSet set = fashion_mnist(/*train=*/false);
    int64_t right = 0;
    for (int64_t begin = 0; begin < kImages; begin += kAtATime) {
      const torch::Tensor images = normalise_images(set.images.narrow(0, begin, kAtATime).to(device));
      const torch::Tensor labels = set.labels.narrow(0, begin, kAtATime).to(device);
      right += (logits(images).argmax(1) == labels).sum().item<int64_t>();
    }
    return 100.0 * static_cast<double>(right) / kImages;
  };
  return made;
}

inline Model make_model(const Trial& trial) {
  return trial.workload == gpt_workload ? gpt_model(trial) : convnet_model(trial);
}

/// The last outputs of a forward pass, kept where the agreement check looks: what it calls parameters. A step that was
/// skipped shows even if all outputs are alike: each step's have their own place, the last one stays empty then, and
/// each weighs three times as much as the one before.
class OutputLog {
 public:
  OutputLog(torch::Device device, int64_t rows, int64_t classes)
      : outputs_(torch::zeros({kSteps, std::min(rows, kRows), classes}, device)), steps_(torch::zeros({1}, device)) {}

  void add(const torch::Tensor& logits) {
    const torch::Tensor step = steps_ / kUnit;
    const torch::Tensor chosen = (torch::arange(kSteps, step.options()) == step.remainder(kSteps)).view({-1, 1, 1});
    const torch::Tensor newest = logits.narrow(0, 0, outputs_.size(1)) * torch::pow(3, step.remainder(kSteps));
    outputs_.copy_(torch::where(chosen, newest, outputs_));
    steps_ += kUnit;
  }

  Parameters parameters() const {
    Parameters all;
    all.insert("outputs", outputs_);
    all.insert("steps", steps_);
    return all;
  }

 private:
  static constexpr int64_t kSteps = 4, kRows = 16;  // a few kilobytes: the model's memory is what is measured
  static constexpr double kUnit = 1.0 / 1024;       // small: the deviation is to be that of the outputs
  torch::Tensor outputs_, steps_;                   // (kSteps, rows, C), (1)
};

/// A forward pass over a batch. `make` gives the linear layers another form, which is all that differs between the
/// variants; null: they stay as they are.
inline Step infer(const Trial& trial, const MakeForm& make) {
  const auto model = std::make_shared<Model>(make_model(trial));
  if (make) {
    model->forms->replace(model->linears, make);
    OtherLinears::release(model->linears);
    model->forms->count_outside();
  }
  // The GPT has a target for each item, the convnet, too.
  const auto outputs = std::make_shared<OutputLog>(trial.device, model->items, model->classes);
  return {.items = model->items, .parameters = outputs->parameters(), .update = [model, outputs] {
            const torch::NoGradGuard no_graph;
            const auto [inputs, targets] = model->next_batch();
            const torch::Tensor logits = model->logits(inputs);  // (N, C)
            outputs->add(logits);
            return torch::cross_entropy_loss(logits, targets);
          }};
}

/// Trains the model in 32 bits; each time that its quality is asked for, its linear layers have the other form.
inline Learned train_then_replace(const Trial& trial, const MakeForm& make) {
  const auto model = std::make_shared<Model>(make_model(trial));
  const Step step{.items = model->items, .parameters = model->parameters, .update = [model] {
                    model->optimizer->zero_grad();
                    const auto [inputs, targets] = model->next_batch();
                    const torch::Tensor loss = torch::cross_entropy_loss(model->logits(inputs), targets);
                    loss.backward();
                    model->optimizer->step();
                    return loss.detach();
                  }};
  return train_to_the_end(trial.device, step, {.updates = trial.get(kUpdates), .evaluations = 1}, [&] {
    if (make) model->forms->replace(model->linears, make);
    const double quality = model->quality();
    model->forms->clear();
    return quality;
  });
}

}  // namespace tenfold::inline lesson_35
