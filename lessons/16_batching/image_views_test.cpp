#include <gtest/gtest.h>

#include "image_views.h"

#include <array>
#include <set>
#include <tuple>

#include "tests/support/support.h"

namespace {

using namespace tenfold;
using torch::Tensor;

/// (B, H, W, 3) bytes.
Tensor some_images(int64_t batch, int64_t height, int64_t width) {
  return torch::randint(0, 256, {batch, height, width, 3}, torch::kByte);
}

std::vector<View> some_views(int64_t batch, int64_t height, int64_t width, int64_t side) {
  std::vector<View> views;
  for (int64_t i = 0; i < batch; ++i) {
    SampleRandom random(1, 0, i);
    views.push_back(random_view(height, width, side, random));
  }
  return views;
}

Tensor as_tensor(const std::vector<View>& views) {
  Tensor rows = torch::empty({static_cast<int64_t>(views.size()), 3}, torch::kLong);
  for (size_t i = 0; i < views.size(); ++i)
    rows[static_cast<int64_t>(i)] = torch::tensor({views[i].top, views[i].left, int64_t{views[i].flip}}, torch::kLong);
  return rows;
}

/// Pixel for pixel, by the definition.
Tensor expected(const Tensor& images, const std::vector<View>& views, int64_t side, const Normalisation& normal) {
  Tensor out = torch::empty({images.size(0), 3, side, side});
  const auto in = images.accessor<uint8_t, 4>();
  auto to = out.accessor<float, 4>();
  for (int64_t b = 0; b < images.size(0); ++b) {
    const View& view = views[static_cast<size_t>(b)];
    for (int64_t y = 0; y < side; ++y)
      for (int64_t x = 0; x < side; ++x)
        for (int64_t c = 0; c < 3; ++c) {
          const double pixel = in[b][view.top + y][view.left + (view.flip ? side - 1 - x : x)][c];
          to[b][c][y][x] = static_cast<float>((pixel / 255 - normal.mean[static_cast<size_t>(c)]) /
                                              normal.deviation[static_cast<size_t>(c)]);
        }
  }
  return out;
}

struct Shape {
  int64_t batch, height, width, side;
};
const std::vector<Shape> kShapes = {{1, 1, 1, 1},  {1, 64, 64, 64}, {7, 13, 11, 5},
                                    {3, 8, 40, 8}, {5, 31, 9, 9},   {33, 64, 64, 56}};

const Normalisation kUneven{{0.1F, 0.5F, 0.7F}, {0.2F, 0.25F, 0.3F}};

TEST(ImageViews, AllThreeWaysGiveTheSameBitsAndTheRightNumbers) {
  for (const auto& [batch, height, width, side] : kShapes) {
    const PixelScale scale(kUneven);
    const Tensor shift = scale.shifts(torch::kCPU), factor = scale.factors(torch::kCPU);
    const Tensor images = some_images(batch, height, width);
    const auto views = some_views(batch, height, width, side);

    const Tensor together = views_of(images, as_tensor(views), side, shift, factor);
    std::vector<Tensor> by_hand;
    Tensor in_one_pass = torch::full({batch, 3, side, side}, NAN);
    for (int64_t b = 0; b < batch; ++b) {
      const View& view = views[static_cast<size_t>(b)];
      by_hand.push_back(view_of(images[b], view, side, shift, factor));
      const Tensor row = in_one_pass[b];
      write_view({images[b].const_data_ptr<uint8_t>(), static_cast<size_t>(height * width * 3)}, height, width, view,
                 side, scale, {row.data_ptr<float>(), static_cast<size_t>(row.numel())});
    }
    EXPECT_TRUE(torch::allclose(together, expected(images, views, side, kUneven), 1e-5, 1e-5))
        << batch << " x " << side;
    EXPECT_TRUE(torch::equal(together, torch::stack(by_hand))) << batch << " x " << side;
    EXPECT_TRUE(torch::equal(together, in_one_pass)) << batch << " x " << side;
  }
}

// The convolution takes another way, with other sums, for floats that lie channels last.
TEST(ImageViews, TheBatchLiesChannelsFirst) {
  const PixelScale scale;
  const Tensor batch = views_of(some_images(4, 12, 12), as_tensor(some_views(4, 12, 12, 8)), 8,
                                scale.shifts(torch::kCPU), scale.factors(torch::kCPU));
  EXPECT_TRUE(batch.is_contiguous());
}

TEST(ImageViews, OnTheDeviceTheSameNumbers) {
  if (!torch::cuda::is_available()) GTEST_SKIP() << "no CUDA device";
  const PixelScale scale;
  const Tensor images = some_images(9, 20, 17), views = as_tensor(some_views(9, 20, 17, 12));
  const Tensor host = views_of(images, views, 12, scale.shifts(torch::kCPU), scale.factors(torch::kCPU));
  const Tensor device =
      views_of(images.cuda(), views.cuda(), 12, scale.shifts(torch::kCUDA), scale.factors(torch::kCUDA));
  EXPECT_TRUE(torch::equal(device.cpu(), host));
}

TEST(ImageViews, EveryViewThatFitsIsDrawn) {
  std::set<std::tuple<int64_t, int64_t, bool>> seen;
  for (int64_t i = 0; i < 2000; ++i) {
    SampleRandom random(3, 0, i);
    const View view = random_view(6, 7, 5, random);
    EXPECT_TRUE(view.top >= 0 && view.top <= 1 && view.left >= 0 && view.left <= 2);
    seen.insert({view.top, view.left, view.flip});
  }
  EXPECT_EQ(seen.size(), 2U * 3U * 2U);
}

TEST(ImageViews, WhatDoesNotFitIsRefused) {
  SampleRandom random(0, 0, 0);
  for (const int64_t side : {0, -1, 9}) EXPECT_THROW(random_view(8, 20, side, random), std::invalid_argument) << side;
  EXPECT_THROW(random_view(20, 8, 9, random), std::invalid_argument);

  const std::vector<uint8_t> pixels(8 * 8 * 3);
  std::vector<float> out(3 * 4 * 4);
  const PixelScale scale;
  for (const View& view : {View{5, 0}, View{0, 5}, View{-1, 0}, View{0, -1}})
    EXPECT_THROW(write_view(pixels, 8, 8, view, 4, scale, out), std::invalid_argument) << view.top << ", " << view.left;
  EXPECT_NO_THROW(write_view(pixels, 8, 8, {4, 4}, 4, scale, out));
  EXPECT_THROW(write_view(pixels, 8, 9, {}, 4, scale, out), std::invalid_argument);
  EXPECT_THROW(write_view(pixels, 8, 8, {}, 5, scale, out), std::invalid_argument);

  const Tensor shift = scale.shifts(torch::kCPU), factor = scale.factors(torch::kCPU),
               views = torch::zeros({2, 3}, torch::kLong);
  EXPECT_THROW(views_of(torch::zeros({2, 3, 8, 8}, torch::kByte), views, 4, shift, factor), c10::ValueError);
  EXPECT_THROW(views_of(some_images(3, 8, 8), views, 4, shift, factor), c10::ValueError);
  // A view that reaches behind the last image is an index error, on the CPU at once.
  const Tensor outside = torch::tensor({0, 0, 0, 5, 0, 0}, torch::kLong).view({2, 3});
  EXPECT_THROW(views_of(some_images(2, 8, 8), outside, 4, shift, factor), c10::Error);
}

}  // namespace
