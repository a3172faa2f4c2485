#include "kernels/tile_copy/tile_copy.h"

#include <stdexcept>

#include "kernel_device.h"

namespace tenfold::test {
namespace {

using kernels::kTileCopyRungs;
using kernels::tile_copy;

using TileCopy = KernelTest;

TEST_F(TileCopy, EveryElementArrives) {
  for (int rung = 0; rung < kTileCopyRungs; ++rung) {
    for (const int64_t count : {1, 31, 255, 256, 257, 1000, 8192}) {
      const auto values = normal_values(count, 41);
      const auto in = copied(values);
      const auto out = poisoned<float>(count);
      tile_copy(stream(), out.data(), in.data(), count, rung);
      expect_clean();
      EXPECT_EQ(out.host(), values) << "rung " << rung << ", " << count << " floats";
    }
  }
}

TEST_F(TileCopy, RefusesWhatCannotBe) {
  const auto in = copied(std::vector<float>{1});
  const auto out = poisoned<float>(1);
  EXPECT_THROW(tile_copy(stream(), out.data(), in.data(), 0), std::invalid_argument);
  EXPECT_THROW(tile_copy(stream(), out.data(), in.data(), int64_t{1} << 40), std::invalid_argument);
  EXPECT_THROW(tile_copy(stream(), out.data(), in.data(), 1, -1), std::invalid_argument);
  EXPECT_THROW(tile_copy(stream(), out.data(), in.data(), 1, kTileCopyRungs), std::invalid_argument);
  EXPECT_TRUE(std::isnan(out.host()[0]));
}

#ifdef TENFOLD_COUNTED
TEST_F(TileCopy, TheTileSavesNoSectorAndCostsPassesAndBarriers) {
  // By hand, for 1024 floats: 32 warps load 4 sectors and store 4; through the tile each warp also stores and loads
  // once, and each of the 4 blocks has a barrier.
  for (int rung = 0; rung < kTileCopyRungs; ++rung) {
    device_.reset();
    const auto in = copied(normal_values(1024, 41));
    const auto out = poisoned<float>(1024);
    tile_copy(stream(), out.data(), in.data(), 1024, rung);
    EXPECT_EQ(device_.report().sectors(), 256);
    EXPECT_EQ(device_.report().wavefronts(), rung == 0 ? 0 : 64);
    EXPECT_EQ(device_.report().barriers, rung == 0 ? 0 : 4);
  }
}
#endif

}  // namespace
}  // namespace tenfold::test
