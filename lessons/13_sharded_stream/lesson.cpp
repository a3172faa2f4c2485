// Lesson 13 - Sharded stream
// How do several workers read one stream without reading anything twice?
// stream_loader.h is the technique; the variant "unsharded" is what happens without it.
#include "common/harness/lesson.h"
#include "lessons/10_parallel_loading/loading_workload.h"
#include "prediction.h"
#include "record_stream.h"
#include "shard_settings.h"
#include "stream_loader.h"

namespace {
using tenfold::Step;
using tenfold::StreamOptions;
using tenfold::Trial;
using torch::Tensor;
namespace clipart = tenfold::clipart;
namespace loading = tenfold::loading;

StreamOptions options_of(const Trial& trial, int workers) {
  return {.batch = trial.get(clipart::kBatch),
          .workers = workers,
          .prefetch = static_cast<int>(trial.get(loading::kPrefetch)),
          .shards = trial.get(tenfold::kShards),
          .tail = tenfold::Tail::drop,
          .seed = trial.seed,
          .rank = {trial.rank, trial.world_size},
          .pinned = trial.device.is_cuda()};
}

/// `sharded`: whether a reader of the stream is told which shard is its own, and keeps to it.
Step train(const Trial& trial, int workers, bool sharded = true) {
  const tenfold::Dataset samples = training_samples(trial);
  note_samples_read(trial, samples.size, sharded);
  const StreamOptions options = options_of(trial, workers);
  auto work = std::make_shared<tenfold::ClipartTraining>(training_on(trial, samples));
  auto loader = std::make_shared<tenfold::StreamLoader>(
      stream_of(samples, trial.get(tenfold::kBuffer), trial.seed, sharded), options);
  return {.items = options.batch,
          .parameters = work->parameters(),
          .update =
              [work, loader, device = trial.device] {
                const auto batch = loader->next_of_any_epoch().to(device);  // (B, C, S, S), (B)
                const Tensor images = batch[0].is_floating_point() ? batch[0] : tenfold::normalise_images(batch[0]);
                work->optimizer->zero_grad();
                Tensor loss = torch::cross_entropy_loss(work->model(images), batch[1]);
                loss.backward();
                work->optimizer->step();
                return loss;
              },
          .park = [loader](bool parked) { loader->park(parked); },
          .batches_ahead = options.prefetch};
}

Step in_the_loop(const Trial& trial) { return train(trial, 0); }
Step one_worker(const Trial& trial) { return train(trial, 1); }
Step two_workers(const Trial& trial) { return train(trial, 2); }

/// The mistake: every reader opens the stream and reads all of it. Nothing fails, epochs are just longer, and each
/// sample comes as often as there are readers.
Step unsharded(const Trial& trial) { return train(trial, 2, /*sharded=*/false); }
}  // namespace

int main(int argc, char** argv) {
  using namespace tenfold::expect;
  return tenfold::run(argc, argv,
                      {.title = "Sharded stream",
                       .question = "How do several workers read one stream without reading anything twice?",
                       .workload = tenfold::loading_workload,
                       .version = 5,
                       .settings = {tenfold::kShards, tenfold::kBuffer},
                       .baseline = {"in the loop", in_the_loop},
                       .most_bytes = tenfold::loading_bytes,
                       .techniques = {{"1 worker", one_worker, tenfold::overlapped(1)},
                                      {"2 workers", two_workers, tenfold::overlapped(2)},
                                      {"unsharded", unsharded}},
                       .cases = {{"convnet",
                                  {clipart::kBatch(8, 32, 32)},
                                  {{"1 worker", {FASTER, LARGER}, on_cuda(SAME_MEMORY)},
                                   {"2 workers", {FASTER, LARGER}, on_cuda({FASTER, SAME_MEMORY})},
                                   {"unsharded", TRAP}}},
                                 {"decoded",
                                  {loading::kImages("decoded"), clipart::kBatch(32, 512, 2048)},
                                  {{"1 worker", SAME_SPEED}, {"2 workers", SAME_SPEED}, {"unsharded", TRAP}}}},
                       .headline = tenfold::Headline{"convnet", "2 workers"}});
}
