#include <gtest/gtest.h>

#include EXERCISE

#include <cmath>

namespace {

using torch::Tensor;

/// Micro-batches of b samples in two dimensions. Their gradients are (3, -2) and (3, 2): the mean is (3, 0).
/// Squared norms: 13 of the small, 9 of the large. tr(S) = 4 / (1 / b - 1 / 2 b) = 8 b; |G|^2 = 2 * 9 - 13 = 5.
Tensor two_gradients() { return torch::tensor({3.0, -2.0, 3.0, 2.0}).view({2, 2}); }

TEST(Exercise61, OneUpdateOfSingleSamples) {
  NoiseScale noise(1, 2);
  noise.add(two_gradients());
  EXPECT_NEAR(noise.scale(), 8.0 / 5, 1e-5)
      << "hint: |G|^2 is not the squared norm of the mean, which has noise as well; solve for it";
}

TEST(Exercise61, TheUnitIsSamples) {
  NoiseScale noise(16, 2);
  noise.add(two_gradients());
  EXPECT_NEAR(noise.scale(), 16 * 8.0 / 5, 1e-4) << "hint: a micro-batch is a mean over 16 samples, not one of them";
}

TEST(Exercise61, TheLargeBatchIsTheMeanOfItsMicroBatches) {
  NoiseScale noise(1, 4);
  noise.add(torch::cat({two_gradients(), two_gradients()}));
  // Norms 13 and 9 again; tr(S) = 4 / (1 - 1 / 4), |G|^2 = (4 * 9 - 13) / 3.
  EXPECT_NEAR(noise.scale(), (16.0 / 3) / (23.0 / 3), 1e-5) << "hint: a mean over the rows, not a sum";
}

TEST(Exercise61, AveragesComeBeforeTheRatio) {
  NoiseScale noise(1, 2);
  noise.add(two_gradients());                                    // norms 13 and 9: ratio 8 / 5
  noise.add(torch::tensor({1.0, -2.0, 1.0, 2.0}).view({2, 2}));  // norms 5 and 1: |G|^2 = -3, ratio -8 / 3
  EXPECT_NEAR(noise.scale(), 8.0 / 1, 1e-4) << "hint: average what stands above the line and below it, then divide";
}

TEST(Exercise61, NoiseThatHidesTheGradientIsInfinite) {
  NoiseScale noise(1, 2);
  noise.add(torch::tensor({1.0, -2.0, 1.0, 2.0}).view({2, 2}));
  EXPECT_TRUE(std::isinf(noise.scale()) && noise.scale() > 0) << "hint: |G|^2 is estimated at -3 here";
}

/// Samples x ~ N(0, I) in 10 dimensions, gradients (w x) x: the noise scale is 11.
TEST(Exercise61, ALinearRegressionHasItsClosedForm) {
  torch::manual_seed(0);
  const Tensor w = torch::ones({10}, torch::kDouble);
  NoiseScale noise(4, 8);
  for (int update = 0; update < 1000; ++update) {
    const Tensor x = torch::randn({8, 4, 10}, torch::kDouble);  // (micro-batches, samples, dimensions)
    noise.add((x.matmul(w).unsqueeze(2) * x).mean(1));
  }
  EXPECT_NEAR(noise.scale() / 11, 1, 0.12) << "hint: tr(S) is 11 |w|^2 and |G|^2 is |w|^2";
}

}  // namespace
