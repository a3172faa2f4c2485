// libpng reports an error by longjmp, which must not skip a destructor. So each step that calls it (open, read_header,
// read_rows) is a function whose frame holds plain values only; the C++ objects live in decode_png, outside every jump.
#include <png.h>
#include <tenfold/files.h>
#include <tenfold/pictures.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "pictures_formats.h"

namespace tenfold {
namespace {

struct Reader {
  png_structp png = nullptr;
  png_infop info = nullptr;
  const uint8_t* at = nullptr;
  size_t left = 0;
  char error[160] = "";

  Reader() = default;
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;
  ~Reader() { png_destroy_read_struct(&png, &info, nullptr); }
};

void on_error(png_structp png, png_const_charp message) {
  auto* reader = static_cast<Reader*>(png_get_error_ptr(png));
  std::snprintf(reader->error, sizeof(reader->error), "%s", message);
  png_longjmp(png, 1);
}

void ignore_warning(png_structp, png_const_charp) {}

void on_read(png_structp png, png_bytep target, size_t bytes) {
  auto* reader = static_cast<Reader*>(png_get_io_ptr(png));
  if (bytes > reader->left) png_error(png, "it ends too early");
  std::memcpy(target, reader->at, bytes);
  reader->at += bytes;
  reader->left -= bytes;
}

bool open(Reader& reader, const PictureLimits& limits) {
  reader.png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &reader, on_error, ignore_warning);
  if (reader.png == nullptr) return false;
  if (setjmp(png_jmpbuf(reader.png))) return false;  // NOLINT(*): libpng's interface
  reader.info = png_create_info_struct(reader.png);
  if (reader.info == nullptr) return false;
  png_set_read_fn(reader.png, &reader, on_read);
  png_set_chunk_malloc_max(reader.png, limits.chunk_bytes);
  png_set_chunk_cache_max(reader.png, 16);
  // Text, profiles, times and whatever else is not needed: skipped unread, with its checksum.
  png_set_keep_unknown_chunks(reader.png, PNG_HANDLE_CHUNK_NEVER, nullptr, 0);
  static const png_byte kSkipped[] = "iCCP\0iTXt\0tEXt\0zTXt\0eXIf\0sPLT\0hIST\0pCAL\0sCAL\0tIME\0bKGD\0gAMA\0cHRM\0sRGB\0sBIT\0oFFs\0pHYs";
  png_set_keep_unknown_chunks(reader.png, PNG_HANDLE_CHUNK_NEVER, kSkipped, sizeof(kSkipped) / 5);
  return true;
}

/// Up to the first picture data; then every row will have `channels` times width bytes.
bool read_header(Reader& reader, int& channels, int& passes) {
  if (setjmp(png_jmpbuf(reader.png))) return false;  // NOLINT(*): libpng's interface
  png_read_info(reader.png, reader.info);
  png_set_expand(reader.png);  // palette, fewer than 8 bits, tRNS
  png_set_scale_16(reader.png);
  png_set_gray_to_rgb(reader.png);
  passes = png_set_interlace_handling(reader.png);
  png_read_update_info(reader.png, reader.info);
  channels = png_get_channels(reader.png, reader.info);
  if (png_get_bit_depth(reader.png, reader.info) != 8 || (channels != 3 && channels != 4)) png_error(reader.png, "unknown kind of pixel");
  return true;
}

/// All rows and the end mark.
bool read_rows(Reader& reader, uint8_t* pixels, int64_t height, int64_t row_bytes, int passes) {
  if (setjmp(png_jmpbuf(reader.png))) return false;  // NOLINT(*): libpng's interface
  for (int pass = 0; pass < passes; ++pass) {
    for (int64_t y = 0; y < height; ++y) png_read_row(reader.png, pixels + y * row_bytes, nullptr);
  }
  png_read_end(reader.png, nullptr);
  return true;
}

/// RGBA over white, in place: each pixel's four bytes become three.
void lay_over_white(std::vector<uint8_t>& pixels) {
  const size_t count = pixels.size() / 4;
  for (size_t i = 0; i < count; ++i) {
    const unsigned alpha = pixels[4 * i + 3];
    for (size_t c = 0; c < 3; ++c) {
      const unsigned colour = pixels[4 * i + c];
      pixels[3 * i + c] = static_cast<uint8_t>((colour * alpha + 255 * (255 - alpha) + 127) / 255);
    }
  }
  pixels.resize(count * 3);
  pixels.shrink_to_fit();
}

}  // namespace

PictureSize png_size(std::span<const uint8_t> file, const std::string& name) {
  const auto number = [&](size_t at) {
    return int64_t{file[at]} << 24 | int64_t{file[at + 1]} << 16 | int64_t{file[at + 2]} << 8 | int64_t{file[at + 3]};
  };
  static constexpr char kFirstChunk[] = {0, 0, 0, 13, 'I', 'H', 'D', 'R'};
  if (file.size() < 33) fail_picture(name, "is a PNG file that ends inside its header");
  if (std::memcmp(file.data() + 8, kFirstChunk, sizeof(kFirstChunk)) != 0) fail_picture(name, "is a PNG file without a header");
  const PictureSize size{number(20), number(16)};
  if (size.height < 1 || size.width < 1 || size.height > INT32_MAX || size.width > INT32_MAX)
    fail_picture(name, "is a PNG file with a size of 0 or out of range");
  return size;
}

Picture decode_png(std::span<const uint8_t> file, const std::string& name, const PictureLimits& limits) {
  if (!is_png(file)) fail_picture(name, file.empty() ? "is empty" : "is no PNG file");
  const PictureSize size = png_size(file, name);
  require_within(size, limits, name);
  Reader reader;
  reader.at = file.data();
  reader.left = file.size();
  const auto fail = [&] {
    fail_picture(name,
                 std::string("is a truncated or damaged PNG file (") + (reader.error[0] ? reader.error : "no memory for libpng") + ")");
  };
  int channels = 0, passes = 0;
  if (!open(reader, limits) || !read_header(reader, channels, passes)) fail();
  Picture picture{size.height, size.width, {}};
  // With white rows, a pixel that no row of a damaged interlaced file reaches would still be defined.
  picture.pixels.assign(static_cast<size_t>(size.height * size.width * channels), 255);
  if (!read_rows(reader, picture.pixels.data(), size.height, size.width * channels, passes)) fail();
  if (channels == 4) lay_over_white(picture.pixels);
  return picture;
}

}  // namespace tenfold
