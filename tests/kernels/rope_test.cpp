// Rotary position embedding, forward and backward, against float64, for float, half and bfloat16.
#include "kernels/rope/rope.h"

#include <stdexcept>

#include "kernels/rope/rope_reference.h"
#include "row_kernel.h"

namespace tenfold::test {
namespace {

using kernels::kRopeRungs;
using kernels::Rotation;

struct RopeShape {
  int64_t tokens, heads, head_dim, positions;
};
// Among them heads of one pair, of more pairs than rung 0 does at a time, and batches that use a table several times.
const RopeShape kShapes[] = {{1, 1, 2, 1},     {5, 3, 6, 5},    {7, 2, 64, 7},  {3, 5, 128, 3},
                             {6, 1, 10, 3},    {9, 2, 24, 4},   {2, 3, 256, 2}, {130, 1, 4, 50},
                             {3, 1, 1000, 16}, {17, 4, 16, 17}, {2, 7, 202, 1}, {33, 2, 80, 11}};

std::string text_of(const RopeShape& s, int rung) {
  return "(" + std::to_string(s.tokens) + ", " + std::to_string(s.heads) + ", " + std::to_string(s.head_dim) + "), " +
         std::to_string(s.positions) + " positions, rung " + std::to_string(rung);
}

template <class T>
class Rope : public KernelTest {
 protected:
  /// Rotated values; `skip` values lie before them and must stay what they are.
  std::vector<T> rotated(const std::vector<T>& from, const kernels::RopeTables& tables, const RopeShape& s,
                         Rotation rotation, int rung, int64_t skip = 0) {
    std::vector<T> shifted(from);
    shifted.insert(shifted.begin(), static_cast<size_t>(skip), from[0]);
    const auto values = this->copied(shifted, "values");
    const auto cosines = this->copied(tables.cosines, "cosines"), sines = this->copied(tables.sines, "sines");
    kernels::rope(this->stream(), values.data() + skip, cosines.data(), sines.data(), s.tokens, s.heads, s.head_dim,
                  s.positions, rotation, rung);
    this->expect_clean();
    auto result = values.host();
    for (int64_t i = 0; i < skip; ++i)
      EXPECT_EQ(static_cast<float>(result[static_cast<size_t>(i)]), static_cast<float>(from[0]));
    result.erase(result.begin(), result.begin() + skip);
    return result;
  }
  void expect_rotated(const RopeShape& s, Rotation rotation, int rung, int64_t skip = 0) {
    const Values<T> values(normal_values(s.tokens * s.heads * s.head_dim, 180));
    const kernels::RopeTables tables(s.positions, s.head_dim);
    const auto expected = kernels::rope_reference(values.wide, tables, s.tokens, s.heads, s.head_dim, s.positions,
                                                  rotation, rounding_of<T>());
    expect_all(rotated(values.given, tables, s, rotation, rung, skip), expected, text_of(s, rung));
  }
};
TYPED_TEST_SUITE(Rope, RowTypes);

TYPED_TEST(Rope, EveryRungMatchesFloat64) {
  for (int rung = 0; rung < kRopeRungs; ++rung) {
    for (const auto& shape : kShapes) {
      this->expect_rotated(shape, Rotation::forward, rung);
      this->expect_rotated(shape, Rotation::backward, rung);
    }
    this->expect_rotated({5, 3, 64, 5}, Rotation::forward, rung, /*skip=*/1);  // values that begin between packets
  }
}

using RopeOfFloat = Rope<float>;

TEST_F(RopeOfFloat, BackwardUndoesForward) {
  const RopeShape s{40, 2, 32, 40};
  const auto values = normal_values(s.tokens * s.heads * s.head_dim, 182);
  const kernels::RopeTables tables(s.positions, s.head_dim);
  for (int rung = 0; rung < kRopeRungs; ++rung) {
    const auto back = rotated(rotated(values, tables, s, Rotation::forward, rung), tables, s, Rotation::backward, rung);
    for (size_t i = 0; i < values.size(); ++i)
      ASSERT_NEAR(back[i], values[i], 2e-6) << "rung " << rung << ", element " << i;
  }
}

TEST_F(RopeOfFloat,
       ScoresDependOnTheDistanceOnly) {  // what the technique is for: <q at 3, k at 7> = <q at 20, k at 24>
  const int64_t head_dim = 64, positions = 32;
  const auto q = normal_values(head_dim, 183), k = normal_values(head_dim, 184);
  const kernels::RopeTables tables(positions, head_dim);
  std::vector<float> queries, keys;
  for (int64_t p = 0; p < positions; ++p) {
    queries.insert(queries.end(), q.begin(), q.end());
    keys.insert(keys.end(), k.begin(), k.end());
  }
  const RopeShape s{positions, 1, head_dim, positions};
  const auto rotated_queries = widened(rotated(queries, tables, s, Rotation::forward, 2));
  const auto rotated_keys = widened(rotated(keys, tables, s, Rotation::forward, 2));
  const auto score = [&](int64_t i, int64_t j) {
    double sum = 0;
    for (int64_t c = 0; c < head_dim; ++c) {
      sum +=
          rotated_queries[static_cast<size_t>(i * head_dim + c)] * rotated_keys[static_cast<size_t>(j * head_dim + c)];
    }
    return sum;
  };
  EXPECT_NEAR(score(3, 7), score(20, 24), 1e-4);
  EXPECT_NEAR(score(0, 0), score(31, 31), 1e-4);
  EXPECT_GT(std::abs(score(3, 7) - score(3, 8)), 1e-2);
}

TEST_F(RopeOfFloat, AQuarterTurnSwapsThePair) {  // cos 0, sin 1: (a, b) becomes (-b, a), with b half a head away
  kernels::RopeTables tables(1, 4);
  tables.cosines = {0, 0};
  tables.sines = {1, 1};
  for (int rung = 0; rung < kRopeRungs; ++rung) {
    EXPECT_EQ(rotated({1, 2, 3, 4}, tables, {1, 1, 4, 1}, Rotation::forward, rung), (std::vector<float>{-3, -4, 1, 2}))
        << "rung " << rung;
    EXPECT_EQ(rotated({1, 2, 3, 4}, tables, {1, 1, 4, 1}, Rotation::backward, rung), (std::vector<float>{3, 4, -1, -2}))
        << "rung " << rung;
  }
}

TEST(RopeReference, BackwardIsTheSlopeOfForward) {
  const int64_t tokens = 3, heads = 2, head_dim = 6;
  const auto in = widened(normal_values(tokens * heads * head_dim, 185)),
             g = widened(normal_values(tokens * heads * head_dim, 186));
  const kernels::RopeTables tables(tokens, head_dim);
  const auto run = [&](const std::vector<double>& x, Rotation rotation) {
    return kernels::rope_reference(x, tables, tokens, heads, head_dim, tokens, rotation, kernels::kFloatRounding)
        .values;
  };
  const auto gradients = run(g, Rotation::backward);
  for (size_t i = 0; i < in.size(); ++i) {
    EXPECT_NEAR(gradients[i],
                slope_of([&](const std::vector<double>& x) { return dot(g, run(x, Rotation::forward)); }, in, i), 1e-8);
  }
}

TEST_F(RopeOfFloat, RefusesWhatCannotBe) {
  const auto x = poisoned<float>(8);
  const auto call = [&](int64_t tokens, int64_t heads, int64_t head_dim, int64_t positions, int rung) {
    kernels::rope(stream(), x.data(), x.data() + 4, x.data() + 6, tokens, heads, head_dim, positions, Rotation::forward,
                  rung);
  };
  EXPECT_THROW(call(0, 1, 2, 1, 0), std::invalid_argument);
  EXPECT_THROW(call(1, 0, 2, 1, 0), std::invalid_argument);
  EXPECT_THROW(call(1, 1, 0, 1, 0), std::invalid_argument);
  EXPECT_THROW(call(1, 1, 3, 1, 0), std::invalid_argument);
  EXPECT_THROW(call(1, 1, 2, 0, 0), std::invalid_argument);
  EXPECT_THROW(call(int64_t{1} << 20, 1 << 11, 2, 1, 0), std::invalid_argument);
  EXPECT_THROW(call(1, 1, 2, 1, -1), std::invalid_argument);
  EXPECT_THROW(call(1, 1, 2, 1, kRopeRungs), std::invalid_argument);
}

#ifdef TENFOLD_COUNTED

TEST_F(RopeOfFloat, EachRungAsksForLess) {
  const int64_t tokens = 8, heads = 4, head_dim = 128, bytes = tokens * heads * head_dim * 4,
                table_bytes = tokens * head_dim / 2 * 4;
  const kernels::RopeTables tables(tokens, head_dim);
  const auto values = copied(normal_values(tokens * heads * head_dim, 187), "values");
  const auto cosines = copied(tables.cosines, "cosines"), sines = copied(tables.sines, "sines");
  const int64_t reads[] = {2 * bytes, bytes, bytes},
                table_reads[] = {2 * heads * table_bytes, table_bytes, table_bytes};
  const int64_t barriers[] = {tokens * heads, 0, 0};
  for (int rung = 0; rung < kRopeRungs; ++rung) {
    device_.reset();
    kernels::rope(stream(), values.data(), cosines.data(), sines.data(), tokens, heads, head_dim, tokens,
                  Rotation::forward, rung);
    const auto report = device_.report();
    EXPECT_EQ(bytes_asked(report, simt::Kind::load, "values"), reads[rung]) << "rung " << rung;
    EXPECT_EQ(bytes_asked(report, simt::Kind::store, "values"), bytes) << "rung " << rung;
    EXPECT_EQ(bytes_asked(report, simt::Kind::load, "cosines"), table_reads[rung]) << "rung " << rung;
    EXPECT_EQ(bytes_asked(report, simt::Kind::load, "sines"), table_reads[rung]) << "rung " << rung;
    EXPECT_EQ(widest(report, simt::Kind::load, "values").bytes, rung == 2 ? 16 : 4) << "rung " << rung;
    EXPECT_EQ(widest(report, simt::Kind::store, "values").sectors_per_request, rung == 2 ? 16 : 4) << "rung " << rung;
    EXPECT_EQ(report.barriers, barriers[rung]) << "rung " << rung;
  }
}

#endif

}  // namespace
}  // namespace tenfold::test
