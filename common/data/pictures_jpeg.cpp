#include <turbojpeg.h>
#include "common/data/pictures.h"

#include <limits>
#include <memory>
#include <new>
#include <stdexcept>

#include "common/data/pictures_formats.h"

namespace tenfold {
namespace {

using Handle = std::unique_ptr<void, decltype([](void* handle) { tjDestroy(handle); })>;

struct Header {
  PictureSize size;
  int colours = 0;
};

Header read_header(const Handle& handle, std::span<const uint8_t> file, const std::string& name) {
  if (!handle) throw std::bad_alloc();
  if (!is_jpeg(file)) fail_picture(name, file.empty() ? "is empty" : "is no JPEG file");
  if (file.size() > std::numeric_limits<unsigned long>::max()) fail_picture(name, "is too large for a JPEG file");
  int width = 0, height = 0, sampling = 0, colours = 0;
  if (tjDecompressHeader3(handle.get(), file.data(), file.size(), &width, &height, &sampling, &colours) != 0 ||
      width < 1 || height < 1)
    fail_picture(name, std::string("is a damaged JPEG file (") + tjGetErrorStr2(handle.get()) + ")");
  return {{height, width}, colours};
}

}  // namespace

PictureSize jpeg_size(std::span<const uint8_t> file, const std::string& name) {
  const Handle handle(tjInitDecompress());
  return read_header(handle, file, name).size;
}

Picture decode_jpeg(std::span<const uint8_t> file, const std::string& name, const PictureLimits& limits) {
  const Handle handle(tjInitDecompress());
  const Header header = read_header(handle, file, name);
  if (header.colours == TJCS_CMYK || header.colours == TJCS_YCCK)
    fail_picture(name, std::string("is a ") + (header.colours == TJCS_CMYK ? "CMYK" : "YCCK") +
                           " JPEG file, which is not read; convert it to RGB");
  require_within(header.size, limits, name);
  Picture picture{header.size.height, header.size.width, {}};
  picture.pixels.resize(static_cast<size_t>(picture.height * picture.width * 3));
  // A warning means that data are missing or wrong, and grey would be filled in. A file may also ask for thousands of
  // passes over the whole picture: LIMITSCANS stops that.
  const int status = tjDecompress2(handle.get(), file.data(), file.size(), picture.pixels.data(),
                                   static_cast<int>(picture.width), 0, static_cast<int>(picture.height), TJPF_RGB,
                                   TJFLAG_STOPONWARNING | TJFLAG_LIMITSCANS | TJFLAG_ACCURATEDCT);
  if (status != 0)
    fail_picture(name, std::string("is a truncated or damaged JPEG file (") + tjGetErrorStr2(handle.get()) + ")");
  return picture;
}

std::vector<uint8_t> encode_jpeg(const Picture& picture, int quality) {
  constexpr int64_t kLongest = 65500;
  if (quality < 1 || quality > 100) throw std::invalid_argument("encode_jpeg: quality must be 1 to 100");
  if (picture.height < 1 || picture.width < 1 || picture.height > kLongest || picture.width > kLongest ||
      picture.pixels.size() != static_cast<size_t>(picture.height * picture.width * 3))
    throw std::invalid_argument("encode_jpeg: the sizes must be 1 to 65500 and the pixels height * width * 3");
  const Handle handle(tjInitCompress());
  if (!handle) throw std::bad_alloc();
  const int width = static_cast<int>(picture.width), height = static_cast<int>(picture.height);
  std::vector<uint8_t> file(tjBufSize(width, height, TJSAMP_420));
  unsigned char* target = file.data();
  unsigned long bytes = file.size();
  if (tjCompress2(handle.get(), picture.pixels.data(), width, 0, height, TJPF_RGB, &target, &bytes, TJSAMP_420, quality,
                  TJFLAG_NOREALLOC | TJFLAG_ACCURATEDCT) != 0)
    throw std::runtime_error(std::string("encode_jpeg: ") + tjGetErrorStr2(handle.get()));
  file.resize(bytes);
  return file;
}

}  // namespace tenfold
