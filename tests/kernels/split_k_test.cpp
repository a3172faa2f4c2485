// Work decompositions of a matrix product: every rung against float64 over awkward shapes and numbers of parts, the
// same bits each time, and, under the microscope, that no decomposition does more of the work.
#include "kernels/split_k/split_k.h"

#include <array>

#include "kernels/hgemm/hgemm_reference.h"
#include "kernels/split_k/split_k_makespan.h"
#include "row_kernel.h"
#include "rungs.h"

namespace tenfold::test {
namespace {

using kernels::kSplitKRungs;
using kernels::kStreamKRung;
using kernels::kTwoTileRung;
using kernels::split_k;

struct Size {
  int64_t m, n, k;
};

// One element; primes; tiles and one more and less; one tile of many iterations; many tiles of few; packets and not.
constexpr std::array<Size, 7> kSizes{
    {{1, 1, 1}, {5, 123, 7}, {129, 257, 67}, {128, 128, 256}, {136, 8, 500}, {264, 1, 96}, {272, 264, 72}}};

std::string text_of(Size size, int64_t parts, int rung) {
  return std::to_string(size.m) + " x " + std::to_string(size.n) + " x " + std::to_string(size.k) + ", " +
         std::to_string(parts) + " parts, rung " + std::to_string(rung);
}

/// One part, a number that divides nothing, and as many as there are iterations where these are few.
std::vector<int64_t> parts_of(Size size, int rung) {
  if (rung == 0) return {1};
  const int64_t depth = kernels::split_k_depth(size.k), tiles = kernels::split_k_tiles(size.m, size.n);
  const int64_t most = rung < kStreamKRung ? depth : tiles * depth;
  std::vector<int64_t> parts{std::min<int64_t>(most, 16)};
  for (const int64_t count : {1, 5}) {
    if (count < most) parts.push_back(count);
  }
  return parts;
}

template <class T>
struct Inputs {
  explicit Inputs(Size size) : a(normal_values(size.m * size.k, 1)), b(normal_values(size.k * size.n, 2)) {}
  Values<T> a, b;
};

template <class T>
class SplitK : public KernelTest {
 protected:
  /// C; and the workspace, for whom it concerns. Every launch finds the counters that the one before has left.
  std::vector<float> product_of(Size size, const Inputs<T>& in, int64_t parts, int rung,
                                std::vector<float>* pieces = nullptr, int launches = 1) {
    const auto [m, n, k] = size;
    const auto a = this->copied(in.a.given, "a"), b = this->copied(in.b.given, "b");
    const auto c = this->template poisoned<float>(m * n, "c");
    const auto workspace = this->template poisoned<float>(
        std::max<int64_t>(1, kernels::split_k_workspace_bytes(m, n, k, parts, rung) / 4), "workspace");
    const int64_t words = kernels::split_k_counters(m, n, parts, rung);
    const auto counters =
        this->copied(std::vector<unsigned>(static_cast<size_t>(std::max<int64_t>(1, words))), "counters");
    std::vector<float> first;
    for (int i = 0; i < launches; ++i) {
      split_k(this->stream(), c.data(), workspace.data(), counters.data(), a.data(), b.data(), m, n, k, parts, rung);
      this->expect_clean();
      for (const unsigned counter : counters.host()) EXPECT_EQ(counter, 0U) << text_of(size, parts, rung);
      if (i == 0) first = c.host();
      EXPECT_EQ(c.host(), first) << text_of(size, parts, rung);
    }
    if (pieces != nullptr) *pieces = workspace.host();
    return first;
  }
};
using SplitKTypes = testing::Types<__half, __nv_bfloat16>;
TYPED_TEST_SUITE(SplitK, SplitKTypes);

TYPED_TEST(SplitK, EveryRungMatchesFloat64) {
  for (const Size size : kSizes) {
    const Inputs<TypeParam> in(size);
    const auto expected =
        kernels::hgemm_reference(in.a.wide, in.b.wide, size.m, size.n, size.k, kernels::kFloatRounding);
    for (int rung = 0; rung < split_k_rungs(); ++rung) {
      for (const int64_t parts : parts_of(size, rung))
        expect_all(this->product_of(size, in, parts, rung), expected, text_of(size, parts, rung));
    }
  }
  skip_missing_rungs(split_k_rungs(), kSplitKRungs);
}

// Whole waves of tiles behind shares that cross tiles, and no share at all.
TYPED_TEST(SplitK, WholeTilesFollowTheShares) {
  constexpr Size kSize{128, 896, 96};  // 7 tiles of 3 iterations
  const Inputs<TypeParam> in(kSize);
  const auto expected =
      kernels::hgemm_reference(in.a.wide, in.b.wide, kSize.m, kSize.n, kSize.k, kernels::kFloatRounding);
  if (split_k_rungs() == kSplitKRungs) {
    for (const int64_t blocks : {2, 3, 7})
      expect_all(this->product_of(kSize, in, blocks, kTwoTileRung), expected, text_of(kSize, blocks, kTwoTileRung));
  }
  skip_missing_rungs(split_k_rungs(), kSplitKRungs);
}

// Rungs 1 and 3 add the same pieces in the same order, and so do shares that are as long as pieces.
TYPED_TEST(SplitK, TheSamePiecesInTheSameOrderAreTheSameBits) {
  constexpr Size kSize{128, 256, 192};  // 2 tiles of 6 iterations
  const Inputs<TypeParam> in(kSize);
  if (split_k_rungs() == kSplitKRungs) {
    for (const int64_t pieces : {2, 3}) {
      const std::vector<float> by_workspace = this->product_of(kSize, in, pieces, 1);
      EXPECT_EQ(this->product_of(kSize, in, pieces, 3), by_workspace);
      EXPECT_EQ(this->product_of(kSize, in, 2 * pieces, kStreamKRung), by_workspace);
    }
  }
  skip_missing_rungs(split_k_rungs(), kSplitKRungs);
}

TYPED_TEST(SplitK, EveryLaunchFindsItsCountersAndGivesTheSameBits) {
  constexpr Size kSize{128, 264, 128};
  if (split_k_rungs() == kSplitKRungs) {
    for (const int rung : {1, 3, kStreamKRung, kTwoTileRung})
      this->product_of(kSize, Inputs<TypeParam>(kSize), 2, rung, nullptr, 2);
  }
  skip_missing_rungs(split_k_rungs(), kSplitKRungs);
}

// What rung 2 leaves to chance. The pieces are the ones that rung 1 has left; added backwards they are another result,
// in more than half of C.
TYPED_TEST(SplitK, TheOrderOfTheAdditionsShowsInTheLastBits) {
  constexpr Size kSize{128, 128, 256};
  constexpr int64_t kPieces = 8, kValues = kSize.m * kSize.n;
  if (split_k_rungs() == kSplitKRungs) {
    std::vector<float> pieces;
    const std::vector<float> forwards = this->product_of(kSize, Inputs<TypeParam>(kSize), kPieces, 1, &pieces);
    int64_t differ = 0;
    for (int64_t i = 0; i < kValues; ++i) {
      float backwards = 0;
      for (int64_t piece = kPieces - 1; piece >= 0; --piece)
        backwards += pieces[static_cast<size_t>(piece * kValues + i)];
      differ += backwards != forwards[static_cast<size_t>(i)] ? 1 : 0;
    }
    EXPECT_GT(differ, kValues / 2);
#ifndef TENFOLD_TEST_ON_GPU  // where blocks end in the order of their numbers
    EXPECT_EQ(this->product_of(kSize, Inputs<TypeParam>(kSize), kPieces, 2), forwards);
#endif
  }
  skip_missing_rungs(split_k_rungs(), kSplitKRungs);
}

// Views into larger tensors begin anywhere: packets must give way, and what lies around C must stay.
TYPED_TEST(SplitK, TakesPointersThatAreNotAlignedAndStaysInsideC) {
  constexpr Size kSize{72, 136, 72};
  constexpr int64_t kParts = 2, kBehind = 4 * kSize.n;
  for (int rung = 0; rung < split_k_rungs(); ++rung) {
    for (int shifted = 0; shifted < 3; ++shifted) {
      SCOPED_TRACE("rung " + std::to_string(rung) + ", shifted by one element: " + "abc"[shifted]);
      const int a_shift = shifted == 0, b_shift = shifted == 1, c_shift = shifted == 2;
      const Values<TypeParam> a(normal_values(kSize.m * kSize.k + a_shift, 7)),
          b(normal_values(kSize.k * kSize.n + b_shift, 8));
      const auto a_there = this->copied(a.given, "a"), b_there = this->copied(b.given, "b");
      const auto c = this->template poisoned<float>(c_shift + kSize.m * kSize.n + kBehind, "c");
      const auto workspace = this->template poisoned<float>(
          kernels::split_k_workspace_bytes(kSize.m, kSize.n, kSize.k, kParts, 3) / 4, "workspace");
      const auto counters = this->copied(std::vector<unsigned>(2), "counters");
      split_k(this->stream(), c.data() + c_shift, workspace.data(), counters.data(), a_there.data() + a_shift,
              b_there.data() + b_shift, kSize.m, kSize.n, kSize.k, kParts, rung);
      this->expect_clean();
      const std::vector<float> host = c.host();
      const auto expected =
          kernels::hgemm_reference({a.wide.begin() + a_shift, a.wide.end()}, {b.wide.begin() + b_shift, b.wide.end()},
                                   kSize.m, kSize.n, kSize.k, kernels::kFloatRounding);
      expect_all(std::vector<float>(host.begin() + c_shift, host.end() - kBehind), expected, "shifted");
      for (int i = 0; i < c_shift; ++i) EXPECT_TRUE(std::isnan(host[static_cast<size_t>(i)])) << "before C";
      for (size_t i = host.size() - kBehind; i < host.size(); ++i) ASSERT_TRUE(std::isnan(host[i])) << "behind C";
    }
  }
  skip_missing_rungs(split_k_rungs(), kSplitKRungs);
}

TYPED_TEST(SplitK, WhatCannotBeIsRefused) {
  const auto c = this->template poisoned<float>(64, "c");
  const auto in = this->template poisoned<TypeParam>(64, "in");
  const auto counters = this->copied(std::vector<unsigned>(8), "counters");
  const auto call = [&](int64_t m, int64_t n, int64_t k, int64_t parts, int rung, float* workspace, unsigned* count) {
    split_k(this->stream(), c.data(), workspace, count, in.data(), in.data(), m, n, k, parts, rung);
  };
  float* const workspace = c.data();
  const auto refused = [&](int64_t m, int64_t n, int64_t k, int64_t parts, int rung) {
    EXPECT_THROW(call(m, n, k, parts, rung, workspace, counters.data()), std::invalid_argument)
        << text_of({m, n, k}, parts, rung);
  };
  refused(0, 1, 1, 1, 0);
  refused(1, -1, 1, 1, 0);
  refused(1, 1, 0, 1, 0);
  refused(1, 1, (int64_t{1} << 30) + 1, 1, 0);
  refused(int64_t{1} << 30, int64_t{1} << 30, 1, 1, 0);  // 2^60 values
  refused(1, 1, 1, 1, -1);
  refused(1, 1, 1, 1, kSplitKRungs);
  for (int rung = 1; rung < kSplitKRungs; ++rung) {
    refused(1, 1, 64, 0, rung);
    refused(1, 1, 64, 3, rung);  // 2 iterations
  }
  for (const int rung : {1, 3, kStreamKRung, kTwoTileRung}) {
    EXPECT_THROW(call(1, 1, 64, 2, rung, nullptr, counters.data()), std::invalid_argument) << rung;
    EXPECT_THROW(call(1, 1, 64, 2, rung, workspace + 1, counters.data()), std::invalid_argument) << rung;
  }
  for (const int rung : {3, kStreamKRung, kTwoTileRung})
    EXPECT_THROW(call(1, 1, 64, 2, rung, workspace, nullptr), std::invalid_argument) << rung;
  try {
    call(1, 1, 64, 3, 3, workspace, counters.data());
    FAIL() << "3 pieces of 2 iterations were taken";
  } catch (const std::invalid_argument& error) {
    EXPECT_STREQ(error.what(), "split_k: parts 3 of rung 3; there may be 1 to 2");
  }
  EXPECT_TRUE(std::isnan(c.host()[0])) << "something ran";
}

#ifdef TENFOLD_TEST_ON_GPU

// As many blocks as run at a time, and more tiles than these: every wait must end.
TYPED_TEST(SplitK, AFullWaveOfBlocks) {
  constexpr Size kSize{2304, 2304, 1024};
  if (split_k_rungs() == kSplitKRungs) {
    const Inputs<TypeParam> in(kSize);
    const auto expected =
        kernels::hgemm_reference(in.a.wide, in.b.wide, kSize.m, kSize.n, kSize.k, kernels::kFloatRounding);
    const int64_t wave = kernels::split_k_wave<TypeParam>(true);
    for (const int rung : {kStreamKRung, kTwoTileRung})
      expect_all(this->product_of(kSize, in, wave, rung), expected, text_of(kSize, wave, rung));
    const auto c = this->template poisoned<float>(1, "c");
    const auto a = this->template poisoned<TypeParam>(1, "a");
    const auto counters = this->copied(std::vector<unsigned>(1), "counters");
    EXPECT_THROW(split_k(this->stream(), c.data(), c.data(), counters.data(), a.data(), a.data(), kSize.m, kSize.n,
                         kSize.k, wave + 1, kStreamKRung),
                 std::invalid_argument);
  }
  skip_missing_rungs(split_k_rungs(), kSplitKRungs);
}

#endif

#ifdef TENFOLD_COUNTED

using simt::Kind;
using simt::Report;
using simt::Space;

class SplitKUnderTheMicroscope : public KernelTest {
 protected:
  Report report_of(Size size, int64_t parts, int rung) {
    using T = __nv_bfloat16;
    device_.reset();
    const Inputs<T> in(size);
    const auto a = copied(in.a.given, "a"), b = copied(in.b.given, "b");
    const auto c = poisoned<float>(size.m * size.n, "c");
    const auto workspace = poisoned<float>(
        std::max<int64_t>(1, kernels::split_k_workspace_bytes(size.m, size.n, size.k, parts, rung) / 4), "workspace");
    const int64_t words = kernels::split_k_counters(size.m, size.n, parts, rung);
    const auto counters = copied(std::vector<unsigned>(static_cast<size_t>(std::max<int64_t>(1, words))), "counters");
    split_k(stream(), c.data(), workspace.data(), counters.data(), a.data(), b.data(), size.m, size.n, size.k, parts,
            rung);
    expect_clean();
    return device_.report();
  }
};

TEST_F(SplitKUnderTheMicroscope, every_rung_does_the_same_products_and_loads) {
  constexpr Size kSize{128, 256, 352};
  const Report plain = report_of(kSize, 1, 0);
  EXPECT_EQ(plain.matrix_multiplies, kSize.m * kSize.n * kSize.k / 2048);
  for (int rung = 1; rung < kSplitKRungs; ++rung) {
    const Report report = report_of(kSize, 3, rung);
    EXPECT_EQ(report.matrix_multiplies, plain.matrix_multiplies) << rung;
    for (const char* buffer : {"a", "b"}) {
      EXPECT_EQ(sum(report, Space::global, Kind::load, buffer).sectors,
                sum(plain, Space::global, Kind::load, buffer).sectors)
          << rung;
    }
  }
}

TEST_F(SplitKUnderTheMicroscope, partial_tiles_are_those_of_the_schedule) {
  constexpr int64_t kTileBytes = kernels::kSplitKTile * kernels::kSplitKTile * 4;
  for (const Size size : {Size{256, 128, 352}, Size{384, 640, 64}}) {
    for (const int64_t parts : {1, 2}) {
      for (const int rung : {3, kStreamKRung, kTwoTileRung}) {
        const Report report = report_of(size, parts, rung);
        const int64_t bytes =
            kTileBytes * kernels::partial_tiles(kernels::split_k_schedule(size.m, size.n, size.k, parts, rung));
        for (const Kind kind : {Kind::load, Kind::store})
          EXPECT_EQ(bytes_asked(report, kind, "workspace"), bytes) << text_of(size, parts, rung);
      }
    }
  }
}

TEST_F(SplitKUnderTheMicroscope, no_rung_has_a_bank_conflict) {
  for (int rung = 0; rung < kSplitKRungs; ++rung) EXPECT_EQ(worst_ways(report_of({128, 128, 128}, 2, rung)), 1) << rung;
}

#endif

}  // namespace
}  // namespace tenfold::test
