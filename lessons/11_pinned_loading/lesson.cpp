// Lesson 11 - Pinned loading
// Does a training step get faster when its batch comes from page-locked memory?
// pinned_staging.h is the technique; the ways to fetch a batch below are the only difference.
#include "common/harness/lesson.h"
#include <ATen/record_function.h>
#include "host_stream.h"
#include "image_source.h"
#include "prediction.h"

namespace {
using tenfold::ImageBatch;
using tenfold::ImageSource;
using tenfold::ImageStaging;
using tenfold::Step;
using tenfold::Trial;
using torch::Tensor;
namespace convnet = tenfold::convnet;

/// One training step of the convnet; `fetch(source)` draws the next rows and brings them to the device.
template <class Fetch>
Step train(const Trial& trial, const Fetch& fetch) {
  auto work = std::make_shared<tenfold::ConvNetTraining>(convnet_options(trial), trial.device);
  auto source = std::make_shared<ImageSource>(trial);
  const auto update = [work, source, fetch] {
    ImageBatch batch;
    {
      RECORD_USER_SCOPE("copy");
      batch = fetch(*source);
    }
    work->optimizer->zero_grad();
    Tensor loss = torch::cross_entropy_loss(work->model(tenfold::normalise_images(batch.first)), batch.second);
    loss.backward();
    work->optimizer->step();
    return loss;
  };
  return {.items = source->batch, .parameters = work->parameters(), .update = update};
}

void need_cuda(const Trial& trial) {
  if (!trial.device.is_cuda()) trial.skip("page-locked memory serves copies to a GPU, and this run has none");
}

/// Without the technique: fresh, ordinary memory for each batch, and the host waits for the copy.
Step pageable(const Trial& trial) {
  return train(trial, [device = trial.device](ImageSource& source) {
    const Tensor picked = source.draw();
    return ImageBatch{source.set.images.index_select(0, picked).to(device),
                      source.set.labels.index_select(0, picked).to(device)};
  });
}

/// Through the ring: gather, then copy.
Step staged(const Trial& trial, bool pinned, bool non_blocking) {
  auto staging = std::make_shared<ImageStaging>(trial.device, pinned);
  return train(trial, [staging, non_blocking](ImageSource& source) {
    staging->gather(source.set, source.draw());
    return staging->send(non_blocking);
  });
}

/// Reuse alone: ordinary memory, but the same buffers again.
Step reused(const Trial& trial) { return staged(trial, /*pinned=*/false, /*non_blocking=*/false); }

/// Pinning as well, while the host still waits for the copy ...
Step pinned(const Trial& trial) {
  need_cuda(trial);
  return staged(trial, /*pinned=*/true, /*non_blocking=*/false);
}

/// ... and when it goes on at once.
Step pinned_non_blocking(const Trial& trial) {
  need_cuda(trial);
  return staged(trial, /*pinned=*/true, /*non_blocking=*/true);
}

/// Prefetching as well: a thread gathers the next batch while this one is trained on. Without a GPU nothing is pinned,
/// and what is left is prefetching.
Step prefetched(const Trial& trial) {
  struct Prefetch {
    explicit Prefetch(torch::Device device) : staging(device, /*pinned=*/device.is_cuda()) {}
    void gather_next(ImageSource& source) {
      thread.run([this, set = source.set, picked = source.draw()] { staging.gather(set, picked); });
      gathered = thread.record();
    }
    ImageStaging staging;
    std::optional<tenfold::HostEvent> gathered;
    tenfold::HostStream thread;  // the last member: it uses the staging
  };
  auto prefetch = std::make_shared<Prefetch>(trial.device);
  return train(trial, [prefetch](ImageSource& source) {
    if (!prefetch->gathered) prefetch->gather_next(source);  // the very first
    prefetch->gathered->synchronize();
    const ImageBatch batch = prefetch->staging.send(/*non_blocking=*/true);
    prefetch->gather_next(source);
    return batch;
  });
}

/// Often seen: each batch is gathered into ordinary memory and then copied once more, on the host, into pinned memory.
/// Better than waiting for the copy, and worse than gathering into pinned memory.
Step pinned_in_the_loop(const Trial& trial) {
  need_cuda(trial);
  return train(trial, [device = trial.device](ImageSource& source) {
    const Tensor picked = source.draw();
    const auto fetch = [&](const Tensor& rows) {
      return rows.index_select(0, picked).pin_memory().to(device, /*non_blocking=*/true);
    };
    return ImageBatch{fetch(source.set.images), fetch(source.set.labels)};
  });
}
}  // namespace

int main(int argc, char** argv) {
  using namespace tenfold::expect;
  using tenfold::Expect;
  const std::vector<tenfold::Expectation> where_copying_shows = {
      {"reused buffers", SAME_SPEED},
      {"pinned", {FASTER, SAME_MEMORY}},
      {"pinned, non_blocking", {FASTER, SAME_MEMORY}},
      {"prefetched", SAME_SPEED, on_cuda({FASTER, SAME_MEMORY})},
      {"pinned in the loop", SAME_MEMORY}};
  return tenfold::run(argc, argv,
                      {.title = "Pinned loading",
                       .question = "Does a training step get faster when its batch comes from page-locked memory?",
                       .workload = tenfold::convnet_workload,
                       .version = 6,
                       .baseline = {"pageable", pageable},
                       .most_bytes = tenfold::most_bytes,
                       .techniques = {{"reused buffers", reused, tenfold::same_speed},
                                      {"pinned", pinned, tenfold::faster_copy},
                                      {"pinned, non_blocking", pinned_non_blocking, tenfold::faster_copy},
                                      {"prefetched", prefetched, tenfold::faster_copy_no_gathering},
                                      {"pinned in the loop", pinned_in_the_loop}},
                       .cases = {{"convnet", {}, where_copying_shows},
                                 {"light model", {convnet::kChannels(1), convnet::kBatch(1024)}, where_copying_shows},
                                 {"compute-bound",
                                  {convnet::kChannels(48, 128, 512), convnet::kBatch(32, 256, 512)},
                                  {{"reused buffers", SAME_SPEED},
                                   {"pinned, non_blocking", {SAME_SPEED, SAME_MEMORY}},
                                   {"prefetched", SAME_SPEED}}}},
                       .headline = tenfold::Headline{"light model", "prefetched"}});
}
