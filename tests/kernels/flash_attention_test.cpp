// Attention forward and backward against float64, for float, half and bfloat16.
#include "kernels/flash_attention/flash_attention.h"

#include "kernels/flash_attention/flash_attention_reference.h"
#include "row_kernel.h"
#include "rungs.h"

namespace tenfold::test {
namespace {

using kernels::AttentionShape;
using kernels::AttentionValues;
using kernels::kFlashAttentionBackwardRungs;
using kernels::kFlashAttentionRungs;

std::string text_of(const AttentionShape& s, int rung) {
  return std::to_string(s.batch) + " x " + std::to_string(s.heads) + " x (" + std::to_string(s.queries) + ", " +
         std::to_string(s.keys) + "), head_dim " + std::to_string(s.head_dim) + (s.causal ? " causal" : "") +
         ", rung " + std::to_string(rung);
}

// One key, less than a tile, a tile exactly, one more and one less; queries and keys of different lengths; several
// heads.
const std::vector<AttentionShape> kShapes = {
    {1, 1, 1, 1, 32, false},    {1, 1, 1, 1, 128, true},      {2, 2, 5, 5, 64, true},    {1, 2, 63, 63, 32, true},
    {1, 1, 64, 64, 64, true},   {1, 1, 65, 65, 64, false},    {1, 1, 65, 65, 128, true}, {1, 1, 129, 129, 32, true},
    {1, 1, 129, 129, 64, true}, {1, 1, 129, 129, 128, false}, {1, 2, 5, 129, 64, false}, {1, 1, 129, 7, 32, false},
    {2, 1, 65, 3, 64, true},    {1, 1, 3, 65, 128, true}};

int64_t query_values(const AttentionShape& s) { return s.batch * s.heads * s.queries * s.head_dim; }
int64_t key_values(const AttentionShape& s) { return s.batch * s.heads * s.keys * s.head_dim; }

/// The inputs as T, and in float64 as T rounded them.
template <class T>
struct Inputs {
  Inputs(const AttentionShape& s, uint64_t seed, float scale = 1)
      : q(scaled_values(query_values(s), seed, scale)),
        k(scaled_values(key_values(s), seed + 1, scale)),
        v(normal_values(key_values(s), seed + 2)) {}
  AttentionValues wide() const { return {q.wide, k.wide, v.wide}; }
  Values<T> q, k, v;
};

template <class T>
class FlashAttention : public KernelTest {
 protected:
  static constexpr int kTensorCores = 3, kBackwardTensorCores = 1;  // from these rungs on weights are rounded to T
  static constexpr kernels::Rounding weights_of(bool tensor_cores) {
    return tensor_cores ? rounding_of<T>() : kernels::kFloatRounding;
  }

  struct Forward {
    std::vector<T> out;
    std::vector<float> logsumexp;
  };
  /// `shift`: values by which every array begins after a multiple of 256 bytes.
  Forward forward(const Inputs<T>& in, const AttentionShape& s, int rung, int64_t shift = 0) {
    const auto shifted = [&](std::vector<T> values, const char* name) {
      values.insert(values.begin(), static_cast<size_t>(shift), T(0.0F));
      return this->copied(values, name);
    };
    const auto q = shifted(in.q.given, "q"), k = shifted(in.k.given, "k"), v = shifted(in.v.given, "v");
    const auto out = this->template poisoned<T>(query_values(s) + shift);
    const auto logsumexp = this->template poisoned<float>(s.batch * s.heads * s.queries, "logsumexp");
    const auto workspace = this->template poisoned<float>(
        std::max<int64_t>(1, kernels::flash_attention_workspace_bytes(s, rung) / 4), "workspace");
    kernels::flash_attention(this->stream(), out.data() + shift, logsumexp.data(), workspace.data(), q.data() + shift,
                             k.data() + shift, v.data() + shift, s, rung);
    this->expect_clean();
    auto result = out.host();
    for (int64_t i = 0; i < shift; ++i)
      EXPECT_TRUE(std::isnan(static_cast<float>(result[static_cast<size_t>(i)]))) << "before the result";
    result.erase(result.begin(), result.begin() + shift);
    return {result, logsumexp.host()};
  }
  void expect_forward(const AttentionShape& s, int rung, uint64_t seed, float scale = 1, int64_t shift = 0) {
    const Inputs<T> in(s, seed, scale);
    const auto expected =
        kernels::flash_attention_reference(in.wide(), s, rounding_of<T>(), weights_of(rung >= kTensorCores));
    const Forward found = forward(in, s, rung, shift);
    expect_all(found.out, expected.out, text_of(s, rung));
    expect_all(found.logsumexp, expected.logsumexp, text_of(s, rung) + " logsumexp");
  }

  struct Gradients {
    std::vector<T> q, k, v;
  };
  Gradients backward(const Values<T>& grad, const Inputs<T>& in, const Values<T>& result,
                     const std::vector<float>& sums, const AttentionShape& s, int rung, int64_t shift = 0) {
    const auto shifted = [&](std::vector<T> values, const char* name) {
      values.insert(values.begin(), static_cast<size_t>(shift), T(0.0F));
      return this->copied(values, name);
    };
    const auto grad_out = shifted(grad.given, "grad_out"), q = shifted(in.q.given, "q"), k = shifted(in.k.given, "k");
    const auto v = shifted(in.v.given, "v"), out = shifted(result.given, "out");
    const auto logsumexp = this->copied(sums, "logsumexp");
    const auto grad_q = this->template poisoned<T>(query_values(s) + shift, "grad_q");
    const auto grad_k = this->template poisoned<T>(key_values(s) + shift, "grad_k");
    const auto grad_v = this->template poisoned<T>(key_values(s) + shift, "grad_v");
    const auto workspace =
        this->template poisoned<float>(kernels::flash_attention_backward_workspace_bytes(s) / 4, "workspace");
    kernels::flash_attention_backward(this->stream(), grad_q.data() + shift, grad_k.data() + shift,
                                      grad_v.data() + shift, workspace.data(), grad_out.data() + shift,
                                      q.data() + shift, k.data() + shift, v.data() + shift, out.data() + shift,
                                      logsumexp.data(), s, rung);
    this->expect_clean();
    const auto cut = [&](std::vector<T> values) {
      values.erase(values.begin(), values.begin() + shift);
      return values;
    };
    return {cut(grad_q.host()), cut(grad_k.host()), cut(grad_v.host())};
  }
  void expect_backward(const AttentionShape& s, int rung, uint64_t seed, float scale = 1, int64_t shift = 0) {
    const Inputs<T> in(s, seed, scale);
    const Values<T> grad(normal_values(query_values(s), seed + 3));
    const auto exact = kernels::flash_attention_reference(in.wide(), s, rounding_of<T>(), kernels::kFloatRounding);
    const Values<T> out(std::vector<float>(exact.out.values.begin(), exact.out.values.end()));
    const std::vector<float> logsumexp(exact.logsumexp.values.begin(), exact.logsumexp.values.end());
    const bool tensor_cores = rung >= kBackwardTensorCores;
    const auto expected = kernels::flash_attention_backward_reference(
        grad.wide, in.wide(), out.wide, s, rounding_of<T>(), weights_of(tensor_cores), tensor_cores ? 0x1p-126 : 0);
    const Gradients found = backward(grad, in, out, logsumexp, s, rung, shift);
    expect_all(found.q, expected.q, text_of(s, rung) + " grad_q");
    expect_all(found.k, expected.k, text_of(s, rung) + " grad_k");
    expect_all(found.v, expected.v, text_of(s, rung) + " grad_v");
  }
};
TYPED_TEST_SUITE(FlashAttention, RowTypes);

// First, because tests/microscope/barriers.py runs this program once for every barrier that it takes out of these
// rungs.
template <class T>
class FlashAttentionOnHopper : public FlashAttention<T> {};
using SixteenBits = testing::Types<__half, __nv_bfloat16>;
TYPED_TEST_SUITE(FlashAttentionOnHopper, SixteenBits);

// Hopper's rungs: tiles of 128 queries and 128 keys, a ring that is filled more than once, and ends within tiles; and,
// where a GPU runs them, what the others were asked above.
TYPED_TEST(FlashAttentionOnHopper, EveryRungMatchesFloat64) {
  for (int rung = kFlashAttentionRungs<TypeParam>; rung < attention_rungs_with_hopper<TypeParam>(); ++rung) {
    for (const AttentionShape& shape :
         {AttentionShape{1, 2, 300, 300, 64, true}, AttentionShape{2, 1, 129, 383, 128, false},
          AttentionShape{1, 1, 257, 385, 128, true}, AttentionShape{1, 1, 64, 640, 64, false}})
      this->expect_forward(shape, rung, 43);
    if (rung < attention_rungs<TypeParam>()) continue;
    for (const AttentionShape& shape : kShapes) this->expect_forward(shape, rung, 42);
    this->expect_forward({1, 1, 33, 270, 64, false}, rung, 62, 16);
    this->expect_forward({1, 2, 37, 70, 64, false}, rung, 75, 1, 1);
  }
  skip_missing_rungs(attention_rungs_with_hopper<TypeParam>(), kernels::kFlashAttentionAllRungs<TypeParam>);
}

TYPED_TEST(FlashAttention, EveryRungMatchesFloat64) {
  for (int rung = 0; rung < attention_rungs<TypeParam>(); ++rung) {
    for (const AttentionShape& shape : kShapes) this->expect_forward(shape, rung, 42);
  }
  skip_missing_rungs(attention_rungs<TypeParam>(), kFlashAttentionRungs<TypeParam>);
}

// A weight of 0 times infinity is NaN: a tile that reaches over the end of a head must not hold the next one's values.
TYPED_TEST(FlashAttention, AHeadDoesNotSeeTheNextOnesValues) {
  const AttentionShape shape{1, 2, 70, 150, 64, false};
  const Inputs<TypeParam> in(shape, 79);
  Inputs<TypeParam> other(shape, 79);
  const size_t of_head = size_t{150} * 64, of_result = size_t{70} * 64;
  for (size_t i = of_head; i < 2 * of_head; ++i) other.v.given[i] = TypeParam(INFINITY);
  for (int rung = 0; rung < attention_rungs_with_hopper<TypeParam>(); ++rung) {
    const auto expected = widened(this->forward(in, shape, rung).out),
               results = widened(this->forward(other, shape, rung).out);
    for (size_t i = 0; i < of_result; ++i) ASSERT_EQ(results[i], expected[i]) << "rung " << rung << ", " << i;
  }
  skip_missing_rungs(attention_rungs_with_hopper<TypeParam>(), kernels::kFlashAttentionAllRungs<TypeParam>);
}

TYPED_TEST(FlashAttention, EveryBackwardRungMatchesFloat64) {
  for (int rung = 0; rung < attention_backward_rungs<TypeParam>(); ++rung) {
    for (const AttentionShape& shape : kShapes) this->expect_backward(shape, rung, 52);
  }
  skip_missing_rungs(attention_backward_rungs<TypeParam>(), kFlashAttentionBackwardRungs<TypeParam>);
}

// Scores of some hundreds: their exponentials overflow, and all weight lies on a few keys.
TYPED_TEST(FlashAttention, LargeScoresDoNotOverflow) {
  for (const AttentionShape& shape :
       {AttentionShape{1, 1, 33, 70, 64, false}, AttentionShape{1, 1, 70, 70, 32, true}}) {
    for (int rung = 0; rung < attention_rungs<TypeParam>(); ++rung) this->expect_forward(shape, rung, 62, 16);
    for (int rung = 0; rung < attention_backward_rungs<TypeParam>(); ++rung) this->expect_backward(shape, rung, 63, 16);
  }
  skip_missing_rungs(attention_rungs<TypeParam>(), kFlashAttentionRungs<TypeParam>);
}

// The largest score comes last, tile after tile: everything that was summed before must be scaled down each time.
TYPED_TEST(FlashAttention, ScoresThatGrowFromKeyToKey) {
  const AttentionShape shape{1, 1, 17, 140, 32, false};
  std::vector<float> q(static_cast<size_t>(query_values(shape)), 1.0F), k, v = normal_values(key_values(shape), 70);
  for (int64_t key = 0; key < shape.keys; ++key) k.insert(k.end(), 32, static_cast<float>(key) / 16.0F);
  Inputs<TypeParam> in(shape, 71);
  in.q = Values<TypeParam>(q);
  in.k = Values<TypeParam>(k);
  in.v = Values<TypeParam>(v);
  for (int rung = 0; rung < attention_rungs<TypeParam>(); ++rung) {
    const auto expected = kernels::flash_attention_reference(in.wide(), shape, rounding_of<TypeParam>(),
                                                             this->weights_of(rung >= this->kTensorCores));
    expect_all(this->forward(in, shape, rung).out, expected.out, text_of(shape, rung));
  }
  skip_missing_rungs(attention_rungs<TypeParam>(), kFlashAttentionRungs<TypeParam>);
}

TYPED_TEST(FlashAttention, EqualScoresGiveTheMean) {
  const AttentionShape shape{1, 1, 2, 64, 32, false};
  Inputs<TypeParam> in(shape, 72);
  in.q = Values<TypeParam>(std::vector<float>(static_cast<size_t>(query_values(shape)), 0.0F));
  std::vector<float> v;
  for (int64_t i = 0; i < key_values(shape); ++i) v.push_back(static_cast<float>(i / 32 % 2));  // half zeros, half ones
  in.v = Values<TypeParam>(v);
  for (int rung = 0; rung < attention_rungs<TypeParam>(); ++rung) {
    const auto found = this->forward(in, shape, rung);
    for (const double value : widened(found.out)) ASSERT_EQ(value, 0.5) << "rung " << rung;
    for (const float value : found.logsumexp) ASSERT_NEAR(value, std::log(64.0), 1e-6) << "rung " << rung;
  }
  skip_missing_rungs(attention_rungs<TypeParam>(), kFlashAttentionRungs<TypeParam>);
}

// A key that nobody may see can hold anything, and its gradient is 0.
TYPED_TEST(FlashAttention, CausalQueriesDoNotSeeLaterKeys) {
  const AttentionShape shape{1, 1, 40, 100, 32, true};
  const Inputs<TypeParam> in(shape, 73);
  Inputs<TypeParam> other(shape, 73);
  for (size_t i = 40 * 32; i < other.k.given.size(); ++i) other.k.given[i] = other.v.given[i] = TypeParam(1000.0F);
  for (int rung = 0; rung < attention_rungs<TypeParam>(); ++rung) {
    EXPECT_EQ(widened(this->forward(in, shape, rung).out), widened(this->forward(other, shape, rung).out))
        << "rung " << rung;
  }
  const Values<TypeParam> grad(normal_values(query_values(shape), 74));
  const auto found = this->forward(in, shape, 2);
  Values<TypeParam> out(std::vector<float>(found.out.size()));
  out.given = found.out;
  for (int rung = 0; rung < attention_backward_rungs<TypeParam>(); ++rung) {
    const auto gradients = this->backward(grad, in, out, found.logsumexp, shape, rung);
    for (size_t i = 40 * 32; i < gradients.k.size(); ++i) {
      ASSERT_EQ(static_cast<float>(gradients.k[i]), 0) << "rung " << rung << ", " << i;
      ASSERT_EQ(static_cast<float>(gradients.v[i]), 0) << "rung " << rung << ", " << i;
    }
  }
  skip_missing_rungs(attention_rungs<TypeParam>(), kFlashAttentionRungs<TypeParam>);
}

TYPED_TEST(FlashAttention, ArraysThatBeginBetweenPackets) {
  const AttentionShape shape{1, 2, 37, 70, 64, false};
  for (int rung = 0; rung < attention_rungs<TypeParam>(); ++rung) this->expect_forward(shape, rung, 75, 1, 1);
  for (int rung = 0; rung < attention_backward_rungs<TypeParam>(); ++rung) this->expect_backward(shape, rung, 76, 1, 1);
  skip_missing_rungs(attention_rungs<TypeParam>(), kFlashAttentionRungs<TypeParam>);
}

TYPED_TEST(FlashAttention, TheSameInputsGiveTheSameBits) {
  const AttentionShape shape{1, 2, 70, 70, 32, true};
  const Inputs<TypeParam> in(shape, 77);
  const Values<TypeParam> grad(normal_values(query_values(shape), 78));
  const auto first = this->forward(in, shape, attention_rungs<TypeParam>() - 1);
  const auto second = this->forward(in, shape, attention_rungs<TypeParam>() - 1);
  EXPECT_EQ(widened(first.out), widened(second.out));
  Values<TypeParam> out(std::vector<float>(first.out.size()));
  out.given = first.out;
  for (int rung = 0; rung < attention_backward_rungs<TypeParam>(); ++rung) {
    const auto once = this->backward(grad, in, out, first.logsumexp, shape, rung);
    const auto twice = this->backward(grad, in, out, first.logsumexp, shape, rung);
    EXPECT_EQ(widened(once.q), widened(twice.q));
    EXPECT_EQ(widened(once.k), widened(twice.k));
    EXPECT_EQ(widened(once.v), widened(twice.v));
  }
  skip_missing_rungs(attention_rungs<TypeParam>(), kFlashAttentionRungs<TypeParam>);
}

TYPED_TEST(FlashAttention, RefusesWhatCannotBeAndRunsNothing) {
  using T = TypeParam;
  const auto out = this->template poisoned<T>(4 * 128);
  const auto sums = this->template poisoned<float>(4, "logsumexp");
  const auto call = [&](const AttentionShape& s, int rung) {
    kernels::flash_attention(this->stream(), out.data(), sums.data(), nullptr, out.data(), out.data(), out.data(), s,
                             rung);
  };
  const auto back = [&](const AttentionShape& s, float* workspace, int rung) {
    kernels::flash_attention_backward(this->stream(), out.data(), out.data(), out.data(), workspace, out.data(),
                                      out.data(), out.data(), out.data(), out.data(), sums.data(), s, rung);
  };
  constexpr int64_t kLarge = int64_t{1} << 40;
  for (const AttentionShape& shape :
       {AttentionShape{0, 1, 1, 1, 64}, AttentionShape{1, 0, 1, 1, 64}, AttentionShape{1, 1, 0, 1, 64},
        AttentionShape{1, 1, 1, -1, 64}, AttentionShape{1, 1, 1, 1, 48}, AttentionShape{1, 1, 1, 1, 256},
        AttentionShape{1, 1, kLarge, 1, 64}, AttentionShape{kLarge, kLarge, 1, 1, 64},
        AttentionShape{1 << 20, 1 << 10, 1 << 20, 1, 64}}) {
    EXPECT_THROW(call(shape, 1), std::invalid_argument);
    EXPECT_THROW(back(shape, sums.data(), 0), std::invalid_argument);
  }
  EXPECT_THROW(call({}, -1), std::invalid_argument);
  EXPECT_THROW(call({}, kernels::kFlashAttentionAllRungs<T>), std::invalid_argument);
  EXPECT_THROW(call({}, 0), std::invalid_argument) << "rung 0 without a workspace";
  for (int rung = attention_rungs_with_hopper<T>(); rung < kernels::kFlashAttentionAllRungs<T>; ++rung)
    EXPECT_THROW(call({}, rung), std::runtime_error) << "rung " << rung << " on a GPU that lacks it";
  EXPECT_THROW(back({}, sums.data(), kFlashAttentionBackwardRungs<T>), std::invalid_argument);
  EXPECT_THROW(back({}, nullptr, 0), std::invalid_argument) << "backward without a workspace";
  for (const double value : widened(out.host())) EXPECT_TRUE(std::isnan(value)) << "something ran";
}

// The formulas of the reference's gradient, by finite differences of the reference's forward pass.
TEST(FlashAttentionReference, GradientsAreFiniteDifferences) {
  const AttentionShape shape{1, 2, 4, 3, 32, true};
  const auto wide = [](int64_t count, uint64_t seed) {
    const auto values = normal_values(count, seed);
    return std::vector<double>(values.begin(), values.end());
  };
  const AttentionValues in{wide(query_values(shape), 80), wide(key_values(shape), 81), wide(key_values(shape), 82)};
  const std::vector<double> grad = wide(query_values(shape), 83);
  const auto out_of = [&](const AttentionValues& values) {
    return kernels::flash_attention_reference(values, shape, kernels::kFloatRounding, kernels::kFloatRounding)
        .out.values;
  };
  const auto gradients = kernels::flash_attention_backward_reference(grad, in, out_of(in), shape,
                                                                     kernels::kFloatRounding, kernels::kFloatRounding);
  for (size_t i = 0; i < in.q.size(); i += 7) {
    const auto f = [&](const std::vector<double>& q) { return dot(out_of({q, in.k, in.v}), grad); };
    EXPECT_NEAR(gradients.q.values[i], slope_of(f, in.q, i), 1e-7) << "q " << i;
  }
  for (size_t i = 0; i < in.k.size(); i += 7) {
    const auto k = [&](const std::vector<double>& values) { return dot(out_of({in.q, values, in.v}), grad); };
    const auto v = [&](const std::vector<double>& values) { return dot(out_of({in.q, in.k, values}), grad); };
    EXPECT_NEAR(gradients.k.values[i], slope_of(k, in.k, i), 1e-7) << "k " << i;
    EXPECT_NEAR(gradients.v.values[i], slope_of(v, in.v, i), 1e-7) << "v " << i;
  }
}

#ifdef TENFOLD_COUNTED

using simt::Access;
using simt::Kind;
using simt::Report;
using simt::Space;

/// What the rungs ask of memory, for one head of n queries and n keys and head_dim 64. The formulas are those of the
/// README.
class FlashAttentionUnderTheMicroscope : public FlashAttention<float> {
 protected:
  static constexpr int64_t kWidth = 64;
  template <class T>
  Report forward_report(int64_t n, int rung, bool causal = false) {
    device_.reset();
    const AttentionShape shape{1, 1, n, n, kWidth, causal};
    const Inputs<T> in(shape, 90);
    const auto q = copied(in.q.given, "q"), k = copied(in.k.given, "k"), v = copied(in.v.given, "v");
    const auto out = poisoned<T>(query_values(shape));
    const auto sums = poisoned<float>(n, "logsumexp"), scores = poisoned<float>(n * n, "scores");
    kernels::flash_attention(stream(), out.data(), sums.data(), scores.data(), q.data(), k.data(), v.data(), shape,
                             rung);
    expect_clean();
    return device_.report();
  }
  template <class T>
  Report backward_report(int64_t n, int rung, bool causal = false) {
    device_.reset();
    const AttentionShape shape{1, 1, n, n, kWidth, causal};
    const Inputs<T> in(shape, 91);
    const auto q = copied(in.q.given, "q"), k = copied(in.k.given, "k"), v = copied(in.v.given, "v");
    const auto grad = copied(in.q.given, "grad_out"), out = copied(in.v.given, "out");
    const auto sums = copied(std::vector<float>(static_cast<size_t>(n), 5.0F), "logsumexp");
    const auto grad_q = poisoned<T>(query_values(shape)), grad_k = poisoned<T>(key_values(shape)),
               grad_v = poisoned<T>(key_values(shape));
    const auto dots = poisoned<float>(n, "dots");
    kernels::flash_attention_backward(stream(), grad_q.data(), grad_k.data(), grad_v.data(), dots.data(), grad.data(),
                                      q.data(), k.data(), v.data(), out.data(), sums.data(), shape, rung);
    expect_clean();
    return device_.report();
  }
  static int64_t dram_bytes(const Report& report) { return report.unique_bytes_read + report.unique_bytes_written; }
  static int64_t moved(const Report& report) { return report.sectors() * 32; }
  static int64_t moved(const Report& report, const std::string& buffer) {
    int64_t bytes = 0;
    for (const Access& access : report.accesses) bytes += access.buffer == buffer ? access.bytes_moved() : 0;
    return bytes;
  }
  static void expect_no_conflicts(const Report& report, const std::string& what) {
    for (const Access& access : report.accesses) {
      if (access.space != Space::shared) continue;
      EXPECT_EQ(access.wavefronts, access.ideal_wavefronts) << what << ", " << simt::text_of(access.where);
    }
  }
};

// What DRAM must move: with the matrix of scores 8 bytes for each pair of a query and a key, without it nothing for a
// pair.
TEST_F(FlashAttentionUnderTheMicroscope, OnlyTheMaterialisedRungTouchesMemoryForEachPair) {
  for (const int64_t n : {64, 128, 256}) {
    const int64_t least = 16 * n * kWidth + 4 * n;
    EXPECT_EQ(dram_bytes(forward_report<float>(n, 0)), least + 8 * n * n);
    EXPECT_EQ(dram_bytes(forward_report<float>(n, 1)), least);
    EXPECT_EQ(dram_bytes(forward_report<float>(n, 2)), least);
    for (const int rung : {3, 4, 5, 6, 7, 8})
      EXPECT_EQ(dram_bytes(forward_report<__nv_bfloat16>(n, rung)), 8 * n * kWidth + 4 * n);
    // Eight arrays, and a number of each query: logsumexp read, dots written and read.
    EXPECT_EQ(dram_bytes(backward_report<float>(n, 0)), 32 * n * kWidth + 12 * n);
    EXPECT_EQ(dram_bytes(backward_report<__half>(n, 1)), 16 * n * kWidth + 12 * n);
  }
}

// What all requests move: keys and values again for each tile of queries, which a cache has to answer.
TEST_F(FlashAttentionUnderTheMicroscope, ALargerTileOfQueriesReadsKeysLessOften) {
  for (const int64_t n : {128, 192}) {
    const int64_t pairs = n * n;
    EXPECT_EQ(moved(forward_report<float>(n, 0)), pairs * (kWidth / 2 + 16) + 4 * n * kWidth + 32 * n);
    EXPECT_EQ(moved(forward_report<float>(n, 1)), pairs * kWidth / 4 + 8 * n * kWidth + 4 * n);
    EXPECT_EQ(moved(forward_report<float>(n, 2)), pairs * kWidth / 8 + 8 * n * kWidth + 8 * n);
    for (const int rung : {3, 4})
      EXPECT_EQ(moved(forward_report<__half>(n, rung)), pairs * kWidth / 16 + 4 * n * kWidth + 4 * n);
  }
}

TEST_F(FlashAttentionUnderTheMicroscope, CausalTilesAreSkipped) {
  constexpr int64_t kLength = 256, kTiles = kLength / 64;
  const int64_t all = moved(forward_report<float>(kLength, 2), "k"),
                causal = moved(forward_report<float>(kLength, 2, true), "k");
  EXPECT_EQ(causal * 2 * kTiles, all * (kTiles + 1));
  EXPECT_EQ(moved(forward_report<__half>(kLength, 3, true), "k") * 2, causal);
  EXPECT_EQ(moved(forward_report<float>(kLength, 1, true), "k"), moved(forward_report<float>(kLength, 1), "k"))
      << "rung 1 skips none";
  // Rung 5: tile i of 128 queries reads 4 (i + 1) tiles of 32 keys, of 4 kLength / 128 where it sees all.
  constexpr int64_t kWide = kLength / 128;
  EXPECT_EQ(moved(forward_report<__half>(kLength, 5, true), "k") * 2 * kWide,
            moved(forward_report<__half>(kLength, 5), "k") * (kWide + 1));
}

// 16 rows of a warp and 32 that stream past: in the keys kernel 64 instructions for four products, in the other 48.
TEST_F(FlashAttentionUnderTheMicroscope, WarpsOfTheBackwardPassSkipWhatTheMaskHides) {
  for (const int64_t n : {128, 256}) {
    const int64_t tiles = n / 32, all = 2 * tiles * tiles, seen = tiles * (tiles + 1);
    EXPECT_EQ(backward_report<__half>(n, 1).matrix_multiplies, all * (64 + 48));
    EXPECT_EQ(backward_report<__half>(n, 1, true).matrix_multiplies, seen * (64 + 48));
  }
}

TEST(AttentionFlops, CountThePairsThatAreSeen) {
  for (const bool causal : {false, true}) {
    for (const int64_t queries : {1, 2, 7, 64}) {
      for (const int64_t keys : {1, 2, 7, 64}) {
        int64_t pairs = 0;
        for (int64_t i = 0; i < queries; ++i) pairs += causal ? std::min(keys, i + 1) : keys;
        EXPECT_EQ(kernels::attention_flops({2, 3, queries, keys, 32, causal}, 5),
                  static_cast<double>(5 * 2 * 2 * 3 * 32 * pairs));
      }
    }
  }
}

TEST(FlashAttentionRung, KeepsEverySmBusy) {
  const auto rung = [](int64_t heads, int64_t queries) {
    return kernels::flash_attention_rung<__half>({8, heads, queries, queries, 64, true}, 132);
  };
  EXPECT_EQ(rung(16, 2048), 5);
  EXPECT_EQ(rung(1, 2048), 4) << "128 blocks for 132 SMs";
  EXPECT_EQ(kernels::flash_attention_rung<float>({1, 1, 64, 64, 64, false}, 132), 2);
}

TEST_F(FlashAttentionUnderTheMicroscope, NoRungHasABankConflict) {
  for (int rung = 0; rung < 3; ++rung)
    expect_no_conflicts(forward_report<float>(128, rung), "rung " + std::to_string(rung));
  expect_no_conflicts(forward_report<__half>(128, 3), "tensor cores");
  expect_no_conflicts(forward_report<__half>(128, 4), "copies ahead");
  expect_no_conflicts(forward_report<__half>(128, 5), "wide warps");
  expect_no_conflicts(backward_report<float>(64, 0), "backward");
  expect_no_conflicts(backward_report<__half>(64, 1), "backward on tensor cores");
}

TEST_F(FlashAttentionUnderTheMicroscope, RegistersAndTensorCoresNeedFewerSharedLoads) {
  constexpr int64_t kLength = 128;
  const auto shared_loads = [&](const Report& report) {
    int64_t requests = 0;
    for (const Access& access : report.accesses)
      requests += access.space == Space::shared && access.kind == Kind::load ? access.requests : 0;
    return requests;
  };
  // Multiply-adds of a warp, of both products: 32 in a request of 4 bytes, 8 x 32 and more in one of 16.
  constexpr int64_t kMultiplyAdds = 2 * kLength * kLength * kWidth / 32;
  EXPECT_EQ(shared_loads(forward_report<float>(kLength, 0)), 2 * kMultiplyAdds);
  EXPECT_EQ(shared_loads(forward_report<float>(kLength, 1)), kMultiplyAdds / 4);
  // Scores: 8 loads for 64 multiply-adds of a lane. Results: 4 of weights and 8 of values for 128.
  EXPECT_EQ(shared_loads(forward_report<float>(kLength, 2)), kMultiplyAdds / 2 * 8 / 64 + kMultiplyAdds / 2 * 12 / 128);
  EXPECT_LT(shared_loads(forward_report<__half>(kLength, 3)) * 10, shared_loads(forward_report<float>(kLength, 2)));
}

TEST_F(FlashAttentionUnderTheMicroscope, TwoTilesInSharedMemoryNeedOneBarrierForEach) {
  constexpr int64_t kLength = 256, kBlocks = kLength / 64;
  EXPECT_EQ(forward_report<float>(kLength, 2).barriers, kBlocks * kLength / 32 * 2);
  EXPECT_EQ(forward_report<__half>(kLength, 3).barriers, kBlocks * kLength / 64 * 2);
  EXPECT_EQ(forward_report<__half>(kLength, 4).barriers, kBlocks * kLength / 64);
  EXPECT_EQ(forward_report<__half>(kLength, 5).barriers, kBlocks / 2 * kLength / 32) << "128 queries, tiles of 32 keys";
}

TEST_F(FlashAttentionUnderTheMicroscope, EveryLoadAndStoreOfMatricesIs16Bytes) {
  for (const Report& report :
       {forward_report<float>(128, 1), forward_report<float>(128, 2), forward_report<__half>(128, 3),
        forward_report<__half>(128, 4), forward_report<__half>(128, 5)}) {
    int64_t matrices = 0;
    for (const Access& access : report.accesses) {
      if (access.space != Space::global || access.buffer == "logsumexp") continue;
      ++matrices;
      EXPECT_EQ(access.bytes, 16) << simt::text_of(access.where);
    }
    EXPECT_EQ(matrices, 4) << "q, k, v and out";
  }
}

#endif

}  // namespace
}  // namespace tenfold::test
