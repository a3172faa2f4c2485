#pragma once
// PNG and JPEG files of every kind, made on the fly.

#include <gtest/gtest.h>
#include <png.h>
#include <turbojpeg.h>
#include <zlib.h>
#include "common/data/data_files.h"
#include "common/data/pictures.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tests/support/support.h"

namespace tenfold::test {

using Bytes = std::vector<uint8_t>;

struct PngKind {
  int bit_depth = 8, colour_type = PNG_COLOR_TYPE_RGB;
  bool interlaced = false;
  std::vector<png_color> palette;
  Bytes palette_alpha;
  const png_color_16* transparent = nullptr;
};

/// `rows` as libpng wants them: packed below 8 bits, big-endian at 16.
inline Bytes png_file(uint32_t width, uint32_t height, const std::vector<Bytes>& rows, const PngKind& kind = {}) {
  Bytes out;
  png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, nullptr, nullptr);
  png_infop info = png_create_info_struct(png);
  if (setjmp(png_jmpbuf(png))) {  // NOLINT(*): libpng's interface
    ADD_FAILURE() << "the test's own PNG was refused by libpng";
    png_destroy_write_struct(&png, &info);
    return out;
  }
  png_set_write_fn(
      png, &out,
      [](png_structp writer, png_bytep bytes, size_t count) {
        auto* target = static_cast<Bytes*>(png_get_io_ptr(writer));
        target->insert(target->end(), bytes, bytes + count);
      },
      nullptr);
  png_set_user_limits(png, PNG_UINT_31_MAX, PNG_UINT_31_MAX);
  png_set_IHDR(png, info, width, height, kind.bit_depth, kind.colour_type,
               kind.interlaced ? PNG_INTERLACE_ADAM7 : PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT,
               PNG_FILTER_TYPE_DEFAULT);
  if (!kind.palette.empty()) png_set_PLTE(png, info, kind.palette.data(), static_cast<int>(kind.palette.size()));
  if (!kind.palette_alpha.empty())
    png_set_tRNS(png, info, kind.palette_alpha.data(), static_cast<int>(kind.palette_alpha.size()), nullptr);
  if (kind.transparent != nullptr) png_set_tRNS(png, info, nullptr, 0, kind.transparent);
  png_write_info(png, info);
  const int passes = png_set_interlace_handling(png);
  for (int pass = 0; pass < passes; ++pass) {
    for (const Bytes& row : rows) png_write_row(png, row.data());
  }
  png_write_end(png, info);
  png_destroy_write_struct(&png, &info);
  return out;
}

/// Rows of noise, the same each time.
inline std::vector<Bytes> noise_rows(uint32_t height, size_t row_bytes, uint32_t seed = 1) {
  std::vector<Bytes> rows(height, Bytes(row_bytes));
  for (Bytes& row : rows) {
    for (uint8_t& value : row) {
      seed = seed * 1664525 + 1013904223;
      value = static_cast<uint8_t>(seed >> 24);
    }
  }
  return rows;
}

/// A picture of noise, RGB.
inline Bytes noise_png(uint32_t width, uint32_t height, uint32_t seed = 1) {
  return png_file(width, height, noise_rows(height, size_t{width} * 3, seed));
}

inline void store_big(uint8_t* target, uint32_t value) {
  for (int i = 0; i < 4; ++i) target[i] = static_cast<uint8_t>(value >> (24 - 8 * i));
}

/// A chunk with its length and checksum.
inline Bytes png_chunk(std::string_view type, const Bytes& content) {
  Bytes out(8 + content.size() + 4);
  store_big(out.data(), static_cast<uint32_t>(content.size()));
  std::copy(type.begin(), type.end(), out.begin() + 4);
  std::copy(content.begin(), content.end(), out.begin() + 8);
  store_big(out.data() + 8 + content.size(), static_cast<uint32_t>(crc32_z(0, out.data() + 4, 4 + content.size())));
  return out;
}

/// The file with other sizes in its header, and a right checksum there.
inline Bytes with_png_size(Bytes file, uint32_t width, uint32_t height) {
  store_big(file.data() + 16, width);
  store_big(file.data() + 20, height);
  store_big(file.data() + 29, static_cast<uint32_t>(crc32_z(0, file.data() + 12, 17)));
  return file;
}

/// Decoding says one line that begins with the name and holds the parts.
inline void expect_refused(const Bytes& file, const std::vector<std::string>& parts) {
  const std::string line = test::message_of<DataError>([&] { decode_picture(file, "a/b.png"); });
  EXPECT_TRUE(line.starts_with("a/b.png: ")) << line;
  EXPECT_EQ(line.find('\n'), std::string::npos) << line;
  for (const std::string& part : parts)
    EXPECT_NE(line.find(part), std::string::npos) << "\"" << part << "\" is not in: " << line;
}

/// `pixels` of the given turbojpeg format.
inline Bytes jpeg_file(int width, int height, const Bytes& pixels, int format = TJPF_RGB, int sampling = TJSAMP_420,
                       int flags = 0) {
  tjhandle handle = tjInitCompress();
  unsigned char* target = nullptr;
  unsigned long bytes = 0;
  EXPECT_EQ(tjCompress2(handle, pixels.data(), width, 0, height, format, &target, &bytes, sampling, 90, flags), 0)
      << tjGetErrorStr2(handle);
  Bytes out(target, target + bytes);
  tjFree(target);
  tjDestroy(handle);
  return out;
}

}  // namespace tenfold::test
