// Experts' results on their way back to their tokens: every rung against float64 over routings that leave experts and
// tokens without rows, the gradients, and what differs bit for bit from one order of the additions to another.
#include "kernels/grouped_combine/grouped_combine.h"

#include <limits>

#include "kernels/grouped_combine/grouped_combine_reference.h"
#include "kernels/grouped_combine/grouped_combine_routing.h"
#include "kernels/grouped_gemm/grouped_gemm.h"
#include "row_kernel.h"
#include "rungs.h"

namespace tenfold::test {
namespace {

using kernels::CombineShape;
using kernels::kCombineFloatsRung;
using kernels::kCombinePairsRung;
using kernels::kCombineTwoPassRung;
using kernels::kGroupedCombineRungs;

/// Where the tests run: all rungs, or none on a GPU before compute capability 8.0.
int rungs() { return grouped_gemm_rungs() > 0 ? kGroupedCombineRungs : 0; }

struct Routing {
  std::string name;
  int64_t tokens, active;
  std::vector<int> counts;  ///< rows of each expert; fewer than tokens * active in all where some are dropped

  std::vector<int> offsets() const {
    std::vector<int> sums{0};
    for (const int count : counts) sums.push_back(sums.back() + count);
    return sums;
  }
};

std::vector<Routing> routings() {
  std::vector<int> many(67);
  many[33] = 45, many[66] = 6;  // behind a whole warp's lanes of experts without rows
  return {{"one token", 1, 1, {1}},
          {"one row each", 140, 1, {1, 130, 0, 9}},
          {"skewed", 150, 2, {1, 259, 0, 40}},
          {"whole tiles", 128, 2, {128, 128}},
          {"first and last empty", 67, 2, {0, 134, 0}},
          {"eight", 37, 8, {0, 129, 64, 65, 1, 7, 30}},
          {"all to one", 129, 1, {0, 129, 0}},
          {"many experts", 17, 3, many},
          {"dropped", 60, 4, {10, 0, 141, 20}},
          {"every row dropped", 5, 2, {0, 0}}};
}

struct Size {
  int64_t depth, columns;
};
/// Packets, and a partial tile of columns.
constexpr Size kPackets{40, 136};

template <class T>
struct Inputs {
  Inputs(const Routing& routing, Size size, bool scaled = true)
      : offsets(routing.offsets()),
        shape{.tokens = routing.tokens,
              .active = routing.active,
              .experts = static_cast<int64_t>(routing.counts.size()),
              .depth = size.depth,
              .columns = size.columns},
        token_of(kernels::far_apart_tokens(offsets.back(), shape.tokens)),
        rows_of(kernels::rows_of_tokens(token_of, shape.tokens, shape.active)),
        rows(behind_the_end(normal_values(offsets.back() * size.depth, 1), shape.rows() * size.depth)),
        weights(normal_values(shape.experts * size.depth * size.columns, 2)) {
    for (int64_t row = 0; scaled && row < shape.rows(); ++row) scales.push_back(kernels::scale_of_row(row));
    token_of.resize(static_cast<size_t>(shape.rows()), std::numeric_limits<int>::max());  // not to be looked at
  }
  static std::vector<float> behind_the_end(std::vector<float> values, int64_t count) {
    values.resize(static_cast<size_t>(count), NAN);
    return values;
  }
  std::vector<int> offsets;
  CombineShape shape;
  std::vector<int> token_of, rows_of;
  std::vector<float> scales;  ///< empty: 1
  Values<T> rows, weights;

  kernels::Expected expected(bool transposed, int rung) const {
    return kernels::grouped_combine_reference(
        rows.wide, transposed ? kernels::each_transposed(weights.wide, shape.columns, shape.depth) : weights.wide,
        offsets, token_of, scales, shape, rounding_of<T>(), rung);
  }
};

/// `shift` values before, so that the array begins between packets.
template <class T>
std::vector<T> behind(const std::vector<T>& values, int64_t shift) {
  std::vector<T> moved(static_cast<size_t>(shift), T(0.0F));
  moved.insert(moved.end(), values.begin(), values.end());
  return moved;
}

struct Shifts {
  int64_t rows = 0, weights = 0, out = 0;
};

template <class T>
class GroupedCombine : public KernelTest {
 protected:
  std::vector<T> combined(const Inputs<T>& in, bool transposed, int64_t blocks, int rung, Shifts shift = {}) {
    const auto rows = this->copied(behind(in.rows.given, shift.rows), "rows"),
               weights = this->copied(behind(in.weights.given, shift.weights), "weights");
    const auto offsets = this->copied(in.offsets, "offsets"), token_of = this->copied(in.token_of, "token_of"),
               rows_of = this->copied(in.rows_of, "rows_of");
    const auto scales = this->copied(in.scales.empty() ? std::vector<float>(1) : in.scales, "scales");
    const auto out = this->template poisoned<T>(shift.out + in.shape.tokens * in.shape.columns, "out");
    const int64_t bytes = kernels::grouped_combine_workspace_bytes(in.shape, rung);
    const auto workspace = this->template poisoned<float>(std::max<int64_t>(1, (bytes + 3) / 4), "workspace");
    kernels::grouped_combine(this->stream(), out.data() + shift.out, bytes > 0 ? workspace.data() : nullptr,
                             rows.data() + shift.rows, weights.data() + shift.weights,
                             {.offsets = offsets.data(),
                              .token_of = token_of.data(),
                              .rows_of = rung == kCombineTwoPassRung ? rows_of.data() : nullptr,
                              .scales = in.scales.empty() ? nullptr : scales.data()},
                             in.shape, transposed, blocks, rung);
    this->expect_clean();
    const std::vector<T> host = out.host();
    return {host.begin() + shift.out, host.end()};
  }

  void expect_gradients(const Inputs<T>& in, int64_t blocks, const std::string& text, Shifts shift = {}) {
    const CombineShape& s = in.shape;
    const Values<T> values(normal_values(s.tokens * s.columns, 3));
    const auto dout = this->copied(behind(values.given, shift.out), "dout"),
               rows = this->copied(behind(in.rows.given, shift.rows), "rows"),
               weights = this->copied(behind(in.weights.given, shift.weights), "weights");
    const auto offsets = this->copied(in.offsets, "offsets"), token_of = this->copied(in.token_of, "token_of");
    const auto scales = this->copied(in.scales.empty() ? std::vector<float>(1) : in.scales, "scales");
    const auto drows = this->template poisoned<T>(s.rows() * s.depth, "drows");
    const auto dscales = this->template poisoned<float>(s.rows(), "dscales"),
               workspace = this->template poisoned<float>(kernels::grouped_combine_backward_workspace(s), "workspace");
    kernels::grouped_combine_backward(this->stream(), drows.data(), dscales.data(), workspace.data(),
                                      dout.data() + shift.out, rows.data() + shift.rows, weights.data() + shift.weights,
                                      {.offsets = offsets.data(),
                                       .token_of = token_of.data(),
                                       .rows_of = nullptr,
                                       .scales = in.scales.empty() ? nullptr : scales.data()},
                                      s, blocks);
    this->expect_clean();
    const auto expected = kernels::grouped_combine_backward_reference(
        values.wide, in.rows.wide, in.weights.wide, in.offsets, in.token_of, in.scales, s, rounding_of<T>());
    std::vector<T> of_rows = drows.host();
    std::vector<float> of_scales = dscales.host();
    const auto end = static_cast<size_t>(in.offsets.back());
    for (size_t row = end; row < of_scales.size(); ++row) {
      EXPECT_TRUE(std::isnan(of_scales[row])) << text << ": behind the last expert's rows";
      EXPECT_TRUE(std::isnan(static_cast<float>(of_rows[row * static_cast<size_t>(s.depth)]))) << text;
    }
    of_rows.resize(end * static_cast<size_t>(s.depth)), of_scales.resize(end);
    expect_all(of_rows, expected.drows, text + ", rows");
    expect_all(of_scales, expected.dscales, text + ", scales");
  }
};
using GroupedCombineTypes = testing::Types<__half, __nv_bfloat16>;
TYPED_TEST_SUITE(GroupedCombine, GroupedCombineTypes);

std::string text_of(const Routing& routing, Size size, bool transposed, int rung) {
  return routing.name + ", " + std::to_string(size.depth) + " x " + std::to_string(size.columns) +
         (transposed ? ", transposed" : "") + ", rung " + std::to_string(rung);
}

TYPED_TEST(GroupedCombine, EveryRungMatchesFloat64) {
  for (const Routing& routing : routings()) {
    const Inputs<TypeParam> in(routing, kPackets);
    for (const bool transposed : {false, true}) {
      for (int rung = 0; rung < rungs(); ++rung)
        expect_all(this->combined(in, transposed, 3, rung), in.expected(transposed, rung),
                   text_of(routing, kPackets, transposed, rung));
    }
  }
  skip_missing_rungs(rungs(), kGroupedCombineRungs);
}

// One value or two; primes; more iterations than stages, and fewer columns than a warp has.
TYPED_TEST(GroupedCombine, EveryRungTakesEverySize) {
  const Routing routing{"skewed", 69, 2, {1, 130, 0, 7}};
  for (const Size size : {Size{1, 1}, Size{1, 2}, Size{37, 131}, Size{37, 130}, Size{200, 8}}) {
    const Inputs<TypeParam> in(routing, size);
    for (const bool transposed : {false, true}) {
      for (int rung = 0; rung < rungs(); ++rung) {
        if (rung == kCombinePairsRung && size.columns % 2 != 0) continue;
        expect_all(this->combined(in, transposed, 2, rung), in.expected(transposed, rung),
                   text_of(routing, size, transposed, rung));
      }
    }
  }
  skip_missing_rungs(rungs(), kGroupedCombineRungs);
}

// As the input's gradient has them.
TYPED_TEST(GroupedCombine, RowsWithoutScalesCountOnce) {
  const Routing routing{"skewed", 69, 2, {1, 130, 0, 7}};
  const Inputs<TypeParam> in(routing, kPackets, false);
  for (int rung = 0; rung < rungs(); ++rung)
    expect_all(this->combined(in, true, 2, rung), in.expected(true, rung), text_of(routing, kPackets, true, rung));
  skip_missing_rungs(rungs(), kGroupedCombineRungs);
}

// Views into larger tensors begin anywhere: packets must give way.
TYPED_TEST(GroupedCombine, TakesPointersThatAreNotAligned) {
  const Routing routing{"skewed", 67, 2, {3, 0, 130}};
  const Inputs<TypeParam> in(routing, kPackets);
  for (int rung = 0; rung < rungs(); ++rung) {
    for (const Shifts shift : {Shifts{.rows = 1}, Shifts{.weights = 1}, Shifts{.out = 1}, Shifts{.out = 2}}) {
      if (rung == kCombinePairsRung && shift.out % 2 != 0) continue;
      for (const bool transposed : {false, true})
        expect_all(this->combined(in, transposed, 2, rung, shift), in.expected(transposed, rung),
                   text_of(routing, kPackets, transposed, rung));
    }
  }
  if (rungs() > 0) {
    for (const Shifts shift : {Shifts{.rows = 1}, Shifts{.weights = 1}, Shifts{.out = 1}})
      this->expect_gradients(in, 2, routing.name, shift);
  }
  skip_missing_rungs(rungs(), kGroupedCombineRungs);
}

// The router's gradient: of each row with the whole product, over several tiles of its columns, the last partial.
TYPED_TEST(GroupedCombine, GradientsOfRowsAndScalesMatchFloat64) {
  if (rungs() > 0) {
    for (const Routing& routing : routings())
      this->expect_gradients(Inputs<TypeParam>(routing, kPackets), 3, routing.name);
    const Routing routing{"skewed", 69, 2, {1, 130, 0, 7}};
    for (const Size size : {Size{1, 1}, Size{37, 131}, Size{200, 8}, Size{264, 40}})
      this->expect_gradients(Inputs<TypeParam>(routing, size), 2, text_of(routing, size, false, 0));
    this->expect_gradients(Inputs<TypeParam>(routing, kPackets, false), 2, "without scales");
  }
  skip_missing_rungs(rungs(), kGroupedCombineRungs);
}

// What the page says of a training run. Other numbers of blocks put the tiles, and so the atomics, into another order:
// the microscope runs block after block, and a GPU does as it likes. Two terms have one sum, whoever comes first; three
// or more have several. The sums that are read again have an order of their own.
TYPED_TEST(GroupedCombine, TheOrderOfThreeAtomicsShowsAndOfTwoDoesNot) {
  if (rungs() > 0) {
    for (const int64_t active : {1, 2, 8}) {
      std::vector<int> counts(8, static_cast<int>(30 * active / 8));
      counts[3] += static_cast<int>(30 * active) - 8 * counts[3];
      const Inputs<TypeParam> in({"", 30, active, counts}, kPackets);
      for (int rung = 0; rung < kGroupedCombineRungs; ++rung) {
        const auto first = widened(this->combined(in, false, 1, rung));
        int differ = 0;
        for (const int64_t blocks : {2, 3, 5, 40}) {
          const auto again = widened(this->combined(in, false, blocks, rung));
          for (size_t i = 0; i < first.size(); ++i) differ += first[i] != again[i];
        }
        if (rung == kCombineTwoPassRung || active <= 2) {
          EXPECT_EQ(differ, 0) << rung << " of " << active;
        }
#ifndef TENFOLD_TEST_ON_GPU
        if (rung == kCombinePairsRung && active > 2) {
          EXPECT_GT(differ, 0) << rung << " of " << active;
        }
#endif
      }
    }
  }
  skip_missing_rungs(rungs(), kGroupedCombineRungs);
}

TYPED_TEST(GroupedCombine, WhatCannotBeIsRefused) {
  const auto out = this->template poisoned<TypeParam>(64, "out"), in = this->template poisoned<TypeParam>(64, "in");
  const auto offsets = this->copied(std::vector<int>{0, 1, 2}, "offsets");
  const auto floats = this->template poisoned<float>(64, "floats");
  const kernels::CombineRouting routing{offsets.data(), offsets.data(), offsets.data(), nullptr};
  const auto call = [&](CombineShape shape, int64_t blocks, int rung, bool workspace = true, int64_t shift = 0) {
    kernels::grouped_combine(this->stream(), out.data() + shift, workspace ? floats.data() : nullptr, in.data(),
                             in.data(), routing, shape, false, blocks, rung);
  };
  constexpr int64_t kTooMany = (int64_t{1} << 30) + 1;
  const CombineShape right{2, 1, 2, 2, 2};
  const std::vector<CombineShape> wrong = {{-1, 1, 2, 2, 2},       {2, 0, 2, 2, 2},
                                           {2, 33, 2, 2, 2},       {2, 1, 0, 2, 2},
                                           {2, 1, 2, 0, 2},        {2, 1, 2, 2, 0},
                                           {kTooMany, 1, 2, 2, 2}, {1 << 30, 2, 2, 2, 2},
                                           {2, 1, 2, kTooMany, 2}, {1 << 30, 1, 2, 1 << 30, 1 << 30}};
  for (const CombineShape& shape : wrong) {
    for (int rung = 0; rung < kGroupedCombineRungs; ++rung)
      EXPECT_THROW(call(shape, 1, rung), std::invalid_argument) << rung;
    EXPECT_THROW(kernels::grouped_combine_backward(this->stream(), out.data(), floats.data(), floats.data(), in.data(),
                                                   in.data(), in.data(), routing, shape, 1),
                 std::invalid_argument);
  }
  for (const int rung : {-1, kGroupedCombineRungs}) EXPECT_THROW(call(right, 1, rung), std::invalid_argument);
  for (const int64_t blocks : {int64_t{0}, kTooMany}) EXPECT_THROW(call(right, blocks, 0), std::invalid_argument);
  for (const int rung : {kCombineTwoPassRung, kCombineFloatsRung})
    EXPECT_THROW(call(right, 1, rung, false), std::invalid_argument);
  EXPECT_THROW(call(right, 1, kCombinePairsRung, true, 1), std::invalid_argument);
  try {
    call({2, 1, 2, 2, 3}, 1, kCombinePairsRung);
    FAIL() << "rung 2 took an odd number of columns";
  } catch (const std::invalid_argument& error) {
    EXPECT_STREQ(
        error.what(),
        "grouped_combine: rung 2 adds pairs: it needs an even number of columns, and out at a multiple of 4 bytes");
  }
  EXPECT_TRUE(std::isnan(static_cast<float>(out.host()[0]))) << "something ran";
}

#ifdef TENFOLD_TEST_ON_GPU

// Many experts, a full GPU, and more tiles than blocks.
TYPED_TEST(GroupedCombine, AFullWaveOfBlocks) {
  if (rungs() > 0) {
    std::vector<int> counts(100, 60);
    counts[7] = 2060;
    const Routing routing{"many", 1000, 8, counts};
    const Inputs<TypeParam> in(routing, {256, 1024});
    const int64_t wave = kernels::grouped_gemm_wave<TypeParam>(true);
    for (int rung = 0; rung < kGroupedCombineRungs; ++rung)
      expect_all(this->combined(in, false, wave, rung), in.expected(false, rung),
                 text_of(routing, {256, 1024}, false, rung));
    this->expect_gradients(in, wave, routing.name);
  }
  skip_missing_rungs(rungs(), kGroupedCombineRungs);
}

#endif

#ifdef TENFOLD_COUNTED

class GroupedCombineUnderTheMicroscope : public GroupedCombine<__nv_bfloat16> {
 protected:
  void TestBody() override {}
};

TEST_F(GroupedCombineUnderTheMicroscope, no_rung_has_a_bank_conflict) {
  const Inputs<__nv_bfloat16> in({"even", 128, 2, {128, 128}}, {64, 128});
  for (int rung = 0; rung < kGroupedCombineRungs; ++rung) {
    for (const bool transposed : {false, true}) {
      device_.reset();
      combined(in, transposed, 2, rung);
      EXPECT_EQ(worst_ways(device_.report()), 1) << rung;
    }
  }
  device_.reset();
  expect_gradients(in, 2, "even");
  EXPECT_EQ(worst_ways(device_.report()), 1);
}

#endif

}  // namespace
}  // namespace tenfold::test
