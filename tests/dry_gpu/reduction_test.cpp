// What NCCL's stand-in computes.
#include "common/dry_gpu/nccl/reduction.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdint>

namespace tenfold::dry {
namespace {

TEST(DryReduction, EveryOperation) {
  const std::array<int32_t, 3> other = {5, -2, 7};
  const auto with = [&](ncclRedOp_t operation) {
    std::array<int32_t, 3> values = {2, 3, -4};
    combine(values.data(), other.data(), values.size(), ncclInt32, operation);
    return values;
  };
  EXPECT_EQ(with(ncclSum), (std::array<int32_t, 3>{7, 1, 3}));
  EXPECT_EQ(with(ncclAvg), (std::array<int32_t, 3>{7, 1, 3})) << "who has all of them divides";
  EXPECT_EQ(with(ncclProd), (std::array<int32_t, 3>{10, -6, -28}));
  EXPECT_EQ(with(ncclMax), (std::array<int32_t, 3>{5, 3, 7}));
  EXPECT_EQ(with(ncclMin), (std::array<int32_t, 3>{2, -2, -4}));
}

template <class Value>
double sum_of(ncclDataType_t type, Value a, Value b) {
  combine(&a, &b, 1, type, ncclSum);
  return number_at(&a, type);
}

TEST(DryReduction, EveryTypeAddsAndRoundsToItself) {
  EXPECT_EQ(sum_of<int8_t>(ncclInt8, 100, 27), 127);
  EXPECT_EQ(sum_of<uint8_t>(ncclUint8, 200, 55), 255);
  EXPECT_EQ(sum_of<uint32_t>(ncclUint32, 4'000'000'000, 7), 4'000'000'007);
  EXPECT_EQ(sum_of<int64_t>(ncclInt64, int64_t{1} << 40, 1), static_cast<double>((int64_t{1} << 40) + 1));
  EXPECT_EQ(sum_of<uint64_t>(ncclUint64, 1, 2), 3);
  EXPECT_EQ(sum_of(ncclFloat32, 1.0F, std::ldexp(1.0F, -24)), 1) << "half a unit in the last place, to even";
  EXPECT_EQ(sum_of(ncclFloat64, 1.0, std::ldexp(1.0, -52)), 1 + std::ldexp(1.0, -52));
  EXPECT_EQ(sum_of(ncclFloat16, __float2half(2048), __float2half(1)), 2048) << "11 bits";
  EXPECT_EQ(sum_of(ncclBfloat16, __float2bfloat16(256), __float2bfloat16(1)), 256) << "8 bits";
  EXPECT_EQ(sum_of(ncclBfloat16, __float2bfloat16(256), __float2bfloat16(3)), 260);
}

TEST(DryReduction, ScalingRoundsToTheType) {
  std::array<float, 2> floats = {1, 3};
  scale(floats.data(), floats.size(), ncclFloat32, 1.0 / 3);
  EXPECT_EQ(floats[1], 1);
  std::array<int32_t, 2> whole = {7, -7};
  scale(whole.data(), whole.size(), ncclInt32, 0.5);
  EXPECT_EQ(whole, (std::array<int32_t, 2>{3, -3}));
}

TEST(DryReduction, TypesOfEightBitsWithAPointAreMovedAndNotAdded) {
  for (const ncclDataType_t type : {ncclFloat8e4m3, ncclFloat8e5m2}) {
    EXPECT_EQ(bytes_of(type), 1U);
    EXPECT_FALSE(has_arithmetic(type));
  }
  EXPECT_EQ(bytes_of(ncclNumTypes), 0U);
  EXPECT_STREQ(name_of(ncclBfloat16), "bfloat16");
  EXPECT_STREQ(name_of(ncclAvg), "avg");
  EXPECT_STREQ(name_of(static_cast<ncclRedOp_t>(ncclNumOps + 1)), "scaled sum");
}

}  // namespace
}  // namespace tenfold::dry
