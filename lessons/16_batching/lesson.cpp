// Lesson 16 - Batching
// How much does it save to augment a whole batch at once?
// image_views.h is the technique, in three forms; update() is the same for all variants.
#include "common/harness/lesson.h"
#include <ATen/record_function.h>
#include "decoded_images.h"
#include "image_views.h"
#include "prediction.h"

#include <algorithm>
#include <array>

namespace {
using tenfold::Dataset;
using tenfold::DecodedImages;
using tenfold::kStored;
using tenfold::Loader;
using tenfold::PixelScale;
using tenfold::Row;
using tenfold::SampleRandom;
using tenfold::Step;
using tenfold::Trial;
using tenfold::View;
using torch::Tensor;
namespace clipart = tenfold::clipart;
namespace convnet = tenfold::convnet;

/// One update from images (B, 3, S, S) and labels (B).
Tensor update(DecodedImages& work, const Tensor& images, const Tensor& labels) {
  work.training.optimizer->zero_grad();
  Tensor loss = torch::cross_entropy_loss(work.training.model(images), labels);
  loss.backward();
  work.training.optimizer->step();
  return loss;
}

/// Without the technique: the straightforward way. Each image goes through its own operators, then all are stacked.
Step by_hand(const Trial& trial) {
  auto work = std::make_shared<DecodedImages>(trial);
  auto numbers = std::make_shared<tenfold::SampleNumbers>(work->shard->size(), work->options);
  const Tensor shift = PixelScale().shifts(torch::kCPU);
  const Tensor factor = PixelScale().factors(torch::kCPU);
  const auto step = [work, numbers, shift, factor] {
    Tensor images;
    Tensor labels;
    {
      RECORD_USER_SCOPE("data");
      std::vector<Tensor> views;
      std::vector<int64_t> classes;
      for (const int64_t sample : numbers->next()) {
        SampleRandom random = numbers->random(sample);
        views.push_back(tenfold::view_of(work->image(sample), work->view(random), work->side, shift, factor));
        classes.push_back(work->shard->label(sample));
      }
      images = torch::stack(views);
      labels = torch::tensor(classes, torch::kLong);
    }
    return update(*work, images.to(work->device), labels.to(work->device));
  };
  return {.items = work->options.batch, .parameters = work->parameters(), .update = step};
}

/// The loader calls one function for each image, which writes it to its row of the batch: no operators, no stacking.
Step loader(const Trial& trial) {
  auto work = std::make_shared<DecodedImages>(trial);
  const auto load = [work, scale = PixelScale()](int64_t i, SampleRandom& random, const Row& row) {
    write_view(work->shard->record(i), kStored, kStored, work->view(random), work->side, scale, row.field<float>(0));
    row.field<int64_t>(1)[0] = work->shard->label(i);
  };
  const Dataset samples{.size = work->shard->size(),
                        .fields = {{{3, work->side, work->side}, torch::kFloat}, {{}, torch::kLong}},
                        .load = load};
  auto batches = std::make_shared<Loader>(samples, work->options);
  const auto step = [work, batches] {
    const auto batch = batches->next_of_any_epoch().to(work->device);
    return update(*work, batch[0], batch[1]);
  };
  return {.items = work->options.batch, .parameters = work->parameters(), .update = step};
}

/// The loader only collects bytes and draws numbers; a few operators transform the whole batch where the model is.
Step batched_views(const Trial& trial, bool one_view) {
  auto work = std::make_shared<DecodedImages>(trial);
  const auto load = [work](int64_t i, SampleRandom& random, const Row& row) {
    std::ranges::copy(work->shard->record(i), row.field<uint8_t>(0).begin());
    row.field<int64_t>(1)[0] = work->shard->label(i);
    const View view = work->view(random);
    std::ranges::copy(std::array{view.top, view.left, int64_t{view.flip}}, row.field<int64_t>(2).begin());
  };
  const Dataset samples{.size = work->shard->size(),
                        .fields = {{{kStored, kStored, 3}, torch::kByte}, {{}, torch::kLong}, {{3}, torch::kLong}},
                        .load = load};
  auto batches = std::make_shared<Loader>(samples, work->options);
  const Tensor shift = PixelScale().shifts(trial.device);
  const Tensor factor = PixelScale().factors(trial.device);
  const auto step = [work, batches, shift, factor, one_view] {
    const auto batch = batches->next_of_any_epoch().to(work->device);
    RECORD_USER_SCOPE("transform");
    const Tensor views = one_view ? batch[2].narrow(0, 0, 1).expand({work->options.batch, 3}) : batch[2];
    return update(*work, tenfold::views_of(batch[0], views, work->side, shift, factor), batch[1]);
  };
  return {.items = work->options.batch, .parameters = work->parameters(), .update = step};
}
Step batched(const Trial& trial) { return batched_views(trial, /*one_view=*/false); }

/// The mistake: with one operator for the batch goes one draw for the batch. All its images move and turn together.
Step one_draw(const Trial& trial) { return batched_views(trial, /*one_view=*/true); }
}  // namespace

int main(int argc, char** argv) {
  using namespace tenfold::expect;
  using tenfold::Expect;
  return tenfold::run(
      argc, argv,
      {.title = "Batching",
       .question = "How much does it save to augment a whole batch at once?",
       .workload = tenfold::clipart_workload,
       .version = 5,
       .settings = {tenfold::kSide},
       .baseline = {"by hand", by_hand},
       .most_bytes = tenfold::most_bytes,
       .techniques = {{"loader", loader, tenfold::one_pass},
                      {"batched", batched, tenfold::few_operators},
                      {"one draw", one_draw}},
       .cases = {{"convnet",
                  {},
                  {{"loader", {FASTER, SAME_MEMORY}}, {"batched", {}, on_cuda(FASTER)}, {"one draw", TRAP}}},
                 {"light model",
                  {convnet::kChannels(2), clipart::kBatch(128)},
                  {{"loader", {FASTER, SAME_MEMORY}}, {"batched", {FASTER, LARGER}}}},
                 {"small images",
                  {convnet::kChannels(2), tenfold::kSide(16), clipart::kBatch(128)},
                  {{"loader", {FASTER, SAME_MEMORY}}, {"batched", {FASTER, LARGER}}}},
                 {"compute-bound",
                  {convnet::kChannels(48, 128, 1024), clipart::kBatch(16, 64, 32)},
                  {{"loader", {SAME_SPEED, SAME_MEMORY}, on_cuda(SAME_MEMORY)},
                   {"batched", {SAME_SPEED, SAME_MEMORY}, on_cuda()}}}},
       .headline = tenfold::Headline{"light model", "batched"}});
}
