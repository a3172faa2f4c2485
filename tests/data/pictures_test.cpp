// Every kind of PNG gives the right pixels; every kind of damage to a PNG or JPEG gives one line, and nothing worse.
#include "common/data/pictures.h"
#include <gtest/gtest.h>
#include <malloc.h>
#include <sys/resource.h>
#include "common/data/data_files.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <stdexcept>

#include "picture_files.h"
#include "scratch.h"

namespace tenfold {
namespace {

using test::Bytes;
using test::expect_refused;
using test::jpeg_file;
using test::message_of;
using test::noise_png;
using test::noise_rows;
using test::png_chunk;
using test::png_file;
using test::PngKind;
using test::with_png_size;

/// One row of pixels, each three bytes.
Bytes decoded(const Bytes& file) { return decode_png(file, "test").pixels; }

uint8_t over_white(int colour, int alpha) {
  return static_cast<uint8_t>(std::lround(static_cast<double>(colour * alpha + 255 * (255 - alpha)) / 255));
}

uint8_t to_8_bits(int value) { return static_cast<uint8_t>(std::lround(value / 257.0)); }

TEST(Png, RgbIsReadAsItIsInterlacedOrNot) {
  for (const auto& [width, height] : {std::pair(1U, 1U), std::pair(5U, 3U), std::pair(37U, 23U), std::pair(8U, 200U)}) {
    const std::vector<Bytes> rows = noise_rows(height, size_t{width} * 3);
    Bytes all;
    for (const Bytes& row : rows) all.insert(all.end(), row.begin(), row.end());
    for (const bool interlaced : {false, true}) {
      const Bytes file = png_file(width, height, rows, {.interlaced = interlaced});
      const Picture picture = decode_png(file, "test");
      EXPECT_EQ(picture.height, height);
      EXPECT_EQ(picture.width, width);
      EXPECT_EQ(picture.pixels, all) << width << " x " << height << (interlaced ? ", interlaced" : "");
      const PictureSize size = picture_size(file, "test");
      EXPECT_EQ(size.height, height);
      EXPECT_EQ(size.width, width);
    }
  }
}

TEST(Png, AlphaIsLaidOverWhite) {
  const Bytes row = {10, 100, 250, 0, 10, 100, 250, 255, 10, 100, 250, 128, 0, 0, 0, 1};
  for (const bool interlaced : {false, true}) {
    const Bytes out =
        decoded(png_file(4, 1, {row}, {.colour_type = PNG_COLOR_TYPE_RGB_ALPHA, .interlaced = interlaced}));
    ASSERT_EQ(out.size(), 12u);
    for (size_t i = 0; i < 4; ++i) {
      for (size_t c = 0; c < 3; ++c)
        EXPECT_EQ(out[3 * i + c], over_white(row[4 * i + c], row[4 * i + 3])) << i << " " << c;
    }
    EXPECT_EQ(Bytes(out.begin(), out.begin() + 3), (Bytes{255, 255, 255}));
  }
}

TEST(Png, GrayOfEveryDepth) {
  for (const int depth : {1, 2, 4, 8}) {
    const int top = (1 << depth) - 1;
    Bytes row(8, 0);
    std::vector<int> values;
    for (int i = 0; i < 8; ++i) {
      values.push_back(i * 37 % (top + 1));
      row[static_cast<size_t>(i * depth / 8)] |= static_cast<uint8_t>(values.back() << (8 - depth - i * depth % 8));
    }
    const Bytes out = decoded(png_file(8, 1, {row}, {.bit_depth = depth, .colour_type = PNG_COLOR_TYPE_GRAY}));
    for (size_t i = 0; i < 8; ++i) {
      for (size_t c = 0; c < 3; ++c) EXPECT_EQ(out[3 * i + c], values[i] * 255 / top) << depth << " bits, pixel " << i;
    }
  }
}

TEST(Png, SixteenBitsAreRounded) {
  const std::vector<int> values = {0, 0x0080, 0x0081, 0x7fff, 0x80ff, 0xff7e, 0xff80, 0xffff};
  Bytes row, with_alpha;
  for (const int value : values) {
    for (Bytes* out : {&row, &with_alpha})
      out->insert(out->end(), {static_cast<uint8_t>(value >> 8), static_cast<uint8_t>(value)});
    with_alpha.insert(with_alpha.end(), {0x80, 0x80});
  }
  const Bytes gray = decoded(png_file(8, 1, {row}, {.bit_depth = 16, .colour_type = PNG_COLOR_TYPE_GRAY}));
  const Bytes blended =
      decoded(png_file(8, 1, {with_alpha}, {.bit_depth = 16, .colour_type = PNG_COLOR_TYPE_GRAY_ALPHA}));
  for (size_t i = 0; i < values.size(); ++i) {
    EXPECT_EQ(gray[3 * i + 1], to_8_bits(values[i])) << values[i];
    EXPECT_EQ(blended[3 * i + 2], over_white(to_8_bits(values[i]), 128)) << values[i];
  }
  const Bytes rgb = decoded(png_file(1, 1, {{0x12, 0x00, 0x34, 0xff, 0xff, 0xff}}, {.bit_depth = 16}));
  EXPECT_EQ(rgb, (Bytes{to_8_bits(0x1200), to_8_bits(0x34ff), 255}));
  const Bytes rgba = decoded(png_file(1, 1, {{0x12, 0x00, 0x34, 0xff, 0xff, 0xff, 0x00, 0x00}},
                                      {.bit_depth = 16, .colour_type = PNG_COLOR_TYPE_RGB_ALPHA}));
  EXPECT_EQ(rgba, (Bytes{255, 255, 255}));
}

TEST(Png, GrayWithAlpha) {
  const Bytes out = decoded(png_file(3, 1, {{40, 255, 40, 0, 40, 51}}, {.colour_type = PNG_COLOR_TYPE_GRAY_ALPHA}));
  EXPECT_EQ(out, (Bytes{40, 40, 40, 255, 255, 255, over_white(40, 51), over_white(40, 51), over_white(40, 51)}));
}

TEST(Png, PalettesOfEveryDepthWithAndWithoutAlpha) {
  const std::vector<png_color> colours = {{1, 2, 3}, {250, 128, 7}};
  for (const int depth : {1, 2, 4, 8}) {
    Bytes row(2, 0);
    row[0] = static_cast<uint8_t>(1 << (8 - depth));  // pixel 0 has colour 1, pixel 1 colour 0
    PngKind kind{.bit_depth = depth, .colour_type = PNG_COLOR_TYPE_PALETTE, .palette = colours};
    EXPECT_EQ(decoded(png_file(2, 1, {row}, kind)), (Bytes{250, 128, 7, 1, 2, 3})) << depth;
    kind.palette_alpha = {0, 100};
    EXPECT_EQ(decoded(png_file(2, 1, {row}, kind)),
              (Bytes{over_white(250, 100), over_white(128, 100), over_white(7, 100), 255, 255, 255}))
        << depth;
    kind.interlaced = true;
    EXPECT_EQ(decoded(png_file(2, 1, {row}, kind)).at(3), 255) << depth;
  }
}

TEST(Png, OneTransparentColour) {
  png_color_16 key{};
  key.red = 9, key.green = 8, key.blue = 7;
  const Bytes row = {9, 8, 7, 9, 8, 6};
  EXPECT_EQ(decoded(png_file(2, 1, {row}, {.transparent = &key})), (Bytes{255, 255, 255, 9, 8, 6}));
  key.gray = 77;
  EXPECT_EQ(decoded(png_file(2, 1, {{77, 78}}, {.colour_type = PNG_COLOR_TYPE_GRAY, .transparent = &key})),
            (Bytes{255, 255, 255, 78, 78, 78}));
}

TEST(Png, AnImpossibleSizeIsRefusedBeforeAnythingIsAllocated) {
  const Bytes small = noise_png(4, 4);
  const Bytes bomb = with_png_size(small, 60000, 60000);
  expect_refused(bomb, {"60000 x 60000", "limit of 16000000"});
  EXPECT_EQ(picture_size(bomb, "test").width, 60000);
  expect_refused(with_png_size(small, 0x7fffffff, 0x7fffffff), {"limit"});
  expect_refused(with_png_size(small, 0xffffffff, 1), {"out of range"});
  expect_refused(with_png_size(small, 0, 4), {"size of 0"});
  EXPECT_EQ(message_of<DataError>([&] { decode_png(small, "test", {.pixels = 16}); }), "");
  EXPECT_NE(message_of<DataError>([&] { decode_png(small, "test", {.pixels = 15}); }), "");
  // What the header promises and the data do not hold.
  expect_refused(with_png_size(small, 4, 5), {"truncated or damaged PNG"});
}

// A chunk of text that unpacks to a thousand times its size is not unpacked.
TEST(Png, PackedTextIsNotUnpacked) {
  constexpr size_t kUnpacked = 200'000'000;
  Bytes content = {'n', 0, 0};  // keyword, end, zlib
  z_stream stream{};
  ASSERT_EQ(deflateInit(&stream, 9), Z_OK);
  Bytes zeros(100000), buffer(100000);
  for (size_t done = 0; done < kUnpacked; done += zeros.size()) {
    stream.next_in = zeros.data();
    stream.avail_in = static_cast<uInt>(zeros.size());
    const bool last = done + zeros.size() >= kUnpacked;
    do {
      stream.next_out = buffer.data();
      stream.avail_out = static_cast<uInt>(buffer.size());
      deflate(&stream, last ? Z_FINISH : Z_NO_FLUSH);
      content.insert(content.end(), buffer.begin(),
                     buffer.begin() + static_cast<int64_t>(buffer.size() - stream.avail_out));
    } while (stream.avail_out == 0);
  }
  deflateEnd(&stream);
  Bytes file = noise_png(4, 4);
  const Bytes chunk = png_chunk("zTXt", content);
  file.insert(file.begin() + 33, chunk.begin(), chunk.end());
  const auto peak_kilobytes = [] {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss;
  };
  const auto before = peak_kilobytes();
  EXPECT_EQ(decode_png(file, "test", {.chunk_bytes = 2 * kUnpacked}).pixels,
            decode_png(noise_png(4, 4), "test").pixels);
  EXPECT_LT(peak_kilobytes() - before, 30000);
}

TEST(Pictures, WhatIsNoPictureIsSaidSo) {
  expect_refused({}, {"is empty"});
  expect_refused({'h', 'i'}, {"is no PNG or JPEG"});
  const Bytes html(1000, '<');
  expect_refused(html, {"is no PNG or JPEG"});
  EXPECT_NE(message_of<DataError>([&] { picture_size(html, "x"); }), "");
  EXPECT_NE(message_of<DataError>([&] { picture_size({}, "x"); }), "");
  EXPECT_NE(message_of<DataError>([&] { decode_png(jpeg_file(2, 2, Bytes(12, 9)), "x"); }), "");
  EXPECT_NE(message_of<DataError>([&] { decode_jpeg(noise_png(2, 2), "x"); }), "");
  EXPECT_NE(message_of<DataError>([&] { decode_jpeg({}, "x"); }), "");
  EXPECT_NE(message_of<DataError>([&] { decode_png({}, "x"); }), "");
}

TEST(Pictures, EveryTruncationIsRefused) {
  for (const Bytes& whole :
       {noise_png(120, 90), png_file(64, 64, noise_rows(64, 192), {.interlaced = true}),
        jpeg_file(240, 160, noise_rows(1, 240 * 160 * 3)[0]),
        jpeg_file(240, 160, noise_rows(1, 240 * 160 * 3)[0], TJPF_RGB, TJSAMP_444, TJFLAG_PROGRESSIVE)}) {
    EXPECT_EQ(message_of<DataError>([&] { decode_picture(whole, "x"); }), "");
    for (size_t n = 0; n < whole.size(); n += 97)
      expect_refused({whole.begin(), whole.begin() + static_cast<int64_t>(n)}, {});
    for (size_t back = 1; back <= 20; ++back) {
      const Bytes cut(whole.begin(), whole.end() - static_cast<int64_t>(back));
      const std::string line = message_of<DataError>([&] { decode_picture(cut, "x"); });
      // A JPEG whose end mark alone is missing is complete: libjpeg writes it in.
      EXPECT_TRUE(!line.empty() || back <= 2) << "cut by " << back;
    }
  }
}

TEST(Pictures, ALongSideOrChunkOfAPngIsNoDamage) {
  const Picture line = decode_png(noise_png(1'200'000, 1), "x");
  EXPECT_EQ(line.width, 1'200'000);
  EXPECT_EQ(line.pixels, noise_rows(1, 3'600'000)[0]);
  Bytes file = noise_png(4, 4);
  const Bytes text = png_chunk("tEXt", Bytes(70'000, 'a'));
  file.insert(file.begin() + 33, text.begin(), text.end());
  EXPECT_EQ(decode_png(file, "x", {.chunk_bytes = 65536}).pixels, decode_png(noise_png(4, 4), "x").pixels);
}

// Whatever a flipped byte does, the answer is a picture or one line.
TEST(Pictures, RandomFlipsNeverCrash) {
  std::mt19937_64 random(7);
  const std::vector<Bytes> files = {
      noise_png(40, 30), png_file(33, 21, noise_rows(21, 33 * 3), {.interlaced = true}),
      jpeg_file(40, 30, noise_rows(1, 40 * 30 * 3)[0]),
      jpeg_file(40, 30, noise_rows(1, 40 * 30 * 3)[0], TJPF_RGB, TJSAMP_420, TJFLAG_PROGRESSIVE),
      png_file(16, 16, noise_rows(16, 16),
               {.colour_type = PNG_COLOR_TYPE_PALETTE,
                .palette = std::vector<png_color>(256, png_color{3, 4, 5}),
                .palette_alpha = Bytes(200, 90)})};
  int read = 0, refused = 0;
  for (int i = 0; i < 5000; ++i) {
    Bytes file = files[static_cast<size_t>(i) % files.size()];
    for (uint64_t n = 1 + random() % 3; n > 0; --n)
      file[random() % file.size()] ^= static_cast<uint8_t>(1 + random() % 255);
    // A right checksum lets the damage reach what lies behind it.
    if (i % 2 == 0 && file[0] == 0x89)
      test::store_big(file.data() + 29, static_cast<uint32_t>(crc32_z(0, file.data() + 12, 17)));
    try {
      const Picture picture = decode_picture(file, "x", {.pixels = 1'000'000});
      EXPECT_EQ(picture.pixels.size(), static_cast<size_t>(picture.height * picture.width * 3));
      ++read;
    } catch (const DataError& error) {
      EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
      ++refused;
    }
  }
  EXPECT_GT(refused, 2500) << "checksums should catch nearly every damaged PNG";
  EXPECT_GT(read, 50) << "a JPEG has no checksum";
}

TEST(Pictures, AFailureLeaksNothing) {
  Bytes png = noise_png(100, 100), jpeg = jpeg_file(100, 100, noise_rows(1, 30000)[0]);
  png.resize(png.size() / 2);
  jpeg.resize(jpeg.size() / 2);
  const auto fail_often = [&](int times) {
    for (int i = 0; i < times; ++i) {
      EXPECT_NE(message_of<DataError>([&] { decode_png(png, "x"); }), "");
      EXPECT_NE(message_of<DataError>([&] { decode_jpeg(jpeg, "x"); }), "");
    }
  };
  fail_often(20);
  const size_t before = mallinfo2().uordblks;
  fail_often(500);
  EXPECT_LT(mallinfo2().uordblks, before + 20000);  // 40 bytes for each failure would be seen
}

}  // namespace
}  // namespace tenfold
