// Lesson 12 - Transfer overlap
// Does a training step get faster when the copy of the next batch is overlapped with the compute of this one?
// device_prefetch.h is the technique; copy_streams.h says where copies run: a CUDA stream, or a thread without a GPU.
#include "common/harness/lesson.h"
#include <ATen/record_function.h>
#include "copy_streams.h"
#include "device_prefetch.h"
#include "prediction.h"
#include "thumbnail_training.h"

namespace {
using tenfold::Step;
using tenfold::ThumbnailTraining;
using tenfold::Trial;
using torch::Tensor;
using Tensors = std::vector<Tensor>;
namespace convnet = tenfold::convnet;

/// Builds a step with what copies run on for this device.
template <class Build>
Step with_copies(const Trial& trial, const Build& build) {
#ifdef TENFOLD_WITH_CUDA
  if (trial.device.is_cuda()) return build(std::make_shared<tenfold::CopyStream>(trial.device));
#endif
  return build(std::make_shared<tenfold::CopyThread>(trial.device));
}

/// Without the technique: the best of lesson 11. The host does not block, but the GPU copies first and computes then.
Step one_stream(const Trial& trial) {
  auto work = std::make_shared<ThumbnailTraining>(trial);
  const auto update = [work, buffer = work->buffer()] {
    {
      RECORD_USER_SCOPE("copy");
      const Tensors batch = work->next_on_host();
      for (size_t i = 0; i < batch.size(); ++i) buffer[i].copy_(batch[i], /*non_blocking=*/true);
    }
    return work->update(buffer);
  };
  return {.items = work->batch_size(), .parameters = work->parameters(), .update = update};
}

/// With it: while one batch is trained on, the next one is copied into the other buffer.
template <class Copies>
Step train_prefetched(const Trial& trial, const std::shared_ptr<Copies>& copies) {
  struct State : ThumbnailTraining {
    State(const Trial& trial, const std::shared_ptr<Copies>& copies)
        : ThumbnailTraining(trial), copies(copies), prefetch(*copies) {}
    std::shared_ptr<Copies> copies;
    tenfold::DevicePrefetch<Copies> prefetch;
    Tensors batch;
  };
  auto work = std::make_shared<State>(trial, copies);
  work->prefetch.start(work->next_on_host());
  work->batch = work->prefetch.take();
  const auto update = [work, trial] {
    work->prefetch.start(work->next_on_host());  // returns at once
    Tensor loss = work->update(work->batch);
    RECORD_USER_SCOPE("copy");  // what is left to wait for
    work->batch = work->prefetch.take();
    const tenfold::Overlap& overlap = work->prefetch.overlap();
    if (overlap.copies >= 15) trial.note("copying hidden", 100 * overlap.hidden(), "%");
    return loss;
  };
  return {.items = work->batch_size(), .parameters = work->parameters(), .update = update};
}
Step prefetch_to_device(const Trial& trial) {
  return with_copies(trial, [&](const auto& copies) { return train_prefetched(trial, copies); });
}

/// What "use two streams" often comes down to: right, and as slow as one. With a single buffer each waits for the
/// other.
Step two_streams_one_buffer(const Trial& trial) {
  return with_copies(trial, [&]<class Copies>(const std::shared_ptr<Copies>& copies) -> Step {
    auto work = std::make_shared<ThumbnailTraining>(trial);
    const auto update = [work, copies, buffer = work->buffer()] {
      const Tensors batch = work->next_on_host();
      typename Copies::Event read;
      typename Copies::Event copied;
      copies->mark_compute(read);
      copies->copies_wait_for(read);  // the last batch has been read
      for (size_t i = 0; i < batch.size(); ++i) copies->copy(buffer[i], batch[i]);
      copies->mark_copies(copied);
      {
        RECORD_USER_SCOPE("copy");
        copies->compute_waits_for(copied);  // this batch has arrived
      }
      return work->update(buffer);
    };
    return {.items = work->batch_size(), .parameters = work->parameters(), .update = update};
  });
}

/// The mistake: the compute is not told to wait until its batch has arrived. On a thread the copy is held back, so that
/// the race always ends badly; on a GPU a large copy takes longer than the compute needs to begin.
Step no_wait(const Trial& trial) {
  return with_copies(trial, [&]<class Copies>(const std::shared_ptr<Copies>& copies) -> Step {
    auto work = std::make_shared<ThumbnailTraining>(trial);
    typename Copies::Event zeroed;
    const Tensors buffer = work->buffer();
    copies->mark_compute(zeroed);
    copies->copies_wait_for(zeroed);
    const auto update = [work, copies, buffer] {
      const Tensors batch = work->next_on_host();
      copies->hold();
      for (size_t i = 0; i < batch.size(); ++i) copies->copy(buffer[i], batch[i]);
      Tensor loss = work->update(buffer);  // wrong: whatever is in the buffer by now
      copies->let_go();
      typename Copies::Event copied;
      copies->mark_copies(copied);
      copies->compute_waits_for(copied);  // too late
      return loss;
    };
    return {.items = work->batch_size(), .parameters = work->parameters(), .update = update};
  });
}
}  // namespace

int main(int argc, char** argv) {
  using namespace tenfold::expect;
  return tenfold::run(
      argc, argv,
      {.title = "Transfer overlap",
       .question = "Does a training step get faster when the copy of the next batch is overlapped with the compute of "
                   "this one?",
       .workload = tenfold::convnet_workload,
       .version = 5,
       .settings = {tenfold::kEnlarge},
       .baseline = {"one stream", one_stream},
       .most_bytes = tenfold::most_bytes,
       .techniques = {{"prefetch to device", prefetch_to_device, tenfold::longer_of_both},
                      {"two streams, one buffer", two_streams_one_buffer, tenfold::still_the_sum},
                      {"no wait", no_wait}},
       .cases = {{"convnet",
                  {},
                  {{"prefetch to device", {SAME_SPEED, SAME_MEMORY}},
                   {"two streams, one buffer", {SAME_SPEED, SAME_MEMORY}}}},
                 {"large images",
                  {convnet::kBatch(128, 256, 512), tenfold::kEnlarge(16), convnet::kChannels(2, 16, 32)},
                  {{"prefetch to device", {FASTER, LARGER}},
                   // On a CPU copies run on a thread, and handing over to it and back is not free.
                   {"two streams, one buffer", {SLOWER, SAME_MEMORY}, on_cuda({SAME_SPEED, SAME_MEMORY})},
                   {"no wait", TRAP}}},
                 {"compute-bound",
                  {convnet::kChannels(48, 128, 512), convnet::kBatch(32, 256, 512)},
                  {{"prefetch to device", {SAME_SPEED, SAME_MEMORY}}}}},
       .headline = tenfold::Headline{"large images", "prefetch to device"}});
}
