// Lesson 60 - Early stopping
// How much training time does stopping on a validation loss save, and what does it cost in quality?
// Read early_stopping.h first: it is the technique. with_checks() has it in a training loop, stopped_training.h trains
// to the end that it chooses; images.h has the three splits of the data.
#include "common/harness/lesson.h"
#include "chosen_on.h"
#include "early_stopping.h"
#include "images.h"
#include "prediction.h"
#include "stopped_training.h"

namespace {
using tenfold::EarlyStopping;
using tenfold::ImageSet;
using tenfold::ImagesTraining;
using tenfold::run_until;
using tenfold::Step;
using tenfold::Trial;
using torch::Tensor;

/// Without the technique. A step of the harness is `every` updates; its loss is their mean.
Step no_checks(const Trial& trial) {
  auto work = std::make_shared<ImagesTraining>(trial);
  const int64_t every = checked(trial, tenfold::kEvery, 1 << 30);
  auto updates = [work, every] {
    Tensor total = torch::zeros({}, work->device);
    for (int64_t i = 0; i < every; ++i) total += work->update();
    return total / every;
  };
  return {every * work->batch, work->parameters(), updates};
}

/// With it: a check after `every` updates. What it costs is measured here, so a stop is not obeyed.
Step with_checks(const Trial& trial) {
  auto work = std::make_shared<ImagesTraining>(trial);
  const ImageSet validation = validation_images(trial);
  const int64_t every = checked(trial, tenfold::kEvery, 1 << 30);
  auto stopping = std::make_shared<EarlyStopping>(training_state(*work->model));
  auto updates = [work, every, validation, stopping] {
    Tensor total = torch::zeros({}, work->device);
    for (int64_t i = 0; i < every; ++i) total += work->update();
    stopping->should_stop(mean_loss(work->model, validation, work->device));  // keeps the weights if they are the best
    return total / every;
  };
  return {every * work->batch, work->parameters(), updates};
}

/// The trap: the function that trains an epoch also does the validation, and so it trains on it. The validation loss
/// falls for as long as anybody waits.
Step validation_trains(const Trial& trial) {
  auto work = std::make_shared<ImagesTraining>(trial);
  const ImageSet validation = validation_images(trial);
  const int64_t every = checked(trial, tenfold::kEvery, 1 << 30);
  auto updates = [work, every, validation] {
    Tensor total = torch::zeros({}, work->device);
    for (int64_t i = 0; i < every; ++i) total += work->update();
    const Tensor images = tenfold::normalise_images(validation.images.to(work->device));
    work->update(images, validation.labels.to(work->device));  // wrong: backward() and step() on validation images
    return total / every;
  };
  return {every * work->batch, work->parameters(), updates};
}
}  // namespace

int main(int argc, char** argv) {
  using namespace tenfold;
  using namespace tenfold::expect;
  // Of the loss on images that neither training nor the stop has seen; stated before anything was measured.
  const Metric unseen_loss{.name = "loss on unseen images", .margin = 0.05, .relative = true};
  // A small model and small batches; 64 images are seen 40 times.
  const std::vector<Assignment> overfits = {kImages(64), convnet::kBatch(16), convnet::kChannels(8),
                                            convnet::kLearningRate(0.03)};
  std::vector<Assignment> few = overfits;
  few.insert(few.end(), {kValidation(128), kPatience(3)});
  const std::vector<Assignment> many = {convnet::kBatch(16), convnet::kChannels(8)};
  return run(
      argc, argv,
      {.title = "Early stopping",
       .question = "How much training time does stopping on a validation loss save, and what does it cost in quality?",
       .workload = convnet_workload,
       .version = 5,
       .settings = {kImages, kValidation, kEvery, kUpdates, kPatience},
       .baseline = {"no checks", no_checks},
       .techniques = {{"with checks", with_checks, predict_checks}, {"validation trains", validation_trains}},
       .cases = {{"convnet", {}, {{"with checks", {SLOWER, SAME_MEMORY}}, {"validation trains", TRAP}}}},
       .trainings = {{.name = "few images",
                      .metric = unseen_loss,
                      .runs = {{"to the end", run_until({})},
                               {"early stopping", run_until({.patience = 0}), NOT_WORSE},
                               // Overfitted for `patience` checks: how much of the gain is left differs between seeds.
                               {"last weights", run_until({.patience = 0, .restore = false})},
                               // Their loss goes on falling when the model learns nothing more of other images.
                               {"checks on training images", run_until({.patience = 0, .on_training_images = true})}},
                      .settings = few},
                     {.name = "many images",
                      .metric = unseen_loss,
                      .runs = {{"to the end", run_until({})},
                               {"early stopping", run_until({.patience = 0}), NOT_WORSE},
                               // Patience counts checks: here it is two updates.
                               {"patience 1, every 2", run_until({.patience = 1, .every = 2}), WORSE}},
                      .settings = many}},
       .surveys = {{"judged by the images that chose", {{"to the end", note_chosen_on}}, overfits}},
       .headline = Headline{"few images", "early stopping"},
       .agreement = Agreement::exact_on_cpu()});
}
