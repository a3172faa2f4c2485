#include "common/data/idx.h"
#include "common/data/data_files.h"

namespace tenfold {

IdxHeader parse_idx(std::string_view file, const std::string& name) {
  const auto fail = [&](const std::string& what) { throw DataError(name + ": " + what + "; to fix: ./tenfold setup"); };
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(file[i]); };
  if (file.size() < 4 || byte(0) != 0 || byte(1) != 0) fail("is no idx file");
  if (byte(2) != 0x08) fail("is an idx file of type " + std::to_string(byte(2)) + ", expected 8 (unsigned bytes)");
  const size_t dimensions = byte(3);
  if (dimensions < 1 || dimensions > 4)
    fail("is an idx file of " + std::to_string(dimensions) + " dimensions, expected 1 to 4");

  IdxHeader header;
  header.data_offset = 4 + 4 * dimensions;
  if (file.size() < header.data_offset) fail("ends inside its header");
  const size_t data = file.size() - header.data_offset;
  size_t wanted = 1;
  for (size_t d = 0; d < dimensions; ++d) {
    const size_t at = 4 + 4 * d;
    const size_t size = size_t{byte(at)} << 24 | size_t{byte(at + 1)} << 16 | size_t{byte(at + 2)} << 8 | byte(at + 3);
    // Checked at each step, so the product cannot overflow.
    if (size == 0 || wanted > data / size) fail("holds " + std::to_string(data) + " bytes, fewer than its header says");
    wanted *= size;
    header.sizes.push_back(static_cast<int64_t>(size));
  }
  if (wanted != data) fail("holds " + std::to_string(data) + " bytes, its header says " + std::to_string(wanted));
  return header;
}

}  // namespace tenfold
