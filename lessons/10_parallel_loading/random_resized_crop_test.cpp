#include <gtest/gtest.h>

#include "random_resized_crop.h"

#include <algorithm>

namespace {

using namespace tenfold;

Picture noise(int64_t height, int64_t width) {
  Picture image{height, width, std::vector<uint8_t>(static_cast<size_t>(height * width * 3))};
  SampleRandom random(1, height, width);
  for (uint8_t& value : image.pixels) value = static_cast<uint8_t>(random.below(256));
  return image;
}

std::vector<float> resized(const Picture& image, const Crop& crop, int64_t side, const Normalisation& normal = {}) {
  std::vector<float> out(static_cast<size_t>(3 * side * side), NAN);
  resize_normalised(image, crop, side, normal, out);
  return out;
}

/// The same step by step, in double precision: cut, mirror, resize by the formula, normalise.
std::vector<double> step_by_step(const Picture& image, const Crop& crop, int64_t side, const Normalisation& normal) {
  const auto triangle = [](int64_t source, int64_t target, int64_t i, int64_t j) {
    const double scale = static_cast<double>(source) / static_cast<double>(target), support = std::max(1.0, scale);
    return std::max(0.0,
                    1 - std::abs((static_cast<double>(j) + 0.5) - (static_cast<double>(i) + 0.5) * scale) / support);
  };
  std::vector<double> out;
  for (size_t c = 0; c < 3; ++c) {
    for (int64_t y = 0; y < side; ++y) {
      for (int64_t x = 0; x < side; ++x) {
        double sum = 0, weights = 0;
        for (int64_t v = 0; v < crop.height; ++v) {
          for (int64_t u = 0; u < crop.width; ++u) {
            const double weight = triangle(crop.height, side, y, v) * triangle(crop.width, side, x, u);
            const int64_t column = crop.left + (crop.flip ? crop.width - 1 - u : u);
            sum += weight * image.pixels[static_cast<size_t>(((crop.top + v) * image.width + column) * 3) + c];
            weights += weight;
          }
        }
        out.push_back((sum / weights / 255 - normal.mean[c]) / normal.deviation[c]);
      }
    }
  }
  return out;
}

TEST(ResizeNormalised, IsTheSameAsStepByStep) {
  const Normalisation normal{{0.1F, 0.4F, 0.8F}, {0.2F, 0.3F, 0.9F}};
  const Picture image = noise(37, 53);
  for (const Crop& crop :
       {Crop{0, 0, 37, 53, false}, Crop{0, 0, 37, 53, true}, Crop{5, 9, 20, 31, true}, Crop{36, 52, 1, 1, false},
        Crop{3, 0, 2, 53, false}, Crop{0, 7, 37, 1, true}, Crop{10, 10, 16, 16, false}}) {
    for (const int64_t side : {1, 2, 16, 40}) {
      SCOPED_TRACE(testing::Message() << crop.height << " x " << crop.width << " to " << side);
      const auto got = resized(image, crop, side, normal);
      const auto wanted = step_by_step(image, crop, side, normal);
      ASSERT_EQ(got.size(), wanted.size());
      for (size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], wanted[i], 2e-5) << "at " << i;
    }
  }
}

TEST(ResizeNormalised, KeepsPixelsWhereNothingIsResized) {
  const Picture image = noise(16, 16);
  const auto same = resized(image, {0, 0, 16, 16, false}, 16, {{0, 0, 0}, {1, 1, 1}});
  for (int64_t y = 0; y < 16; ++y) {
    for (int64_t x = 0; x < 16; ++x) {
      for (int64_t c = 0; c < 3; ++c) {
        EXPECT_NEAR(same[static_cast<size_t>((c * 16 + y) * 16 + x)] * 255,
                    image.pixels[static_cast<size_t>((y * 16 + x) * 3 + c)], 1e-3);
      }
    }
  }
}

TEST(ResizeNormalised, RefusesWhatDoesNotFit) {
  const Picture image = noise(8, 8);
  std::vector<float> out(3 * 4 * 4);
  for (const Crop& crop : {Crop{0, 0, 9, 8}, Crop{0, 0, 8, 0}, Crop{-1, 0, 4, 4}, Crop{5, 0, 4, 4}}) {
    EXPECT_THROW(resize_normalised(image, crop, 4, {}, out), std::invalid_argument);
  }
  EXPECT_THROW(resize_normalised(image, {0, 0, 8, 8}, 5, {}, out), std::invalid_argument);
  EXPECT_THROW(resize_normalised(image, {0, 0, 8, 8}, 0, {}, {}), std::invalid_argument);
}

TEST(RandomCrop, StaysInsideAndInItsRange) {
  for (const PictureSize size :
       {PictureSize{100, 100}, PictureSize{40, 300}, PictureSize{300, 40}, PictureSize{1, 1}, PictureSize{1, 500}}) {
    int flipped = 0, fitting = 0;
    for (int64_t sample = 0; sample < 2000; ++sample) {
      SampleRandom random(7, 0, sample);
      const Crop crop = random_crop(size, random, {.least_area = 0.1});
      ASSERT_GE(crop.height, 1);
      ASSERT_GE(crop.width, 1);
      ASSERT_GE(crop.top, 0);
      ASSERT_GE(crop.left, 0);
      ASSERT_LE(crop.top + crop.height, size.height);
      ASSERT_LE(crop.left + crop.width, size.width);
      flipped += crop.flip ? 1 : 0;
      const double area = static_cast<double>(crop.height * crop.width) / static_cast<double>(size.height * size.width);
      const double aspect = static_cast<double>(crop.width) / static_cast<double>(crop.height);
      fitting += area > 0.09 && aspect > 0.72 && aspect < 1.38 ? 1 : 0;
    }
    EXPECT_NEAR(flipped, 1000, 120);
    if (size.height == 100) {
      EXPECT_EQ(fitting, 2000);
    }
  }
}

TEST(RandomCrop, UsesTheWholeRange) {
  double smallest = 1, largest = 0;
  std::array<bool, 100> columns{};
  for (int64_t sample = 0; sample < 5000; ++sample) {
    SampleRandom random(7, 0, sample);
    const Crop crop = random_crop({100, 100}, random, {.least_area = 0.2, .most_area = 0.9});
    const double area = static_cast<double>(crop.height * crop.width) / 10000;
    smallest = std::min(smallest, area), largest = std::max(largest, area);
    for (int64_t x = crop.left; x < crop.left + crop.width; ++x) columns[static_cast<size_t>(x)] = true;
  }
  EXPECT_LT(smallest, 0.22);
  EXPECT_GT(largest, 0.85);
  EXPECT_TRUE(std::ranges::all_of(columns, [](bool reached) { return reached; }));
}

TEST(CentreCrop, IsTheSquareInTheMiddle) {
  const Crop crop = centre_crop({40, 101});
  EXPECT_EQ(crop.top, 0);
  EXPECT_EQ(crop.left, 30);
  EXPECT_EQ(crop.height, 40);
  EXPECT_EQ(crop.width, 40);
}

}  // namespace
