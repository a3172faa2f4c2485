// pack and unpack against a plain copy, for three types and both types of offsets, with empty sequences and wrong
// offsets.
#include "kernels/pack/pack.h"

#include <limits>
#include <stdexcept>

#include "kernels/pack/pack_reference.h"
#include "row_kernel.h"

namespace tenfold::test {
namespace {

using kernels::beginnings;
using kernels::kPackRungs;
using Lengths = std::vector<int64_t>;

struct Batch {
  Lengths lengths;
  int64_t length, width;
  int64_t padded() const { return static_cast<int64_t>(lengths.size()) * length * width; }
  int64_t total() const { return beginnings(lengths).back(); }
};

// One sequence, all full, all empty, empty ones first, last and side by side; widths that 16 bytes divide and do not.
const std::vector<Batch> kBatches = {
    {{1}, 1, 1},           {{0}, 1, 1},
    {{5}, 7, 123},         {{3, 3, 3}, 3, 64},
    {{0, 0, 0}, 4, 8},     {{0, 0, 3, 0, 2, 0, 0}, 3, 1000},
    {{1, 0, 6, 2}, 6, 13}, {{4, 1, 5, 0, 0, 2, 5, 3, 1, 4, 2}, 5, 24},
};

std::string text_of(const Batch& batch, int rung) {
  std::string text;
  for (const int64_t length : batch.lengths) text += std::to_string(length) + " ";
  return "lengths " + text + "of " + std::to_string(batch.length) + ", width " + std::to_string(batch.width) +
         ", rung " + std::to_string(rung);
}

/// T of the rows and Offset of cu_seqlens.
template <class Row, class Index>
struct Types {
  using T = Row;
  using Offset = Index;
};
using PackTypes = testing::Types<Types<float, int32_t>, Types<float, int64_t>, Types<__half, int32_t>,
                                 Types<__half, int64_t>, Types<__nv_bfloat16, int32_t>, Types<__nv_bfloat16, int64_t>>;

template <class TypePair>
class Pack : public KernelTest {
 protected:
  using T = typename TypePair::T;
  using Offset = typename TypePair::Offset;

  static std::vector<Offset> offsets(const std::vector<int64_t>& begin) { return {begin.begin(), begin.end()}; }

  /// The rows after `skip` values that are not theirs, which must stay NaN.
  static std::vector<T> without(std::vector<T> values, int64_t skip) {
    for (int64_t i = 0; i < skip; ++i) EXPECT_TRUE(std::isnan(static_cast<float>(values[static_cast<size_t>(i)])));
    return {values.begin() + skip, values.end()};
  }
  std::vector<T> packed(const std::vector<T>& padded, const std::vector<int64_t>& begin, const Batch& b, int64_t total,
                        int rung, int64_t skip = 0) {
    auto shifted = padded;
    shifted.insert(shifted.begin(), static_cast<size_t>(skip), padded[0]);
    const auto in = this->copied(shifted, "padded"), out = this->template poisoned<T>(skip + total * b.width, "packed");
    const auto cu_seqlens = this->copied(offsets(begin), "cu_seqlens");
    kernels::pack(this->stream(), out.data() + skip, in.data() + skip, cu_seqlens.data(),
                  static_cast<int64_t>(begin.size()) - 1, b.length, b.width, total, rung);
    this->expect_clean();
    return without(out.host(), skip);
  }
  std::vector<T> unpacked(const std::vector<T>& packed, const std::vector<int64_t>& begin, const Batch& b,
                          int64_t total, float padding, int rung, int64_t skip = 0) {
    auto shifted = packed;
    shifted.insert(shifted.begin(), static_cast<size_t>(skip), rounded<T>({1.0F})[0]);
    const auto in = this->copied(shifted, "packed"), out = this->template poisoned<T>(skip + b.padded(), "padded");
    const auto cu_seqlens = this->copied(offsets(begin), "cu_seqlens");
    kernels::unpack(this->stream(), out.data() + skip, in.data() + skip, cu_seqlens.data(),
                    static_cast<int64_t>(begin.size()) - 1, b.length, b.width, total, padding, rung);
    this->expect_clean();
    return without(out.host(), skip);
  }
};
TYPED_TEST_SUITE(Pack, PackTypes);

TYPED_TEST(Pack, EveryRungMovesEveryRow) {
  using T = typename TypeParam::T;
  for (int rung = 0; rung < kPackRungs; ++rung) {
    for (const Batch& b : kBatches) {
      const auto begin = beginnings(b.lengths);
      const Values<T> padded(normal_values(b.padded(), 210));
      if (b.total() > 0) {
        const auto expected = kernels::pack_reference(padded.wide, b.lengths, b.length, b.width);
        expect_all(this->packed(padded.given, begin, b, b.total(), rung), expected, text_of(b, rung));
        expect_all(this->packed(padded.given, begin, b, b.total(), rung, 1), expected,
                   text_of(b, rung) + ", between packets");
      }
      const Values<T> rows(normal_values(std::max<int64_t>(b.total() * b.width, 1), 211));
      for (const float padding : {0.0F, -2.5F}) {
        const auto expected = kernels::unpack_reference(rows.wide, b.lengths, b.length, b.width, padding);
        expect_all(this->unpacked(rows.given, begin, b, b.total(), padding, rung), expected, text_of(b, rung));
        expect_all(this->unpacked(rows.given, begin, b, b.total(), padding, rung, 1), expected,
                   text_of(b, rung) + ", between packets");
      }
    }
  }
}

TYPED_TEST(Pack, UnpackIsPacksGradient) {  // sum(g * pack(x)) = sum(unpack(g) * x), in numbers that add exactly
  using T = typename TypeParam::T;
  const Batch b{{2, 0, 3, 1}, 3, 8};
  std::vector<float> x, g;
  for (int64_t i = 0; i < b.padded(); ++i) x.push_back(static_cast<float>(i % 17 - 8));
  for (int64_t i = 0; i < b.total() * b.width; ++i) g.push_back(static_cast<float>(i % 13 - 6));
  const Values<T> padded(x), gradient(g);
  for (int rung = 0; rung < kPackRungs; ++rung) {
    const auto begin = beginnings(b.lengths);
    const auto forward = widened(this->packed(padded.given, begin, b, b.total(), rung));
    const auto backward = widened(this->unpacked(gradient.given, begin, b, b.total(), 0, rung));
    EXPECT_EQ(dot(gradient.wide, forward), dot(backward, padded.wide)) << "rung " << rung;
    EXPECT_NE(dot(backward, padded.wide), 0);
  }
}

TYPED_TEST(Pack, WrongOffsetsTouchNothingElse) {
  using T = typename TypeParam::T;
  const int64_t largest = std::numeric_limits<typename TypeParam::Offset>::max();
  const Batch b{{2, 3, 1}, 3, 5};
  const Values<T> padded(normal_values(b.padded(), 212)), rows(normal_values(6 * b.width, 213));
  const std::vector<std::vector<int64_t>> wrong = {
      {0, 2, 5, 4},             // falls
      {2, 3, 5, 6},             // begins late
      {0, 5, 6, 6},             // longer than `length`
      {0, 2, 4, 5},             // ends early
      {0, 2, 5, 9},             // ends late
      {-3, -2, 1, 6},           // negative
      {0, largest, 0, largest}  // anything at all
  };
  for (const auto& begin : wrong) {
    for (int rung = 0; rung < kPackRungs; ++rung) {
      const auto packed = widened(this->packed(padded.given, begin, b, 6, rung));
      const auto unpacked = widened(this->unpacked(rows.given, begin, b, 6, 7.0F, rung));
      for (int64_t i = 0; i < 6 * b.width; ++i) {  // a row of the batch, or NaN
        const double value = packed[static_cast<size_t>(i)];
        EXPECT_TRUE(std::isnan(value) || std::find(padded.wide.begin(), padded.wide.end(), value) != padded.wide.end());
      }
      for (const double value : unpacked)
        EXPECT_TRUE(value == 7 || std::find(rows.wide.begin(), rows.wide.end(), value) != rows.wide.end());
    }
  }
}

using PackOfFloat = Pack<Types<float, int64_t>>;

TEST_F(PackOfFloat, RowsWithoutASequenceAreNanAndRowsPastTheLengthAreLost) {
  const Batch b{{5, 1}, 3, 2};  // a sequence of 5 rows in a batch of length 3
  const std::vector<float> padded = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
  const std::vector<float> rows = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14};
  for (int rung = 0; rung < kPackRungs; ++rung) {
    const auto out = this->packed(padded, {0, 5, 6}, b, 7, rung);
    for (size_t i = 0; i < 6; ++i) EXPECT_EQ(out[i], static_cast<float>(i + 1)) << rung;
    for (size_t i = 6; i < 10; ++i) EXPECT_TRUE(std::isnan(out[i])) << rung;
    EXPECT_EQ(out[10], 7) << rung;
    EXPECT_EQ(out[11], 8) << rung;
    for (size_t i = 12; i < 14; ++i) EXPECT_TRUE(std::isnan(out[i])) << rung;
    const auto back = this->unpacked(rows, {0, 5, 6}, b, 7, -1, rung);
    EXPECT_EQ(back, (std::vector<float>{1, 2, 3, 4, 5, 6, 11, 12, -1, -1, -1, -1})) << rung;
    EXPECT_EQ(this->unpacked(rows, {0, 5, 6}, b, 5, -1, rung),
              (std::vector<float>{1, 2, 3, 4, 5, 6, -1, -1, -1, -1, -1, -1}))
        << rung;
  }
}

TEST_F(PackOfFloat, RefusesWhatCannotBe) {
  const auto x = poisoned<float>(4);
  const auto cu_seqlens = copied<int64_t>({0, 1}, "cu_seqlens");
  const auto both = [&](int64_t batch, int64_t length, int64_t width, int64_t total, int rung) {
    const float* in = x.data() + 1;
    EXPECT_THROW(kernels::pack(stream(), x.data(), in, cu_seqlens.data(), batch, length, width, total, rung),
                 std::invalid_argument);
    EXPECT_THROW(kernels::unpack(stream(), x.data(), in, cu_seqlens.data(), batch, length, width, total, 0.0F, rung),
                 std::invalid_argument);
  };
  both(0, 1, 1, 1, 0);
  both(1, 0, 1, 1, 0);
  both(1, 1, 0, 1, 0);
  both(1, 1, 1, -1, 0);
  both(1, 1, 1, 1, -1);
  both(1, 1, 1, 1, kPackRungs);
  both(int64_t{1} << 16, int64_t{1} << 15, 1, 1, 0);
  both(1, 1, 1, int64_t{1} << 31, 0);
  both(int64_t{1} << 15, int64_t{1} << 15, 256, 1, 0);
  for (const float value : x.host()) EXPECT_TRUE(std::isnan(value)) << "something ran";
}

#ifdef TENFOLD_COUNTED

/// Requests and sectors of the kernels' accesses to a buffer.
struct Traffic {
  int64_t requests = 0, sectors = 0;
  bool operator==(const Traffic&) const = default;
};
std::ostream& operator<<(std::ostream& out, const Traffic& t) {
  return out << t.requests << " requests, " << t.sectors << " sectors";
}

Traffic traffic(const simt::Report& report, const std::string& buffer) {
  Traffic sum;
  for (const auto& access : report.accesses) {
    if (access.buffer != buffer) continue;
    sum.requests += access.requests;
    sum.sectors += access.sectors;
  }
  return sum;
}

// 4 sequences of 16, 0, 5 and 11 rows, 64 floats wide: a row is 256 bytes, 8 sectors, two requests of 4 bytes per lane
// or half a request of 16. A search among 4 sequences is 2 loads, and 2 more say whether the row is there.
TEST_F(PackOfFloat, CountedByHand) {
  const Batch b{{16, 0, 5, 11}, 16, 64};
  const auto in = copied(normal_values(b.padded(), 214), "padded"), out = poisoned<float>(32 * 64, "packed");
  const auto cu_seqlens = copied(beginnings(b.lengths), "cu_seqlens");
  const Traffic rows[] = {{64, 256}, {64, 256}, {32, 256}}, offsets[] = {{256, 256}, {128, 128}, {128, 128}};
  for (int rung = 0; rung < kPackRungs; ++rung) {
    device_.reset();
    kernels::pack(stream(), out.data(), in.data(), cu_seqlens.data(), 4, 16, 64, 32, rung);
    const auto report = device_.report();
    EXPECT_TRUE(report.clean()) << "rung " << rung;
    EXPECT_EQ(traffic(report, "padded"), rows[rung]) << "rung " << rung;
    EXPECT_EQ(traffic(report, "packed"), rows[rung]) << "rung " << rung;
    EXPECT_EQ(traffic(report, "cu_seqlens"), offsets[rung]) << "rung " << rung;
    EXPECT_EQ(report.barriers, rung == 0 ? 0 : 32 / 4) << "rung " << rung << ": four short rows a block";
  }
}

// The same back: 64 padded rows are written, 32 of them are read.
TEST_F(PackOfFloat, UnpackCountedByHand) {
  const Batch b{{16, 0, 5, 11}, 16, 64};
  const auto in = copied(normal_values(32 * 64, 215), "packed"), out = poisoned<float>(b.padded(), "padded");
  const auto cu_seqlens = copied(beginnings(b.lengths), "cu_seqlens");
  const Traffic read[] = {{64, 256}, {64, 256}, {32, 256}}, written[] = {{128, 512}, {128, 512}, {64, 512}};
  const Traffic offsets[] = {{256, 256}, {128, 128}, {128, 128}};
  for (int rung = 0; rung < kPackRungs; ++rung) {
    device_.reset();
    kernels::unpack(stream(), out.data(), in.data(), cu_seqlens.data(), 4, 16, 64, 32, 0.0F, rung);
    const auto report = device_.report();
    EXPECT_TRUE(report.clean()) << "rung " << rung;
    EXPECT_EQ(traffic(report, "packed"), read[rung]) << "rung " << rung;
    EXPECT_EQ(traffic(report, "padded"), written[rung]) << "rung " << rung;
    EXPECT_EQ(traffic(report, "cu_seqlens"), offsets[rung]) << "rung " << rung;
    EXPECT_EQ(report.barriers, 0) << "rung " << rung;
  }
}

#endif

}  // namespace
}  // namespace tenfold::test
