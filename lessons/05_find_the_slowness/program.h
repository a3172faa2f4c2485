#pragma once
// SPOILER: this file names the six inefficiencies. Solve the exercise first: ./tenfold exercise 05
//
// The training program of lesson 05, with a switch for each of them. None changes a number: the same batches, losses,
// gradients, counts of right answers and validation losses come out, in other time and memory.

#include <torch/torch.h>

#include <ATen/CPUGeneratorImpl.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "common/measure/trial.h"
#include "common/models/convnet.h"

namespace tenfold::inline lesson_05 {

inline constexpr Setting<int64_t> kImages{"images", 8192, "images of the data set that are trained on"};
inline constexpr Setting<int64_t> kUpdates{"updates", 2, "updates in an epoch, which is one step"};
inline constexpr Setting<int64_t> kValidated{"validated", 3, "batches that each epoch is validated on"};

/// What is planted; the letters are those of the tables.
struct Planted {
  bool a = false;  ///< the whole data set is normalised for each batch
  bool b = false;  ///< a second forward pass, for the count of right answers
  bool c = false;  ///< right answers are compared and read one by one
  bool d = false;  ///< the images ask for a gradient
  bool e = false;  ///< the mean loss keeps every update's graph
  bool f = false;  ///< the validation loss keeps every batch's graph
};

inline constexpr Planted kAllSix{.a = true, .b = true, .c = true, .d = true, .e = true, .f = true};

/// Model, optimizer and the first `images` of Fashion-MNIST, which stay on the host as bytes.
struct Program : ConvNetTraining {
  explicit Program(const Trial& trial)
      : ConvNetTraining(convnet_options(trial), trial.device),
        device(trial.device),
        batch(trial.get(convnet::kBatch)),
        generator(at::detail::createCPUGenerator(trial.seed)) {
    const ImageSet all = fashion_mnist(/*train=*/true);
    const int64_t images = trial.get(kImages), held_out = batch * trial.get(kValidated);
    TORCH_CHECK_VALUE(images > 0 && images + held_out <= all.size(), "images=", images, " must be 1 to ",
                      all.size() - held_out);
    train = {all.images.slice(0, 0, images), all.labels.slice(0, 0, images)};
    validation = {all.images.slice(0, all.size() - held_out), all.labels.slice(0, all.size() - held_out)};
  }

  torch::Device device;
  int64_t batch;
  at::Generator generator;
  ImageSet train, validation;
  int64_t right = 0;            ///< training images that the model had right, of the last epoch
  torch::Tensor held_out_loss;  ///< mean, of the last epoch
};

/// (B, 1, 28, 28) and (B).
inline std::pair<torch::Tensor, torch::Tensor> next_batch(Program& program, const Planted& planted) {
  RECORD_USER_SCOPE("data");
  const auto picked = torch::randint(program.train.size(), {program.batch}, program.generator, torch::kLong);
  const auto normalised = [](const torch::Tensor& bytes) {
    RECORD_USER_SCOPE("normalise");
    return normalise_images(bytes);
  };
  const torch::Tensor& all = program.train.images;
  torch::Tensor images = planted.a ? normalised(all).index_select(0, picked) : normalised(all.index_select(0, picked));
  torch::Tensor labels = program.train.labels.index_select(0, picked);
  return {images.to(program.device), labels.to(program.device)};
}

/// How many of a batch the model has right.
inline int64_t count_right(Program& program, const torch::Tensor& images, const torch::Tensor& logits,
                           const torch::Tensor& labels, const Planted& planted) {
  RECORD_USER_SCOPE("count");
  const torch::Tensor guesses = (planted.b ? program.model(images) : logits.detach()).argmax(1);  // (B)
  if (!planted.c) return (guesses == labels).sum().item<int64_t>();
  int64_t right = 0;
  for (int64_t i = 0; i < labels.size(0); ++i) right += guesses[i].item<int64_t>() == labels[i].item<int64_t>() ? 1 : 0;
  return right;
}

/// The mean loss of the held-out batches. This model has no layer with a mode: one with dropout or batch norm needs
/// eval() before and train() after it (lesson 29).
inline torch::Tensor validate(Program& program, const Planted& planted) {
  RECORD_USER_SCOPE("validation");
  const torch::AutoGradMode gradients(planted.f);
  torch::Tensor sum = torch::zeros({}, program.device);
  const int64_t batches = program.validation.size() / program.batch;
  for (int64_t i = 0; i < batches; ++i) {
    const auto rows = [&](const torch::Tensor& all) {
      return all.slice(0, i * program.batch, (i + 1) * program.batch).to(program.device);
    };
    const torch::Tensor images = normalise_images(rows(program.validation.images));
    sum = sum + torch::cross_entropy_loss(program.model(images), rows(program.validation.labels));
  }
  return sum / batches;
}

/// One epoch: some updates, then a validation. Returns the mean loss of the updates.
inline torch::Tensor epoch(Program& program, int64_t updates, const Planted& planted) {
  torch::Tensor sum = torch::zeros({}, program.device);
  program.right = 0;
  for (int64_t i = 0; i < updates; ++i) {
    auto [images, labels] = next_batch(program, planted);
    if (planted.d) images.requires_grad_();
    torch::Tensor logits, loss;
    {
      RECORD_USER_SCOPE("train");
      program.optimizer->zero_grad();
      {
        RECORD_USER_SCOPE("forward");
        logits = program.model(images);  // (B, 10)
        loss = torch::cross_entropy_loss(logits, labels);
      }
      loss.backward(/*gradient=*/{}, /*retain_graph=*/planted.e);
    }
    program.right += count_right(program, images, logits, labels, planted);  // before the update changes the model
    program.optimizer->step();
    sum = sum + (planted.e ? loss : loss.detach());
  }
  program.held_out_loss = validate(program, planted);
  const torch::Tensor mean = sum.detach() / updates;
  program.held_out_loss = program.held_out_loss.detach();
  return mean;
}

/// The variant with these inefficiencies.
inline std::function<Step(const Trial&)> with_planted(const Planted& planted) {
  return [planted](const Trial& trial) -> Step {
    const int64_t updates = trial.get(kUpdates);
    auto program = std::make_shared<Program>(trial);
    return {.items = updates * program->batch, .parameters = program->parameters(), .update = [=] {
              return epoch(*program, updates, planted);
            }};
  };
}

/// The most bytes that an epoch of the repaired program needs: the convnet's, a second batch while one is made.
inline int64_t program_most_bytes(const Trial& trial) {
  return convnet_most_bytes(trial) + fashion_batch_peak_bytes(trial.get(convnet::kBatch)) + 4096;
}

}  // namespace tenfold::inline lesson_05
