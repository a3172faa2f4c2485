// Lesson 10 - Parallel loading
//
// Question  How much faster is training when threads read, decode and augment the next batches meanwhile?
// Expect    A step takes as long as the slower of the two, not as both; more workers help until the cores are busy.
// Not for   Samples that cost next to nothing (case "decoded"): handing them over costs more.
// Run       ./tenfold run 10_parallel_loading
// Read      loader.h is the technique, workers.h its threads; train() is the same for all variants.
#include <tenfold/image_workloads.h>
#include <tenfold/lesson.h>
#include <tenfold/loader.h>
#include <tenfold/loading_trial.h>

#include <chrono>
#include <random>

namespace {
using tenfold::Dataset;
using tenfold::Loader;
using tenfold::LoaderOptions;
using tenfold::Row;
using tenfold::SampleRandom;
using tenfold::Step;
using tenfold::Trial;
using torch::Tensor;

/// Drawings as the PNG files that they are, or shrunk to JPEG files of 256 pixels; both in a shard.
Dataset drawings(const Trial& trial, bool train) {
  tenfold::PackOptions form{tenfold::PictureForm::png, 0};
  if (trial.get("jpeg", 0) != 0) form = {tenfold::PictureForm::jpeg, 256};
  return picture_samples(open_clipart(trial, form, train), {.side = trial.get("side", trial.by_size(64, 128, 224)), .augment = train});
}

/// Or pictures that lie in memory as they are needed: nothing to decode.
Dataset training_set(const Trial& trial) {
  return trial.get("decoded", 0) != 0 ? tenfold::fashion_samples() : drawings(trial, /*train=*/true);
}

LoaderOptions options_of(const Trial& trial, int workers) {
  return {.batch = trial.get("batch", trial.by_size(32, 128, 512)),
          .workers = workers,
          .prefetch = static_cast<int>(trial.get("prefetch", 2)),
          .tail = tenfold::Tail::drop,
          .seed = trial.seed,
          .pinned = trial.device.is_cuda()};
}

/// One update from a batch of pictures (B, C, S, S) and labels (B).
Tensor update(tenfold::ClipartTraining& work, const std::vector<Tensor>& batch) {
  const Tensor images = batch[0].is_floating_point() ? batch[0] : tenfold::normalise_images(batch[0]);
  work.optimizer->zero_grad();
  Tensor loss = torch::cross_entropy_loss(work.model(images), batch[1]);
  loss.backward();
  work.optimizer->step();
  return loss;
}

Step train(const Trial& trial, const Dataset& samples, int workers) {
  const auto shape = samples.fields[0].shape;
  auto work = std::make_shared<tenfold::ClipartTraining>(trial, shape[0], shape[1], /*classes=*/10);
  auto loader = std::make_shared<Loader>(samples, options_of(trial, workers));
  return {.items = options_of(trial, workers).batch,
          .parameters = work->parameters(),
          .fn = [work, loader, device = trial.device] { return update(*work, loader->next_of_any_epoch().to(device)); },
          .park = [loader](bool parked) { loader->park(parked); },
          .batches_ahead = trial.get("prefetch", 2)};
}

Step in_the_loop(const Trial& trial) { return train(trial, training_set(trial), 0); }
Step one_worker(const Trial& trial) { return train(trial, training_set(trial), 1); }
Step two_workers(const Trial& trial) { return train(trial, training_set(trial), 2); }
Step four_workers(const Trial& trial) { return train(trial, training_set(trial), 4); }

/// The mistake: the random numbers belong to the thread. Which crop a picture gets now depends on who was free first, no run can be
/// repeated; and as each thread's generator starts with the same seed, workers draw the same numbers.
Step seeded_by_worker(const Trial& trial) {
  Dataset samples = training_set(trial);
  samples.load = [load = samples.load, seed = trial.seed](int64_t i, SampleRandom&, const Row& row) {
    thread_local std::mt19937_64 generator(seed);
    SampleRandom random(generator(), 0, 0);
    load(i, random, row);
  };
  return train(trial, samples, 2);
}

/// Trains for the time it has and notes how well it names drawings that it has not seen.
Step to_the_end(const Trial& trial) {
  const Dataset samples = drawings(trial, /*train=*/true), unseen = drawings(trial, /*train=*/false);
  const auto shape = samples.fields[0].shape;
  tenfold::ClipartTraining work(trial, shape[0], shape[1], 10);
  Loader loader(samples, options_of(trial, 2));
  int64_t epochs = 0, updates = 0;
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::duration<double>(trial.seconds);
  for (; std::chrono::steady_clock::now() < deadline; ++updates) {
    const tenfold::Batch* batch = loader.next();
    if (batch == nullptr) ++epochs, batch = loader.next();
    update(work, batch->to(trial.device));
  }
  const torch::NoGradGuard no_gradients;
  int64_t right = 0;
  Tensor of_class = torch::zeros({10}, torch::kLong);
  Loader test(unseen, {.batch = 64, .workers = 2, .shuffle = false, .pinned = trial.device.is_cuda()});
  while (const tenfold::Batch* batch = test.next()) {
    const auto there = batch->to(trial.device);
    right += work.model(there[0]).argmax(1).eq(there[1]).sum().item<int64_t>();
    of_class += torch::bincount(batch->fields[1], {}, 10);
  }
  const auto percent = [&](int64_t count) { return 100.0 * static_cast<double>(count) / static_cast<double>(unseen.size); };
  const auto majority = of_class.max().item<int64_t>();
  trial.note("updates", static_cast<double>(updates), "updates");
  trial.note("whole epochs", static_cast<double>(epochs), "epochs");
  trial.note("named right of unseen drawings", percent(right), "%");
  trial.note("by always naming the largest class", percent(majority), "%");
  trial.note("margin", percent(right - majority), "points");
  return {};
}
}  // namespace

int main(int argc, char** argv) {
  using namespace tenfold::expect;
  using tenfold::Expectation;
  const std::vector<Expectation> faster = {{"1 worker", {FASTER, LARGER, VALID}},
                                           {"2 workers", {FASTER, LARGER, VALID}},
                                           {"4 workers", {FASTER, LARGER, VALID}},
                                           {"seeded by worker", {ANY, ANY, TRAP}}};
  return tenfold::run(argc, argv,
                      {.title = "Parallel loading",
                       .question = "How much faster is training when threads read, decode and augment the next batches meanwhile?",
                       .workload = "R1",
                       .baseline = {"in the loop", in_the_loop},
                       .techniques = {{"1 worker", one_worker, tenfold::overlapped(1)},
                                      {"2 workers", two_workers, tenfold::overlapped(2)},
                                      {"4 workers", four_workers, tenfold::overlapped(4)},
                                      {"seeded by worker", seeded_by_worker},
                                      {"to the end", to_the_end}},
                       .cases = {{"R1", {}, faster},
                                 {"JPEG", {{"jpeg", 1}}, faster},
                                 {"decoded", {{"decoded", 1}}, {{"1 worker", {SAME, ANY, VALID}}, {"2 workers", {SAME, ANY, VALID}}}},
                                 {"accuracy", {}, {{"to the end", {}}}, "foundation"}},
                       .agreement = tenfold::Agreement::exact_on_cpu()});
}
