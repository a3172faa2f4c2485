// libpng reports an error by longjmp, which must not skip a destructor. So each step that calls it (open, read_header,
// read_rows) is a function whose frame holds plain values only; the C++ objects live in decode_png, outside every jump.
#include <png.h>
#include "common/data/data_files.h"
#include "common/data/pictures.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>

#include "common/data/pictures_formats.h"

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
  png_set_user_limits(reader.png, PNG_UINT_31_MAX, PNG_UINT_31_MAX);  // require_within() has looked
  png_set_chunk_malloc_max(reader.png, limits.chunk_bytes);
  png_set_chunk_cache_max(reader.png, 16);
  // A second checksum, of the unpacked bytes: what is packed is held against each chunk's CRC-32 already.
  png_set_option(reader.png, PNG_IGNORE_ADLER32, PNG_OPTION_ON);
  // Text, profiles, times and whatever else is not needed: skipped unread, with its checksum.
  png_set_keep_unknown_chunks(reader.png, PNG_HANDLE_CHUNK_NEVER, nullptr, 0);
  static const png_byte kSkipped[] =
      "iCCP\0iTXt\0tEXt\0zTXt\0eXIf\0sPLT\0hIST\0pCAL\0sCAL\0tIME\0bKGD\0gAMA\0cHRM\0sRGB\0sBIT\0oFFs\0pHYs";
  png_set_keep_unknown_chunks(reader.png, PNG_HANDLE_CHUNK_NEVER, kSkipped, sizeof(kSkipped) / 5);
  return true;
}

/// What libpng hands over for each pixel; all are 8 bits wide.
enum class PixelKind : uint8_t { gray, gray_alpha, rgb, rgba, palette };

struct Layout {
  PixelKind kind = PixelKind::rgb;
  int64_t height = 0, width = 0, row_bytes = 0;
  int passes = 1;  ///< 7 of an interlaced file
  std::array<uint8_t, 256 * 4>
      colours;  ///< of a palette, over white: red, green, blue and one byte that does not count
};

uint8_t over_white(unsigned colour, unsigned alpha) {
  const unsigned sum = colour * alpha + 255 * (255 - alpha) + 128;
  return static_cast<uint8_t>((sum + (sum >> 8)) >> 8);  // sum / 255, rounded: exact below 2^16
}

void read_palette(const Reader& reader, std::array<uint8_t, 256 * 4>& colours) {
  png_colorp palette = nullptr;
  png_bytep alpha = nullptr;
  int count = 0, alphas = 0;
  colours.fill(0);  // a number outside the palette is black
  png_get_PLTE(reader.png, reader.info, &palette, &count);
  png_get_tRNS(reader.png, reader.info, &alpha, &alphas, nullptr);
  for (int i = 0; i < std::min(count, 256); ++i) {
    const unsigned a = i < alphas ? alpha[i] : 255;
    uint8_t* colour = colours.data() + size_t{4} * static_cast<size_t>(i);
    colour[0] = over_white(palette[i].red, a);
    colour[1] = over_white(palette[i].green, a);
    colour[2] = over_white(palette[i].blue, a);
  }
}

/// Up to the first picture data.
bool read_header(Reader& reader, Layout& layout) {
  if (setjmp(png_jmpbuf(reader.png))) return false;  // NOLINT(*): libpng's interface
  png_read_info(reader.png, reader.info);
  if (png_get_color_type(reader.png, reader.info) == PNG_COLOR_TYPE_PALETTE) {
    layout.kind = PixelKind::palette;
    read_palette(reader, layout.colours);
    png_set_packing(reader.png);  // fewer than 8 bits
  } else {
    png_set_expand(reader.png);  // fewer than 8 bits, tRNS
    png_set_scale_16(reader.png);
  }
  layout.passes = png_set_interlace_handling(reader.png);
  png_read_update_info(reader.png, reader.info);
  const int channels = png_get_channels(reader.png, reader.info);
  if (png_get_bit_depth(reader.png, reader.info) != 8 || channels < 1 || channels > 4)
    png_error(reader.png, "unknown kind of pixel");
  static constexpr PixelKind kKinds[] = {PixelKind::gray, PixelKind::gray_alpha, PixelKind::rgb, PixelKind::rgba};
  if (layout.kind != PixelKind::palette) layout.kind = kKinds[channels - 1];
  layout.row_bytes = layout.width * channels;
  return true;
}

/// A row of pixels of `bytes` each into RGB over white. `convert` gives a pixel as four bytes, the last of which does
/// not count: one store in place of three, and the next pixel is written over it. So `to` has room for one byte more.
template <int bytes, class Convert>
void convert_row(const uint8_t* from, int64_t width, uint8_t* to, Convert convert) {
  for (int64_t i = 0; i < width; ++i, from += bytes, to += 3) {
    const std::array<uint8_t, 4> pixel = convert(from);
    std::memcpy(to, pixel.data(), 4);
  }
}

void to_rgb(const Layout& layout, const uint8_t* from, uint8_t* to) {
  using Pixel = std::array<uint8_t, 4>;
  const auto four = [](const uint8_t* at) {
    Pixel pixel;
    std::memcpy(pixel.data(), at, 4);
    return pixel;
  };
  switch (layout.kind) {
    case PixelKind::gray:
      return convert_row<1>(from, layout.width, to, [](const uint8_t* at) { return Pixel{at[0], at[0], at[0], 0}; });
    case PixelKind::gray_alpha:
      return convert_row<2>(from, layout.width, to, [](const uint8_t* at) {
        const uint8_t gray = at[1] == 255 ? at[0] : over_white(at[0], at[1]);
        return Pixel{gray, gray, gray, 0};
      });
    case PixelKind::rgba:
      // Most pixels of a drawing are either opaque or transparent, and their neighbours too.
      return convert_row<4>(from, layout.width, to, [&](const uint8_t* at) {
        if (at[3] == 255) return four(at);
        if (at[3] == 0) return Pixel{255, 255, 255, 255};
        return Pixel{over_white(at[0], at[3]), over_white(at[1], at[3]), over_white(at[2], at[3]), 0};
      });
    case PixelKind::palette:
      return convert_row<1>(from, layout.width, to,
                            [&](const uint8_t* at) { return four(layout.colours.data() + size_t{4} * at[0]); });
    case PixelKind::rgb:
      return;  // is as it should be
  }
}

/// All rows and the end mark. `rows` takes what libpng hands over: a picture's worth when there are several passes, for
/// each adds to the rows of the one before; else one row. `rgb` is one row of RGB and one byte more. Behind the
/// reserved pixels row after row is put while it is in the cache: to fill them with zeros first would write all the
/// memory twice.
bool read_rows(Reader& reader, const Layout& layout, uint8_t* rows, uint8_t* rgb, std::vector<uint8_t>& pixels) {
  if (setjmp(png_jmpbuf(reader.png))) return false;  // NOLINT(*): libpng's interface
  const int64_t step = layout.passes > 1 ? layout.row_bytes : 0;
  for (int pass = 0; pass < layout.passes; ++pass) {
    for (int64_t y = 0; y < layout.height; ++y) {
      uint8_t* row = rows + y * step;
      png_read_row(reader.png, row, nullptr);
      if (pass + 1 < layout.passes) continue;
      if (layout.kind == PixelKind::rgb) {
        pixels.insert(pixels.end(), row, row + layout.width * 3);
      } else {
        to_rgb(layout, row, rgb);
        pixels.insert(pixels.end(), rgb, rgb + layout.width * 3);
      }
    }
  }
  png_read_end(reader.png, nullptr);
  return true;
}

}  // namespace

PictureSize png_size(std::span<const uint8_t> file, const std::string& name) {
  const auto number = [&](size_t at) {
    return int64_t{file[at]} << 24 | int64_t{file[at + 1]} << 16 | int64_t{file[at + 2]} << 8 | int64_t{file[at + 3]};
  };
  static constexpr char kFirstChunk[] = {0, 0, 0, 13, 'I', 'H', 'D', 'R'};
  if (file.size() < 33) fail_picture(name, "is a PNG file that ends inside its header");
  if (std::memcmp(file.data() + 8, kFirstChunk, sizeof(kFirstChunk)) != 0)
    fail_picture(name, "is a PNG file without a header");
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
    fail_picture(name, std::string("is a truncated or damaged PNG file (") +
                           (reader.error[0] ? reader.error : "no memory for libpng") + ")");
  };
  Layout layout;
  layout.height = size.height;
  layout.width = size.width;
  if (!open(reader, limits) || !read_header(reader, layout)) fail();
  Picture picture{size.height, size.width, {}};
  picture.pixels.reserve(static_cast<size_t>(size.height * size.width * 3));
  std::vector<uint8_t> rows(static_cast<size_t>(layout.row_bytes * (layout.passes > 1 ? size.height : 1)));
  std::vector<uint8_t> rgb(static_cast<size_t>(size.width * 3 + 1));
  if (!read_rows(reader, layout, rows.data(), rgb.data(), picture.pixels)) fail();
  return picture;
}

}  // namespace tenfold
