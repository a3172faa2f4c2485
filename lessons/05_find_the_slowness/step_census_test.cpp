#include "step_census.h"

#include <gtest/gtest.h>

namespace tenfold {
namespace {

TEST(StepCensus, OperatorsAndReadsBelongToTheInnermostScope) {
  const torch::Tensor numbers = torch::arange(4, torch::kFloat);
  CensusTaker taker;
  {
    RECORD_USER_SCOPE("outer");
    numbers.add(1);
    {
      RECORD_USER_SCOPE("inner");
      EXPECT_EQ(numbers[3].item<float>(), 3);
      EXPECT_EQ(numbers[2].item<float>(), 2);
    }
    EXPECT_EQ(numbers[1].item<float>(), 1);
  }
  EXPECT_EQ(taker.census().of("outer").calls, 1);
  EXPECT_EQ(taker.census().of("outer").reads, 1);
  EXPECT_EQ(taker.census().of("inner").reads, 2);
  EXPECT_EQ(taker.census().of("outer").elements, 4);
  EXPECT_EQ(taker.census().of("nowhere").calls, 0);
}

TEST(StepCensus, AForwardPassIsAConvolutionOfImages) {
  torch::nn::Conv2d first(torch::nn::Conv2dOptions(1, 3, 3)), second(torch::nn::Conv2dOptions(3, 2, 3));
  const torch::Tensor images = torch::randn({2, 1, 8, 8});
  CensusTaker taker;
  {
    RECORD_USER_SCOPE("train");
    second(first(images));
    second(first(images));
  }
  EXPECT_EQ(taker.census().of("train").forwards, 2);
}

TEST(StepCensus, AGradientOfTheImagesIsSeenAndNoneOfTheWeights) {
  torch::nn::Conv2d first(torch::nn::Conv2dOptions(1, 3, 3));
  torch::Tensor images = torch::randn({2, 1, 8, 8});
  CensusTaker taker;
  first(images).sum().backward();
  EXPECT_EQ(taker.census().image_gradients, 0);
  images.requires_grad_();
  first(images).sum().backward();
  EXPECT_EQ(taker.census().image_gradients, 1);
}

TEST(StepCensus, GrowthIsWhatEveryStepAdds) {
  EXPECT_EQ(Census::growth({}), 0);
  EXPECT_EQ(Census::growth({0, 900, 900, 900}), 0) << "optimizer state comes in the first step";
  EXPECT_EQ(Census::growth({0, 900, 1000, 1100}), 100);
  EXPECT_EQ(Census::growth({0, 900, 1000, 900, 1000}), 0) << "what goes again is no growth";
}

TEST(StepCensus, BytesAliveAreThoseAtTheScopesBegin) {
  const CountCpuMemory count;
  std::vector<torch::Tensor> kept;
  CensusTaker taker;
  for (int i = 0; i < 5; ++i) {
    RECORD_USER_SCOPE("step");
    kept.push_back(torch::zeros({256}));
  }
  // Blocks are counted as large as malloc made them.
  EXPECT_GE(Census::growth(taker.census().of("step").live), 1024);
  EXPECT_LT(Census::growth(taker.census().of("step").live), 1024 + 64);
}

TEST(StepCensus, NothingIsCountedAfterItsEnd) {
  Census seen;
  {
    CensusTaker taker;
    torch::ones({3}).add(1);
    seen = taker.census();
  }
  const int64_t before = seen.of("").operators;
  EXPECT_GT(before, 0);
  CensusTaker fresh;
  EXPECT_EQ(fresh.census().of("").operators, 0);
}

}  // namespace
}  // namespace tenfold
