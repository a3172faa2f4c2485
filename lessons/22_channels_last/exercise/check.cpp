#include <gtest/gtest.h>

#include EXERCISE

#include <memory>
#include <string>
#include <vector>

namespace {

using torch::Tensor;

/// A convnet with all that a conversion meets: weights of four dimensions, one of them depthwise, vectors, a matrix,
/// and a buffer of four dimensions.
struct NetImpl : torch::nn::Module {
  NetImpl()
      : conv(torch::nn::Conv2dOptions(3, 8, 3).padding(1)),
        depthwise(torch::nn::Conv2dOptions(8, 8, 3).padding(1).groups(8)),
        head(8, 5),
        mean(torch::randn({1, 3, 6, 6})) {
    register_module("conv", conv);
    register_module("depthwise", depthwise);
    register_module("head", head);
    register_buffer("mean", mean);
  }
  Tensor features(const Tensor& images) {  // (N, 3, 6, 6) -> (N, 8, 6, 6)
    return depthwise(torch::relu(conv(images - mean)));
  }
  Tensor forward(const Tensor& images) { return head(features(images).mean({2, 3})); }

  torch::nn::Conv2d conv, depthwise;
  torch::nn::Linear head;
  Tensor mean;
};
TORCH_MODULE(Net);

/// What the strides say; a convolution asks the same.
bool is_channels_last(const Tensor& tensor) { return tensor.suggest_memory_format() == at::MemoryFormat::ChannelsLast; }

class Exercise22 : public testing::Test {
 protected:
  Exercise22() {
    torch::manual_seed(22);
    net_ = Net();
    images_ = torch::randn({4, 3, 6, 6});
  }
  Tensor convert() { return to_channels_last(*net_, images_); }

  Net net_ = nullptr;
  Tensor images_;
};

TEST_F(Exercise22, WeightsAreInChannelsLast) {
  convert();
  EXPECT_TRUE(is_channels_last(net_->conv->weight))
      << "hint: the weight is in NCHW, so the convolution reorders it in every pass. module.parameters() hands out"
         " tensors that share the model's: assigning to one of them changes only that name";
}

TEST_F(Exercise22, SoIsADepthwiseWeight) {
  convert();
  EXPECT_TRUE(is_channels_last(net_->depthwise->weight))
      << "hint: of shape (8, 1, 3, 3) both layouts are the same bytes, and contiguous() leaves the strides of NCHW."
         " Which other function converts?";
}

TEST_F(Exercise22, SoIsABuffer) {
  convert();
  EXPECT_TRUE(is_channels_last(net_->mean)) << "hint: a module has buffers, too";
}

TEST_F(Exercise22, AllOthersStay) {
  const std::vector<Tensor> others = {net_->conv->bias, net_->depthwise->bias, net_->head->weight, net_->head->bias};
  std::vector<const void*> before, after;
  for (const Tensor& other : others) before.push_back(other.const_data_ptr());
  convert();
  for (const Tensor& other : {net_->conv->bias, net_->depthwise->bias, net_->head->weight, net_->head->bias})
    after.push_back(other.const_data_ptr());
  EXPECT_EQ(after, before) << "hint: vectors and matrices have no channels_last; leave them where they are";
}

TEST_F(Exercise22, TheInputIsInChannelsLast) {
  const Tensor input = convert();
  EXPECT_EQ(input.sizes(), images_.sizes()) << "hint: the shape stays (N, C, H, W); only strides change";
  if (input.sizes() != images_.sizes()) return;
  EXPECT_TRUE(torch::equal(input, images_)) << "hint: the numbers were moved, not only where they lie";
  EXPECT_TRUE(is_channels_last(input)) << "hint: return the input converted";
}

TEST_F(Exercise22, AGrayInputIsToo) {
  EXPECT_TRUE(is_channels_last(to_channels_last(*net_, torch::randn({4, 1, 6, 6}))))
      << "hint: of one channel both layouts are the same bytes, and contiguous() leaves the strides of NCHW";
}

TEST_F(Exercise22, AnInputOfTwoDimensionsStays) {
  const Tensor ids = torch::randn({4, 7});
  try {
    EXPECT_TRUE(to_channels_last(*net_, ids).is_same(ids)) << "hint: only tensors of four dimensions have the format";
  } catch (const c10::Error& error) {
    ADD_FAILURE() << "hint: only tensors of four dimensions have the format: " << error.what_without_backtrace();
  }
}

TEST_F(Exercise22, TheWholeForwardStaysInIt) {
  const Tensor input = convert();
  EXPECT_TRUE(is_channels_last(net_->features(input))) << "hint: something between input and output is still in NCHW";
}

TEST_F(Exercise22, ResultsAreTheSame) {
  const Tensor expected = net_->forward(images_).detach();
  const Tensor input = convert();
  if (input.sizes() != images_.sizes()) GTEST_FAIL() << "hint: the input has another shape";
  // Sums of 27 products in another order, in 32 bits.
  EXPECT_TRUE(torch::allclose(net_->forward(input), expected, 1e-4, 1e-5))
      << "hint: a format changes where numbers lie, not which number is where in the tensor";
}

TEST_F(Exercise22, AnOptimizerMadeBeforeTrainsTheModel) {
  torch::optim::SGD optimizer(net_->parameters(), 0.5);
  std::vector<Tensor> same;
  for (const Tensor& parameter : net_->parameters()) same.push_back(parameter);
  const Tensor input = convert();
  const std::vector<Tensor> now = net_->parameters();
  ASSERT_EQ(now.size(), same.size());
  for (size_t i = 0; i < now.size(); ++i) {
    EXPECT_TRUE(now[i].is_same(same[i])) << "hint: the model got a new tensor, and the optimizer still has the old one";
    EXPECT_TRUE(now[i].is_leaf() && now[i].requires_grad())
        << "hint: a parameter is a leaf; convert under no_grad, into set_data()";
  }
  if (input.sizes() != images_.sizes()) return;
  const Tensor before = net_->forward(input).detach().clone();
  net_->forward(input).square().mean().backward();
  optimizer.step();
  EXPECT_FALSE(torch::equal(net_->forward(input), before)) << "hint: the optimizer trains tensors that are not used";
}

}  // namespace
