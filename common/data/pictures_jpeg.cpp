#include <turbojpeg.h>
#include "common/data/pictures.h"

#include <limits>
#include <memory>
#include <new>
#include <optional>
#include <stdexcept>

#include "common/data/jpeg_segments.h"
#include "common/data/pictures_formats.h"

namespace tenfold {
namespace {

using Handle = std::unique_ptr<void, decltype([](void* handle) { tjDestroy(handle); })>;

/// What libjpeg-turbo says of a file that it does not read.
struct Fault {
  std::string text;
  bool warning = false;  ///< it would go on, and fill grey in
};

void require_jpeg(std::span<const uint8_t> file, const std::string& name) {
  if (!is_jpeg(file)) fail_picture(name, file.empty() ? "is empty" : "is no JPEG file");
  if (file.size() > std::numeric_limits<unsigned long>::max()) fail_picture(name, "is too large for a JPEG file");
}

struct Header {
  PictureSize size;
  int colours = 0;
};

Fault fault_of(const Handle& handle) {
  return {tjGetErrorStr2(handle.get()), tjGetErrorCode(handle.get()) == TJERR_WARNING};
}

std::optional<Fault> read_header(const Handle& handle, std::span<const uint8_t> file, Header& header) {
  if (!handle) throw std::bad_alloc();
  int width = 0, height = 0, sampling = 0;
  if (tjDecompressHeader3(handle.get(), file.data(), file.size(), &width, &height, &sampling, &header.colours) != 0 ||
      width < 1 || height < 1)
    return fault_of(handle);
  header.size = {height, width};
  return std::nullopt;
}

[[noreturn]] void fail_inks(const std::string& name, bool ycck) {
  fail_picture(name,
               std::string("is a ") + (ycck ? "YCCK" : "CMYK") + " JPEG file, which is not read; convert it to RGB");
}

std::optional<Fault> read_pixels(std::span<const uint8_t> file, const std::string& name, const PictureLimits& limits,
                                 Picture& picture) {
  const Handle handle(tjInitDecompress());
  Header header;
  if (auto fault = read_header(handle, file, header)) return fault;
  if (header.colours == TJCS_CMYK || header.colours == TJCS_YCCK) fail_inks(name, header.colours == TJCS_YCCK);
  require_within(header.size, limits, name);
  picture = {header.size.height, header.size.width, {}};
  picture.pixels.resize(static_cast<size_t>(picture.height * picture.width * 3));
  // A warning means that data are missing or wrong, and grey would be filled in. A file may also ask for thousands of
  // passes over the whole picture: LIMITSCANS stops that.
  const int status = tjDecompress2(handle.get(), file.data(), file.size(), picture.pixels.data(),
                                   static_cast<int>(picture.width), 0, static_cast<int>(picture.height), TJPF_RGB,
                                   TJFLAG_STOPONWARNING | TJFLAG_LIMITSCANS | TJFLAG_ACCURATEDCT);
  if (status != 0) return fault_of(handle);
  return std::nullopt;
}

/// Reads the file, or what is left of it without slips that concern no pixel.
template <class Read>
std::optional<Fault> read_despite_slips(std::span<const uint8_t> file, const Read& read) {
  std::optional<Fault> fault = read(file);
  if (!fault || !fault->warning) return fault;
  const std::vector<uint8_t> mended = jpeg::without_slips(file);
  return mended.empty() || read(std::span<const uint8_t>(mended)) ? fault : std::nullopt;
}

/// Says which it is: a kind that is not read, or damage.
[[noreturn]] void fail_jpeg(const std::string& name, std::span<const uint8_t> file, const Fault& fault) {
  const std::string said = " (" + fault.text + ")";
  const auto says = [&](const char* part) { return fault.text.find(part) != std::string::npos; };
  const jpeg::Frame frame = jpeg::frame_of(file);
  std::string kind = fault.warning && !says("Adobe") ? "" : jpeg::unread_kind(frame);
  if (!fault.warning && kind.empty() && frame.components.size() == 4) fail_inks(name, frame.adobe == 2);
  const std::string sampling = jpeg::sampling_of(frame);
  if (kind.empty() && says("sampling") && !sampling.empty()) kind = "with colours sampled " + sampling;
  if (says("arithmetic coding")) kind = "with arithmetic coding";
  if (says("more than") && says("scans")) kind = "in more scans than are read";
  if (!kind.empty())
    fail_picture(name, "is a JPEG file " + kind + ", which is not read; convert it to 8-bit RGB" + said);
  if (says("extraneous bytes"))
    fail_picture(name,
                 "has bytes among its pixels that belong to none: it is damaged, or the program that wrote it "
                 "left them there; convert it if it looks right" +
                     said);
  fail_picture(name, "is a truncated or damaged JPEG file" + said);
}

}  // namespace

PictureSize jpeg_size(std::span<const uint8_t> file, const std::string& name) {
  require_jpeg(file, name);
  Header header;
  const auto fault = read_despite_slips(
      file, [&](std::span<const uint8_t> bytes) { return read_header(Handle(tjInitDecompress()), bytes, header); });
  if (fault) fail_jpeg(name, file, *fault);
  return header.size;
}

Picture decode_jpeg(std::span<const uint8_t> file, const std::string& name, const PictureLimits& limits) {
  require_jpeg(file, name);
  Picture picture;
  const auto fault = read_despite_slips(
      file, [&](std::span<const uint8_t> bytes) { return read_pixels(bytes, name, limits, picture); });
  if (fault) fail_jpeg(name, file, *fault);
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
