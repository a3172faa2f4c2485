#pragma once
// The idx format of MNIST and its likes.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tenfold {

/// Dimensions of an idx file of bytes and where its data begins.
struct IdxHeader {
  std::vector<int64_t> sizes;
  size_t data_offset = 0;
};

/// Reads the header strictly: two zero bytes, type 0x08 (unsigned byte), 1 to 4 dimensions, each at least 1, and
/// exactly as much data as they ask for. `name` is for the message. Throws DataError.
IdxHeader parse_idx(std::string_view file, const std::string& name);

}  // namespace tenfold
