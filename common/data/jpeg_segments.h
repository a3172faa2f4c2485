#pragma once
// What stands between the pixels of a JPEG file (ITU T.81, annex B), for the reader of JPEG files; not for others.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace tenfold::jpeg {

/// A component's id and how many of its samples stand for each other's, across and down.
struct Component {
  int id = 0, across = 1, down = 1;
};

/// What a file says of its picture. Of bytes that are no JPEG file, whatever could be read.
struct Frame {
  int kind = 0;  ///< the second byte of its marker, 0xc0 for a baseline picture; 0 when there is none
  int bits = 0, height = 0, width = 0;
  std::vector<Component> components;
  int adobe = -1;  ///< which transform of the colours Adobe's marker names; -1 without that marker
};
Frame frame_of(std::span<const uint8_t> file);

/// What makes a file of this frame one that is not read, though nothing is wrong with it: "with 12 bits per sample".
/// Empty for others, and for four inks. Whether a sampling of the colours is read, libjpeg-turbo must say.
std::string unread_kind(const Frame& frame);

/// "4x2, 1x1, 1x1" for the colours of 4:1:0; empty for numbers that no file may have.
std::string sampling_of(const Frame& frame);

/// The file without what changes no pixel, and yet makes libjpeg-turbo warn as of a damaged one: bytes between
/// segments, zeros at the end of a run of Huffman codes, a version of JFIF other than 1, numbers of a progressive scan
/// in a sequential one, and the end mark that is missing behind a picture whose scans are all there. Empty when the
/// file has nothing of that, or ends too early. The pixels' own bytes are as they were: a code that is missing or wrong
/// is found as it was before.
std::vector<uint8_t> without_slips(std::span<const uint8_t> file);

}  // namespace tenfold::jpeg
