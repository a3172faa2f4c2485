// Lesson 11 - Pinned loading
//
// Question  Does a training step get faster when its batch comes from page-locked memory?
// Expect    On a GPU the copy runs at the link's full rate and, if asked not to block, behind the host's back.
// Not for   Steps whose compute dwarfs the copy (case "compute-bound"), and machines without a GPU: nothing to copy.
// Run       ./tenfold run 11_pinned_loading
// Read      pinned_staging.h is the technique; the ways to fetch a batch below are the only difference.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/record_function.h>
#include <tenfold/fashion_mnist.h>
#include <tenfold/host_stream.h>
#include <tenfold/image_workloads.h>
#include <tenfold/lesson.h>
#include <tenfold/pinned_staging.h>

namespace {
using tenfold::PinnedStaging;
using tenfold::Step;
using tenfold::Trial;
using torch::Tensor;
using Batch = std::pair<Tensor, Tensor>;  // (B, 1, 28, 28) uint8, (B)

/// The data set and the order in which its rows are drawn; only the trial's seed decides it.
struct Source {
  tenfold::ImageSet set;
  at::Generator order;
  int64_t batch;
  Tensor draw() { return torch::randint(0, set.size(), {batch}, order, torch::kLong); }  // (B)
};

/// One training step of R1; `fetch(source)` draws the next rows and brings them to the device.
template <class Fetch>
Step train(const Trial& trial, const Fetch& fetch) {
  auto work = std::make_shared<tenfold::ConvNetTraining>(trial);
  const int64_t batch = work->batches.batch();
  auto source = std::make_shared<Source>(Source{tenfold::fashion_mnist(/*train=*/true), at::detail::createCPUGenerator(trial.seed), batch});
  return {batch, work->parameters(), [work, source, fetch] {
            Batch here;
            {
              RECORD_USER_SCOPE("copy");
              here = fetch(*source);
            }
            work->optimizer->zero_grad();
            Tensor loss = torch::cross_entropy_loss(work->model(tenfold::normalise_images(here.first)), here.second);
            loss.backward();
            work->optimizer->step();
            return loss;
          }};
}

void need_cuda(const Trial& trial) {
  if (!trial.device.is_cuda()) trial.cannot("page-locked memory serves copies to a GPU, and this run has none");
}

/// Without the technique: fresh, ordinary memory for each batch, and the host waits for the copy.
Step pageable(const Trial& trial) {
  return train(trial, [device = trial.device](Source& source) {
    const Tensor picked = source.draw();
    return Batch{source.set.images.index_select(0, picked).to(device), source.set.labels.index_select(0, picked).to(device)};
  });
}

/// Staging for pictures and for labels: their shapes differ, and a slot keeps its shape.
struct Staging {
  Staging(torch::Device device, bool pinned) : pictures(device, 2, pinned), labels(device, 2, pinned) {}
  void gather(const tenfold::ImageSet& set, const Tensor& picked) {
    pictures.gather(set.images, picked);
    labels.gather(set.labels, picked);
  }
  Batch send(bool non_blocking) {
    Tensor images = pictures.send(non_blocking);
    return {images, labels.send(non_blocking)};
  }
  PinnedStaging pictures, labels;
};

/// Through the ring: gather, then copy.
Step staged(const Trial& trial, bool pinned, bool non_blocking) {
  return train(trial, [staging = std::make_shared<Staging>(trial.device, pinned), non_blocking](Source& source) {
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

/// Prefetching as well: a thread gathers the next batch while this one is trained on. Without a GPU nothing is pinned, and
/// what is left is prefetching.
Step prefetched(const Trial& trial) {
  struct Prefetch {
    explicit Prefetch(torch::Device device) : staging(device, /*pinned=*/device.is_cuda()) {}
    void gather_next(Source& source) {
      thread.run([this, set = source.set, picked = source.draw()] { staging.gather(set, picked); });
      gathered = thread.record();
    }
    Staging staging;
    std::optional<tenfold::HostEvent> gathered;
    tenfold::HostStream thread;  // the last member: it uses the staging
  };
  return train(trial, [ahead = std::make_shared<Prefetch>(trial.device)](Source& source) {
    if (!ahead->gathered) ahead->gather_next(source);  // the very first
    ahead->gathered->synchronize();
    const Batch here = ahead->staging.send(/*non_blocking=*/true);
    ahead->gather_next(source);
    return here;
  });
}

/// The mistake: each batch is gathered into ordinary memory and then copied once more, on the host, into pinned memory.
Step pinned_in_the_loop(const Trial& trial) {
  need_cuda(trial);
  return train(trial, [device = trial.device](Source& source) {
    const Tensor picked = source.draw();
    const auto fetch = [&](const Tensor& rows) { return rows.index_select(0, picked).pin_memory().to(device, /*non_blocking=*/true); };
    return Batch{fetch(source.set.images), fetch(source.set.labels)};
  });
}

/// The copy takes its bytes at the link's rate from page-locked memory; nothing else changes.
tenfold::Prediction faster_copy(const tenfold::Counted& baseline) {
  const auto slow = baseline.ceilings.find("cuda_h2d_pageable_bytes_per_s"), fast = baseline.ceilings.find("cuda_h2d_pinned_bytes_per_s");
  if (slow == baseline.ceilings.end() || fast == baseline.ceilings.end()) return {};
  const double bytes = baseline.setting("batch") * (28 * 28 + sizeof(int64_t));
  const double saved = bytes / slow->second - bytes / fast->second;
  return {.speed_ratio = baseline.step_seconds / (baseline.step_seconds - saved)};
}

/// Gathering leaves the step, too, where the baseline's copy is nothing else.
tenfold::Prediction faster_copy_no_gathering(const tenfold::Counted& baseline) {
  if (baseline.ceilings.contains("cuda_h2d_pinned_bytes_per_s")) return faster_copy(baseline);
  return {.speed_ratio = 1 / (1 - baseline.share("copy"))};
}

/// The same work without an allocation for each batch, which the allocators' caches make all but free.
tenfold::Prediction nothing(const tenfold::Counted&) { return {.speed_ratio = 1}; }
}  // namespace

int main(int argc, char** argv) {
  using namespace tenfold::expect;
  using tenfold::Expect;
  return tenfold::run(argc, argv,
                      {.title = "Pinned loading",
                       .question = "Does a training step get faster when its batch comes from page-locked memory?",
                       .workload = "R1",
                       .version = 2,
                       .baseline = {"pageable", pageable},
                       .techniques = {{"reused buffers", reused, nothing},
                                      {"pinned", pinned, faster_copy},
                                      {"pinned, non_blocking", pinned_non_blocking, faster_copy},
                                      {"prefetched", prefetched, faster_copy_no_gathering},
                                      {"pinned in the loop", pinned_in_the_loop}},
                       .cases = {{"R1",
                                  {},
                                  {{"reused buffers", {SAME, ANY, VALID}},
                                   {"pinned", {FASTER, SAME, VALID}},
                                   {"pinned, non_blocking", {FASTER, SAME, VALID}},
                                   {"prefetched", {SAME, ANY, VALID}, Expect{FASTER, SAME, VALID}},
                                   {"pinned in the loop", {SLOWER, SAME, MISTAKE}}}},
                                 {"light model",
                                  {{"channels", 1}, {"batch", 1024}},
                                  {{"reused buffers", {SAME, ANY, VALID}},
                                   {"pinned", {FASTER, SAME, VALID}},
                                   {"pinned, non_blocking", {FASTER, SAME, VALID}},
                                   {"prefetched", {SAME, ANY, VALID}, Expect{FASTER, SAME, VALID}},
                                   {"pinned in the loop", {SLOWER, SAME, MISTAKE}}}},
                                 {"compute-bound",
                                  {{"channels", 48}, {"batch", 32}},
                                  {{"reused buffers", {SAME, ANY, VALID}},
                                   {"pinned, non_blocking", {SAME, SAME, VALID}},
                                   {"prefetched", {SAME, ANY, VALID}}}}},
                       .agreement = tenfold::Agreement::exact_on_cpu()});
}
