#include <gtest/gtest.h>

#include EXERCISE

#include <optional>
#include <string>

#include "common/models/fashion_mnist.h"
#include "lessons/04_memory_leaks/leak_watch.h"

namespace {

constexpr int64_t kSteps = 120, kBatch = 256;

struct Ran {
  Report report;
  std::optional<tenfold::Leak> leak;  ///< the first
};

Ran run(int64_t steps) {
  torch::manual_seed(4);
  const auto set = tenfold::fashion_mnist(/*train=*/true);
  const auto batch_at = [&](int64_t at) -> Batch {
    return {tenfold::normalise_images(set.images.slice(0, at, at + kBatch)).flatten(1),
            set.labels.slice(0, at, at + kBatch)};
  };
  const Batch held_out = batch_at(50'000);
  torch::nn::Linear model(784, 10);
  int64_t next = 0;
  Ran ran;
  tenfold::LeakWatch watch(torch::kCPU);
  ran.report = train(
      model, [&] { return batch_at(kBatch * (next++ % 64)); }, held_out, steps,
      [&] {
        auto leak = watch.step();
        if (leak && !ran.leak) ran.leak = std::move(leak);
      });
  return ran;
}

/// Bytes that every step leaves behind in a scope.
double held_in(const std::optional<tenfold::Leak>& leak, const std::string& scope) {
  double bytes = 0;
  if (!leak) return 0;
  for (const auto& place : leak->places) {
    if (place.name.starts_with(scope + " > ")) bytes += place.bytes_per_step;
  }
  return bytes;
}

TEST(Exercise04, NothingOfTheValidationStays) {
  EXPECT_EQ(held_in(run(kSteps).leak, "validation"), 0)
      << "hint: a validation loss keeps its graph, because no backward() frees it; it needs none";
}

TEST(Exercise04, NoOutputsStay) {
  EXPECT_EQ(held_in(run(kSteps).leak, "train"), 0)
      << "hint: all logits wait for the end; a count of the right ones can be added up in each step";
}

TEST(Exercise04, NoBatchStays) {
  EXPECT_EQ(held_in(run(kSteps).leak, "data"), 0)
      << "hint: something that outlives the step holds its images: is a hook registered in each of them?";
}

TEST(Exercise04, NothingGrows) {
  const auto leak = run(kSteps).leak;
  EXPECT_FALSE(leak) << "hint: " << leak->text();
}

TEST(Exercise04, TheReportIsRight) {
  const Report report = run(20).report;
  ASSERT_EQ(report.losses.size(), 20U) << "hint: a loss for each step";
  ASSERT_EQ(report.validation.size(), 20U) << "hint: a validation loss for each step";

  torch::manual_seed(4);
  const auto set = tenfold::fashion_mnist(/*train=*/true);
  const auto images_at = [&](int64_t at) {
    return tenfold::normalise_images(set.images.slice(0, at, at + kBatch)).flatten(1);
  };
  torch::nn::Linear model(784, 10);
  int64_t correct = 0;
  double largest = 0;
  for (int64_t step = 0; step < 20; ++step) {
    const auto labels = set.labels.slice(0, step * kBatch, (step + 1) * kBatch);
    model->zero_grad();
    const auto logits = model->forward(images_at(step * kBatch));
    const auto loss = torch::cross_entropy_loss(logits, labels);
    loss.backward();
    correct += (logits.argmax(1) == labels).sum().item<int64_t>();
    largest = std::max(largest, model->weight.grad().norm().item<double>());
    const torch::NoGradGuard no_grad;
    for (auto& parameter : model->parameters()) parameter -= 0.01 * parameter.grad();
    EXPECT_NEAR(report.losses[static_cast<size_t>(step)], loss.item<double>(), 1e-5) << "hint: losses in their order";
    const auto validation =
        torch::cross_entropy_loss(model->forward(images_at(50'000)), set.labels.slice(0, 50'000, 50'000 + kBatch));
    EXPECT_NEAR(report.validation[static_cast<size_t>(step)], validation.item<double>(), 1e-5)
        << "hint: the loss on `held_out` after each update";
  }
  EXPECT_EQ(report.correct, correct) << "hint: images that the model had right before it was updated on them";
  EXPECT_NEAR(report.largest_gradient, largest, 1e-4) << "hint: the largest norm of all steps, not the last one";
}

}  // namespace
