// Lesson 11 - Pinned loading
//
// Question  Does a training step get faster when its batch comes from page-locked memory?
// Expect    On a GPU the copy runs at the link's full rate and, if asked not to block, behind the host's back.
// Not for   Steps whose compute dwarfs the copy (case "compute-bound"), and machines without a GPU: nothing to copy.
// Run       ./tenfold run 11_pinned_loading
// Read      pinned_staging.h is the technique; the four ways to fetch a batch below are the only difference.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/record_function.h>
#include <tenfold/fashion_mnist.h>
#include <tenfold/image_workloads.h>
#include <tenfold/lesson.h>
#include <tenfold/pinned_staging.h>

namespace {
using tenfold::PinnedStaging;
using tenfold::Step;
using tenfold::Trial;
using torch::Tensor;

/// One training step of R1; `fetch(rows, picked)` brings the picked rows to the device.
template <class Fetch>
Step train(const Trial& trial, const Fetch& fetch) {
  auto work = std::make_shared<tenfold::ConvNetTraining>(trial);
  auto order = at::detail::createCPUGenerator(trial.seed);
  const auto set = tenfold::fashion_mnist(/*train=*/true);
  const int64_t batch = work->batches.batch();
  return {batch, work->parameters(), [work, set, order, batch, fetch] {
            const Tensor picked = torch::randint(0, set.size(), {batch}, order, torch::kLong);
            Tensor images, labels;  // (B, 1, 28, 28) uint8, (B)
            {
              RECORD_USER_SCOPE("copy");
              images = fetch(set.images, picked);
              labels = fetch(set.labels, picked);
            }
            work->optimizer->zero_grad();
            Tensor loss = torch::cross_entropy_loss(work->model(tenfold::normalise_images(images)), labels);
            loss.backward();
            work->optimizer->step();
            return loss;
          }};
}

void need_cuda(const Trial& trial) {
  if (!trial.device.is_cuda()) trial.cannot("page-locked memory serves copies to a GPU, and this run has none");
}

/// Staging for pictures and for labels: their shapes differ, and a slot keeps its shape.
struct Staging {
  PinnedStaging pictures, labels;
  PinnedStaging& of(const Tensor& rows) { return rows.dim() > 1 ? pictures : labels; }
};

Step pageable(const Trial& trial) {
  return train(trial,
               [device = trial.device](const Tensor& rows, const Tensor& picked) { return rows.index_select(0, picked).to(device); });
}

/// Ordinary memory, but the same buffers again: what reuse alone is worth.
Step reused(const Trial& trial) {
  auto staging = std::make_shared<Staging>(Staging{PinnedStaging(trial.device, 2, false), PinnedStaging(trial.device, 2, false)});
  return train(trial, [staging](const Tensor& rows, const Tensor& picked) { return staging->of(rows).to_device(rows, picked, false); });
}

Step pinned(const Trial& trial) {
  need_cuda(trial);
  auto staging = std::make_shared<Staging>(Staging{PinnedStaging(trial.device), PinnedStaging(trial.device)});
  return train(trial, [staging](const Tensor& rows, const Tensor& picked) { return staging->of(rows).to_device(rows, picked, false); });
}

Step pinned_non_blocking(const Trial& trial) {
  need_cuda(trial);
  auto staging = std::make_shared<Staging>(Staging{PinnedStaging(trial.device), PinnedStaging(trial.device)});
  return train(trial, [staging](const Tensor& rows, const Tensor& picked) { return staging->of(rows).to_device(rows, picked, true); });
}

/// The mistake: new pages are locked for every batch, which costs more than the faster copy saves.
Step pinned_in_the_loop(const Trial& trial) {
  need_cuda(trial);
  return train(trial, [device = trial.device](const Tensor& rows, const Tensor& picked) {
    return rows.index_select(0, picked).pin_memory().to(device, /*non_blocking=*/true);
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

/// The same work without an allocation for each batch, which the allocators' caches make all but free.
tenfold::Prediction nothing(const tenfold::Counted& baseline) { return {.speed_ratio = 1, .peak_bytes = std::nullopt}; }
}  // namespace

int main(int argc, char** argv) {
  using namespace tenfold::expect;
  using tenfold::Expect;
  return tenfold::run(argc, argv,
                      {.title = "Pinned loading",
                       .question = "Does a training step get faster when its batch comes from page-locked memory?",
                       .workload = "R1",
                       .baseline = {"pageable", pageable},
                       .techniques = {{"reused buffers", reused, nothing},
                                      {"pinned", pinned, faster_copy},
                                      {"pinned, non_blocking", pinned_non_blocking, faster_copy},
                                      {"pinned in the loop", pinned_in_the_loop}},
                       .cases = {{"R1",
                                  {},
                                  {{"reused buffers", {SAME, ANY, VALID}},
                                   {"pinned", {FASTER, SAME, VALID}},
                                   {"pinned, non_blocking", {FASTER, SAME, VALID}},
                                   {"pinned in the loop", {SLOWER, SAME, VALID}}}},
                                 {"compute-bound",
                                  {{"channels", 48}, {"batch", 32}},
                                  {{"reused buffers", {SAME, ANY, VALID}}, {"pinned, non_blocking", {SAME, SAME, VALID}}}}},
                       .agreement = tenfold::Agreement::exact_on_cpu()});
}
