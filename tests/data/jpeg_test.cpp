// JPEG in both directions, and pictures made smaller.
#include <gtest/gtest.h>
#include "common/data/pictures.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
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

/// Where a marker is in a file; fails the test when it is not there.
int64_t place_of(const Bytes& file, uint8_t marker) {
  const Bytes both = {0xff, marker};
  const auto hit = std::ranges::search(file, both);
  EXPECT_FALSE(hit.empty()) << "no marker " << int{marker};
  return hit.begin() - file.begin();
}

/// The file with other bytes at a distance from a marker.
Bytes with_bytes(Bytes file, uint8_t marker, int64_t distance, const Bytes& bytes) {
  std::ranges::copy(bytes, file.begin() + place_of(file, marker) + distance);
  return file;
}

/// The file with more bytes at a distance from a marker.
Bytes with_more(Bytes file, uint8_t marker, int64_t distance, const Bytes& bytes) {
  file.insert(file.begin() + place_of(file, marker) + distance, bytes.begin(), bytes.end());
  return file;
}

constexpr uint8_t kBaseline = 0xc0, kScan = 0xda, kEnd = 0xd9, kJfif = 0xe0;

TEST(Jpeg, AnImpossibleSizeIsRefused) {
  const Bytes file = jpeg_file(16, 16, Bytes(16 * 16 * 3, 100));
  expect_refused(with_bytes(file, kBaseline, 5, {0xea, 0x60, 0xea, 0x60}),  // height, width
                 {"60000 x 60000", "limit of 16000000", "raise PictureLimits::pixels"});
}

/// Decoding says that the kind is not read, and not that anything is damaged.
void expect_unread(const Bytes& file, const std::string& part) {
  expect_refused(file, {part, "which is not read; convert it"});
  for (const std::string& line : {test::message_of<DataError>([&] { decode_jpeg(file, "x"); }),
                                  test::message_of<DataError>([&] { picture_size(file, "x"); })}) {
    EXPECT_EQ(line.find("damaged"), std::string::npos) << line;
  }
}

TEST(Jpeg, AKindThatIsNotReadIsNoDamage) {
  const Picture picture = smooth_picture(32, 48);
  const Bytes file = jpeg_file(48, 32, picture.pixels, TJPF_RGB, TJSAMP_444);
  const auto sampled = [&](uint8_t first, uint8_t others) {
    return with_bytes(with_bytes(with_bytes(file, kBaseline, 11, {first}), kBaseline, 14, {others}), kBaseline, 17,
                      {others});
  };
  expect_unread(sampled(0x42, 0x11), "with colours sampled 4x2, 1x1, 1x1");  // 4:1:0
  expect_unread(sampled(0x31, 0x11), "with colours sampled 3x1, 1x1, 1x1");
  expect_unread(sampled(0x11, 0x22), "with colours sampled 1x1, 2x2, 2x2");
  expect_unread(with_bytes(file, kBaseline, 4, {12}), "with 12 bits per sample");
  for (const uint8_t kind : {0xc3, 0xcb}) expect_unread(with_bytes(file, kBaseline, 1, {kind}), "lossless");
  for (const uint8_t kind : {0xc5, 0xc6, 0xc7, 0xcd, 0xce, 0xcf})
    expect_unread(with_bytes(file, kBaseline, 1, {kind}), "of the hierarchical kind");
  expect_unread(with_bytes(file, kBaseline, 1, {0xf7}), "JPEG-LS");
  expect_unread(with_bytes(file, kBaseline, 5, {0, 0}), "whose height stands behind its pixels");
  expect_unread(with_bytes(file, kBaseline, 5, {0xff, 0xe0, 0, 8}), "of 8 x 65504 pixels, a side above 65500");

  // Two components, and four whose colours are sampled as nobody does: 2x2, 1x1, 1x1, 1x1.
  Bytes two = with_bytes(file, kBaseline, 3, {14});
  two[static_cast<size_t>(place_of(two, kBaseline)) + 9] = 2;
  two.erase(two.begin() + place_of(two, kBaseline) + 16, two.begin() + place_of(two, kBaseline) + 19);
  expect_unread(two, "with 2 components");
  const Bytes inks = jpeg_file(16, 16, Bytes(16 * 16 * 4, 100), TJPF_CMYK, TJSAMP_444);
  expect_unread(with_bytes(inks, kBaseline, 11, {0x22}), "is a YCCK JPEG file");
  Bytes ink_alone = inks;  // Adobe's marker says that the inks are not transformed
  const std::string adobe = "Adobe";
  *(std::ranges::search(ink_alone, adobe).begin() + 11) = 0;
  expect_unread(ink_alone, "is a CMYK JPEG file");
  expect_unread(with_bytes(ink_alone, kBaseline, 11, {0x22}), "is a CMYK JPEG file");
}

TEST(Jpeg, DamageOfAKindThatIsReadStaysDamage) {
  const Bytes file = jpeg_file(48, 32, smooth_picture(32, 48).pixels);
  expect_refused(with_bytes(file, kBaseline, 4, {9}), {"damaged"});        // bits
  expect_refused(with_bytes(file, kBaseline, 11, {0x50}), {"damaged"});    // sampled 5x0
  expect_refused(with_bytes(file, 0xc4, 5, Bytes(16, 200)), {"damaged"});  // Huffman table
  expect_refused(with_bytes(file, kScan, 4, {9}), {"damaged"});            // components of a scan
  expect_refused(Bytes(file.begin(), file.begin() + 3), {"damaged"});
}

/// Reads as the file that it was made of does, in both ways.
void expect_same(const Bytes& file, const Bytes& original, const std::string& what) {
  EXPECT_NE(file, original) << what;
  EXPECT_EQ(test::message_of<DataError>([&] {
              EXPECT_EQ(decode_jpeg(file, "x").pixels, decode_jpeg(original, "x").pixels) << what;
              EXPECT_EQ(picture_size(file, "x").width, picture_size(original, "x").width) << what;
            }),
            "")
      << what;
}

/// A picture of noise with a restart marker after each row of blocks; empty where the library has no way to make one.
Bytes with_restarts() {
  setenv("TJ_RESTART", "1", 1);
  const Bytes file = jpeg_file(64, 48, noise_rows(1, 64 * 48 * 3)[0]);
  unsetenv("TJ_RESTART");
  const Bytes first = {0xff, 0xd0};
  return std::ranges::search(file, first).empty() ? Bytes() : file;
}

TEST(Jpeg, WhatConcernsNoPixelIsNoDamage) {
  const auto noise = [](int sampling, int flags) {
    return jpeg_file(64, 48, noise_rows(1, 64 * 48 * 3)[0], TJPF_RGB, sampling, flags);
  };
  for (const Bytes& file : {noise(TJSAMP_420, 0), noise(TJSAMP_444, 0), noise(TJSAMP_GRAY, 0),
                            noise(TJSAMP_420, TJFLAG_PROGRESSIVE), noise(TJSAMP_GRAY, TJFLAG_PROGRESSIVE)}) {
    const Bytes bare(file.begin(), file.end() - 2);
    expect_same(bare, file, "no end mark");
    expect_same(Bytes(file.begin(), file.end() - 1), file, "half an end mark");
    Bytes zeros = bare;
    zeros.insert(zeros.end(), 100, 0);
    expect_same(zeros, file, "zeros in place of the end mark");
    zeros.insert(zeros.end(), {0xff, kEnd});
    expect_same(zeros, file, "zeros before the end mark");
    Bytes behind = file;
    behind.insert(behind.end(), {1, 2, 3, 0xff, 0xd8});
    expect_same(behind, file, "bytes behind the end mark");
    expect_same(with_more(file, 0xdb, 0, {7, 7, 7}), file, "bytes between segments");
    expect_same(with_more(file, 0xdb, 0, {0xff, 0xff}), file, "fill bytes between segments");
    expect_same(with_bytes(file, kJfif, 9, {3}), file, "JFIF 3");
  }
  const Bytes file = noise(TJSAMP_420, 0);
  expect_same(with_bytes(file, kScan, 11, {0, 0, 0}), file, "a sequential scan without its coefficients");
}

TEST(Jpeg, ZerosBeforeARestartAreNoDamage) {
  const Bytes file = with_restarts();
  if (file.empty()) GTEST_SKIP() << "this libjpeg-turbo writes no restart markers";
  expect_same(with_more(file, 0xd0, 0, {0, 0, 0}), file, "zeros before the first");
  expect_same(with_more(with_more(file, 0xd1, 0, {0}), 0xd0, 0, {0, 0}), file, "zeros before two");
  expect_same(Bytes(file.begin(), file.end() - 2), file, "no end mark");
  expect_refused(with_more(file, 0xd0, 0, {1, 2, 3}), {"has bytes among its pixels that belong to none", "extraneous"});
  // Cut behind a whole row of blocks, as if it were the last: the file ends where a code does.
  expect_refused(Bytes(file.begin(), file.begin() + place_of(file, 0xd1)), {"truncated or damaged"});
}

TEST(Jpeg, WhatIsMissingIsStillDamage) {
  // Each cut behind a scan of a progressive picture: complete codes, but not all of them.
  const Bytes file = jpeg_file(64, 48, noise_rows(1, 64 * 48 * 3)[0], TJPF_RGB, TJSAMP_444, TJFLAG_PROGRESSIVE);
  int scans = 0;
  for (auto at = file.begin() + place_of(file, kScan) + 2;; ++scans) {
    const Bytes next = {0xff, kScan};
    const auto hit = std::search(at, file.end(), next.begin(), next.end());
    if (hit == file.end()) break;
    expect_refused(Bytes(file.begin(), hit), {"truncated or damaged"});
    at = hit + 2;
  }
  EXPECT_GT(scans, 3);
  // Cut anywhere, with an end mark put behind, or zeros.
  for (const int flags : {0, TJFLAG_PROGRESSIVE}) {
    const Bytes whole = jpeg_file(64, 48, noise_rows(1, 64 * 48 * 3)[0], TJPF_RGB, TJSAMP_420, flags);
    for (size_t n = static_cast<size_t>(place_of(whole, kScan)) + 20; n + 3 < whole.size(); n += 13) {
      Bytes cut(whole.begin(), whole.begin() + static_cast<int64_t>(n));
      if (flags == 0) expect_refused(cut, {"truncated or damaged"});
      cut.insert(cut.end(), 40, 0);
      expect_refused(cut, {});
    }
  }
  setenv("TJ_ARITHMETIC", "1", 1);  // its decoder does not notice that codes are missing
  const Bytes arithmetic = jpeg_file(64, 48, noise_rows(1, 64 * 48 * 3)[0]);
  unsetenv("TJ_ARITHMETIC");
  const Bytes frame = {0xff, 0xc9};
  if (std::ranges::search(arithmetic, frame).empty()) GTEST_SKIP() << "this libjpeg-turbo has no arithmetic coding";
  EXPECT_EQ(test::message_of<DataError>([&] { decode_jpeg(arithmetic, "x"); }), "");
  for (const size_t cut : {2, 40, 500})
    expect_refused(Bytes(arithmetic.begin(), arithmetic.end() - static_cast<int64_t>(cut)), {"damaged"});
}

TEST(Jpeg, AnOrientationTurnsNothing) {
  const Picture picture = smooth_picture(24, 40);
  const Bytes file = jpeg_file(40, 24, picture.pixels, TJPF_RGB, TJSAMP_444);
  const std::string exif("Exif\0\0II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0\x06\0\0\0\0\0\0\0", 32);
  Bytes segment = {0xff, 0xe1, 0, static_cast<uint8_t>(exif.size() + 2)};
  segment.insert(segment.end(), exif.begin(), exif.end());
  const Bytes turned = with_more(file, kJfif, 0, segment);
  EXPECT_EQ(picture_size(turned, "x").width, 40);
  expect_same(turned, file, "orientation 6");
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
