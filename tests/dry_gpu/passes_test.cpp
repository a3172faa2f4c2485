// Modelled time of operators that pass over a tensor more than once.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <array>

#include "tests/dry_gpu/time_support.h"

namespace tenfold {
namespace {

using test::on_card;
using test::rates;
using test::seconds_of;

// Of a few launches, with small kernels between them.
constexpr double kGaps = 8e-6;

double bytes_of(const at::Tensor& tensor) { return static_cast<double>(tensor.nbytes()); }
double through_memory(double bytes) { return bytes / rates().bytes_per_s; }

at::Tensor channels_last(at::IntArrayRef sizes) {
  return at::empty(sizes, on_card(at::kHalf).memory_format(at::MemoryFormat::ChannelsLast));
}

// Where channels come first, tensor cores get a copy in which they come last, and so does what they hand back.
TEST(Passes, AConvolutionInTensorCoresPutsChannelsLastAndBack) {
  const at::Tensor last = channels_last({64, 256, 56, 56}), kernel = channels_last({256, 256, 1, 1});
  const at::Tensor first = last.contiguous(), first_kernel = at::empty(kernel.sizes(), on_card(at::kHalf));
  const double tensors = through_memory(2 * bytes_of(last)), flops = 2.0 * static_cast<double>(last.numel()) * 256;
  const double once = std::max(tensors, flops / rates().half);
  EXPECT_NEAR(seconds_of([&] { at::conv2d(last, kernel); }), once, 0.01 * once + kGaps);
  EXPECT_NEAR(seconds_of([&] { at::conv2d(first, first_kernel); }), once + 2 * tensors, 0.03 * once + kGaps);
  // With few channels it is quicker without these cores.
  const at::Tensor few = at::empty({64, 16, 224, 224}, on_card(at::kHalf)),
                   small = at::empty({16, 16, 1, 1}, on_card(at::kHalf));
  const double without =
      std::max(through_memory(2 * bytes_of(few)), 32.0 * static_cast<double>(few.numel()) / rates().fp32);
  EXPECT_NEAR(seconds_of([&] { at::conv2d(few, small); }), without, 0.01 * without + kGaps);
  // In 64 bits there are no such cores to put them last for.
  const at::Tensor exact = first.to(at::kDouble), exact_kernel = first_kernel.to(at::kDouble);
  const double seconds = std::max(4 * tensors, flops / (rates().fp32 / 2));
  EXPECT_NEAR(seconds_of([&] { at::conv2d(exact, exact_kernel); }), seconds, 0.02 * seconds);
}

// LibTorch has a kernel of its own for these.
TEST(Passes, AConvolutionOfEachChannelByItselfPutsNothingLast) {
  const at::Tensor images = at::empty({256, 64, 56, 56}, on_card(at::kHalf)),
                   kernel = at::empty({64, 1, 3, 3}, on_card(at::kHalf));
  const double once = through_memory(2 * bytes_of(images));
  EXPECT_NEAR(seconds_of([&] { at::conv2d(images, kernel, {}, 1, 1, 1, 64); }), once, 0.01 * once + kGaps);
}

TEST(Passes, BothGradientsOfAConvolutionReadThatOfTheOutput) {
  const at::Tensor images = channels_last({256, 64, 56, 56}), kernel = channels_last({64, 64, 1, 1});
  const auto backward = [&](std::array<bool, 3> wanted) {
    return seconds_of([&, wanted] {
      at::convolution_backward(images, images, kernel, at::IntArrayRef{64}, {1, 1}, {0, 0}, {1, 1}, false, {0, 0}, 1,
                               wanted);
    });
  };
  const double one = through_memory(bytes_of(images));
  EXPECT_NEAR(backward({true, false, false}), 2 * one, 0.03 * one + kGaps);
  EXPECT_NEAR(backward({false, true, false}), 2 * one, 0.03 * one + kGaps);
  EXPECT_NEAR(backward({true, true, true}), 5 * one, 0.03 * one + kGaps);
}

TEST(Passes, ANormalisationReadsTwiceWhatTheCacheDoesNotHold) {
  const at::Tensor of_channel = at::ones({64}, on_card());
  for (const int64_t batch : {int64_t{4}, int64_t{1024}}) {
    const at::Tensor x = at::empty({batch, 64, 56, 56}, on_card());
    const bool held = 2 * bytes_of(x) <= rates().l2_bytes;
    ASSERT_EQ(held, batch == 4 && rates().l2_bytes > 7e6);
    const double reads = held ? 1 : 2, one = through_memory(bytes_of(x)), slack = 0.03 * one + 8e-6;
    const bool input_held = bytes_of(x) <= rates().l2_bytes;
    const auto norm = [&](bool training) {
      return seconds_of(
          [&] { at::batch_norm(x, of_channel, of_channel, of_channel, of_channel, training, 0.1, 1e-5, true); });
    };
    EXPECT_NEAR(norm(true), (input_held ? 2 : 3) * one, slack) << batch;
    EXPECT_NEAR(norm(false), 2 * one, slack) << batch;
    EXPECT_NEAR(seconds_of([&] {
                  at::native_batch_norm_backward(x, x, of_channel, of_channel, of_channel, of_channel, of_channel, true,
                                                 1e-5, {true, true, true});
                }),
                (2 * reads + 1) * one, slack)
        << batch;
    const at::Tensor rows = x.view({-1, 3136}), row = at::empty({rows.size(0), 1}, on_card()),
                     weight = at::empty({3136}, on_card());
    const auto layer_norm_backward = [&](bool of_weight) {
      return seconds_of([&] {
        at::native_layer_norm_backward(x.view({-1, 3136}), rows, {3136}, row, row, weight, weight,
                                       {true, of_weight, of_weight});
      });
    };
    EXPECT_NEAR(layer_norm_backward(true), (2 * reads + 1) * one, slack) << batch;
    EXPECT_NEAR(layer_norm_backward(false), 3 * one, slack) << batch << ": a row stays in the SM";
  }
}

}  // namespace
}  // namespace tenfold
