// Attention of one query a sequence against float64, for half and bfloat16, contiguous and paged caches.
#include "kernels/decode_attention/decode_attention.h"

#include "kernels/decode_attention/decode_attention_reference.h"
#include "row_kernel.h"
#include "rungs.h"

namespace tenfold::test {
namespace {

using kernels::DecodeShape;
using kernels::kDecodeAttentionRungs;
using kernels::kDecodePagedRung;
using kernels::kDecodeSplitRung;
using kernels::kDecodeTensorCoreRung;

/// A batch, and the pieces that its sequences are cut into where a rung does so.
struct Case {
  DecodeShape shape;
  std::vector<int> lengths;
  int splits = 3;
};

std::string text_of(const Case& c, int rung) {
  std::string lengths;
  for (const int length : c.lengths) lengths += " " + std::to_string(length);
  return std::to_string(c.shape.heads) + " heads, " + std::to_string(c.shape.kv_heads) + " of keys, head_dim " +
         std::to_string(c.shape.head_dim) + ", lengths" + lengths + ", " + std::to_string(c.splits) + " splits, rung " +
         std::to_string(rung);
}

// One key; lengths that differ widely; as many key/value heads as query heads, and a single one; groups that no block
// divides evenly (3, 5, 9, 17); lengths of a page, a piece, one more and one less; full caches and empty ones.
const std::vector<Case> kCases = {{{1, 1, 1, 1, 64}, {1}},
                                  {{1, 1, 1, 1, 128}, {1}, 64},
                                  {{3, 4, 4, 300, 64}, {1, 300, 17}, 4},
                                  {{2, 4, 1, 130, 128}, {129, 64}, 2},
                                  {{2, 6, 2, 70, 64}, {65, 63}, 2},
                                  {{1, 10, 2, 100, 128}, {100}, 1},
                                  {{2, 9, 1, 257, 64}, {257, 2}, 5},
                                  {{1, 17, 1, 40, 128}, {33}, 2},
                                  {{4, 2, 1, 200, 128}, {15, 16, 17, 200}, 3},
                                  {{3, 8, 1, 128, 128}, {128, 0, 127}, 2},
                                  {{1, 2, 2, 1000, 64}, {999}, 7}};

int64_t query_values(const DecodeShape& s) { return s.batch * s.heads * s.head_dim; }
int64_t cache_values(const DecodeShape& s) { return s.batch * s.kv_heads * s.capacity * s.head_dim; }

template <class T>
struct Inputs {
  Inputs(const DecodeShape& s, uint64_t seed, float scale = 1)
      : q(scaled_values(query_values(s), seed, scale)),
        k(scaled_values(cache_values(s), seed + 1, scale)),
        v(normal_values(cache_values(s), seed + 2)) {}
  kernels::DecodeValues wide() const { return {q.wide, k.wide, v.wide}; }
  Values<T> q, k, v;
};

/// A value that no kernel may use: NaN where a key is beyond its sequence's length.
template <class T>
std::vector<T> only_keys_of(std::vector<T> cache, const Case& c) {
  const DecodeShape& s = c.shape;
  for (int64_t row = 0; row < s.batch * s.kv_heads * s.capacity; ++row) {
    const int length = c.lengths[static_cast<size_t>(row / (s.kv_heads * s.capacity))];
    if (row % s.capacity < length) continue;
    std::fill_n(cache.begin() + row * s.head_dim, s.head_dim, T(NAN));
  }
  return cache;
}

template <class T>
class DecodeAttention : public KernelTest {
 protected:
  static constexpr kernels::Rounding weights_of(int rung) {
    return rung >= kDecodeTensorCoreRung ? rounding_of<T>() : kernels::kFloatRounding;
  }
  /// Pages without a key have no place in the pool.
  static std::vector<int> pages_of(const Case& c) {
    std::vector<int> pages = kernels::scattered_pages(c.shape);
    const int64_t columns = kernels::decode_pages(c.shape.capacity);
    for (int64_t i = 0; i < static_cast<int64_t>(pages.size()); ++i) {
      if (i % columns * kernels::kDecodePageKeys >= c.lengths[static_cast<size_t>(i / columns)])
        pages[static_cast<size_t>(i)] = -1'000'000;
    }
    return pages;
  }
  /// `shift`: values by which q, k, v and out begin after a multiple of 256 bytes.
  std::vector<T> out_of(const Inputs<T>& in, const Case& c, int rung, int64_t shift = 0) {
    const DecodeShape& s = c.shape;
    const bool paged = rung >= kDecodePagedRung;
    const auto shifted = [&](std::vector<T> values, const char* name) {
      values.insert(values.begin(), static_cast<size_t>(shift), T(0.0F));
      return this->copied(values, name);
    };
    const auto cache = [&](const std::vector<T>& values, const char* name) {
      const std::vector<T> keys = only_keys_of(values, c);
      if (!paged) return shifted(keys, name);
      std::vector<T> pool(static_cast<size_t>(s.batch * kernels::decode_pages(s.capacity) * kernels::kDecodePageKeys *
                                              s.kv_heads * s.head_dim),
                          T(NAN));
      kernels::fill_pages(pool.begin(), keys, kernels::scattered_pages(s), s);
      return shifted(pool, name);
    };
    const auto q = shifted(in.q.given, "q"), k = cache(in.k.given, "k"), v = cache(in.v.given, "v");
    const auto out = this->template poisoned<T>(query_values(s) + shift);
    const auto lengths = this->copied(c.lengths, "lengths"), pages = this->copied(pages_of(c), "pages");
    const auto workspace = this->template poisoned<float>(
        std::max<int64_t>(1, kernels::decode_workspace_bytes(s, c.splits, rung) / 4), "workspace");
    kernels::decode_attention(this->stream(), out.data() + shift, workspace.data(), q.data() + shift, k.data() + shift,
                              v.data() + shift, lengths.data(), paged ? pages.data() : nullptr, s, c.splits, rung);
    this->expect_clean();
    auto result = out.host();
    for (int64_t i = 0; i < shift; ++i)
      EXPECT_TRUE(std::isnan(static_cast<float>(result[static_cast<size_t>(i)]))) << "before the result";
    result.erase(result.begin(), result.begin() + shift);
    return result;
  }
  void expect_right(const Case& c, int rung, uint64_t seed, float scale = 1, int64_t shift = 0) {
    expect_right_of(Inputs<T>(c.shape, seed, scale), c, rung, shift);
  }
  void expect_right_of(const Inputs<T>& in, const Case& c, int rung, int64_t shift = 0) {
    const auto expected =
        kernels::decode_attention_reference(in.wide(), c.lengths, c.shape, rounding_of<T>(), weights_of(rung));
    expect_all(out_of(in, c, rung, shift), expected, text_of(c, rung));
  }
};
using DecodeTypes = testing::Types<__half, __nv_bfloat16>;
TYPED_TEST_SUITE(DecodeAttention, DecodeTypes);

TYPED_TEST(DecodeAttention, EveryRungMatchesFloat64) {
  for (int rung = 0; rung < decode_rungs(); ++rung) {
    for (const Case& c : kCases) this->expect_right(c, rung, 42);
  }
  skip_missing_rungs(decode_rungs(), kDecodeAttentionRungs);
}

// From one piece to many more than there are units of 64 keys, so that most of them are empty.
TYPED_TEST(DecodeAttention, AnyNumberOfSplits) {
  for (int rung = kDecodeSplitRung; rung < decode_rungs(); ++rung) {
    for (const int splits : {1, 2, 3, 4, 5, 64})
      this->expect_right({{3, 4, 2, 321, 64}, {1, 321, 256}, splits}, rung, 43);
  }
  skip_missing_rungs(decode_rungs(), kDecodeAttentionRungs);
}

// Scores of some hundreds: their exponentials overflow, and all weight lies on a few keys, of one warp and one piece.
TYPED_TEST(DecodeAttention, LargeScoresDoNotOverflow) {
  for (int rung = 0; rung < decode_rungs(); ++rung)
    this->expect_right({{2, 4, 2, 200, 64}, {200, 77}, 3}, rung, 44, 16);
  skip_missing_rungs(decode_rungs(), kDecodeAttentionRungs);
}

// The largest score comes last, or first: all that was summed must be scaled down each time, or nothing.
TYPED_TEST(DecodeAttention, ScoresThatGrowOrFallFromKeyToKey) {
  const Case c{{1, 2, 1, 200, 64}, {200}, 2};
  Inputs<TypeParam> in(c.shape, 45);
  in.q = Values<TypeParam>(std::vector<float>(static_cast<size_t>(query_values(c.shape)), 1.0F));
  for (const bool grow : {true, false}) {
    std::vector<float> k;
    for (int key = 0; key < 200; ++key) k.insert(k.end(), 64, static_cast<float>(grow ? key : 200 - key) / 16.0F);
    in.k = Values<TypeParam>(k);
    for (int rung = 0; rung < decode_rungs(); ++rung) this->expect_right_of(in, c, rung);
  }
  skip_missing_rungs(decode_rungs(), kDecodeAttentionRungs);
}

TYPED_TEST(DecodeAttention, EqualScoresGiveTheMean) {
  const Case c{{1, 4, 2, 256, 64}, {256}, 2};
  Inputs<TypeParam> in(c.shape, 46);
  in.q = Values<TypeParam>(std::vector<float>(static_cast<size_t>(query_values(c.shape)), 0.0F));
  std::vector<float> v;
  for (int64_t i = 0; i < cache_values(c.shape); ++i) v.push_back(static_cast<float>(i / 64 % 2));
  in.v = Values<TypeParam>(v);
  for (int rung = 0; rung < decode_rungs(); ++rung) {
    for (const double value : widened(this->out_of(in, c, rung))) ASSERT_EQ(value, 0.5) << "rung " << rung;
  }
  skip_missing_rungs(decode_rungs(), kDecodeAttentionRungs);
}

// Rows of a captured batch that no sequence has; and lengths that nobody may have.
TYPED_TEST(DecodeAttention, SequencesWithoutAKeyGiveZeros) {
  const Case c{{4, 4, 2, 70, 128}, {0, 70, -3, 0}, 2};
  const Inputs<TypeParam> in(c.shape, 47);
  for (int rung = 0; rung < decode_rungs(); ++rung) {
    const auto values = widened(this->out_of(in, c, rung));
    for (size_t i = 0; i < values.size(); ++i) {
      if (i / (4 * 128) != 1) ASSERT_EQ(values[i], 0) << "rung " << rung << ", " << i;
    }
    Case longer = c, full = c;
    longer.lengths = {70, 71, 1 << 30, 70};
    full.lengths = {70, 70, 70, 70};
    EXPECT_EQ(widened(this->out_of(in, longer, rung)), widened(this->out_of(in, full, rung))) << "rung " << rung;
  }
  skip_missing_rungs(decode_rungs(), kDecodeAttentionRungs);
}

// A key that is not a number makes its group's result one that is not, and nobody else's: no guard hides it.
TYPED_TEST(DecodeAttention, NaNStaysNaNAndStaysInItsGroup) {
  const Case c{{1, 4, 2, 200, 64}, {200}, 2};
  Inputs<TypeParam> in(c.shape, 48);
  in.k.given[150 * 64] = TypeParam(NAN);  // of key/value head 0
  for (int rung = 0; rung < decode_rungs(); ++rung) {
    const auto values = widened(this->out_of(in, c, rung));
    for (size_t i = 0; i < values.size(); ++i)
      ASSERT_EQ(std::isnan(values[i]), i < 2 * 64) << "rung " << rung << ", " << i;
  }
  skip_missing_rungs(decode_rungs(), kDecodeAttentionRungs);
}

TYPED_TEST(DecodeAttention, ArraysThatBeginBetweenPackets) {
  for (int rung = 0; rung < decode_rungs(); ++rung)
    this->expect_right({{2, 4, 2, 100, 64}, {100, 31}, 2}, rung, 49, 1, /*shift=*/1);
  skip_missing_rungs(decode_rungs(), kDecodeAttentionRungs);
}

TYPED_TEST(DecodeAttention, TheSameInputsGiveTheSameBits) {
  const Case c{{2, 8, 2, 300, 128}, {300, 80}, 3};
  const Inputs<TypeParam> in(c.shape, 50);
  for (int rung = 0; rung < decode_rungs(); ++rung)
    EXPECT_EQ(widened(this->out_of(in, c, rung)), widened(this->out_of(in, c, rung))) << "rung " << rung;
  // Where a key lies changes nothing.
  EXPECT_EQ(widened(this->out_of(in, c, kDecodeSplitRung)), widened(this->out_of(in, c, kDecodePagedRung)));
  skip_missing_rungs(decode_rungs(), kDecodeAttentionRungs);
}

TYPED_TEST(DecodeAttention, RefusesWhatCannotBeAndRunsNothing) {
  using T = TypeParam;
  const auto out = this->template poisoned<T>(4 * 128);
  const auto workspace = this->template poisoned<float>(4 * 130, "workspace");
  const auto table = this->copied(std::vector<int>(4, 1), "pages");
  const auto call = [&](const DecodeShape& s, int splits, int rung, bool pages, int64_t offset = 0) {
    kernels::decode_attention(this->stream(), out.data(), offset < 0 ? nullptr : workspace.data() + offset, out.data(),
                              out.data(), out.data(), table.data(), pages ? table.data() : nullptr, s, splits, rung);
  };
  constexpr int64_t kLarge = int64_t{1} << 40;
  for (const DecodeShape& shape :
       {DecodeShape{0, 1, 1, 1, 64}, DecodeShape{1, 0, 1, 1, 64}, DecodeShape{1, 1, 0, 1, 64},
        DecodeShape{1, 1, 1, 0, 64}, DecodeShape{1, 1, 1, 1, 32}, DecodeShape{1, 1, 1, 1, 256},
        DecodeShape{1, 4, 3, 1, 64}, DecodeShape{1, 2, 4, 1, 64}, DecodeShape{1, 1, 1, kLarge, 64},
        DecodeShape{kLarge, kLarge, 1, 1, 64}, DecodeShape{1 << 20, 1 << 9, 1, 1, 64}}) {
    EXPECT_THROW(call(shape, 8, kDecodeSplitRung, false), std::invalid_argument);
  }
  const DecodeShape one_head{};
  for (const int splits : {-1, 0, 65}) EXPECT_THROW(call(one_head, splits, 7, true), std::invalid_argument);
  for (const int rung : {-1, kDecodeAttentionRungs}) EXPECT_THROW(call(one_head, 1, rung, true), std::invalid_argument);
  EXPECT_THROW(call(one_head, 1, 5, true), std::invalid_argument) << "a table that the rung does not read";
  EXPECT_THROW(call(one_head, 1, 6, false), std::invalid_argument) << "no table";
  EXPECT_THROW(call(one_head, 1, 0, false, -1), std::invalid_argument) << "rung 0 without a workspace";
  EXPECT_THROW(call(one_head, 2, 5, false, -1), std::invalid_argument) << "two pieces without a workspace";
  EXPECT_THROW(call(one_head, 2, 5, false, 1), std::invalid_argument) << "a workspace between two pairs";
  for (const double value : widened(out.host())) EXPECT_TRUE(std::isnan(value)) << "something ran";
}

TEST(DecodeSplits, FillTheGpuAndKeepPiecesLong) {
  const auto splits = [](int64_t batch, int64_t heads, int64_t kv_heads, int64_t keys, int rung = 7) {
    return kernels::decode_splits({batch, heads, kv_heads, keys, 128}, 132, rung);
  };
  EXPECT_EQ(splits(1, 64, 8, 65536), 33) << "8 blocks: 264 for 132 SMs";
  EXPECT_EQ(splits(4, 64, 8, 8192), 8) << "32 blocks: 256; 288 would not all run at once";
  EXPECT_EQ(splits(1, 64, 8, 1000), 3) << "256 keys a piece";
  EXPECT_EQ(splits(1, 64, 8, 255), 1);
  EXPECT_EQ(splits(17, 64, 8, 65536), 1) << "136 blocks: twice as many would not all run at once";
  EXPECT_EQ(splits(1, 1, 1, 1 << 20), 64) << "no more than 64";
  EXPECT_EQ(splits(4, 32, 1, 65536), 33) << "two blocks of 16 heads";
  EXPECT_EQ(splits(1, 64, 8, 65536, 4), 1) << "a rung that does not split";
}

#ifdef TENFOLD_COUNTED

using simt::Kind;
using simt::Report;
using simt::Space;

/// What the rungs ask of memory. The formulas are those of the README.
class DecodeUnderTheMicroscope : public DecodeAttention<__nv_bfloat16> {
 protected:
  Report report_of(const Case& c, int rung) {
    device_.reset();
    out_of(Inputs<__nv_bfloat16>(c.shape, 60), c, rung);
    return device_.report();
  }
  int64_t cache_bytes(const Case& c, int rung) {
    const Report report = report_of(c, rung);
    return bytes_asked(report, Kind::load, "k") + bytes_asked(report, Kind::load, "v");
  }
};

TEST_F(DecodeUnderTheMicroscope, OnlyAGroupReadsItsCacheOnce) {
  for (const int64_t group : {1, 2, 3, 4, 8}) {
    const Case c{{2, 2 * group, 2, 300, 128}, {300, 77}, 3};
    const int64_t once = 2 * 2 * (300 + 77) * 128 * 2;  // k and v of two heads
    for (int rung = 0; rung < kDecodeAttentionRungs; ++rung)
      EXPECT_EQ(cache_bytes(c, rung), once * (rung < 4 ? group : 1)) << "group " << group << ", rung " << rung;
  }
  // 17 heads: three blocks of eight, two of sixteen.
  const Case wide{{1, 17, 1, 64, 64}, {64}, 1};
  for (int rung = 4; rung < kDecodeAttentionRungs; ++rung)
    EXPECT_EQ(cache_bytes(wide, rung), (rung < 7 ? 3 : 2) * 2 * 64 * 64 * 2) << "rung " << rung;
}

TEST_F(DecodeUnderTheMicroscope, LanesReadNeighboursAndThenPackets) {
  const Case c{{1, 2, 1, 256, 128}, {256}, 2};
  const double sectors[] = {32, 2, 2, 16, 16, 16, 16, 16};
  const int bytes[] = {2, 2, 2, 16, 16, 16, 16, 16};
  for (int rung = 0; rung < kDecodeAttentionRungs; ++rung) {
    const Widest of_keys = widest(report_of(c, rung), Kind::load, "k");
    EXPECT_EQ(of_keys.sectors_per_request, sectors[rung]) << "rung " << rung;
    EXPECT_EQ(of_keys.bytes, bytes[rung]) << "rung " << rung;
  }
}

TEST_F(DecodeUnderTheMicroscope, ScoresGoToMemoryBeforeTheOnlineRungOnly) {
  const Case c{{2, 4, 2, 200, 64}, {200, 100}, 1};
  for (int rung = 0; rung < kDecodeAttentionRungs; ++rung) {
    const int64_t scores = bytes_asked(report_of(c, rung), Kind::store, "workspace");
    EXPECT_EQ(scores, rung < 2 ? 2 * 4 * 4 * (200 + 100) : 0) << "rung " << rung;  // written as scores, then as weights
  }
}

// D + 2 floats of each query head and piece that has a key; 2 of one that has none, and nothing else is touched.
TEST_F(DecodeUnderTheMicroscope, PartsOfPiecesWithAKeyOnly) {
  const Case c{{2, 4, 2, 512, 64}, {512, 65}, 4};  // 128 keys a piece; of the other, pieces of 64, 1, 0 and 0
  for (int rung = kDecodeSplitRung; rung < kDecodeAttentionRungs; ++rung) {
    EXPECT_EQ(bytes_asked(report_of(c, rung), Kind::store, "workspace"), 4 * ((4 + 2) * (64 + 2) + 2 * 2) * 4)
        << "rung " << rung;
  }
  EXPECT_EQ(cache_bytes(c, kDecodeTensorCoreRung), 2 * 2 * (512 + 65) * 64 * 2);
}

TEST_F(DecodeUnderTheMicroscope, NoRungHasABankConflict) {
  for (const int64_t width : {64, 128}) {
    const Case c{{1, 8, 1, 256, width}, {256}, 2};
    for (int rung = 0; rung < kDecodeAttentionRungs; ++rung) {
      for (const simt::Access& access : report_of(c, rung).accesses) {
        if (access.space != Space::shared) continue;
        EXPECT_EQ(access.wavefronts, access.ideal_wavefronts)
            << "width " << width << ", rung " << rung << ", " << simt::text_of(access.where);
      }
    }
  }
}

#endif

}  // namespace
}  // namespace tenfold::test
