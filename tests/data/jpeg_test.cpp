// JPEG in both directions, and pictures made smaller.
#include <gtest/gtest.h>
#include "common/data/pictures.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "picture_files.h"

namespace tenfold {
namespace {

using test::Bytes;
using test::expect_refused;
using test::jpeg_file;
using test::noise_rows;

double mean_difference(const Picture& a, const Picture& b) {
  double sum = 0;
  for (size_t i = 0; i < a.pixels.size(); ++i) sum += std::abs(a.pixels[i] - b.pixels[i]);
  return sum / static_cast<double>(a.pixels.size());
}

Picture smooth_picture(int64_t height, int64_t width) {
  Picture picture{height, width, {}};
  for (int64_t y = 0; y < height; ++y) {
    for (int64_t x = 0; x < width; ++x) {
      for (const int64_t value : {x * 255 / width, y * 255 / height, (x + y) * 255 / (width + height)})
        picture.pixels.push_back(static_cast<uint8_t>(value));
    }
  }
  return picture;
}

TEST(Jpeg, RoundTripIsCloseAndRepeats) {
  for (const auto& [height, width] : {std::pair(1, 1), std::pair(17, 31), std::pair(120, 200)}) {
    const Picture picture = smooth_picture(height, width);
    const Bytes file = encode_jpeg(picture, 90);
    EXPECT_EQ(file, encode_jpeg(picture, 90));
    EXPECT_EQ(picture_size(file, "x").height, height);
    EXPECT_EQ(picture_size(file, "x").width, width);
    const Picture back = decode_jpeg(file, "x");
    ASSERT_EQ(back.pixels.size(), picture.pixels.size());
    EXPECT_LT(mean_difference(back, picture), 3);
  }
  EXPECT_LT(encode_jpeg(smooth_picture(200, 200), 20).size(), encode_jpeg(smooth_picture(200, 200), 95).size());
}

TEST(Jpeg, GrayGivesThreeEqualChannelsAndProgressiveIsRead) {
  const Picture picture = smooth_picture(40, 60);
  const Picture gray = decode_jpeg(jpeg_file(60, 40, picture.pixels, TJPF_RGB, TJSAMP_GRAY), "x");
  for (size_t i = 0; i < gray.pixels.size(); i += 3) {
    ASSERT_EQ(gray.pixels[i], gray.pixels[i + 1]);
    ASSERT_EQ(gray.pixels[i], gray.pixels[i + 2]);
  }
  EXPECT_LT(mean_difference(
                decode_jpeg(jpeg_file(60, 40, picture.pixels, TJPF_RGB, TJSAMP_444, TJFLAG_PROGRESSIVE), "x"), picture),
            3);
}

TEST(Jpeg, FourInksAreRefusedByName) {
  expect_refused(jpeg_file(16, 16, Bytes(16 * 16 * 4, 100), TJPF_CMYK, TJSAMP_444), {"YCCK JPEG"});
}

TEST(Jpeg, AnImpossibleSizeIsRefused) {
  Bytes file = jpeg_file(16, 16, Bytes(16 * 16 * 3, 100));
  const Bytes frame = {0xff, 0xc0};
  const auto at = std::ranges::search(file, frame).begin() - file.begin();
  for (const int64_t place : {5, 7}) {  // height, width: 60000 each
    file[static_cast<size_t>(at + place)] = 0xea;
    file[static_cast<size_t>(at + place + 1)] = 0x60;
  }
  expect_refused(file, {"60000 x 60000", "limit of 16000000"});
}

TEST(Jpeg, EncodeRefusesWhatItCannotWrite) {
  const Picture picture = smooth_picture(4, 4);
  EXPECT_THROW(encode_jpeg(picture, 0), std::invalid_argument);
  EXPECT_THROW(encode_jpeg(picture, 101), std::invalid_argument);
  EXPECT_THROW(encode_jpeg({}, 90), std::invalid_argument);
  EXPECT_THROW(encode_jpeg({4, 5, picture.pixels}, 90), std::invalid_argument);
}

TEST(Shrink, EachPixelIsTheMeanOfItsArea) {
  const Picture two{2, 4, {0, 0, 0, 10, 10, 10, 100, 0, 0, 100, 0, 0, 20, 20, 20, 30, 30, 30, 100, 0, 0, 100, 0, 0}};
  EXPECT_EQ(shrink_picture(two, 2).pixels, (Bytes{15, 15, 15, 100, 0, 0}));
  // Three pixels to two: each takes one and a half.
  const Picture three{1, 3, {0, 0, 0, 90, 90, 90, 240, 240, 240}};
  EXPECT_EQ(shrink_picture(three, 2).pixels, (Bytes{30, 30, 30, 190, 190, 190}));
  EXPECT_EQ(shrink_picture({1, 2, {0, 7, 4, 1, 7, 6}}, 1).pixels, (Bytes{1, 7, 5})) << "a half is rounded up";
  const Picture noise{97, 61, noise_rows(1, 97 * 61 * 3)[0]};
  const Picture one = shrink_picture(noise, 1);
  double sum = 0;
  for (size_t i = 0; i < noise.pixels.size(); i += 3) sum += noise.pixels[i];
  EXPECT_EQ(one.height, 1);
  EXPECT_EQ(one.width, 1);
  EXPECT_EQ(one.pixels[0], std::lround(sum / (97 * 61)));
}

TEST(Shrink, KeepsProportionsAndNeverEnlarges) {
  const auto size_of = [](const Picture& p) { return std::pair(p.height, p.width); };
  EXPECT_EQ(size_of(shrink_picture(smooth_picture(300, 600), 256)), std::pair(int64_t{128}, int64_t{256}));
  EXPECT_EQ(size_of(shrink_picture(smooth_picture(600, 1), 256)), std::pair(int64_t{256}, int64_t{1}));
  EXPECT_EQ(size_of(shrink_picture(smooth_picture(2000, 3), 10)), std::pair(int64_t{10}, int64_t{1}));
  EXPECT_EQ(shrink_picture(smooth_picture(20, 30), 30).pixels, smooth_picture(20, 30).pixels);
  EXPECT_EQ(size_of(shrink_picture(smooth_picture(20, 30), 64)), std::pair(int64_t{20}, int64_t{30}));
  EXPECT_THROW(shrink_picture(smooth_picture(2, 2), 0), std::invalid_argument);
  const Picture constant{50, 70, Bytes(50 * 70 * 3, 173)};
  for (const uint8_t value : shrink_picture(constant, 33).pixels) ASSERT_EQ(value, 173);
}

TEST(Square, IsInTheMiddleOfWhite) {
  const Picture black{2, 4, Bytes(24, 0)};
  const Picture square = square_picture(black, 4);
  EXPECT_EQ(square.height, 4);
  EXPECT_EQ(square.width, 4);
  for (size_t y = 0; y < 4; ++y) {
    for (size_t i = 0; i < 12; ++i) ASSERT_EQ(square.pixels[y * 12 + i], y == 1 || y == 2 ? 0 : 255) << y;
  }
  EXPECT_EQ(square_picture(smooth_picture(333, 77), 64).pixels.size(), 64u * 64 * 3);
}

}  // namespace
}  // namespace tenfold
