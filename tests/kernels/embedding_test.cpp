// Embedding forward and backward against float64, for float, half and bfloat16, with ids that are out of range.
#include "kernels/embedding/embedding.h"

#include <random>
#include <stdexcept>

#include "kernels/embedding/embedding_reference.h"
#include "row_kernel.h"

namespace tenfold::test {
namespace {

using kernels::kEmbeddingBackwardRungs;
using kernels::kEmbeddingRungs;

struct EmbeddingShape {
  int64_t tokens, width, vocabulary;
};
// Among them rows of several tiles, and vocabularies smaller and larger than the number of tokens.
const EmbeddingShape kShapes[] = {{1, 1, 1},     {5, 123, 7},  {3, 1000, 50}, {70, 7, 5},
                                  {33, 64, 200}, {129, 24, 3}, {300, 8, 2},   {40, 264, 11}};

std::string text_of(const EmbeddingShape& s, int rung) {
  return "tokens " + std::to_string(s.tokens) + " width " + std::to_string(s.width) + " vocabulary " +
         std::to_string(s.vocabulary) + " rung " + std::to_string(rung);
}

std::vector<int64_t> random_ids(int64_t tokens, int64_t vocabulary, uint64_t seed) {
  std::mt19937_64 bits(seed);
  std::vector<int64_t> ids;
  for (int64_t i = 0; i < tokens; ++i) ids.push_back(static_cast<int64_t>(bits() % static_cast<uint64_t>(vocabulary)));
  return ids;
}

/// Three ids: a few places, all but the last few, the rest. Their runs begin and end within chunks of 32, at their
/// edges, and go over many.
std::vector<int64_t> runs_across_chunks(int64_t tokens) {
  std::vector<int64_t> ids(static_cast<size_t>(tokens), 1);
  std::fill(ids.begin(), ids.begin() + tokens % 32 + 3, 0);
  std::fill(ids.end() - (tokens % 64 == 0 ? 32 : 2), ids.end(), 2);
  return ids;
}

template <class T>
class Embedding : public KernelTest {
 protected:
  static constexpr int kFirstBackwardRung = std::is_same_v<T, float> ? 0 : 1;

  void expect_forward(const EmbeddingShape& s, const std::vector<int64_t>& ids, int rung) {
    const Values<T> weight(normal_values(s.vocabulary * s.width, 190));
    const auto w = this->copied(weight.given, "weight");
    const auto tokens = this->copied(ids, "ids");
    const auto out = this->template poisoned<T>(s.tokens * s.width);
    kernels::embedding(this->stream(), out.data(), w.data(), tokens.data(), s.tokens, s.width, s.vocabulary, rung);
    this->expect_clean();
    expect_all(out.host(), kernels::embedding_reference(weight.wide, ids, s.width, s.vocabulary), text_of(s, rung));
  }

  /// The table's gradient; `skip` values lie before each array.
  std::vector<double> gradient(const Values<T>& before, const Values<T>& g, const std::vector<int64_t>& ids,
                               const EmbeddingShape& s, int rung, int64_t skip = 0) {
    const auto shifted = [&](std::vector<T> values) {
      values.insert(values.begin(), static_cast<size_t>(skip), values[0]);
      return this->copied(values);
    };
    const auto grad_weight = shifted(before.given), grad_out = shifted(g.given);
    const kernels::SortedIds sorted(ids);
    const auto tokens = this->copied(sorted.ids, "ids"), order = this->copied(sorted.order, "order");
    const auto parts =
        this->template poisoned<float>(kernels::embedding_workspace_bytes(s.tokens, s.width) / 4, "workspace");
    kernels::embedding_backward(this->stream(), grad_weight.data() + skip, parts.data(), grad_out.data() + skip,
                                tokens.data(), order.data(), s.tokens, s.width, s.vocabulary, rung);
    this->expect_clean();
    const auto result = widened(grad_weight.host());
    return {result.begin() + skip, result.end()};
  }
  void expect_backward(const EmbeddingShape& s, const std::vector<int64_t>& ids, int rung, int64_t skip = 0) {
    const Values<T> before(normal_values(s.vocabulary * s.width, 191)), g(normal_values(s.tokens * s.width, 192));
    const auto expected =
        kernels::embedding_backward_reference(before.wide, g.wide, ids, s.width, s.vocabulary, rounding_of<T>());
    const auto result = gradient(before, g, ids, s, rung, skip);
    expect_all(result, expected, text_of(s, rung) + " skip " + std::to_string(skip));
    if (rung > 0) {
      EXPECT_EQ(result, gradient(before, g, ids, s, rung, skip)) << "not the same bits";
    }
  }
};
TYPED_TEST_SUITE(Embedding, RowTypes);

TYPED_TEST(Embedding, EveryRungCopiesTheRows) {
  for (int rung = 0; rung < kEmbeddingRungs; ++rung) {
    for (const auto& shape : kShapes)
      this->expect_forward(shape, random_ids(shape.tokens, shape.vocabulary, 193), rung);
  }
}

const std::vector<int64_t> kSomeUnknown = {
    3, -1, 4, 5, std::numeric_limits<int64_t>::max(), 0, 4, std::numeric_limits<int64_t>::min(), -1};

TYPED_TEST(Embedding, AnIdOutOfRangeGivesNaNAndTouchesNothing) {
  for (int rung = 0; rung < kEmbeddingRungs; ++rung) {
    for (const int64_t width : {16, 13}) this->expect_forward({9, width, 5}, kSomeUnknown, rung);
  }
  for (int rung = this->kFirstBackwardRung; rung < kEmbeddingBackwardRungs; ++rung) {
    for (const int64_t width : {16, 13}) this->expect_backward({9, width, 5}, kSomeUnknown, rung);
    this->expect_backward({2, 16, 3}, {-1, 3}, rung);  // nothing but such ids: every bit stays
  }
}

TYPED_TEST(Embedding, BackwardMatchesFloat64AndRepeatsItsBits) {
  for (int rung = this->kFirstBackwardRung; rung < kEmbeddingBackwardRungs; ++rung) {
    for (const auto& shape : kShapes)
      this->expect_backward(shape, random_ids(shape.tokens, shape.vocabulary, 194), rung);
    this->expect_backward({3, 2077, 2}, {1, 0, 1}, rung);  // more column tiles than blocks side by side
    this->expect_backward({50, 40, 9}, std::vector<int64_t>(50, 4), rung);  // one run of all tokens
    for (const int64_t tokens : {32, 64, 65}) this->expect_backward({tokens, 8, 3}, runs_across_chunks(tokens), rung);
    this->expect_backward({400, 16, 3}, runs_across_chunks(400), rung);
    this->expect_backward({16, 64, 6}, random_ids(16, 6, 195), rung, 1);  // arrays that begin between packets
  }
}

TYPED_TEST(Embedding,
           ManySmallGradientsAreNotLost) {  // 1 + 1000 * 2^-12: in half or bfloat16 each addition alone would vanish
  const EmbeddingShape s{1000, 8, 2};
  const Values<TypeParam> before(std::vector<float>(16, 1)), g(std::vector<float>(8000, 0x1p-12F));
  for (int rung = 1; rung < kEmbeddingBackwardRungs; ++rung) {
    const auto result = this->gradient(before, g, std::vector<int64_t>(1000, 1), s, rung);
    for (size_t c = 0; c < 8; ++c) {
      EXPECT_EQ(result[c], 1) << "rung " << rung;
      EXPECT_NEAR(result[8 + c], 1.244140625, 0.005) << "rung " << rung;
    }
  }
}

using EmbeddingOfFloat = Embedding<float>;

TEST_F(EmbeddingOfFloat, WithoutAnOrderPlacesAreTokens) {  // rung 0 takes the ids as they come
  const EmbeddingShape s{6, 5, 4};
  const Values<float> before(normal_values(s.vocabulary * s.width, 201)), g(normal_values(s.tokens * s.width, 202));
  for (int rung = 0; rung < kEmbeddingBackwardRungs; ++rung) {
    const std::vector<int64_t> of_tokens =
        rung == 0 ? std::vector<int64_t>{3, 0, 2, 2, 0, 3} : std::vector<int64_t>{0, 0, 2, 2, 2, 3};
    const auto grad_weight = copied(before.given, "grad_weight"), grad_out = copied(g.given, "grad_out");
    const auto ids = copied(of_tokens, "ids");
    const auto parts = poisoned<float>(kernels::embedding_workspace_bytes(s.tokens, s.width) / 4, "workspace");
    kernels::embedding_backward(stream(), grad_weight.data(), parts.data(), grad_out.data(), ids.data(), nullptr,
                                s.tokens, s.width, s.vocabulary, rung);
    expect_clean();
    const auto expected = kernels::embedding_backward_reference(before.wide, g.wide, of_tokens, s.width, s.vocabulary,
                                                                kernels::kFloatRounding);
    expect_all(grad_weight.host(), expected, text_of(s, rung));
  }
}

TEST(EmbeddingReference, BackwardIsTheSlopeOfForward) {
  const EmbeddingShape s{6, 3, 4};
  const std::vector<int64_t> ids = {2, 0, 2, 2, 3, 0};
  const auto weight = widened(normal_values(s.vocabulary * s.width, 196)),
             g = widened(normal_values(s.tokens * s.width, 197));
  const std::vector<double> zeros(weight.size());
  const auto gradient =
      kernels::embedding_backward_reference(zeros, g, ids, s.width, s.vocabulary, kernels::kFloatRounding).values;
  const auto loss = [&](const std::vector<double>& w) {
    return dot(g, kernels::embedding_reference(w, ids, s.width, s.vocabulary).values);
  };
  for (size_t i = 0; i < weight.size(); ++i) EXPECT_NEAR(gradient[i], slope_of(loss, weight, i), 1e-8);
}

TEST_F(EmbeddingOfFloat, RefusesWhatCannotBe) {
  const auto x = poisoned<float>(4);
  const auto half = poisoned<__half>(4);
  const auto ids = copied<int64_t>({0});
  const auto forward = [&](int64_t tokens, int64_t width, int64_t vocabulary, int rung) {
    kernels::embedding(stream(), x.data(), x.data() + 1, ids.data(), tokens, width, vocabulary, rung);
  };
  const auto backward = [&](int64_t tokens, int64_t width, int64_t vocabulary, int rung) {
    kernels::embedding_backward(stream(), x.data(), x.data() + 2, x.data() + 1, ids.data(), ids.data(), tokens, width,
                                vocabulary, rung);
  };
  EXPECT_THROW(forward(0, 1, 1, 0), std::invalid_argument);
  EXPECT_THROW(forward(1, 0, 1, 0), std::invalid_argument);
  EXPECT_THROW(forward(1, 1, 0, 0), std::invalid_argument);
  EXPECT_THROW(forward(int64_t{1} << 31, 1, 1, 0), std::invalid_argument);
  EXPECT_THROW(forward(1, 1, 1, -1), std::invalid_argument);
  EXPECT_THROW(forward(1, 1, 1, kEmbeddingRungs), std::invalid_argument);
  EXPECT_THROW(backward(0, 1, 1, 1), std::invalid_argument);
  EXPECT_THROW(backward(1, 1, 1, kEmbeddingBackwardRungs), std::invalid_argument);
  EXPECT_THROW(
      kernels::embedding_backward(stream(), half.data(), x.data(), half.data() + 1, ids.data(), ids.data(), 1, 1, 1, 0),
      std::invalid_argument);
}

#ifdef TENFOLD_COUNTED

TEST_F(EmbeddingOfFloat, ForwardAsksForLess) {
  const int64_t tokens = 64, width = 256, vocabulary = 100, bytes = tokens * width * 4;
  const auto w = copied(normal_values(vocabulary * width, 198), "weight"), out = poisoned<float>(tokens * width);
  std::vector<int64_t> all_different;
  for (int64_t i = 0; i < tokens; ++i) all_different.push_back(i * 37 % vocabulary);
  const auto ids = copied(all_different, "ids");
  const double sectors[] = {32, 4, 16};  // 16 sectors: 32 lanes with 16 bytes each
  for (int rung = 0; rung < kEmbeddingRungs; ++rung) {
    device_.reset();
    kernels::embedding(stream(), out.data(), w.data(), ids.data(), tokens, width, vocabulary, rung);
    const auto report = device_.report();
    EXPECT_EQ(bytes_asked(report, simt::Kind::load, "weight"), bytes) << "rung " << rung;
    EXPECT_EQ(bytes_asked(report, simt::Kind::store, "out"), bytes) << "rung " << rung;
    EXPECT_EQ(widest(report, simt::Kind::load, "weight").sectors_per_request, sectors[rung]) << "rung " << rung;
    EXPECT_EQ(widest(report, simt::Kind::store, "out").sectors_per_request, sectors[rung]) << "rung " << rung;
    EXPECT_EQ(widest(report, simt::Kind::load, "weight").bytes, rung == 2 ? 16 : 4) << "rung " << rung;
  }
}

TEST_F(EmbeddingOfFloat, SortedTokensNeedNoAtomicsAndWriteEachRowOnce) {
  const int64_t tokens = 64, width = 256, vocabulary = 100, used = 10, row = width * 4;
  const auto g = copied(normal_values(tokens * width, 199), "grad_out");
  const auto grad_weight = copied(std::vector<float>(static_cast<size_t>(vocabulary * width)), "grad_weight");
  std::vector<int64_t> some;
  for (int64_t i = 0; i < tokens; ++i) some.push_back(i * 7 % used);
  const kernels::SortedIds sorted(some);
  const auto ids = copied(sorted.ids, "ids"), order = copied(sorted.order, "order");
  const auto parts = poisoned<float>(kernels::embedding_workspace_bytes(tokens, width) / 4, "workspace");
  for (int rung = 0; rung < kEmbeddingBackwardRungs; ++rung) {
    device_.reset();
    kernels::embedding_backward(stream(), grad_weight.data(), parts.data(), g.data(), ids.data(), order.data(), tokens,
                                width, vocabulary, rung);
    const auto report = device_.report();
    EXPECT_TRUE(report.clean()) << "rung " << rung;
    EXPECT_EQ(bytes_asked(report, simt::Kind::load, "grad_out"), tokens * row) << "rung " << rung;
    EXPECT_EQ(bytes_asked(report, simt::Kind::atomic, "grad_weight"), rung == 0 ? tokens * row : 0) << "rung " << rung;
    EXPECT_EQ(bytes_asked(report, simt::Kind::store, "grad_weight"), rung == 0 ? 0 : used * row) << "rung " << rung;
    // Of the ten runs of six or seven places one goes over the edge between the two chunks: two parts.
    EXPECT_EQ(bytes_asked(report, simt::Kind::store, "workspace"), rung == 3 ? 2 * row : 0) << "rung " << rung;
    EXPECT_EQ(widest(report, simt::Kind::load, "grad_out").bytes, rung >= 2 ? 16 : 4) << "rung " << rung;
    EXPECT_LE(worst_ways(report), 1) << "rung " << rung;
  }
}

TEST_F(EmbeddingOfFloat,
       UnsortedIdsAreARace) {  // two runs of one id: two blocks write one row, and the microscope says so
  const int64_t width = 32;
  const auto g = copied(normal_values(3 * width, 200), "grad_out");
  const auto grad_weight = copied(std::vector<float>(static_cast<size_t>(2 * width)), "grad_weight");
  const auto ids = copied<int64_t>({1, 0, 1}, "ids");
  kernels::embedding_backward(stream(), grad_weight.data(), static_cast<float*>(nullptr), g.data(), ids.data(), nullptr,
                              3, width, 2, 2);
  EXPECT_FALSE(device_.report().races.empty());
}

#endif

}  // namespace
}  // namespace tenfold::test
