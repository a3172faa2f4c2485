// Lesson 13 - Sharded stream
//
// Question  How do several workers read one stream without reading anything twice?
// Expect    With a part of the stream for each reader, workers help as in lesson 10, and the batches stay the same.
// Not for   Samples that cost next to nothing to read (case "decoded").
// Run       ./tenfold run 13_sharded_stream
// Read      stream_loader.h is the technique; the variant "unsharded" is what happens without it.
#include <tenfold/image_workloads.h>
#include <tenfold/lesson.h>
#include <tenfold/loading_trial.h>
#include <tenfold/record_stream.h>
#include <tenfold/stream_loader.h>

#include <algorithm>
#include <numeric>

namespace {
using tenfold::Dataset;
using tenfold::Step;
using tenfold::StreamOptions;
using tenfold::Trial;
using torch::Tensor;

/// Drawings, one PNG file after the other, sorted by class as they lie in the shard; or pictures that lie in memory as they are needed.
Dataset training_set(const Trial& trial) {
  if (trial.get("decoded", 0) != 0) return tenfold::fashion_samples();
  return picture_samples(open_clipart(trial, {tenfold::PictureForm::png, 0}), {.side = trial.get("side", trial.by_size(64, 128, 224))});
}

StreamOptions options_of(const Trial& trial, int workers) {
  return {.batch = trial.get("batch", trial.by_size(32, 128, 512)),
          .workers = workers,
          .prefetch = static_cast<int>(trial.get("prefetch", 2)),
          .lanes = trial.get("lanes", 8),
          .tail = tenfold::Tail::drop,
          .seed = trial.seed,
          .rank = {trial.rank, trial.world_size},
          .pinned = trial.device.is_cuda()};
}

/// What an epoch brings: how many samples twice or more, and how many not at all.
void note_what_is_read(const Trial& trial, int64_t size, bool sharded) {
  const auto times = tenfold::times_read(size, trial.get("lanes", 8) * trial.world_size, trial.get("buffer", 256), trial.seed, sharded);
  trial.note("samples", static_cast<double>(size), "samples");
  trial.note("read in an epoch", static_cast<double>(std::accumulate(times.begin(), times.end(), int64_t{0})), "samples");
  trial.note("of them duplicates",
             std::accumulate(times.begin(), times.end(), 0.0, [](double sum, int64_t n) { return sum + std::max<double>(0, n - 1); }),
             "samples");
  trial.note("never read", static_cast<double>(std::ranges::count(times, 0)), "samples");
}

/// `sharded`: whether a reader of the stream is told which part is its own, and keeps to it.
Step train(const Trial& trial, int workers, bool sharded = true) {
  const Dataset samples = training_set(trial);
  const auto shape = samples.fields[0].shape;
  note_what_is_read(trial, samples.size, sharded);
  auto work = std::make_shared<tenfold::ClipartTraining>(trial, shape[0], shape[1], /*classes=*/10);
  auto loader = std::make_shared<tenfold::StreamLoader>(stream_of(samples, trial.get("buffer", 256), trial.seed, sharded),
                                                        options_of(trial, workers));
  return {.items = options_of(trial, workers).batch,
          .parameters = work->parameters(),
          .fn =
              [work, loader, device = trial.device] {
                const auto there = loader->next_of_any_epoch().to(device);  // (B, C, S, S), (B)
                const Tensor images = there[0].is_floating_point() ? there[0] : tenfold::normalise_images(there[0]);
                work->optimizer->zero_grad();
                Tensor loss = torch::cross_entropy_loss(work->model(images), there[1]);
                loss.backward();
                work->optimizer->step();
                return loss;
              },
          .park = [loader](bool parked) { loader->park(parked); },
          .batches_ahead = trial.get("prefetch", 2)};
}

Step in_the_loop(const Trial& trial) { return train(trial, 0); }
Step one_worker(const Trial& trial) { return train(trial, 1); }
Step two_workers(const Trial& trial) { return train(trial, 2); }

/// The mistake: every reader opens the stream and reads all of it. Nothing fails, epochs are just longer, and each sample comes as often
/// as there are readers.
Step unsharded(const Trial& trial) { return train(trial, 2, /*sharded=*/false); }
}  // namespace

int main(int argc, char** argv) {
  using namespace tenfold::expect;
  return tenfold::run(
      argc, argv,
      {.title = "Sharded stream",
       .question = "How do several workers read one stream without reading anything twice?",
       .workload = "R1",
       .baseline = {"in the loop", in_the_loop},
       .techniques = {{"1 worker", one_worker, tenfold::overlapped(1)},
                      {"2 workers", two_workers, tenfold::overlapped(2)},
                      {"unsharded", unsharded}},
       .cases = {{"R1",
                  {},
                  {{"1 worker", {FASTER, LARGER, VALID}}, {"2 workers", {FASTER, LARGER, VALID}}, {"unsharded", {ANY, ANY, TRAP}}}},
                 {"decoded",
                  {{"decoded", 1}},
                  {{"1 worker", {SAME, ANY, VALID}}, {"2 workers", {SAME, ANY, VALID}}, {"unsharded", {ANY, ANY, TRAP}}}}},
       .agreement = tenfold::Agreement::exact_on_cpu()});
}
