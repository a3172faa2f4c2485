#include "vocabulary_parallel.h"

#include <gtest/gtest.h>

#include "tensor_parallel.h"

#include <cstdint>
#include <functional>

#include "tests/support/rank_threads.h"
#include "tests/support/support.h"

namespace {

using tenfold::TensorGroup;
using tenfold::VocabularyPart;
using tenfold::test::random;
using torch::Tensor;

void on_ranks(int ranks, const std::function<void(int, const TensorGroup&)>& work) {
  tenfold::test::on_ranks<TensorGroup>(ranks, work);
}

TEST(VocabularyParallel, EveryClassIsOnOneRank) {
  for (const int64_t vocabulary : {1, 5, 7, 8, 125}) {
    for (const int ranks : {1, 2, 3, 4, 8}) {
      int64_t next = 0;
      for (int rank = 0; rank < ranks; ++rank) {
        const VocabularyPart part(vocabulary, rank, ranks);
        if (part.classes > 0) EXPECT_EQ(part.begin, next);
        EXPECT_EQ(part.rows, (vocabulary + ranks - 1) / ranks);
        next += part.classes;
      }
      EXPECT_EQ(next, vocabulary);
    }
  }
}

TEST(VocabularyParallel, LossAndGradientsEqualOneProcess) {
  constexpr int64_t kTokens = 6, kWidth = 4;
  const Tensor targets = torch::tensor({0, 4, 2, 4, 1, 3});
  for (const int64_t vocabulary : {5, 8}) {
    const Tensor weight = random({vocabulary, kWidth}, 1), h = 30 * random({kTokens, kWidth}, 2);  // exp() overflows
    const Tensor weight_alone = weight.clone().requires_grad_(), h_alone = h.clone().requires_grad_();
    const Tensor alone = torch::cross_entropy_loss(torch::linear(h_alone, weight_alone), targets);
    alone.backward();
    for (const int ranks : {1, 2, 4}) {  // of 5 classes on 4 ranks the last has padding alone
      on_ranks(ranks, [&](int rank, const TensorGroup& group) {
        const VocabularyPart part(vocabulary, rank, ranks);
        const Tensor own = tenfold::vocabulary_rows(weight, part).requires_grad_();
        const Tensor x = h.clone().requires_grad_();
        const Tensor logits = torch::linear(tenfold::copy_to_ranks(x, group), own);
        const Tensor loss = tenfold::vocabulary_parallel_cross_entropy(logits, targets, part, group);
        loss.backward();
        // Logits of some 50 in 32 bits have an error of 4e-6 each; a class too many moves the loss by 1e-2 and more.
        EXPECT_NEAR(loss.item<double>(), alone.item<double>(), 1e-5 * (1 + alone.item<double>()));
        EXPECT_TRUE(torch::allclose(x.grad(), h_alone.grad(), 1e-4, 1e-5));
        EXPECT_TRUE(torch::allclose(own.grad().narrow(0, 0, part.classes),
                                    weight_alone.grad().narrow(0, part.classes > 0 ? part.begin : 0, part.classes),
                                    1e-4, 1e-4));
        EXPECT_EQ(own.grad().narrow(0, part.classes, part.rows - part.classes).abs().sum().item<float>(), 0);
      });
    }
  }
}

// Padding in a batch has the target -100, as PyTorch's ignore_index.
TEST(VocabularyParallel, AnIgnoredTargetCountsNowhere) {
  const Tensor targets = torch::tensor({0, -100, 2, 4, -100, 3});
  const Tensor logits = random({6, 5}, 1), alone = logits.clone().requires_grad_();
  const Tensor expected = torch::cross_entropy_loss(alone, targets);  // ignores -100 by default
  expected.backward();
  for (const int ranks : {1, 2, 4}) {
    on_ranks(ranks, [&](int rank, const TensorGroup& group) {
      const VocabularyPart part(5, rank, ranks);
      const int64_t first = part.classes > 0 ? part.begin : 0;
      Tensor own = torch::zeros({6, part.rows});
      own.narrow(1, 0, part.classes).copy_(logits.narrow(1, first, part.classes));
      own.requires_grad_();
      const Tensor loss = tenfold::vocabulary_parallel_cross_entropy(own, targets, part, group);
      loss.backward();
      EXPECT_NEAR(loss.item<double>(), expected.item<double>(), 1e-5);  // of size 1, sums of six
      EXPECT_TRUE(torch::allclose(own.grad().narrow(1, 0, part.classes), alone.grad().narrow(1, first, part.classes),
                                  1e-4, 1e-6));
    });
  }
}

// It is on no rank: nobody would notice, and the loss would be that of a class with the logit 0.
TEST(VocabularyParallel, WhatIsNoClassIsRefused) {
  const VocabularyPart part(5, 0, 1);
  for (const int64_t wrong : {int64_t{5}, int64_t{-1}}) {
    const Tensor ids = torch::tensor({int64_t{0}, wrong});
    EXPECT_THROW(tenfold::vocabulary_parallel_cross_entropy(random({2, 5}, 1), ids, part, {}), c10::Error);
    EXPECT_THROW(tenfold::vocabulary_parallel_embedding(ids, random({5, 3}, 1), part, {}), c10::Error);
  }
}

TEST(VocabularyParallel, EmbeddingEqualsOneProcess) {
  const Tensor weight = random({5, 3}, 1), ids = torch::tensor({4, 0, 2, 4}), scale = random({4, 3}, 2);
  const Tensor alone = weight.clone().requires_grad_();
  (torch::embedding(alone, ids) * scale).sum().backward();
  on_ranks(2, [&](int rank, const TensorGroup& group) {
    const VocabularyPart part(5, rank, 2);
    for (const bool sequence : {false, true}) {
      const Tensor own = tenfold::vocabulary_rows(weight, part).requires_grad_();
      const Tensor h = tenfold::vocabulary_parallel_embedding(ids, own, part, {group, sequence});
      const Tensor expected = torch::embedding(weight, ids);
      EXPECT_TRUE(torch::equal(h, sequence ? group.own_rows(expected) : expected));
      (h * (sequence ? group.own_rows(scale) : scale)).sum().backward();
      EXPECT_TRUE(
          torch::allclose(own.grad().narrow(0, 0, part.classes), alone.grad().narrow(0, part.begin, part.classes)));
    }
  });
}

}  // namespace
