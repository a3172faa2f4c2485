// Lesson 12 - Transfer overlap
//
// Question  Does a training step get faster when the next batch travels while this one is trained on?
// Expect    A step takes as long as the longer of copy and compute, no longer their sum; one more batch lies on the device.
// Not for   Steps that hardly copy (cases "R1" and "compute-bound"): there is nothing to hide.
// Run       ./tenfold run 12_transfer_overlap
// Read      copy_ahead.h is the technique; copy_lanes.h says what copies run on: a CUDA stream, or a thread without a GPU.
#include <ATen/record_function.h>
#include <tenfold/copy_ahead.h>
#include <tenfold/copy_lanes.h>
#include <tenfold/lesson.h>
#include <tenfold/thumbnail_training.h>

namespace {
using tenfold::Step;
using tenfold::ThumbnailTraining;
using tenfold::Trial;
using torch::Tensor;
using Tensors = std::vector<Tensor>;

/// Builds a step on the lane that this device has.
template <class Build>
Step on_lane(const Trial& trial, const Build& build) {
#ifdef TENFOLD_WITH_CUDA
  if (trial.device.is_cuda()) return build(std::make_shared<tenfold::StreamLane>(trial.device));
#endif
  return build(std::make_shared<tenfold::ThreadLane>(trial.device));
}

/// Without the technique: the best of lesson 11. The host does not block, but the GPU copies first and computes then.
Step one_stream(const Trial& trial) {
  auto work = std::make_shared<ThumbnailTraining>(trial);
  return {work->batch(), work->parameters(), [work, buffer = work->buffer()] {
            {
              RECORD_USER_SCOPE("copy");
              const Tensors batch = work->next_on_host();
              for (size_t i = 0; i < batch.size(); ++i) buffer[i].copy_(batch[i], /*non_blocking=*/true);
            }
            return work->update(buffer);
          }};
}

/// With it: while one batch is trained on, the next one travels into the other buffer.
template <class Lane>
Step train_ahead(const Trial& trial, const std::shared_ptr<Lane>& lane) {
  struct State : ThumbnailTraining {
    State(const Trial& trial, const std::shared_ptr<Lane>& lane) : ThumbnailTraining(trial), lane(lane), ahead(*lane) {}
    std::shared_ptr<Lane> lane;
    tenfold::CopyAhead<Lane> ahead;
    Tensors here;
  };
  auto work = std::make_shared<State>(trial, lane);
  work->ahead.start(work->next_on_host());
  work->here = work->ahead.take();
  return {work->batch(), work->parameters(), [work, trial] {
            work->ahead.start(work->next_on_host());  // returns at once
            Tensor loss = work->update(work->here);
            RECORD_USER_SCOPE("copy");  // what is left to wait for
            work->here = work->ahead.take();
            if (const auto& overlap = work->ahead.overlap(); overlap.copies >= 15)
              trial.note("copying hidden", 100 * overlap.hidden(), "%");
            return loss;
          }};
}
Step copy_ahead(const Trial& trial) {
  return on_lane(trial, [&](const auto& lane) { return train_ahead(trial, lane); });
}

/// What "use two streams" often comes down to: right, and as slow as one. With a single buffer each waits for the other.
Step two_streams_one_buffer(const Trial& trial) {
  return on_lane(trial, [&]<class Lane>(const std::shared_ptr<Lane>& lane) -> Step {
    auto work = std::make_shared<ThumbnailTraining>(trial);
    return {work->batch(), work->parameters(), [work, lane, buffer = work->buffer()] {
              const Tensors batch = work->next_on_host();
              typename Lane::Event read, copied;
              lane->mark_compute(read);
              lane->copies_wait_for(read);  // the last batch has been read
              for (size_t i = 0; i < batch.size(); ++i) lane->copy(buffer[i], batch[i]);
              lane->mark_copies(copied);
              {
                RECORD_USER_SCOPE("copy");
                lane->compute_waits_for(copied);  // this batch is here
              }
              return work->update(buffer);
            }};
  });
}

/// The mistake: the compute is not told to wait until its batch is here. On a thread the copy is held back, so that the
/// race always ends badly; on a GPU a large copy takes longer than the compute needs to begin.
Step no_wait(const Trial& trial) {
  return on_lane(trial, [&]<class Lane>(const std::shared_ptr<Lane>& lane) -> Step {
    auto work = std::make_shared<ThumbnailTraining>(trial);
    typename Lane::Event zeroed;
    auto buffer = work->buffer();
    lane->mark_compute(zeroed);
    lane->copies_wait_for(zeroed);
    return {work->batch(), work->parameters(), [work, lane, buffer] {
              const Tensors batch = work->next_on_host();
              lane->hold();
              for (size_t i = 0; i < batch.size(); ++i) lane->copy(buffer[i], batch[i]);
              Tensor loss = work->update(buffer);  // wrong: whatever is in the buffer by now
              lane->let_go();
              typename Lane::Event copied;
              lane->mark_copies(copied);
              lane->compute_waits_for(copied);  // too late
              return loss;
            }};
  });
}

/// The longer of copy and compute instead of their sum, at the measured rate of copies; and a second buffer.
tenfold::Prediction longer_of_both(const tenfold::Counted& baseline) {
  const double pixels = 28 * baseline.setting("enlarge"), bytes = baseline.setting("batch") * (pixels * pixels + sizeof(int64_t));
  tenfold::Prediction prediction;
  prediction.peak_bytes = baseline.peak_bytes + static_cast<int64_t>(bytes);
  double copy = 0;
  if (const auto link = baseline.ceilings.find("cuda_h2d_pinned_bytes_per_s"); link != baseline.ceilings.end()) copy = bytes / link->second;
  // Without a GPU each byte is read and written once.
  if (const auto memory = baseline.ceilings.find("cpu_copy_bytes_per_s"); memory != baseline.ceilings.end())
    copy = 2 * bytes / memory->second;
  const double compute = baseline.step_seconds - copy;
  if (copy > 0 && compute > 0) prediction.speed_ratio = baseline.step_seconds / std::max(copy, compute);
  return prediction;
}

tenfold::Prediction still_the_sum(const tenfold::Counted& baseline) { return {.speed_ratio = 1, .peak_bytes = baseline.peak_bytes}; }
}  // namespace

int main(int argc, char** argv) {
  using namespace tenfold::expect;
  return tenfold::run(argc, argv,
                      {.title = "Transfer overlap",
                       .question = "Does a training step get faster when the next batch travels while this one is trained on?",
                       .workload = "R1",
                       .baseline = {"one stream", one_stream},
                       .techniques = {{"copy ahead", copy_ahead, longer_of_both},
                                      {"two streams, one buffer", two_streams_one_buffer, still_the_sum},
                                      {"no wait", no_wait}},
                       .cases = {{"R1", {}, {{"copy ahead", {SAME, SAME, VALID}}, {"two streams, one buffer", {SAME, SAME, VALID}}}},
                                 {"large pictures",
                                  {{"batch", 128}, {"enlarge", 16}, {"channels", 2}},
                                  {{"copy ahead", {FASTER, LARGER, VALID}},
                                   // On a CPU the lane is a thread, and handing over to it and back is not free.
                                   {"two streams, one buffer", {SLOWER, SAME, VALID}, tenfold::Expect{SAME, SAME, VALID}},
                                   {"no wait", {ANY, ANY, TRAP}}}},
                                 {"compute-bound", {{"channels", 48}, {"batch", 32}}, {{"copy ahead", {SAME, SAME, VALID}}}}},
                       .agreement = tenfold::Agreement::exact_on_cpu()});
}
