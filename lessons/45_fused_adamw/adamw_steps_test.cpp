// The two other ways to a step of AdamW against LibTorch's, and what survey "counted" counts of them.
#include <gtest/gtest.h>

#include "adamw_steps.h"
#include "common/harness/lesson.h"
#include "common/measure/counted.h"

namespace tenfold {
namespace {

using torch::Tensor;

const kernels::AdamWSettings kSettings{.learning_rate = 1e-2, .weight_decay = 0.1};

std::vector<Tensor> some_parameters() {
  torch::manual_seed(45);
  std::vector<Tensor> all;
  for (const int64_t size : {1, 7, 64, 1000}) all.push_back(torch::randn({size, 3}).requires_grad_());
  return all;
}

void set_gradients(const std::vector<Tensor>& parameters, uint64_t seed) {
  torch::manual_seed(seed);
  for (const Tensor& parameter : parameters) parameter.mutable_grad() = torch::randn_like(parameter);
}

/// Largest difference to LibTorch's AdamW after some updates.
double distance_after_updates(void (*update)(AdamWState&, const kernels::AdamWSettings&)) {
  const auto ours = some_parameters(), theirs = some_parameters();
  AdamWState state(ours);
  torch::optim::AdamW reference(
      theirs, torch::optim::AdamWOptions(kSettings.learning_rate).weight_decay(kSettings.weight_decay));
  double worst = 0;
  for (uint64_t step = 1; step <= 10; ++step) {
    set_gradients(ours, step);
    set_gradients(theirs, step);
    update(state, kSettings);
    reference.step();
    for (size_t i = 0; i < ours.size(); ++i) worst = std::max(worst, (ours[i] - theirs[i]).abs().max().item<double>());
  }
  return worst;
}

TEST(AdamWSteps, ForeachIsLibTorchsToTheBit) { EXPECT_EQ(distance_after_updates(foreach_adamw), 0); }

TEST(AdamWSteps, FusedIsLibTorchsButForRounding) {
  const double distance = distance_after_updates(fused_adamw);
  EXPECT_LE(distance, 2e-6);
}

/// Of one update: operators, and bytes per value of their inputs and outputs.
std::pair<int64_t, double> counted_update(const std::function<void()>& update, const std::vector<Tensor>& parameters) {
  set_gradients(parameters, 1);
  const Counted counted = count_step(torch::kCPU, [&] {
    return Step{1, Parameters(), [update] {
                  update();
                  return torch::zeros({});
                }};
  });
  double values = 0;
  for (const Tensor& parameter : parameters) values += static_cast<double>(parameter.numel());
  return {counted.whole.operators - 1, counted.whole.operator_bytes / values};
}

// Ten operators: parameter and averages scaled (3 x 8 bytes), the gradient and its square added (12 + 16), the root,
// its division and epsilon (3 x 8), the change (16).
TEST(AdamWSteps, CountsAreThoseByHand) {
  constexpr double kLoop = 92, kFused = 28;
  const auto parameters = some_parameters();
  torch::optim::AdamW loop(parameters, torch::optim::AdamWOptions(1e-3));
  AdamWState state(parameters);
  const auto of_loop = counted_update([&] { loop.step(); }, parameters);
  EXPECT_NEAR(of_loop.second, kLoop, 1);
  const auto of_foreach = counted_update([&] { foreach_adamw(state, kSettings); }, parameters);
  EXPECT_EQ(of_foreach.first, 9);
  EXPECT_NEAR(of_foreach.second + 4 * kForeachWrites, kLoop, 1);
  const auto of_fused = counted_update([&] { fused_adamw(state, kSettings); }, parameters);
  EXPECT_EQ(of_fused.first, 2);
  EXPECT_NEAR(of_fused.second + 4 * kFusedWrites, kFused, 1);
  EXPECT_GE(of_loop.first, 9 * static_cast<int64_t>(parameters.size()));
}

}  // namespace
}  // namespace tenfold
