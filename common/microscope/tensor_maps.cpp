// TMA: what a tensor map says, and boxes copied by it from global to shared memory. On a GPU the bytes come at any time
// between the start of a copy and the end of its mbarrier's phase. Here they come as late as they may: when the phase
// lacks nothing else and somebody waits for it. Until he knows of that, every access is a race. Source: NVIDIA, "CUDA
// Driver API", "Tensor Map Object Management"; NVIDIA, "PTX ISA", release 9.0, "Tensor Data Types: Swizzling Modes" and
// "cp.async.bulk.tensor".
#include <algorithm>
#include <cstring>

#include "common/microscope/cluster.h"
#include "common/microscope/hopper.h"
#include "common/microscope/tensor_map.h"

namespace tenfold::simt {
namespace {

uint32_t bytes_of(CUtensorMapDataType type) {
  switch (type) {
    case CU_TENSOR_MAP_DATA_TYPE_UINT8:
      return 1;
    case CU_TENSOR_MAP_DATA_TYPE_UINT16:
    case CU_TENSOR_MAP_DATA_TYPE_FLOAT16:
    case CU_TENSOR_MAP_DATA_TYPE_BFLOAT16:
      return 2;
    case CU_TENSOR_MAP_DATA_TYPE_UINT32:
    case CU_TENSOR_MAP_DATA_TYPE_INT32:
    case CU_TENSOR_MAP_DATA_TYPE_FLOAT32:
      return 4;
    case CU_TENSOR_MAP_DATA_TYPE_UINT64:
    case CU_TENSOR_MAP_DATA_TYPE_INT64:
    case CU_TENSOR_MAP_DATA_TYPE_FLOAT64:
      return 8;
    default:
      return 0;
  }
}

}  // namespace

CUresult encode_tensor_map(CUtensorMap* map, CUtensorMapDataType type, cuuint32_t rank, void* data,
                           const cuuint64_t* size, const cuuint64_t* strides, const cuuint32_t* box,
                           const cuuint32_t* steps, CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                           CUtensorMapL2promotion /*promotion*/, CUtensorMapFloatOOBfill fill) {
  const bool rank_fits = rank == 2 || (rank == 3 && box[2] == 1 && steps[2] == 1);
  if (!rank_fits || interleave != CU_TENSOR_MAP_INTERLEAVE_NONE || bytes_of(type) == 0 || steps[0] != 1 ||
      steps[1] != 1 || swizzle > CU_TENSOR_MAP_SWIZZLE_128B || fill != CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) {
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  TensorMap own;
  own.data = reinterpret_cast<uintptr_t>(data);
  own.columns = size[0], own.rows = size[1], own.row_bytes = strides[0];
  own.box_columns = box[0], own.box_rows = box[1];
  if (rank == 3) own.matrices = size[2], own.matrix_bytes = strides[1];
  own.element_bytes = bytes_of(type), own.swizzle = static_cast<uint32_t>(swizzle);
  const auto in = [](uint64_t value, uint64_t least, uint64_t most) { return value >= least && value <= most; };
  const uint64_t width = uint64_t{own.box_columns} * own.element_bytes, swizzled = uint64_t{16} << own.swizzle;
  const bool good = own.data % 16 == 0 && in(own.columns, 1, uint64_t{1} << 32) && in(own.rows, 1, uint64_t{1} << 32) &&
                    own.row_bytes % 16 == 0 && in(own.row_bytes, 1, (uint64_t{1} << 40) - 1) &&
                    in(own.matrices, 1, uint64_t{1} << 32) && own.matrix_bytes % 16 == 0 &&
                    in(own.matrix_bytes, rank == 3 ? 1 : 0, (uint64_t{1} << 40) - 1) && in(own.box_columns, 1, 256) &&
                    in(own.box_rows, 1, 256) && width % 16 == 0 && (own.swizzle == 0 || width <= swizzled);
  if (!good) return CUDA_ERROR_INVALID_VALUE;
  if (own.swizzle != 0 && width != swizzled) return CUDA_ERROR_NOT_SUPPORTED;
  std::memset(static_cast<void*>(map), 0, sizeof *map);
  std::memcpy(static_cast<void*>(map), &own, sizeof own);
  return CUDA_SUCCESS;
}

bool read_map(TensorMap& tensor, const CUtensorMap* map, uintptr_t pc) {
  std::memcpy(&tensor, static_cast<const void*>(map), sizeof tensor);
  if (tensor.magic == TensorMap::kMagic) return true;
  note_fault(FaultKind::bad_operand, pc, "the tensor map was not made by cuTensorMapEncodeTiled");
  return false;
}

BoxCopy box_of(const TensorMap& tensor, const void* shared, int x, int y, int z, uintptr_t pc) {
  const int64_t width = tensor.element_bytes;
  BoxCopy box;
  box.to = reinterpret_cast<uintptr_t>(shared), box.window = shared_window_address(shared), box.pc = pc;
  box.row_bytes = tensor.row_bytes, box.swizzle = tensor.swizzle;
  box.rows = tensor.box_rows, box.columns_bytes = tensor.box_columns * width;
  box.from = tensor.data + static_cast<uintptr_t>(z * static_cast<int64_t>(tensor.matrix_bytes) +
                                                  y * static_cast<int64_t>(tensor.row_bytes) + x * width);
  const auto inside = [](int64_t begin, uint32_t extent, uint64_t size) {
    const auto end = std::clamp<int64_t>(static_cast<int64_t>(size) - begin, 0, extent);
    return std::pair{std::clamp<int64_t>(-int64_t{begin}, 0, end), end};
  };
  std::tie(box.first_row, box.end_row) = inside(y, tensor.box_rows, tensor.rows);
  if (z < 0 || static_cast<uint64_t>(z) >= tensor.matrices) box.end_row = box.first_row;
  std::tie(box.first_byte, box.end_byte) = inside(x, tensor.box_columns, tensor.columns);
  box.first_byte *= width, box.end_byte *= width;
  return box;
}

bool touch_rows(const BoxCopy& box, Kind kind,
                const std::function<void(Region&, uintptr_t row, int bytes, uint16_t site)>& check) {
  if (box.first_row >= box.end_row || box.first_byte >= box.end_byte) return true;
  const auto key = static_cast<uint64_t>(box.pc) << 8;
  const auto row = [&](int64_t r) {
    return box.from + static_cast<uintptr_t>(r * static_cast<int64_t>(box.row_bytes) + box.first_byte);
  };
  const auto bytes = static_cast<int>(box.end_byte - box.first_byte);
  Region* const region = region_of(row(box.first_row));
  if (region == nullptr || region->space != Space::global) {
    note_fault(FaultKind::out_of_bounds, box.pc, "a tensor map is of memory that is no buffer");
    return false;
  }
  const Site& site = site_of(key, box.pc, kind, static_cast<int>(box.bytes()));
  std::vector<uint64_t> sectors;
  for (int64_t r = box.first_row; r < box.end_row; ++r) {
    if (!in_bounds(*region, row(r), bytes, box.pc)) return false;
    if (engine.state->options.races) check(*region, row(r), bytes, site.index);
    for (uint64_t s = row(r) / 32; s <= (row(r) + static_cast<uintptr_t>(bytes) - 1) / 32; ++s) sectors.push_back(s);
  }
  if (!engine.state->options.count) return true;
  std::sort(sectors.begin(), sectors.end());
  sectors.erase(std::unique(sectors.begin(), sectors.end()), sectors.end());
  Sums& sums = count_bulk(*region, row(box.first_row), kind, static_cast<int>(box.bytes()), key, box.pc);
  sums.sectors += static_cast<int64_t>(sectors.size());
  auto& touched = kind == Kind::load ? region->sectors_read : region->sectors_written;
  uint64_t line = ~uint64_t{0};
  for (const uint64_t sector : sectors) {
    sums.lines += sector / 4 != line;
    line = sector / 4;
    const uint64_t bit = sector - region->low / 32;
    touched.begin()[bit / 64] |= uint64_t{1} << bit % 64;
  }
  if (engine.state->options.reuse) note_request(*region, sectors.data(), static_cast<int>(sectors.size()), kind);
  return true;
}

bool box_fits(const Region& region, const BoxCopy& box, const char* does) {
  if (!in_bounds(region, box.to, static_cast<int>(box.bytes()), box.pc)) return false;
  if (const uint32_t least = 128U << box.swizzle; box.window % least != 0) {
    note_fault(FaultKind::misaligned, box.pc,
               "a box whose pattern repeats after " + std::to_string(least) + " bytes " + does + " shared address " +
                   hex(box.window, 5) + ", which that does not divide");
    end_launch();
  }
  return true;
}

void for_each_packet(const BoxCopy& box, const std::function<void(std::byte*, uintptr_t, int64_t, int64_t)>& f) {
  for (int64_t row = 0; row < box.rows; ++row) {
    const bool inside = row >= box.first_row && row < box.end_row;
    for (int64_t byte = 0; byte < box.columns_bytes; byte += 16) {
      const int64_t begin = inside ? std::clamp(byte, box.first_byte, box.end_byte) : byte,
                    end = inside ? std::clamp(byte + 16, box.first_byte, box.end_byte) : byte;
      const auto from = box.from + static_cast<uintptr_t>(row * static_cast<int64_t>(box.row_bytes) + begin);
      const auto window = box.window + static_cast<uintptr_t>(row * box.columns_bytes + byte);
      f(static_cast<std::byte*>(pointer_to(box.to + swizzled(window, box.swizzle) - box.window)), from, begin - byte,
        std::max<int64_t>(end - begin, 0));
    }
  }
}

namespace {

/// What one copy brings to one block of the cluster.
void start_box(BoxCopy copy, Mbarrier& barrier, Region& region) {
  const auto bytes = static_cast<int>(copy.bytes());
  const auto key = static_cast<uint64_t>(copy.pc) << 8 | 1;
  copy.phase = barrier.phase;
  note_touched(region, copy.to, bytes);
  copy.site = site_of(key, copy.pc, Kind::store, bytes).index;
  if (engine.state->options.count) {
    Sums& sums = count_bulk(region, copy.to, Kind::store, bytes, key, copy.pc);
    sums.wavefronts += (bytes + 127) / 128, sums.ideal_wavefronts += (bytes + 127) / 128;
    sums.worst_ways = std::max(sums.worst_ways, 1);
  }
  engine.agents[barrier.agent - engine.first_agent].thread = engine.current->number;
  if (engine.state->options.races) agent_stores(region, copy.to, bytes, barrier.agent, copy.phase, copy.site);
  barrier.copies.push_back(copy);
}

/// To every block of `mask`, at the places that `shared` and `barrier` have in this one.
void copy_to(uint32_t mask, const char* name, void* shared, const CUtensorMap* map, const uint64_t* barrier, int x,
             int y, int z, uintptr_t pc) {
  TensorMap tensor;
  if (!read_map(tensor, map, pc)) return;
  const auto to = reinterpret_cast<uintptr_t>(shared);
  std::vector<Mbarrier*> barriers;
  for (size_t block = 0; block < engine.cluster.size(); ++block) {
    if ((mask >> block & 1) == 0) continue;
    if (!visit(block, false, pc)) return;
    Mbarrier* const known = mbarrier_of(in_block(reinterpret_cast<uintptr_t>(barrier), block), block, pc);
    if (known == nullptr) return;
    if (!known->fenced) {
      note_fault(FaultKind::mbarrier, pc,
                 "TMA may not know of its mbarrier: no fence.mbarrier_init came after mbarrier.init");
    }
    barriers.push_back(known);
  }
  BoxCopy copy = box_of(tensor, shared, x, y, z, pc);
  const Region* const region = shared_region(to, engine.rank);
  if (region == nullptr)
    return note_fault(FaultKind::out_of_bounds, pc, "a box is copied to memory that is not shared");
  const auto check = [](Region& of, uintptr_t row, int bytes, uint16_t site) {
    check_race(of, row, bytes, Kind::load, site);
  };
  if (!box_fits(*region, copy, "goes to") || !touch_rows(copy, Kind::load, check)) return;
  for (Mbarrier* known : barriers) {
    copy.to = in_block(to, known->block);
    start_box(copy, *known, *shared_region(copy.to, known->block));
  }
  count_operation(pc, name);
}

}  // namespace

void copy_box(void* shared, const CUtensorMap* map, const uint64_t* barrier, int x, int y, int z) {
  copy_to(1U << engine.rank, "TMA copy", shared, map, barrier, x, y, z,
          reinterpret_cast<uintptr_t>(__builtin_return_address(0)));
}

void copy_box_to(void* shared, const CUtensorMap* map, const uint64_t* barrier, int x, int y, uint32_t mask) {
  const auto pc = reinterpret_cast<uintptr_t>(__builtin_return_address(0));
  if (mask == 0 || mask >> engine.cluster.size() != 0) {
    return note_fault(FaultKind::cluster, pc,
                      "the mask " + hex(mask, 4) + " names no block, or one that a cluster of " +
                          std::to_string(engine.cluster.size()) + " has not");
  }
  copy_to(mask, "TMA multicast", shared, map, barrier, x, y, /*z=*/0, pc);
}

void land_copies(Mbarrier& barrier) {
  const uint32_t phase = barrier.phase;
  while (!barrier.copies.empty() && barrier.phase == phase) {
    const BoxCopy copy = barrier.copies.front();
    barrier.copies.pop_front();
    for_each_packet(copy, [](std::byte* packet, uintptr_t from, int64_t offset, int64_t bytes) {
      std::memset(packet, 0, 16);
      if (bytes != 0) std::memcpy(packet + offset, pointer_to(from), static_cast<size_t>(bytes));
    });
    barrier.bytes -= copy.bytes();
    complete_phase(barrier);
  }
}

}  // namespace tenfold::simt
