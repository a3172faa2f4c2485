#include <gtest/gtest.h>

#include "attention_block.h"
#include "common/ranks/rank_threads.h"
#include "context_bytes.h"
#include "context_gpt.h"
#include "lessons/21_mixed_precision/autocast.h"
#include "ring_attention.h"
#include "sequence_parts.h"
#include "surveys.h"
#include "ulysses.h"

#include <ATen/CPUGeneratorImpl.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/rank_threads.h"
#include "tests/support/support.h"

namespace {

using tenfold::Group;
using tenfold::Scheme;
using tenfold::SequenceOrder;
using torch::Tensor;

Tensor random(at::IntArrayRef sizes, uint64_t seed) {
  return torch::randn(sizes, at::detail::createCPUGenerator(seed));
}

void on_ranks(int ranks, const std::function<void(int, const Group&)>& work) {
  tenfold::test::on_ranks<Group>(ranks, work);
}

std::string refusal_of(const std::function<void()>& work) { return tenfold::test::message_of<c10::ValueError>(work); }

TEST(SequenceParts, EveryTokenIsOnOneRank) {
  for (const auto order : {SequenceOrder::contiguous, SequenceOrder::zigzag}) {
    for (const int64_t ranks : {1, 2, 3, 5}) {
      std::vector<Tensor> parts;
      for (int64_t rank = 0; rank < ranks; ++rank) {
        parts.push_back(tenfold::places_of_rank(order, 60, rank, ranks));
        EXPECT_TRUE(torch::equal(parts.back(), std::get<0>(parts.back().sort()))) << "ascending";
        EXPECT_EQ(parts.back().numel(), 60 / ranks);
      }
      EXPECT_TRUE(torch::equal(std::get<0>(torch::cat(parts).sort()), torch::arange(60))) << ranks;
    }
  }
  EXPECT_TRUE(torch::equal(tenfold::places_of_rank(SequenceOrder::zigzag, 8, 0, 2), torch::tensor({0, 1, 6, 7})));
}

TEST(SequenceParts, VisibleBlocksAreTheCausalMask) {
  for (const auto order : {SequenceOrder::contiguous, SequenceOrder::zigzag}) {
    for (const int64_t ranks : {1, 2, 3, 4}) {
      const int64_t length = 24, own = length / ranks;
      for (int64_t rank = 0; rank < ranks; ++rank) {
        for (int64_t source = 0; source < ranks; ++source) {
          const Tensor of_queries = tenfold::places_of_rank(order, length, rank, ranks);
          const Tensor of_keys = tenfold::places_of_rank(order, length, source, ranks);
          Tensor seen = torch::zeros({own, own}, torch::kBool);
          const auto block = tenfold::visible_block(order, rank, source, own);
          Tensor rectangle = seen.narrow(0, block.first_query, block.queries).narrow(1, 0, block.keys);
          rectangle.copy_(block.causal ? torch::ones_like(rectangle).tril() : torch::ones_like(rectangle));
          EXPECT_TRUE(torch::equal(seen, of_queries.unsqueeze(1).ge(of_keys)))
              << rank << " sees " << source << " of " << ranks;
        }
      }
    }
  }
}

TEST(SequenceParts, WhatCannotBeCutIsRefused) {
  EXPECT_NE(refusal_of([] {
              tenfold::places_of_rank(SequenceOrder::zigzag, 20, 0, 4);
            }).find("a sequence of 20 tokens cannot be cut into 8 equal chunks: pad it"),
            std::string::npos);
  EXPECT_EQ(tenfold::tokens_of_rank(SequenceOrder::contiguous, 20, 4), 5);
  EXPECT_NE(refusal_of([] {
              const Tensor x = torch::zeros({1, 2, 5, 4});
              tenfold::ring_attention(x, x, x, SequenceOrder::zigzag, {});
            }).find("a rank has two chunks of equal size, not 5 tokens"),
            std::string::npos);
  EXPECT_NE(refusal_of([] {
              const Tensor x = torch::zeros({1, 2, 4, 4});
              tenfold::ring_attention(x, x.narrow(1, 0, 1), x, SequenceOrder::contiguous, {});
            }).find("keys and values (B, G, T / N, d), where G divides H"),
            std::string::npos);
  EXPECT_NE(refusal_of([] {
              const Tensor q = torch::zeros({1, 4, 4, 4}), k = torch::zeros({1, 3, 4, 4});
              tenfold::gathered_attention(q, k, k, SequenceOrder::contiguous, {});
            }).find("where G divides H, not [1, 4, 4, 4], [1, 3, 4, 4]"),
            std::string::npos);
  on_ranks(3, [](int, const Group& group) {
    EXPECT_NE(refusal_of([&] {
                tenfold::tokens_to_heads(torch::zeros({1, 2, 3, 4, 5}), group);
              }).find("Ulysses: 3 ranks do not divide 4 heads (or groups of heads); ring attention"),
              std::string::npos);
    EXPECT_NE(refusal_of([&] {
                tenfold::heads_to_tokens(torch::zeros({1, 4, 1, 1, 5}), group);
              }).find("3 ranks do not divide 4 tokens"),
              std::string::npos);
  });
}

TEST(RescaleParts, TwoPartsAreTheWholeAlsoWhereExponentialsOverflow) {
  for (const double size : {1.0, 60.0}) {  // scores of some 60^2: e to that is no number of 32 bits
    const Tensor q = size * random({2, 3, 5, 4}, 1), k = size * random({2, 3, 7, 4}, 2), v = random({2, 3, 7, 4}, 3);
    const auto [whole, whole_lse] = tenfold::attention_block(q, k, v, false);
    for (const int64_t first : {1, 4}) {
      const auto [out, lse] = tenfold::attention_block(q, k.narrow(2, 0, first), v.narrow(2, 0, first), false);
      const auto [part, part_lse] =
          tenfold::attention_block(q, k.narrow(2, first, 7 - first), v.narrow(2, first, 7 - first), false);
      tenfold::RescaleParts::merge(out, lse, part, part_lse);
      // Scores of 3600 have an error of 2e-4 in 32 bits, and so has a weight.
      EXPECT_TRUE(torch::allclose(out, whole, 1e-4, 2e-3)) << size;
      EXPECT_TRUE(torch::allclose(lse, whole_lse, 1e-5, 1e-4)) << size;
    }
  }
}

/// Attention's result and the gradient of (B, T, 3, H, d).
struct Attended {
  Tensor result, of_qkv;
};

Attended after_backward(const Tensor& qkv, const Tensor& scale, const std::function<Tensor(const Tensor&)>& attention) {
  const Tensor leaf = qkv.clone().requires_grad_();
  const Tensor result = attention(leaf);
  (result * scale).sum().backward();
  return {result.detach(), leaf.grad()};
}

struct Shape {
  int64_t batch, length, heads, size;
};

/// The largest difference of a rank's results from those of one process at the rank's places.
double deviation(Scheme scheme, const Shape& shape, int ranks, tenfold::Mistake mistake = tenfold::Mistake::none,
                 torch::ScalarType type = torch::kFloat) {
  const Tensor qkv = 2 * random({shape.batch, shape.length, 3, shape.heads, shape.size}, 1).to(type);
  const Tensor scale = random({shape.batch, shape.length, shape.heads * shape.size}, 2).to(type);
  const Attended alone =
      after_backward(qkv, scale, [](const Tensor& leaf) { return tenfold::aten_attention(leaf, 0); });
  std::vector<double> worst(static_cast<size_t>(ranks));
  on_ranks(ranks, [&](int rank, const Group& group) {
    const Tensor places = tenfold::places_of_rank(tenfold::order_of(scheme), shape.length, rank, ranks);
    const auto own = [&](const Tensor& t) { return t.index_select(1, places); };
    const Attended part = after_backward(own(qkv), own(scale), [&](const Tensor& leaf) {
      return tenfold::attention_over_ranks(leaf, scheme, group, mistake);
    });
    worst[static_cast<size_t>(rank)] = std::max((part.result - own(alone.result)).abs().max().item<double>(),
                                                (part.of_qkv - own(alone.of_qkv)).abs().max().item<double>());
  });
  return *std::ranges::max_element(worst);
}

// Values and gradients of some units, sums of up to 48 products in another order: some 1e-6. What is forgotten moves
// them by 1e-2 and more, as the mistake below does.
constexpr double kRounding = 1e-4;

TEST(RingAttention, EqualsOneProcess) {
  for (const int ranks : {1, 2, 3, 4}) {
    for (const Shape& shape : {Shape{2, 24, 3, 5}, Shape{1, 48, 1, 8}}) {
      EXPECT_LT(deviation(Scheme::ring, shape, ranks), kRounding) << ranks;
      EXPECT_LT(deviation(Scheme::zigzag, shape, ranks), kRounding) << ranks;
    }
  }
  EXPECT_LT(deviation(Scheme::ring, {2, 15, 3, 5}, 3), kRounding) << "an odd number of tokens";
}

TEST(RingAttention, EqualsOneProcessIn64Bits) {
  for (const Scheme scheme : {Scheme::ring, Scheme::zigzag})
    EXPECT_LT(deviation(scheme, {2, 24, 3, 5}, 4, tenfold::Mistake::none, torch::kDouble), 1e-10);
}

TEST(GatheredAttention, EqualsOneProcess) {
  for (const int ranks : {1, 2, 3, 4}) {
    for (const Shape& shape : {Shape{2, 24, 3, 5}, Shape{1, 48, 1, 8}})
      EXPECT_LT(deviation(Scheme::gathered, shape, ranks), kRounding) << ranks;
  }
  EXPECT_LT(deviation(Scheme::gathered, {2, 24, 3, 5}, 4, tenfold::Mistake::none, torch::kDouble), 1e-10);
}

TEST(Ulysses, EqualsOneProcess) {
  for (const int ranks : {1, 2, 3, 4}) {
    EXPECT_LT(deviation(Scheme::ulysses, {2, 24, 12, 5}, ranks), kRounding) << ranks;
    EXPECT_LT(deviation(Scheme::ulysses, {1, 5L * ranks, ranks, 4}, ranks), kRounding) << ranks;
  }
}

/// Result and gradients of attention with grouped heads: queries (B, H, T, d), keys and values (B, G, T, d).
struct Grouped {
  Tensor result, of_q, of_k, of_v;
};
using GroupedAttention = std::function<Tensor(const Tensor& q, const Tensor& k, const Tensor& v)>;

Grouped of_grouped(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& scale,
                   const GroupedAttention& attention) {
  const auto leaf = [](const Tensor& t) { return t.clone().requires_grad_(); };
  const Tensor of[] = {leaf(q), leaf(k), leaf(v)};
  const Tensor result = attention(of[0], of[1], of[2]);
  (result * scale).sum().backward();
  return {result.detach(), of[0].grad(), of[1].grad(), of[2].grad()};
}

/// Ulysses with queries in one message, keys and values in another.
Tensor ulysses_of_groups(const Tensor& q, const Tensor& k, const Tensor& v, const Group& group) {
  const auto as_tokens = [](const Tensor& t) { return t.transpose(1, 2); };  // (B, T / N, heads, d)
  const Tensor queries = tenfold::tokens_to_heads(as_tokens(q).unsqueeze(2), group).select(2, 0);
  const Tensor both = tenfold::tokens_to_heads(torch::stack({as_tokens(k), as_tokens(v)}, 2), group);
  const Tensor result = at::scaled_dot_product_attention(as_tokens(queries), as_tokens(both.select(2, 0)),
                                                         as_tokens(both.select(2, 1)), {}, 0, /*is_causal=*/true,
                                                         /*scale=*/{}, /*enable_gqa=*/true);
  return as_tokens(tenfold::heads_to_tokens(as_tokens(result).unsqueeze(2), group).select(2, 0));
}

TEST(GroupedHeads, EqualOneProcessAndOnlyTheFewAreSent) {
  for (const int64_t groups : {2, 4}) {
    const Tensor q = random({2, 8, 24, 5}, 1), scale = random({2, 8, 24, 5}, 4);
    const Tensor k = random({2, groups, 24, 5}, 2), v = random({2, groups, 24, 5}, 3);
    const Grouped alone = of_grouped(q, k, v, scale, [](const Tensor& a, const Tensor& b, const Tensor& c) {
      const auto all = [](const Tensor& few) { return few.repeat_interleave(8 / few.size(1), 1); };
      return at::scaled_dot_product_attention(a, all(b), all(c), {}, 0, /*is_causal=*/true);
    });
    on_ranks(2, [&](int rank, const Group& plain) {
      const auto counter = std::make_shared<tenfold::RequestCounter>();
      const Group group = tenfold::counted_group(plain, counter);
      for (const auto order : {SequenceOrder::contiguous, SequenceOrder::zigzag}) {
        const Tensor places = tenfold::places_of_rank(order, 24, rank, 2);
        const auto own = [&](const Tensor& t) { return t.index_select(2, places); };
        const auto check = [&](const std::string& name, const GroupedAttention& attention) {
          counter->take();
          const Grouped part = of_grouped(own(q), own(k), own(v), own(scale), attention);
          // As for equal heads above.
          EXPECT_LT((part.result - own(alone.result)).abs().max().item<double>(), kRounding) << name;
          EXPECT_LT((part.of_q - own(alone.of_q)).abs().max().item<double>(), kRounding) << name;
          EXPECT_LT((part.of_k - own(alone.of_k)).abs().max().item<double>(), kRounding) << name;
          EXPECT_LT((part.of_v - own(alone.of_v)).abs().max().item<double>(), kRounding) << name;
        };
        const int64_t block = 4 * own(k).numel();
        check("ring", [&](const Tensor& a, const Tensor& b, const Tensor& c) {
          return tenfold::ring_attention(a, b, c, order, group);
        });
        EXPECT_EQ(counter->take()["send"].bytes, 6 * block) << "2 in forward, 4 in backward";
        check("gathered", [&](const Tensor& a, const Tensor& b, const Tensor& c) {
          return tenfold::gathered_attention(a, b, c, order, group);
        });
        EXPECT_EQ(counter->take()["all_gather"].bytes, 2 * 2 * 2 * block) << "of two ranks, twice";
        if (order == SequenceOrder::zigzag) continue;  // Ulysses wants tokens in their order
        check("Ulysses",
              [&](const Tensor& a, const Tensor& b, const Tensor& c) { return ulysses_of_groups(a, b, c, group); });
      }
    });
  }
}

TEST(RingAttention, AMergeThatForgetsTheWeightsIsFound) {
  EXPECT_GT(deviation(Scheme::zigzag, {2, 24, 3, 5}, 2, tenfold::Mistake::not_rescaled), 1e-2);
}

TEST(ContextParallel, SixteenBitsAreSummedInThirtyTwo) {
  const Tensor qkv = random({1, 32, 3, 2, 8}, 1).to(torch::kBFloat16);
  const Tensor alone = tenfold::aten_attention(qkv, 0).to(torch::kFloat);
  on_ranks(4, [&](int rank, const Group& group) {
    const Tensor places = tenfold::places_of_rank(SequenceOrder::zigzag, 32, rank, 4);
    for (const Scheme scheme : {Scheme::zigzag, Scheme::gathered}) {
      const Tensor own = tenfold::attention_over_ranks(qkv.index_select(1, places), scheme, group);
      EXPECT_EQ(own.scalar_type(), torch::kBFloat16);
      // Values of some units have 8 bits: an error of 2^-8 each from the parts, and one from the result.
      EXPECT_TRUE(torch::allclose(own.to(torch::kFloat), alone.index_select(1, places), 2e-2, 3e-2));
    }
  });
}

// Rotated or normalised queries and keys come in 32 bits.
TEST(ContextParallel, UnderAutocastTheBlocksAreComputedAndSentInItsType) {
  on_ranks(2, [](int /*rank*/, const Group& plain) {
    const auto counter = std::make_shared<tenfold::RequestCounter>();
    const Group group = tenfold::counted_group(plain, counter);
    const Tensor q = random({1, 2, 8, 16}, 1), k = random({1, 2, 8, 16}, 2), v = random({1, 2, 8, 16}, 3);
    counter->take();
    const Tensor in_32 = tenfold::gathered_attention(q, k, v, SequenceOrder::zigzag, group);
    const int64_t bytes = counter->take()["all_gather"].bytes;
    const tenfold::Autocast scope(torch::kCPU, torch::kBFloat16);
    for (const Tensor& in_16 : {tenfold::gathered_attention(q, k, v, SequenceOrder::zigzag, group),
                                tenfold::ring_attention(q, k, v, SequenceOrder::zigzag, group)}) {
      EXPECT_EQ(in_16.scalar_type(), torch::kBFloat16);
      EXPECT_TRUE(torch::allclose(in_16.to(torch::kFloat), in_32, 2e-2, 3e-2)) << "bf16 has 8 significant bits";
    }
    EXPECT_EQ(2 * counter->take()["all_gather"].bytes, bytes);
    const Tensor qkv =
        torch::stack({q, k, v}).permute({1, 3, 0, 2, 4}).clone().requires_grad_();  // (B, T / N, 3, H, d)
    const Tensor heads = tenfold::tokens_to_heads(qkv, group);
    EXPECT_EQ(counter->take()["all_to_all"].bytes, 2 * qkv.numel());
    EXPECT_EQ(heads.scalar_type(), torch::kBFloat16);
    heads.sum().backward();
    EXPECT_EQ(qkv.grad().scalar_type(), torch::kFloat);
  });
}

TEST(ContextBytes, WhatIsAskedAndComputedIsThatOfTheFormula) {
  const tenfold::GptOptions options{.layers = 1, .width = 16, .heads = 4, .length = 24, .batch = 2};
  for (const int ranks : {2, 3, 4}) {
    for (const Scheme scheme : {Scheme::ring, Scheme::zigzag, Scheme::gathered, Scheme::ulysses}) {
      if (scheme == Scheme::ulysses && ranks == 3) continue;  // 4 heads
      const tenfold::ContextBytes of = tenfold::context_bytes(options, scheme, ranks);
      const auto counts = tenfold::count_attention(options, ranks, scheme);
      int64_t all = 0;
      for (int64_t rank = 0; rank < ranks; ++rank) {
        auto own = counts[static_cast<size_t>(rank)];
        EXPECT_EQ(own.asked["send"].bytes, of.layer_sends().bytes) << ranks;
        EXPECT_EQ(own.asked["send"].calls, of.layer_sends().calls) << ranks;
        EXPECT_EQ(own.asked["all_to_all"].bytes, of.layer_all_to_alls().bytes) << ranks;
        EXPECT_EQ(own.asked["all_to_all"].calls, of.layer_all_to_alls().calls) << ranks;
        EXPECT_EQ(own.asked["all_gather"].bytes, of.layer_all_gathers().bytes) << ranks;
        EXPECT_EQ(own.asked["all_gather"].calls, of.layer_all_gathers().calls) << ranks;
        EXPECT_EQ(own.asked["reduce_scatter"].bytes, of.layer_reduce_scatters().bytes) << ranks;
        EXPECT_EQ(own.asked["reduce_scatter"].calls, of.layer_reduce_scatters().calls) << ranks;
        EXPECT_EQ(own.scores, options.batch * options.heads * of.scores_of(rank)) << ranks;
        all += of.scores_of(rank);
      }
      EXPECT_EQ(all, options.length * (options.length + 1) / 2) << "each score on one rank";
    }
  }
}

TEST(ContextBytes, FormulasAreThoseOfThePapers) {
  const tenfold::GptOptions options{.width = 64, .heads = 8, .length = 1024};
  const auto of = [&](Scheme scheme, int64_t ranks) { return tenfold::context_bytes(options, scheme, ranks); };
  for (const int64_t ranks : {2, 4, 8}) {
    const int64_t stream = of(Scheme::ring, ranks).stream();
    EXPECT_EQ(of(Scheme::ring, ranks).layer_sent_bytes(), 6 * (ranks - 1) * stream / ranks);
    EXPECT_EQ(of(Scheme::gathered, ranks).layer_sent_bytes(), of(Scheme::ring, ranks).layer_sent_bytes());
    EXPECT_EQ(of(Scheme::ulysses, ranks).layer_sent_bytes(), 8 * (ranks - 1) * stream / ranks / ranks);
    // In a causal ring the last rank sees everything: nearly twice the mean. In zigzag all have the mean.
    const auto mean = 1 / static_cast<double>(ranks);
    EXPECT_NEAR(of(Scheme::ring, ranks).most_scores(), (2 * static_cast<double>(ranks) - 1) * mean * mean, 1e-3);
    EXPECT_DOUBLE_EQ(of(Scheme::zigzag, ranks).most_scores(), mean);
    EXPECT_DOUBLE_EQ(of(Scheme::gathered, ranks).most_scores(), mean);
  }
}

}  // namespace
