// Where tensors lie, what a step reorders, and what changes nothing.
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "channels_last.h"
#include "common/measure/memory.h"
#include "networks.h"
#include "operators.h"
#include "reorders.h"
#include "tests/support/processor.h"

namespace {

using namespace tenfold;
using torch::Tensor;

constexpr int64_t kBatch = 4, kChannels = 8;

Trial trial_with(const std::map<std::string, SettingValue>& more = {}, const Workload& workload = convnet_workload) {
  auto record = std::make_shared<TrialRecord>();
  record->given = {{"batch", kBatch}, {"channels", kChannels}};
  for (const auto& [name, value] : more) record->given[name] = value;
  Trial trial(record);
  trial.workload = workload;
  trial.seed = 3;
  return trial;
}

const Formats kNchw, kBoth{.model = to_channels_last, .images = in_channels_last},
    kInputOnly{.images = in_channels_last}, kWeightsOnly{.model = to_channels_last},
    kByContiguous{.images = [](const Tensor& images) { return images.contiguous(at::MemoryFormat::ChannelsLast); }};

Formats falling_back(bool map_first) {
  Formats formats = kBoth;
  formats.behind_first_layer = [map_first](const Tensor& h) {
    const Tensor map = torch::zeros(h.sizes().slice(1), h.options());
    return map_first ? map + h : h + map;
  };
  return formats;
}

Trained fresh(const Trial& trial, const Formats& formats) {
  torch::manual_seed(3);
  return trained(trial, formats);
}

float update(const Trained& work) {
  work.optimizer->zero_grad();
  const Tensor loss = work.next_loss();
  loss.backward();
  work.optimizer->step();
  return loss.item<float>();
}

std::vector<float> losses_of(const Trained& work, int updates) {
  std::vector<float> losses;
  for (int i = 0; i < updates; ++i) losses.push_back(update(work));
  return losses;
}

Reorders reorders_in(const Formats& formats, const std::map<std::string, SettingValue>& more = {}) {
  const Trained work = fresh(trial_with(more), formats);
  update(work);
  return count_reorders([&] { update(work); });
}

TEST(InChannelsLast, ChangesStridesAndNothingElse) {
  const Tensor images = torch::randn({10, 3, 16, 16}), converted = in_channels_last(images);
  EXPECT_EQ(converted.strides(), (std::vector<int64_t>{768, 1, 48, 3}));
  EXPECT_EQ(converted.sizes(), images.sizes());
  EXPECT_TRUE(torch::equal(converted, images));
  EXPECT_TRUE(in_channels_last(converted).is_same(converted)) << "no second copy";
  const Tensor matrix = torch::randn({3, 4});
  EXPECT_TRUE(in_channels_last(matrix).is_same(matrix));
}

// Of one channel the bytes are the same in both layouts, and a convolution goes by the strides.
TEST(InChannelsLast, SetsTheStridesOfOneChannelWhichContiguousDoesNot) {
  const Tensor gray = torch::randn({4, 1, 6, 6});
  EXPECT_EQ(gray.contiguous(at::MemoryFormat::ChannelsLast).suggest_memory_format(), at::MemoryFormat::Contiguous);
  EXPECT_EQ(in_channels_last(gray).suggest_memory_format(), at::MemoryFormat::ChannelsLast);
  EXPECT_EQ(layout_of(gray), Layout::either);
}

TEST(ToChannelsLast, KeepsTheTensorsThatTheOptimizerHas) {
  const Trial trial = trial_with({{"inner_layers", int64_t{1}}});
  const Trained plain = fresh(trial, kNchw), work = fresh(trial, kNchw);
  const std::vector<Tensor> before = work.model->parameters();
  to_channels_last(*work.model);
  const std::vector<Tensor> after = work.model->parameters();
  ASSERT_EQ(after.size(), before.size());
  for (size_t i = 0; i < after.size(); ++i) {
    EXPECT_TRUE(after[i].is_same(before[i]));
    EXPECT_TRUE(after[i].is_leaf() && after[i].requires_grad());
    EXPECT_TRUE(torch::equal(after[i], plain.parameters[i].value())) << plain.parameters[i].key();
  }
}

// An update then reads and writes one layout; of two it would step through memory in jumps.
TEST(ToChannelsLast, GivesGradientsAndMomentumTheSameLayout) {
  const Trained work = fresh(trial_with({{"inner_layers", int64_t{1}}}), kBoth);
  update(work);
  size_t weights = 0;
  for (const auto& item : work.parameters) {
    const Tensor& parameter = item.value();
    if (parameter.dim() != 4) continue;
    const auto& state =
        static_cast<const torch::optim::SGDParamState&>(*work.optimizer->state().at(parameter.unsafeGetTensorImpl()));
    EXPECT_EQ(parameter.grad().strides(), parameter.strides()) << item.key();
    EXPECT_EQ(state.momentum_buffer().strides(), parameter.strides()) << item.key();
    ++weights;
  }
  EXPECT_EQ(weights, 3U);
}

TEST(Layouts, TrainTheSameModel) {
  for (const int64_t groups : {1, 4}) {
    const Trial trial = trial_with({{"inner_layers", int64_t{1}}, {"groups", groups}});
    const std::vector<float> expected = losses_of(fresh(trial, kNchw), 3);
    for (const Formats& formats : {kBoth, kInputOnly, kWeightsOnly, kByContiguous, falling_back(true)}) {
      const std::vector<float> got = losses_of(fresh(trial, formats), 3);
      // Sums of 72 products in another order, each rounded to 24 bits.
      for (size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(got[i], expected[i], 1e-4 * expected[i]);
    }
  }
}

TEST(Layouts, OfAGptChangeNothing) {
  const Trial trial = trial_with({{"layers", int64_t{1}}, {"length", int64_t{16}}}, gpt_workload);
  const Trained plain = fresh(trial, kNchw), converted = fresh(trial, kBoth);
  EXPECT_EQ(losses_of(converted, 3), losses_of(plain, 3));
  for (size_t i = 0; i < plain.parameters.size(); ++i) {
    EXPECT_LT(plain.parameters[i].value().dim(), 4);
    EXPECT_TRUE(torch::equal(converted.parameters[i].value(), plain.parameters[i].value()));
  }
  EXPECT_EQ(count_reorders([&] { update(converted); }).all.count, 0);
}

TEST(Layouts, GroupsDivideChannels) {
  EXPECT_THROW(fresh(trial_with({{"inner_layers", int64_t{1}}, {"groups", int64_t{3}}}), kNchw), c10::Error);
}

// Bytes read and written; of the last convolution's output after pooling.
constexpr int64_t kPooled = 2 * 4 * kBatch * 2 * kChannels * 7 * 7;
constexpr int64_t kFirstOutput = 2 * 4 * kBatch * kChannels * 28 * 28;
constexpr int64_t kLastWeight = 2 * 4 * 2 * kChannels * kChannels * 3 * 3;

// With AVX2 and later oneDNN gives the gradient of the last convolution's input in channels_last, whatever it was asked
// for, and LibTorch reorders that.
TEST(Reorders, InNchwAreThoseOfOneDnnAlone) {
  const Reorders counted = reorders_in(kNchw);
  if (counted.all.count > 0) {
    EXPECT_EQ(counted.in.size(), 1U);
    ASSERT_TRUE(counted.in.contains("ConvolutionBackward0"));
    EXPECT_EQ(counted.all.count, 1);
    EXPECT_EQ(counted.all.bytes, kFirstOutput);
  }
  EXPECT_EQ(counted.convolutions, 2);
  EXPECT_EQ(counted.in_channels_last, 0);
}

// The head is a matrix over NCHW's order, so the last features are reordered, and their gradient is.
TEST(Reorders, InChannelsLastAreThoseInFrontOfTheHead) {
  const Reorders counted = reorders_in(kBoth);
  EXPECT_EQ(counted.in_channels_last, 2);
  ASSERT_TRUE(counted.in.contains("aten::flatten"));
  EXPECT_EQ(counted.in.at("aten::flatten").count, 1);
  EXPECT_EQ(counted.in.at("aten::flatten").bytes, kPooled);
  EXPECT_FALSE(counted.in.contains("aten::conv2d")) << "the forward pass of a convolution finds what it needs";
  EXPECT_EQ(reorders_in(kWeightsOnly).in_channels_last, 2) << "one of both is enough for a convolution";
}

TEST(Reorders, OfTheInputAloneAreOfWeights) {
  const Reorders counted = reorders_in(kInputOnly);
  EXPECT_EQ(counted.in_channels_last, 2);
  ASSERT_TRUE(counted.in.contains("aten::conv2d"));
  EXPECT_EQ(counted.in.at("aten::conv2d").bytes, kLastWeight) << "the first weight has one channel: the same bytes";
  ASSERT_TRUE(counted.in.contains("AccumulateGrad"));
  EXPECT_EQ(counted.in.at("AccumulateGrad").bytes, kLastWeight) << "a gradient gets its parameter's strides";
}

TEST(Reorders, OfAnInputByContiguousAreThoseOfNchwSinceNothingIsConverted) {
  const Reorders counted = reorders_in(kByContiguous);
  EXPECT_EQ(counted.all.count, reorders_in(kNchw).all.count);
  EXPECT_EQ(counted.in_channels_last, 0);
}

TEST(Reorders, BehindAFallbackAreOfActivations) {
  const Reorders kept = reorders_in(falling_back(false)), lost = reorders_in(falling_back(true)),
                 both = reorders_in(kBoth);
  EXPECT_EQ(kept.all.count, both.all.count) << "h + map has the layout of h";
  EXPECT_EQ(lost.in_channels_last, 2) << "its weights are, so the convolution reorders its input";
  ASSERT_TRUE(lost.in.contains("aten::conv2d"));
  EXPECT_EQ(lost.in.at("aten::conv2d").bytes, kFirstOutput);
  EXPECT_GE(lost.all.bytes - both.all.bytes, kFirstOutput);
}

TEST(Reorders, AreNotCopiesThatKeepTheLayout) {
  const Tensor plain = torch::randn({2, 4, 3, 3}), last = in_channels_last(plain);
  EXPECT_TRUE(is_reorder(plain, last) && is_reorder(last, plain));
  EXPECT_FALSE(is_reorder(plain, plain) || is_reorder(last, last));
  EXPECT_FALSE(is_reorder(torch::randn({4, 3}), torch::randn({4, 3})));
  EXPECT_FALSE(is_reorder(torch::randn({2, 1, 3, 3}), in_channels_last(torch::randn({2, 1, 3, 3})))) << "same bytes";
}

TEST(Operators, KeepItOrFallBackAsThePageSays) {
  const std::map<std::string, std::pair<bool, bool>> expected = {{"relu", {true, true}},
                                                                 {"h + map", {true, true}},
                                                                 {"map + h", {false, false}},
                                                                 {"max_pool2d", {true, true}},
                                                                 {"batch_norm", {true, true}},
                                                                 {"group_norm", {true, true}},
                                                                 {"instance_norm", {false, false}},
                                                                 {"softmax over channels", {false, false}},
                                                                 {"channel_shuffle", {true, true}},
                                                                 {"shuffle by hand", {false, false}},
                                                                 {"pixels, and back", {true, true}},
                                                                 {"flatten, and back", {false, false}},
                                                                 {"cat of two", {true, true}},
                                                                 {"channels by index", {false, false}},
                                                                 {"half of the channels", {false, false}}};
  const std::vector<Operator> operators = layout_operators();
  ASSERT_EQ(operators.size(), expected.size());
  for (const Operator& op : operators) {
    const Kept kept = kept_by(op, torch::kCPU);
    EXPECT_EQ(kept.output, expected.at(op.name).first) << op.name;
    EXPECT_EQ(kept.gradient, expected.at(op.name).second) << op.name;
  }
}

/// The most bytes of a variant's steps.
double peak_of(const Trial& trial, const Formats& formats) {
  const CountCpuMemory counting;
  const int64_t before = live_bytes(torch::kCPU);
  reset_peak(torch::kCPU);
  losses_of(fresh(trial, formats), 3);
  return static_cast<double>(peak_bytes(torch::kCPU) - before);
}

// Below AVX2 oneDNN multiplies matrices that it makes of one image after the other: scratch memory, which a formula of
// tensors does not have, and which a batch of 16 images and more hides behind the blocks that it does not keep there.
TEST(MostBytes, CoverTheBaselineAndAreNotFarAbove) {
  struct Sizes {
    int64_t inner, groups, batch;
  };
  for (const Sizes sizes : {Sizes{0, 1, 64}, {2, 1, 64}, {2, 4, 64}, {2, 16, 64}, {2, 4, 16}}) {
    const Trial trial = trial_with(
        {{"inner_layers", sizes.inner}, {"groups", sizes.groups}, {"batch", sizes.batch}, {"channels", int64_t{16}}});
    const double peak = peak_of(trial, kNchw), most = static_cast<double>(layouts_most_bytes(trial));
    const std::string row = std::to_string(sizes.inner) + " inner layers, " + std::to_string(sizes.groups) +
                            " groups, batch " + std::to_string(sizes.batch);
    EXPECT_LE(peak, 1.01 * most) << row;
    EXPECT_GE(peak, (test::convolutions_keep_copies() ? 0.95 : 0.75) * most) << row;
  }
}

}  // namespace
