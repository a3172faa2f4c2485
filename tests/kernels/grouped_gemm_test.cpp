// A mixture of experts' products: every rung against float64 over routings that leave experts without rows, the same
// bits from each, and, under the microscope, what each rung no longer does.
#include "kernels/grouped_gemm/grouped_gemm.h"

#include <limits>

#include "kernels/grouped_gemm/grouped_gemm_makespan.h"
#include "kernels/grouped_gemm/grouped_gemm_reference.h"
#include "row_kernel.h"
#include "rungs.h"

namespace tenfold::test {
namespace {

using kernels::grouped_gemm;
using kernels::GroupedShape;
using kernels::kGroupedDeviceRung;
using kernels::kGroupedGatherRung;
using kernels::kGroupedGemmRungs;
using kernels::kGroupedPersistentRung;

struct Routing {
  std::string name;
  std::vector<int> counts;
  int64_t unused = 0;  ///< rows behind the last expert's

  std::vector<int> offsets() const {
    std::vector<int> sums{0};
    for (const int count : counts) sums.push_back(sums.back() + count);
    return sums;
  }
};

/// Experts in all of a warp's lanes and in more than 32; none but one of them with rows; the first and the last
/// without.
std::vector<int> at(size_t experts, std::initializer_list<std::pair<size_t, int>> rows) {
  std::vector<int> counts(experts);
  for (const auto& [expert, count] : rows) counts[expert] = count;
  return counts;
}
std::vector<Routing> routings() {
  return {{"one row", {1}},
          {"even", {64, 64, 64, 64}},
          {"whole tiles", {128, 256}},
          {"skewed", {1, 259, 7, 0, 40}},
          {"one more and one less", {127, 129, 128}},
          {"first and last empty", at(5, {{1, 3}, {3, 130}})},
          {"all to one", at(3, {{1, 257}})},
          {"behind 32 empty ones", at(67, {{33, 5}, {66, 3}})},
          {"33 experts", std::vector<int>(33, 1)},
          {"no row", at(3, {})},
          {"fewer rows than the bound", {10, 0, 20}, 150}};
}

struct Size {
  int64_t depth, columns;
};
/// Packets, and a partial tile of columns.
constexpr Size kPackets{40, 136};
/// One value; primes; more iterations than stages, and fewer columns than a warp has.
constexpr Size kOtherSizes[] = {{1, 1}, {37, 131}, {200, 8}};

/// Row t is token 7919 t modulo half as many: all there, and repeated. What lies behind the last expert's must not be
/// read, and is no row.
std::vector<int> row_of(int64_t rows, int64_t tokens, int64_t bound) {
  std::vector<int> source(static_cast<size_t>(bound), std::numeric_limits<int>::max());
  for (int64_t row = 0; row < rows; ++row) source[static_cast<size_t>(row)] = static_cast<int>(row * 7919 % tokens);
  return source;
}

template <class T>
struct Inputs {
  Inputs(const Routing& routing, Size size, bool gathered)
      : offsets(routing.offsets()),
        shape{.rows = offsets.back() + routing.unused,
              .experts = static_cast<int64_t>(routing.counts.size()),
              .depth = size.depth,
              .columns = size.columns},
        tokens(std::max<int64_t>(1, gathered ? (offsets.back() + 1) / 2 : offsets.back())),
        source(gathered ? row_of(offsets.back(), tokens, std::max<int64_t>(1, shape.rows)) : std::vector<int>()),
        x(normal_values(tokens * size.depth, 1)),
        weights(normal_values(shape.experts * size.depth * size.columns, 2)) {}
  std::vector<int> offsets;
  GroupedShape shape;
  int64_t tokens;
  std::vector<int> source;  ///< empty: rows lie in their order
  Values<T> x, weights;

  kernels::Expected expected() const {
    return kernels::grouped_gemm_reference(x.wide, source, weights.wide, offsets, shape.depth, shape.columns,
                                           rounding_of<T>());
  }
};

template <class T>
class GroupedGemm : public KernelTest {
 protected:
  std::vector<T> product_of(const Inputs<T>& in, int64_t blocks, int rung) {
    const auto x = this->copied(in.x.given, "x"), weights = this->copied(in.weights.given, "weights");
    const auto offsets = this->copied(in.offsets, "offsets");
    const auto source = this->copied(in.source.empty() ? std::vector<int>(1) : in.source, "row_of");
    const auto out = this->template poisoned<T>(std::max<int64_t>(1, in.shape.rows * in.shape.columns), "out");
    const auto workspace = this->template poisoned<T>(
        std::max<int64_t>(1, kernels::grouped_gemm_workspace(in.shape, kernels::largest_expert(in.offsets),
                                                             !in.source.empty(), rung)),
        "workspace");
    grouped_gemm(this->stream(), out.data(), workspace.data(), x.data(), in.source.empty() ? nullptr : source.data(),
                 weights.data(), offsets.data(), rung < kGroupedDeviceRung ? in.offsets.data() : nullptr, in.shape,
                 blocks, rung);
    this->expect_clean();
    std::vector<T> results = out.host();
    const auto end = static_cast<size_t>(in.offsets.back() * in.shape.columns);
    for (size_t i = end; i < results.size(); ++i) {
      EXPECT_TRUE(std::isnan(static_cast<float>(results[i]))) << "behind the last expert's rows";
    }
    results.resize(end);
    return results;
  }
};
using GroupedGemmTypes = testing::Types<__half, __nv_bfloat16>;
TYPED_TEST_SUITE(GroupedGemm, GroupedGemmTypes);

std::string text_of(const Routing& routing, Size size, int64_t blocks, int rung) {
  return routing.name + ", " + std::to_string(size.depth) + " x " + std::to_string(size.columns) + ", " +
         std::to_string(blocks) + " blocks, rung " + std::to_string(rung);
}

TYPED_TEST(GroupedGemm, EveryRungMatchesFloat64) {
  for (const Routing& routing : routings()) {
    const Inputs<TypeParam> in(routing, kPackets, true);
    const auto expected = in.expected();
    for (int rung = 0; rung < grouped_gemm_rungs(); ++rung)
      expect_all(this->product_of(in, 3, rung), expected, text_of(routing, kPackets, 3, rung));
  }
  skip_missing_rungs(grouped_gemm_rungs(), kGroupedGemmRungs);
}

TYPED_TEST(GroupedGemm, EveryRungTakesEverySize) {
  const Routing routing{"skewed", {1, 130, 0, 7}};
  for (const Size size : kOtherSizes) {
    const Inputs<TypeParam> in(routing, size, true);
    const auto expected = in.expected();
    for (int rung = 0; rung < grouped_gemm_rungs(); ++rung)
      expect_all(this->product_of(in, 2, rung), expected, text_of(routing, size, 2, rung));
  }
  skip_missing_rungs(grouped_gemm_rungs(), kGroupedGemmRungs);
}

// As for the second product of an expert, whose rows are the first one's results.
TYPED_TEST(GroupedGemm, TakesRowsThatLieInTheirOrder) {
  for (const Routing& routing : {Routing{"skewed", {1, 130, 0, 7}}, Routing{"a bound", {10, 0, 20}, 150}}) {
    const Inputs<TypeParam> in(routing, kPackets, false);
    const auto expected = in.expected();
    for (int rung = 0; rung < grouped_gemm_rungs(); ++rung)
      expect_all(this->product_of(in, 3, rung), expected, text_of(routing, kPackets, 3, rung));
  }
  skip_missing_rungs(grouped_gemm_rungs(), kGroupedGemmRungs);
}

// One walks over all tiles; some over a part each; more than there are tiles, of which some do nothing.
TYPED_TEST(GroupedGemm, AnyNumberOfBlocksGivesTheSameBits) {
  const Routing routing{"skewed", {1, 259, 0, 7, 40}};
  if (grouped_gemm_rungs() == kGroupedGemmRungs) {
    const Inputs<TypeParam> in(routing, kPackets, true);
    const auto first = this->product_of(in, 1, 0);
    for (int rung = 1; rung < kGroupedGemmRungs; ++rung) {
      for (const int64_t blocks : {1, 2, 5, 40}) {
        const auto product = this->product_of(in, blocks, rung);
        EXPECT_EQ(widened(product), widened(first)) << text_of(routing, kPackets, blocks, rung);
        if (rung < kGroupedPersistentRung) break;  // does not look at them
      }
    }
  }
  skip_missing_rungs(grouped_gemm_rungs(), kGroupedGemmRungs);
}

// An expert without rows has a gradient of zeros, which nobody else stores; the last iteration of an expert must not
// take the next one's rows, nor may what lies behind the last one's be read.
TYPED_TEST(GroupedGemm, TheWeightsGradientMatchesFloat64) {
  if (grouped_gemm_rungs() == kGroupedGemmRungs) {
    for (const bool gathered : {true, false}) {
      for (const Size size : {kPackets, Size{37, 131}, Size{136, 40}}) {
        for (const Routing& routing : {Routing{"skewed", {1, 0, 259, 32, 33}}, Routing{"no row", {0, 0}},
                                       Routing{"a bound", {10, 0, 20, 0}, 50}}) {
          const Inputs<TypeParam> in(routing, size, gathered);
          std::vector<float> values = normal_values(std::max<int64_t>(1, in.shape.rows) * size.columns, 3);
          std::fill(values.begin() + in.offsets.back() * size.columns, values.end(), NAN);
          const Values<TypeParam> dout(values);
          const auto x = this->copied(in.x.given, "x"), gradients = this->copied(dout.given, "dout");
          const auto offsets = this->copied(in.offsets, "offsets");
          const auto source = this->copied(gathered ? in.source : std::vector<int>(1), "row_of");
          const auto dweights =
              this->template poisoned<TypeParam>(in.shape.experts * size.depth * size.columns, "dweights");
          kernels::grouped_gemm_weights(this->stream(), dweights.data(), x.data(), gathered ? source.data() : nullptr,
                                        gradients.data(), offsets.data(), in.shape);
          this->expect_clean();
          expect_all(dweights.host(),
                     kernels::grouped_gemm_weights_reference(in.x.wide, in.source, dout.wide, in.offsets, size.depth,
                                                             size.columns, rounding_of<TypeParam>()),
                     text_of(routing, size, 0, 0));
        }
      }
    }
  }
  skip_missing_rungs(grouped_gemm_rungs(), kGroupedGemmRungs);
}

// Views into larger tensors begin anywhere: packets must give way.
TYPED_TEST(GroupedGemm, TakesPointersThatAreNotAligned) {
  const Routing routing{"skewed", {3, 0, 130}};
  const Inputs<TypeParam> in(routing, kPackets, true);
  const auto expected = in.expected();
  for (int rung = 0; rung < grouped_gemm_rungs(); ++rung) {
    for (int shifted = 0; shifted < 4; ++shifted) {
      const int64_t x_shift = shifted == 0, weights_shift = shifted == 1, out_shift = shifted == 2,
                    workspace_shift = shifted == 3;
      const auto behind = [](const std::vector<TypeParam>& values, int64_t shift) {
        std::vector<TypeParam> moved(static_cast<size_t>(shift), TypeParam(0.0F));
        moved.insert(moved.end(), values.begin(), values.end());
        return moved;
      };
      const auto x = this->copied(behind(in.x.given, x_shift), "x"),
                 weights = this->copied(behind(in.weights.given, weights_shift), "weights");
      const auto offsets = this->copied(in.offsets, "offsets"), source = this->copied(in.source, "row_of");
      const int64_t values = in.shape.rows * in.shape.columns;
      const auto out = this->template poisoned<TypeParam>(out_shift + values, "out");
      const auto workspace = this->template poisoned<TypeParam>(
          workspace_shift + 1 + kernels::grouped_gemm_workspace(in.shape, 130, true, rung), "workspace");
      grouped_gemm(this->stream(), out.data() + out_shift, workspace.data() + workspace_shift, x.data() + x_shift,
                   source.data(), weights.data() + weights_shift, offsets.data(), in.offsets.data(), in.shape, 2, rung);
      this->expect_clean();
      const std::vector<TypeParam> host = out.host();
      expect_all(std::vector<TypeParam>(host.begin() + out_shift, host.end()), expected,
                 "rung " + std::to_string(rung) + ", shifted: " + "xwoW"[shifted]);
      if (out_shift > 0) {
        EXPECT_TRUE(std::isnan(static_cast<float>(host[0]))) << "before out";
      }
    }
  }
  skip_missing_rungs(grouped_gemm_rungs(), kGroupedGemmRungs);
}

TYPED_TEST(GroupedGemm, WhatCannotBeIsRefused) {
  const auto out = this->template poisoned<TypeParam>(64, "out");
  const auto in = this->template poisoned<TypeParam>(64, "in");
  const auto offsets = this->copied(std::vector<int>{0, 1, 2}, "offsets");
  const std::vector<int> routing{0, 1, 2};
  const auto call = [&](GroupedShape shape, int64_t blocks, int rung, const int* on_host, bool workspace) {
    grouped_gemm(this->stream(), out.data(), workspace ? out.data() + 32 : nullptr, in.data(), offsets.data(),
                 in.data(), offsets.data(), on_host, shape, blocks, rung);
  };
  const auto refused = [&](GroupedShape shape, int64_t blocks, int rung) {
    EXPECT_THROW(call(shape, blocks, rung, routing.data(), true), std::invalid_argument) << rung;
  };
  constexpr int64_t kTooMany = (int64_t{1} << 30) + 1;
  for (int rung = 0; rung < kGroupedGemmRungs; ++rung) {
    refused({-1, 2, 1, 1}, 1, rung);
    refused({2, 0, 1, 1}, 1, rung);
    refused({2, 2, 0, 1}, 1, rung);
    refused({2, 2, 1, 0}, 1, rung);
    refused({2, 2, kTooMany, 1}, 1, rung);
    refused({int64_t{1} << 30, 2, 1, int64_t{1} << 30}, 1, rung);  // 2^46 tiles
    if (rung >= kGroupedPersistentRung) {
      refused({2, 2, 1, 1}, 0, rung);
      refused({2, 2, 1, 1}, kTooMany, rung);
    }
    if (rung < kGroupedGatherRung) {
      EXPECT_THROW(call({2, 2, 1, 1}, 1, rung, routing.data(), false), std::invalid_argument) << rung;
    }
  }
  refused({2, 2, 1, 1}, 1, -1);
  refused({2, 2, 1, 1}, 1, kGroupedGemmRungs);
  for (int rung = 0; rung < kGroupedDeviceRung; ++rung) {
    EXPECT_THROW(call({2, 2, 1, 1}, 1, rung, nullptr, true), std::invalid_argument) << rung;
    for (const std::vector<int>& wrong : {std::vector{0, 2, 1}, std::vector{1, 1, 2}, std::vector{0, 1, 3}})
      EXPECT_THROW(call({2, 2, 1, 1}, 1, rung, wrong.data(), true), std::invalid_argument) << rung;
  }
  try {
    call({2, 2, 1, 1}, 1, 1, nullptr, true);
    FAIL() << "rung 1 ran without the offsets on the host";
  } catch (const std::invalid_argument& error) {
    EXPECT_STREQ(error.what(), "grouped_gemm: rung 1 needs the offsets on the host");
  }
  for (const GroupedShape shape : {GroupedShape{-1, 2, 1, 1}, GroupedShape{2, 0, 1, 1}, GroupedShape{2, 2, 0, 1},
                                   GroupedShape{2, 2, 1, kTooMany}, GroupedShape{2, 1 << 20, 1 << 20, 1 << 20}}) {
    EXPECT_THROW(kernels::grouped_gemm_weights(this->stream(), out.data(), in.data(), offsets.data(), in.data(),
                                               offsets.data(), shape),
                 std::invalid_argument);
  }
  EXPECT_TRUE(std::isnan(static_cast<float>(out.host()[0]))) << "something ran";
}

#ifdef TENFOLD_TEST_ON_GPU

// Many experts, a full GPU, and more tiles than blocks.
TYPED_TEST(GroupedGemm, AFullWaveOfBlocks) {
  if (grouped_gemm_rungs() == kGroupedGemmRungs) {
    Routing routing{"many", std::vector<int>(100, 60)};
    routing.counts[7] = 3000;
    const Inputs<TypeParam> in(routing, {256, 1024}, true);
    const auto expected = in.expected();
    const int64_t wave = kernels::grouped_gemm_wave<TypeParam>(true);
    for (int rung = 0; rung < kGroupedGemmRungs; ++rung)
      expect_all(this->product_of(in, wave, rung), expected, text_of(routing, {256, 1024}, wave, rung));
  }
  skip_missing_rungs(grouped_gemm_rungs(), kGroupedGemmRungs);
}

#endif

#ifdef TENFOLD_COUNTED

using simt::Kind;
using simt::Report;
using simt::Space;

class GroupedGemmUnderTheMicroscope : public GroupedGemm<__nv_bfloat16> {
 protected:
  Report report_of(const Routing& routing, Size size, int64_t blocks, int rung) {
    device_.reset();
    product_of(Inputs<__nv_bfloat16>(routing, size, true), blocks, rung);
    return device_.report();
  }
  void TestBody() override {}
};

// An mma.sync multiplies 16 rows by 8 columns, 16 deep.
TEST_F(GroupedGemmUnderTheMicroscope, multiplies_the_rows_of_the_schedule) {
  constexpr Size kSize{64, 256};
  const Routing routing{"skewed", {5, 0, 200, 64, 65}};
  for (int rung = 0; rung < kGroupedGemmRungs; ++rung) {
    const int64_t rows = kernels::multiplied_rows(routing.offsets(), rung);
    EXPECT_EQ(report_of(routing, kSize, 3, rung).matrix_multiplies, rows / 16 * kSize.columns / 8 * kSize.depth / 16)
        << rung;
  }
}

TEST_F(GroupedGemmUnderTheMicroscope, launches_are_one_for_each_expert_with_rows_or_one_for_all) {
  const Routing routing{"skewed", {5, 0, 200, 64, 0}};
  const int64_t launches[] = {3, 1 + 3, 2, 2, 1, 1};  // with the copies before and after
  for (int rung = 0; rung < kGroupedGemmRungs; ++rung)
    EXPECT_EQ(report_of(routing, {32, 128}, 2, rung).launches, launches[rung]) << rung;
}

TEST_F(GroupedGemmUnderTheMicroscope, gathered_rows_move_no_more_sectors_than_neighbours) {
  constexpr Size kSize{96, 256};
  const Routing routing{"skewed", {5, 0, 200, 64, 65}};
  const auto of_workspace =
                 sum(report_of(routing, kSize, 3, kGroupedPersistentRung), Space::global, Kind::load, "workspace"),
             of_x = sum(report_of(routing, kSize, 3, kGroupedGatherRung), Space::global, Kind::load, "x");
  EXPECT_EQ(of_x.sectors, of_workspace.sectors);
  EXPECT_EQ(of_x.requests, of_workspace.requests);
}

TEST_F(GroupedGemmUnderTheMicroscope, no_rung_has_a_bank_conflict) {
  for (int rung = 0; rung < kGroupedGemmRungs; ++rung)
    EXPECT_EQ(worst_ways(report_of({"even", {128, 128}}, {64, 128}, 2, rung)), 1) << rung;
  device_.reset();
  const auto x = poisoned<__nv_bfloat16>(64 * 128, "x"), out = poisoned<__nv_bfloat16>(128 * 128, "out");
  const auto offsets = copied(std::vector<int>{0, 64}, "offsets");
  kernels::grouped_gemm_weights(stream(), out.data(), x.data(), nullptr, x.data(), offsets.data(), {64, 1, 128, 128});
  EXPECT_EQ(worst_ways(device_.report()), 1);
}

#endif

}  // namespace
}  // namespace tenfold::test
