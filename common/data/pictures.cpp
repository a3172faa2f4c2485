// What does not depend on a library: which kind a file is, and sizes.
#include "common/data/pictures.h"
#include "common/data/data_files.h"

#include <algorithm>
#include <array>
#include <stdexcept>

#include "common/data/pictures_formats.h"

namespace tenfold {

bool is_png(std::span<const uint8_t> file) {
  static constexpr std::array<uint8_t, 8> kSignature = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};
  return file.size() >= kSignature.size() && std::equal(kSignature.begin(), kSignature.end(), file.begin());
}

bool is_jpeg(std::span<const uint8_t> file) {
  return file.size() >= 3 && file[0] == 0xff && file[1] == 0xd8 && file[2] == 0xff;
}

void fail_picture(const std::string& name, const std::string& what) { throw DataError(name + ": " + what); }

void require_within(const PictureSize& size, const PictureLimits& limits, const std::string& name) {
  if (size.height > limits.pixels / size.width) {
    fail_picture(name, "has " + std::to_string(size.width) + " x " + std::to_string(size.height) +
                           " pixels, more than the limit of " + std::to_string(limits.pixels) +
                           "; make it smaller, or raise PictureLimits::pixels");
  }
}

PictureSize picture_size(std::span<const uint8_t> file, const std::string& name) {
  if (is_png(file)) return png_size(file, name);
  if (is_jpeg(file)) return jpeg_size(file, name);
  fail_picture(name, file.empty() ? "is empty" : "is no PNG or JPEG file");
}

Picture decode_picture(std::span<const uint8_t> file, const std::string& name, const PictureLimits& limits) {
  if (is_png(file)) return decode_png(file, name, limits);
  if (is_jpeg(file)) return decode_jpeg(file, name, limits);
  fail_picture(name, file.empty() ? "is empty" : "is no PNG or JPEG file");
}

namespace {

/// Where a target pixel begins and ends in source pixels, in units of 1/target: exact in whole numbers.
struct Cover {
  int64_t first, last;        ///< source pixels, inclusive
  int64_t head, inner, tail;  ///< their weights: of the first, of those between, of the last
};

std::vector<Cover> covers(int64_t source, int64_t target) {
  std::vector<Cover> out(static_cast<size_t>(target));
  for (int64_t i = 0; i < target; ++i) {
    const int64_t begin = i * source,
                  end = (i + 1) * source;  // pixel j of the source spans [j * target, (j + 1) * target)
    Cover& cover = out[static_cast<size_t>(i)];
    cover.first = begin / target;
    cover.last = (end - 1) / target;
    cover.inner = target;
    cover.head = cover.first == cover.last ? end - begin : (cover.first + 1) * target - begin;
    cover.tail = end - cover.last * target;
  }
  return out;
}

}  // namespace

Picture shrink_picture(const Picture& picture, int64_t longest) {
  if (longest < 1) throw std::invalid_argument("shrink_picture: the longest side must be at least 1");
  const int64_t longer = std::max(picture.height, picture.width);
  if (longer <= longest) return picture;
  const auto scaled = [&](int64_t side) { return std::max<int64_t>(1, (side * longest + longer / 2) / longer); };
  Picture out{scaled(picture.height), scaled(picture.width), {}};
  out.pixels.resize(static_cast<size_t>(out.height * out.width * 3));
  const std::vector<Cover> columns = covers(picture.width, out.width), rows = covers(picture.height, out.height);

  // One source row after the other: along the row first, then added to the target row with the row's weight.
  const size_t row_values = static_cast<size_t>(out.width) * 3;
  const uint64_t area = static_cast<uint64_t>(picture.height) * static_cast<uint64_t>(picture.width);
  std::vector<uint64_t> sums(row_values);
  for (int64_t y = 0; y < out.height; ++y) {
    std::ranges::fill(sums, 0);
    const Cover& row = rows[static_cast<size_t>(y)];
    for (int64_t v = row.first; v <= row.last; ++v) {
      const auto row_weight = static_cast<uint64_t>(v == row.first ? row.head : v == row.last ? row.tail : row.inner);
      const uint8_t* source = picture.pixels.data() + v * picture.width * 3;
      for (int64_t x = 0; x < out.width; ++x) {
        const Cover& column = columns[static_cast<size_t>(x)];
        std::array<uint64_t, 3> sum{};
        for (int64_t u = column.first; u <= column.last; ++u) {
          const auto weight = static_cast<uint64_t>(u == column.first  ? column.head
                                                    : u == column.last ? column.tail
                                                                       : column.inner);
          for (size_t c = 0; c < 3; ++c) sum[c] += weight * source[u * 3 + static_cast<int64_t>(c)];
        }
        for (size_t c = 0; c < 3; ++c) sums[static_cast<size_t>(x) * 3 + c] += row_weight * sum[c];
      }
    }
    // The weights of a target pixel sum to the source's area.
    for (size_t i = 0; i < row_values; ++i)
      out.pixels[static_cast<size_t>(y) * row_values + i] = static_cast<uint8_t>((sums[i] + area / 2) / area);
  }
  return out;
}

Picture square_picture(const Picture& picture, int64_t side) {
  const Picture inner = shrink_picture(picture, side);
  Picture out{side, side, std::vector<uint8_t>(static_cast<size_t>(side * side * 3), 255)};
  const int64_t top = (side - inner.height) / 2, left = (side - inner.width) / 2;
  for (int64_t y = 0; y < inner.height; ++y) {
    const auto from = inner.pixels.begin() + y * inner.width * 3;
    std::copy(from, from + inner.width * 3, out.pixels.begin() + ((top + y) * side + left) * 3);
  }
  return out;
}

}  // namespace tenfold
