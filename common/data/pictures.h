#pragma once
// Pictures in memory, out of PNG and JPEG files and back into JPEG.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace tenfold {

struct Picture {
  int64_t height = 0, width = 0;
  std::vector<uint8_t> pixels;  ///< (H, W, 3), red, green, blue
};

struct PictureSize {
  int64_t height = 0, width = 0;
};

/// What a file may ask for. A file of a few kilobytes can claim to hold gigabytes: its header is held against this
/// before anything is allocated.
struct PictureLimits {
  int64_t pixels = 16'000'000;                   ///< height times width
  size_t chunk_bytes = size_t{8} * 1024 * 1024;  ///< of one unpacked PNG chunk that is not picture data
};

/// The functions below read untrusted bytes. `name` is for the message: they throw DataError, one line "NAME: what is
/// wrong", for bytes that are truncated, damaged, of another kind or larger than the limits. A picture comes as it is
/// stored: an orientation in Exif does not turn it, nor does it change its size.

/// Height and width by the header, of a PNG or JPEG file; the rest is not looked at.
PictureSize picture_size(std::span<const uint8_t> file, const std::string& name);

/// Any PNG as 8-bit RGB: palettes and gray are widened, 16 bits are rounded to 8, what is transparent is laid over
/// white. Colour profiles and gamma are not applied.
Picture decode_png(std::span<const uint8_t> file, const std::string& name, const PictureLimits& limits = {});

/// A gray or colour JPEG of 8 bits, baseline or progressive, as RGB. Refused as kinds that are not read: four inks
/// (CMYK, YCCK), for what their numbers mean depends on the program that wrote them; 12 bits; lossless and hierarchical
/// coding and JPEG-LS; and what libjpeg-turbo cannot, such as colours sampled 4:1:0, a side above 65,500 or more than
/// 500 scans. Damage is whatever libjpeg-turbo warns of, but for what concerns no pixel: an end mark that is missing
/// behind all of the picture, zeros before a marker, bytes between segments, an unknown version of JFIF.
Picture decode_jpeg(std::span<const uint8_t> file, const std::string& name, const PictureLimits& limits = {});

/// Whichever of the two the first bytes announce.
Picture decode_picture(std::span<const uint8_t> file, const std::string& name, const PictureLimits& limits = {});

/// A baseline JPEG, colours at half the resolution, the same bytes every time; quality 1 to 100. Throws
/// std::invalid_argument for a quality outside, an empty picture, a side above 65,500 or pixels that do not fit the
/// sizes.
std::vector<uint8_t> encode_jpeg(const Picture& picture, int quality);

/// The picture with its longer side at most `longest`, never enlarged, no side below 1: each pixel is the mean of the
/// area that it covers. Throws std::invalid_argument unless longest >= 1.
Picture shrink_picture(const Picture& picture, int64_t longest);

/// (side, side, 3): the picture shrunk to fit, in the middle of white.
Picture square_picture(const Picture& picture, int64_t side);

}  // namespace tenfold
