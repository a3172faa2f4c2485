// The hand counts of Hopper's rungs in kernels/flash_attention/README.md: boxes that TMA copies, operands that wgmma
// reads, results, and who waits for whom. Shapes: one that the tiles cover exactly and one with partial tiles.
#include "kernel_device.h"

#ifndef TENFOLD_COUNTED

TEST(HandCountsAttention, AreOfTheMicroscope) {
  GTEST_SKIP() << "nothing counts here: a GPU does not say what it moved, nor does a build with sanitizers";
}

#else

#include <cuda_bf16.h>

#include "kernels/flash_attention/flash_attention.h"

namespace tenfold::test {
namespace {

using kernels::AttentionShape;
using simt::Access;
using simt::Kind;
using simt::Report;
using simt::Space;

class HandCountsAttention : public testing::TestWithParam<std::tuple<int, int64_t> > {  // rung and head_dim
 protected:
  static int rung() { return std::get<0>(GetParam()); }
  static int64_t width() { return std::get<1>(GetParam()); }
  static Report report_of(const AttentionShape& s, int rung) {
    using T = __nv_bfloat16;
    simt::Device device({.reuse = true});
    const int64_t heads = s.batch * s.heads, of_queries = heads * s.queries * s.head_dim,
                  of_keys = heads * s.keys * s.head_dim;
    const auto q = device.buffer<T>("q", of_queries), k = device.buffer<T>("k", of_keys),
               v = device.buffer<T>("v", of_keys), out = device.buffer<T>("out", of_queries);
    const auto logsumexp = device.buffer<float>("logsumexp", heads * s.queries);
    for (const auto& buffer : {q, k, v}) std::fill(buffer.begin(), buffer.end(), T(1.0F));
    kernels::flash_attention<T, simt::Stream>(&device, out.data(), logsumexp.data(), nullptr, q.data(), k.data(),
                                              v.data(), s, rung);
    EXPECT_TRUE(device.report().clean());
    return device.report();
  }
  static AttentionShape square(int64_t n, bool causal = false) { return {1, 2, n, n, width(), causal}; }
  /// The loads of 64 x 16 or 16 x N operands by wgmma, which move so many bytes at once.
  static int64_t wavefronts_of_products(const Report& report) {
    int64_t wavefronts = 0;
    for (const Access& access : report.accesses) {
      if (access.space == Space::shared && access.kind == Kind::load && access.bytes > 16)
        wavefronts += access.wavefronts;
    }
    return wavefronts;
  }
};

// A tile of 128 rows is D / 64 boxes of 16 KiB. A block has one of q, and for each tile of keys one of k and one of v.
TEST_P(HandCountsAttention, Boxes) {
  const int64_t boxes = width() / 64;
  for (const int64_t n : {384, 300}) {
    for (const bool causal : {false, true}) {
      const AttentionShape s = square(n, causal);
      const Report report = report_of(s, rung());
      const int64_t blocks = parts(n, 128), pairs = causal ? blocks * (blocks + 1) / 2 : blocks * blocks;
      const Access q = sum(report, Space::global, Kind::load, "q"), k = sum(report, Space::global, Kind::load, "k"),
                   v = sum(report, Space::global, Kind::load, "v");
      EXPECT_EQ(q.requests, 2 * blocks * boxes) << "of two heads";
      EXPECT_EQ(k.requests, 2 * pairs * boxes);
      EXPECT_EQ(v.requests, 2 * pairs * boxes);
      EXPECT_EQ(q.sectors, 2 * n * width() / 16) << "rows behind the last are not read";
      // With partial tiles, a block that sees the last tile reads fewer rows of it: all blocks, or the last one.
      const int64_t missing = (blocks * 128 - n) * (causal ? 1 : blocks);
      EXPECT_EQ(k.sectors, 2 * (pairs * 128 - missing) * width() / 16);
      EXPECT_EQ(v.sectors, k.sectors);
    }
  }
  const int64_t n = 384;
  EXPECT_EQ(report_of({1, 1, n, n, width(), false}, rung()).sectors() * 32,
            n * n * width() / 32 + 4 * n * width() + 4 * n);
}

// For 64 queries and 128 keys: D / 16 products with q, of 16 + 32 wavefronts, and 8 with v, of D / 4, whose weights lie
// in registers.
TEST_P(HandCountsAttention, Operands) {
  for (const int64_t n : {384, 300}) {
    const Report report = report_of(square(n), rung());
    const int64_t tiles = 2 * 2 * parts(n, 128) * parts(n, 128);  // of two heads and two warpgroups
    EXPECT_EQ(report.matrix_multiplies, tiles * (width() / 16 + 8));
    EXPECT_EQ(report.tensor_flops, tiles * 2 * 2 * 64 * 128 * width());
    EXPECT_EQ(wavefronts_of_products(report), tiles * 5 * width());
    for (const Access& access : report.accesses) {
      if (access.space == Space::shared) EXPECT_EQ(access.worst_ways, 1) << simt::text_of(access.where);
    }
  }
  // Rung 5, for 128 queries and 128 keys: 24 D wavefronts of ldmatrix against 10 D; with D = 64 its queries stay in
  // registers, which leaves 16 D, and are loaded once by each of four warps, in two groups.
  const Report before = report_of(square(384), 5), report = report_of(square(384), rung());
  const int64_t results = sum(report, Space::shared, Kind::load).wavefronts - wavefronts_of_products(report);
  const int64_t pairs = 2 * 3 * 3, queries = width() == 64 ? 2 * 3 * 4 * (width() / 16) * 2 * 4 : 0;
  EXPECT_EQ(wavefronts_of_products(report), pairs * 10 * width());
  EXPECT_EQ(sum(before, Space::shared, Kind::load).wavefronts - results,
            pairs * (width() == 128 ? 24 : 16) * width() + queries);
}

// 16 bytes of the result for each lane: 16 sectors; a float of logsumexp for 8 rows: one.
TEST_P(HandCountsAttention, Results) {
  for (const int64_t n : {384, 300}) {
    const Report report = report_of(square(n), rung());
    EXPECT_EQ(sum(report, Space::global, Kind::store, "out").sectors, 2 * n * width() / 16);
    if (n % 128 != 0) continue;
    EXPECT_EQ(sum(report, Space::global, Kind::store, "out").requests, 2 * n * width() / 256);
    EXPECT_EQ(sum(report, Space::global, Kind::store, "logsumexp").sectors, 2 * n / 8);
  }
}

// Eight warps wait for the queries and for two tiles of each step, one for each place to be free; from rung 7 on each
// of eight warps waits for its turn once a step and once more; and each waits for its group once before it stores.
TEST_P(HandCountsAttention, Waits) {
  const Report report = report_of({1, 1, 128, 640, width(), false}, rung());
  constexpr int64_t kSteps = 5;
  int64_t waits = 0, arrivals = 0, turns = 0, passes = 0;
  for (const simt::Operation& operation : report.kernels.at(0).operations) {
    waits += operation.name == "mbarrier wait" ? operation.count : 0;
    arrivals += operation.name == "mbarrier arrival" ? operation.count : 0;
    turns += operation.name == "named barrier wait" ? operation.count : 0;
    passes += operation.name == "named barrier arrival" ? operation.count : 0;
  }
  EXPECT_EQ(waits, 8 * (1 + 2 * kSteps) + 2 * kSteps);
  const int64_t released = rung() == 8 ? 2 * kSteps - 1 : 2 * kSteps;  // nobody waits for the last place
  EXPECT_EQ(arrivals, 1 + 2 * kSteps + 8 * released);
  EXPECT_EQ(passes, rung() == 6 ? 0 : 8 * (kSteps + 1));
  EXPECT_EQ(turns, passes + 8);
}

INSTANTIATE_TEST_SUITE_P(Rungs, HandCountsAttention,
                         testing::Combine(testing::Range(kernels::kFlashAttentionRungs<__nv_bfloat16>,
                                                         kernels::kFlashAttentionAllRungs<__nv_bfloat16>),
                                          testing::Values<int64_t>(64, 128)));

}  // namespace
}  // namespace tenfold::test

#endif
