#pragma once
// What TMA's copies and stores have in common: a tensor map, and a box of it. Part of the microscope's inside.

#include <cuda.h>

#include <functional>

#include "common/microscope/engine.h"

namespace tenfold::simt {

/// What the microscope writes into the 128 bytes of a CUtensorMap.
struct TensorMap {
  static constexpr uint64_t kMagic = 0x70616d2d6f726373;  // no bytes of chance
  uint64_t magic = kMagic;
  uintptr_t data = 0;
  uint64_t columns = 0, rows = 0, row_bytes = 0;
  uint64_t matrices = 1, matrix_bytes = 0;  ///< the third dimension
  uint32_t box_columns = 0, box_rows = 0;
  uint32_t element_bytes = 0;
  uint32_t swizzle = 0;  ///< address bits that change: 0 to 3, for 16, 32, 64 and 128 bytes
};
static_assert(sizeof(TensorMap) <= sizeof(CUtensorMap));

/// False, and a fault, where the map was not made by encode_tensor_map.
bool read_map(TensorMap& tensor, const CUtensorMap* map, uintptr_t pc);
/// The box whose first element is (x, y) of matrix z: `from` is there, `to` in this block's shared memory.
BoxCopy box_of(const TensorMap& tensor, const void* shared, int x, int y, int z, uintptr_t pc);
/// One request for the whole box in global memory: its rows that lie in the tensor, counted by sectors and lines. Calls
/// check(region, row, bytes, site) for each of them where races are looked for. False, and a fault, where they leave
/// the buffer.
bool touch_rows(const BoxCopy& box, Kind kind,
                const std::function<void(Region&, uintptr_t row, int bytes, uint16_t site)>& check);
/// False, and a fault, where the box leaves the region; one that is not aligned ends the launch. `does`: "goes to".
bool box_fits(const Region& region, const BoxCopy& box, const char* does);
/// Calls f(packet, global, offset, bytes) for every 16 bytes of the box in shared memory: `bytes` of them, from
/// `offset` on, lie in the tensor, at `global`.
void for_each_packet(const BoxCopy& box, const std::function<void(std::byte*, uintptr_t, int64_t, int64_t)>& f);

}  // namespace tenfold::simt
