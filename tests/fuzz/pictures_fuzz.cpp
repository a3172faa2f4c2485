// Any bytes as a picture: a DataError of one line, or a picture of the size that its header gave, within the limits.
#include <zlib.h>
#include "common/data/data_files.h"
#include "common/data/pictures.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "fuzz.h"

namespace {

using tenfold::fuzz::Bytes;
using tenfold::fuzz::reads;
using tenfold::fuzz::require;

/// A PNG whose chunks have right checksums, so that what is inside them is reached.
std::vector<uint8_t> with_right_checksums(Bytes file) {
  std::vector<uint8_t> out(file.begin(), file.end());
  const auto number = [&](size_t at) {
    return uint32_t{out[at]} << 24 | uint32_t{out[at + 1]} << 16 | uint32_t{out[at + 2]} << 8 | uint32_t{out[at + 3]};
  };
  for (size_t at = 8; at + 12 <= out.size();) {
    const size_t length = number(at);
    if (length > out.size() - at - 12) break;
    const auto sum = static_cast<uint32_t>(crc32_z(0, out.data() + at + 4, length + 4));
    for (size_t i = 0; i < 4; ++i) out[at + 8 + length + i] = static_cast<uint8_t>(sum >> (24 - 8 * i));
    at += length + 12;
  }
  return out;
}

void read_picture(Bytes file) {
  constexpr tenfold::PictureLimits kLimits{.pixels = 40'000, .chunk_bytes = 65536};
  tenfold::PictureSize size;
  const bool sized = reads<tenfold::DataError>([&] { size = tenfold::picture_size(file, "x"); });
  tenfold::Picture picture;
  if (!reads<tenfold::DataError>([&] { picture = tenfold::decode_picture(file, "x", kLimits); })) return;
  require(sized && size.height == picture.height && size.width == picture.width,
          "a picture has the size that its header gives");
  require(picture.height >= 1 && picture.width >= 1 && picture.height <= kLimits.pixels / picture.width,
          "a picture keeps to the limits");
  require(picture.pixels.size() == static_cast<size_t>(picture.height * picture.width * 3), "a picture is (H, W, 3)");

  const tenfold::Picture small = tenfold::shrink_picture(picture, 9);
  require(small.height >= 1 && small.width >= 1 && std::max(small.height, small.width) <= 9,
          "a smaller picture has no side above the longest");
  const auto [low, high] = std::ranges::minmax(picture.pixels);
  const auto [low_after, high_after] = std::ranges::minmax(small.pixels);
  require(low <= low_after && high_after <= high, "a mean lies between the values");
  require(tenfold::square_picture(picture, 7).pixels.size() == size_t{7} * 7 * 3, "a square picture has its side");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const Bytes file(data, size);
  read_picture(file);
  if (size > 8 && std::memcmp(data, "\x89PNG", 4) == 0) read_picture(with_right_checksums(file));
  return 0;
}
