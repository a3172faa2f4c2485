#pragma once
// What the readers of single formats share; not for others.

#include "common/data/pictures.h"

namespace tenfold {

bool is_png(std::span<const uint8_t> file);
bool is_jpeg(std::span<const uint8_t> file);

/// By the header of a file that is_png or is_jpeg. Both sides are at least 1.
PictureSize png_size(std::span<const uint8_t> file, const std::string& name);
PictureSize jpeg_size(std::span<const uint8_t> file, const std::string& name);

/// Throws DataError when the picture is larger than the limit.
void require_within(const PictureSize& size, const PictureLimits& limits, const std::string& name);

/// Throws DataError("NAME: WHAT").
[[noreturn]] void fail_picture(const std::string& name, const std::string& what);

}  // namespace tenfold
