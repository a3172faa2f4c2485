// Lesson 10 - Parallel loading
// How much faster is training when threads read, decode and augment the next batches meanwhile?
// loader.h is the technique, workers.h its threads; train() is the same for all variants.
#include "common/harness/lesson.h"
#include "accuracy_training.h"
#include "loader.h"
#include "loading_workload.h"
#include "prediction.h"
#include "repeated_crops.h"

#include <random>

namespace {
using tenfold::Dataset;
using tenfold::Learned;
using tenfold::Loader;
using tenfold::LoaderOptions;
using tenfold::Row;
using tenfold::SampleRandom;
using tenfold::Step;
using tenfold::Trial;
using torch::Tensor;
namespace clipart = tenfold::clipart;
namespace loading = tenfold::loading;

LoaderOptions options_of(const Trial& trial, int workers) {
  return {.batch = trial.get(clipart::kBatch),
          .workers = workers,
          .prefetch = static_cast<int>(trial.get(loading::kPrefetch)),
          .tail = tenfold::Tail::drop,
          .seed = trial.seed,
          .pinned = trial.device.is_cuda()};
}

/// One update from a batch of images (B, C, S, S) and labels (B).
Tensor update(tenfold::ClipartTraining& work, const std::vector<Tensor>& batch) {
  const Tensor images = batch[0].is_floating_point() ? batch[0] : tenfold::normalise_images(batch[0]);
  work.optimizer->zero_grad();
  Tensor loss = torch::cross_entropy_loss(work.model(images), batch[1]);
  loss.backward();
  work.optimizer->step();
  return loss;
}

Step train(const Trial& trial, const Dataset& samples, int workers) {
  const LoaderOptions options = options_of(trial, workers);
  auto work = std::make_shared<tenfold::ClipartTraining>(training_on(trial, samples));
  auto loader = std::make_shared<Loader>(samples, options);
  const torch::Device device = trial.device;
  return {.items = options.batch,
          .parameters = work->parameters(),
          .update = [work, loader, device] { return update(*work, loader->next_of_any_epoch().to(device)); },
          .park = [loader](bool parked) { loader->park(parked); },
          .batches_ahead = options.prefetch};
}

Step in_the_loop(const Trial& trial) { return train(trial, training_samples(trial), 0); }
Step one_worker(const Trial& trial) { return train(trial, training_samples(trial), 1); }
Step two_workers(const Trial& trial) { return train(trial, training_samples(trial), 2); }
Step four_workers(const Trial& trial) { return train(trial, training_samples(trial), 4); }

/// The mistake: the random numbers belong to the thread. Which crop an image gets now depends on who was free first,
/// no run can be repeated; and as each thread's generator starts with the same seed, workers draw the same numbers.
Dataset seeded_by_worker(Dataset samples, uint64_t seed) {
  samples.load = [load = samples.load, seed](int64_t i, SampleRandom&, const Row& row) {
    thread_local std::mt19937_64 generator(seed);
    SampleRandom random(generator(), 0, 0);
    load(i, random, row);
  };
  return samples;
}

Step two_workers_that_seed(const Trial& trial) {
  return train(trial, seeded_by_worker(training_samples(trial), trial.seed), 2);
}

/// To the end, with the loader's random numbers or with the mistake.
Learned loader_seeds(const Trial& trial) {
  return accuracy_training(trial, clipart_samples(trial), options_of(trial, 2), update);
}
Learned workers_seed(const Trial& trial) {
  return accuracy_training(trial, seeded_by_worker(clipart_samples(trial), trial.seed), options_of(trial, 2), update);
}

/// How often the same crop is drawn, and whether a second run draws it again.
void crops_of_loader(const Trial& trial) { note_repeated_crops(trial, options_of(trial, 2)); }
void crops_of_two(const Trial& trial) { note_repeated_crops(trial, options_of(trial, 2), seeded_by_worker); }
void crops_of_four(const Trial& trial) { note_repeated_crops(trial, options_of(trial, 4), seeded_by_worker); }
}  // namespace

int main(int argc, char** argv) {
  using namespace tenfold::expect;
  using tenfold::Expect;
  // On a GPU the loop overlaps with training, too, and the loader's buffers are the host's memory.
  const Expect more{FASTER, LARGER};
  const auto on_gpu = on_cuda({FASTER, SAME_MEMORY});
  const std::vector<tenfold::Expectation> faster = {{"1 worker", more, on_cuda(SAME_MEMORY)},
                                                    {"2 workers", more, on_gpu},
                                                    {"4 workers", more, on_gpu},
                                                    {"seeded by worker", TRAP}};
  return tenfold::run(
      argc, argv,
      {.title = "Parallel loading",
       .question = "How much faster is training when threads read, decode and augment the next batches meanwhile?",
       .workload = tenfold::loading_workload,
       .version = 7,
       .core = true,
       .settings = {loading::kUpdates},
       .baseline = {"in the loop", in_the_loop},
       .most_bytes = tenfold::loading_bytes,
       .techniques = {{"1 worker", one_worker, tenfold::overlapped(1)},
                      {"2 workers", two_workers, tenfold::overlapped(2)},
                      {"4 workers", four_workers, tenfold::overlapped(4)},
                      {"seeded by worker", two_workers_that_seed}},
       // Decoding takes long: small batches keep a round of all variants short.
       .cases = {{"convnet", {clipart::kBatch(8, 32, 32)}, faster},
                 {"JPEG", {loading::kImages("jpeg"), clipart::kBatch(8, 32, 32)}, faster},
                 {"decoded",
                  {loading::kImages("decoded"), clipart::kBatch(32, 512, 2048)},
                  {{"1 worker", SAME_SPEED}, {"2 workers", SAME_SPEED}}}},
       .trainings = {{.name = "accuracy",
                      .metric = {.name = "accuracy", .unit = "%", .better = tenfold::Better::higher, .margin = 5},
                      .runs = {{"2 workers", loader_seeds}, {"seeded by worker", workers_seed, NOT_WORSE}},
                      .settings = {loading::kImages("jpeg"), clipart::kBatch(32, 64, 64), loading::kSide(32, 64, 64),
                                   tenfold::convnet::kLearningRate(0.003)}}},
       .surveys = {{"repeated crops",
                    {{"2 workers", crops_of_loader},
                     {"2 workers, seeded by worker", crops_of_two},
                     {"4 workers, seeded by worker", crops_of_four}},
                    {loading::kImages("jpeg"), clipart::kBatch(8, 32, 32), loading::kSide(32, 64, 64)}}},
       .headline = tenfold::Headline{"convnet", "2 workers"}});
}
