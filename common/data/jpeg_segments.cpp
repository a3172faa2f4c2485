#include "common/data/jpeg_segments.h"

#include <algorithm>
#include <map>
#include <string_view>

namespace tenfold::jpeg {
namespace {

using Bytes = std::span<const uint8_t>;

constexpr uint8_t kEnd = 0xd9, kScan = 0xda, kJfif = 0xe0, kAdobe = 0xee;

bool is_restart(uint8_t marker) { return marker >= 0xd0 && marker <= 0xd7; }
bool stands_alone(uint8_t marker) { return is_restart(marker) || marker == 0xd8 || marker == kEnd || marker == 1; }
/// A frame: 0xc4, 0xc8 and 0xcc are tables; 0xf7 is that of JPEG-LS.
bool is_frame(uint8_t marker) {
  return (marker >= 0xc0 && marker <= 0xcf && marker != 0xc4 && marker != 0xc8 && marker != 0xcc) || marker == 0xf7;
}
/// Of Huffman codes: only their decoder notices when some are missing.
bool is_sequential(int kind) { return kind == 0xc0 || kind == 0xc1; }
bool is_progressive(int kind) { return kind == 0xc2; }

struct Segment {
  uint8_t marker = 0;
  size_t place = 0;  ///< of the byte before the marker
  Bytes content;     ///< without marker and length
  size_t end = 0;    ///< the first byte behind it
};

/// The marker at or behind `at`; `end` is behind the marker. Fill bytes and 0xff 0x00, a code, are passed over.
std::optional<Segment> next_marker(Bytes file, size_t at) {
  for (; at + 1 < file.size(); ++at) {
    if (file[at] == 0xff && file[at + 1] != 0 && file[at + 1] != 0xff) return Segment{file[at + 1], at, {}, at + 2};
  }
  return std::nullopt;
}

std::optional<Segment> next_segment(Bytes file, size_t at) {
  std::optional<Segment> segment = next_marker(file, at);
  if (!segment || stands_alone(segment->marker)) return segment;
  if (file.size() - segment->end < 2) return std::nullopt;
  const size_t length = size_t{file[segment->end]} << 8 | file[segment->end + 1];
  if (length < 2 || file.size() - segment->end < length) return std::nullopt;
  segment->content = file.subspan(segment->end + 2, length - 2);
  segment->end += length;
  return segment;
}

bool begins_with(Bytes content, std::string_view text) {
  return content.size() >= text.size() &&
         std::equal(text.begin(), text.end(), content.begin(), [](char a, uint8_t b) { return uint8_t(a) == b; });
}

bool is_jfif(const Segment& segment) {
  return segment.marker == kJfif && segment.content.size() > 5 && begins_with(segment.content, {"JFIF\0", 5});
}

/// Reads a segment that says something of the frame.
void add_to(Frame& frame, const Segment& segment) {
  const Bytes content = segment.content;
  const auto number = [&](size_t at) { return content[at] << 8 | content[at + 1]; };
  if (segment.marker == kAdobe && content.size() >= 12 && begins_with(content, "Adobe")) frame.adobe = content[11];
  if (!is_frame(segment.marker) || frame.kind != 0 || content.size() < 6) return;
  frame.kind = segment.marker;
  frame.bits = content[0];
  frame.height = number(1);
  frame.width = number(3);
  for (size_t at = 6; at + 3 <= content.size() && frame.components.size() < content[5]; at += 3)
    frame.components.push_back({content[at], content[at + 1] >> 4, content[at + 1] & 15});
}

/// Which scans a picture has had: whether one more could still change it.
class Scans {
 public:
  void add(const Frame& frame, Bytes content) {
    if (content.empty() || content.size() < 4 + size_t{2} * content[0]) return;
    const Bytes tail = content.subspan(1 + size_t{2} * content[0]);  // first and last coefficient, bits to come
    const bool all = !is_progressive(frame.kind);
    for (size_t i = 0; i < content[0]; ++i) {
      const auto slot = bits_to_come_.try_emplace(content[1 + 2 * i]).first;
      if (slot->second.empty()) slot->second.assign(64, 15);
      for (size_t k = all ? 0 : tail[0]; k <= (all ? 63 : std::min<size_t>(tail[1], 63)); ++k)
        slot->second[k] = all ? 0 : tail[2] & 15;
    }
  }

  bool complete(const Frame& frame) const {
    return !frame.components.empty() && std::ranges::all_of(frame.components, [&](const Component& component) {
      const auto slot = bits_to_come_.find(component.id);
      return slot != bits_to_come_.end() && std::ranges::all_of(slot->second, [](int bits) { return bits == 0; });
    });
  }

 private:
  std::map<int, std::vector<int>> bits_to_come_;  ///< of each coefficient, by component; 15 before its first scan
};

/// Huffman codes without zeros and fill bytes behind them. A zero that follows 0xff belongs to it.
Bytes without_padding(Bytes codes) {
  size_t count = codes.size();
  while (count > 0 && (codes[count - 1] == 0xff || (codes[count - 1] == 0 && (count == 1 || codes[count - 2] != 0xff))))
    --count;
  return codes.first(count);
}

}  // namespace

Frame frame_of(Bytes file) {
  Frame frame;
  size_t at = 2;
  while (const auto segment = next_segment(file, at)) {
    if (segment->marker == kEnd || segment->marker == kScan) break;
    add_to(frame, *segment);
    at = segment->end;
  }
  return frame;
}

std::string unread_kind(const Frame& frame) {
  constexpr int kLongest = 65500;  // libjpeg-turbo's own limit
  const auto number = [](int value) { return std::to_string(value); };
  if (frame.kind == 0) return "";
  if (frame.kind == 0xf7) return "of the kind JPEG-LS";
  if (frame.kind == 0xc3 || frame.kind == 0xcb) return "with lossless coding";
  if (frame.kind > 0xca || (frame.kind > 0xc3 && frame.kind < 0xc8)) return "of the hierarchical kind";
  if (frame.bits != 8) return frame.bits == 12 ? "with 12 bits per sample" : "";
  if (frame.height == 0 && frame.width > 0) return "whose height stands behind its pixels";
  const size_t count = frame.components.size();
  if (count == 2 || count > 4) return "with " + number(static_cast<int>(count)) + " components";
  if (frame.height > kLongest || frame.width > kLongest)
    return "of " + number(frame.width) + " x " + number(frame.height) + " pixels, a side above " + number(kLongest);
  if (frame.adobe > 1 && count == 3) return "with colours of Adobe's transform " + number(frame.adobe);
  return "";
}

std::string sampling_of(const Frame& frame) {
  std::string sampling;
  for (const Component& component : frame.components) {
    if (component.across < 1 || component.across > 4 || component.down < 1 || component.down > 4) return "";
    sampling +=
        (sampling.empty() ? "" : ", ") + std::to_string(component.across) + "x" + std::to_string(component.down);
  }
  return sampling;
}

std::vector<uint8_t> without_slips(Bytes file) {
  std::vector<uint8_t> out{0xff, 0xd8};
  const auto copy = [&](Bytes bytes) { out.insert(out.end(), bytes.begin(), bytes.end()); };
  out.reserve(file.size() + 2);
  Frame frame;
  Scans scans;
  size_t at = 2;
  bool whole = false;
  while (const auto segment = next_segment(file, at)) {
    add_to(frame, *segment);
    copy(file.subspan(segment->place, segment->end - segment->place));
    at = segment->end;
    whole = segment->marker == kEnd;
    if (whole) break;
    if (is_jfif(*segment)) *(out.end() - static_cast<int64_t>(segment->content.size()) + 5) = 1;
    if (segment->marker != kScan) continue;
    const bool huffman = is_sequential(frame.kind) || is_progressive(frame.kind);
    if (is_sequential(frame.kind) && segment->content.size() >= 4) {
      const std::array<uint8_t, 3> all{0, 63, 0};
      std::ranges::copy(all, out.end() - 3);
    }
    scans.add(frame, segment->content);
    for (bool inside = true; inside;) {
      const auto marker = next_marker(file, at);
      inside = marker && is_restart(marker->marker);
      const size_t end = marker ? marker->place : file.size();
      const Bytes codes = file.subspan(at, end - at);
      copy(huffman ? without_padding(codes) : codes);
      if (inside) copy(file.subspan(marker->place, 2));
      at = inside ? marker->end : end;
      if (marker) continue;
      if (!huffman || !scans.complete(frame)) return {};
      out.insert(out.end(), {0xff, kEnd});
      whole = true;
    }
    if (whole) break;
  }
  if (!whole || std::ranges::equal(out, file.first(std::min(at, file.size())))) return {};
  return out;
}

}  // namespace tenfold::jpeg
