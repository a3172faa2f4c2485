#include <gtest/gtest.h>

#include EXERCISE

#include <set>

namespace {

using torch::Tensor;

/// Ten layers with one number each, and one that is called almost like another.
torch::OrderedDict<std::string, Tensor> numbers() {
  torch::OrderedDict<std::string, Tensor> all;
  for (const char* name : {"conv1.weight", "conv1.bias", "conv10.weight", "head.weight"})
    all.insert(name, torch::zeros({1}).requires_grad_());
  return all;
}
const std::vector<std::string> kLayers = {"conv1", "conv10", "head"};

TEST(Exercise62, EachParameterIsInExactlyOneGroup) {
  const auto groups = layer_groups(numbers(), kLayers, 0.1, 0.5);
  ASSERT_EQ(groups.size(), 3U) << "hint: a group for each layer";
  EXPECT_EQ(groups[0].params().size(), 2U) << "hint: conv1 took conv10.weight, too; a name ends at its dot";
  EXPECT_EQ(groups[1].params().size(), 1U);
  EXPECT_EQ(groups[2].params().size(), 1U);
}

TEST(Exercise62, TheLastLayerLearnsFastest) {
  const auto groups = layer_groups(numbers(), kLayers, 0.8, 0.5);
  ASSERT_EQ(groups.size(), 3U);
  EXPECT_DOUBLE_EQ(groups[2].options().get_lr(), 0.8) << "hint: the last layer has the rate as it is";
  EXPECT_DOUBLE_EQ(groups[0].options().get_lr(), 0.2)
      << "hint: two layers before the last one the decay counts twice; the layers nearest to the input learn slowest";
}

TEST(Exercise62, AParameterOfNoLayerIsNamed) {
  try {
    layer_groups(numbers(), {"conv1", "head"}, 0.1, 0.5);
    FAIL() << "hint: conv10.weight is in no group; nobody would train it, and nothing would say so";
  } catch (const std::invalid_argument& error) {
    EXPECT_NE(std::string(error.what()).find("conv10.weight"), std::string::npos) << "hint: say which parameter it is";
  }
}

TEST(Exercise62, TheScheduleKeepsEachGroupsRate) {
  torch::optim::SGD optimizer(layer_groups(numbers(), kLayers, 0.8, 0.5), torch::optim::SGDOptions(1));
  Schedule schedule(optimizer);
  const double first = optimizer.param_groups()[0].options().get_lr();
  const double last = optimizer.param_groups()[2].options().get_lr();
  schedule.scale(0.5);
  EXPECT_DOUBLE_EQ(optimizer.param_groups()[0].options().get_lr(), 0.5 * first)
      << "hint: one rate was written into all groups; their own are gone";
  schedule.scale(0.1);
  EXPECT_DOUBLE_EQ(optimizer.param_groups()[2].options().get_lr(), 0.1 * last)
      << "hint: a factor is one on the first rate, not on what the last factor left";
}

}  // namespace
