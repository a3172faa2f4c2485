#include <gtest/gtest.h>

#include "clip_sharded.h"
#include "common/models/momentum_sgd.h"
#include "parallel_gpt.h"
#include "surveys.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/cut_gpt.h"
#include "tests/support/rank_threads.h"
#include "tests/support/support.h"

namespace {

using tenfold::clip_grad_norm_sharded;
using tenfold::Mistake;
using tenfold::Scheme;
using tenfold::TensorGroup;
using tenfold::test::random;
using torch::Tensor;

void on_ranks(int ranks, const std::function<void(int, const TensorGroup&)>& work) {
  tenfold::test::on_ranks<TensorGroup>(ranks, work);
}

// 127 classes: with padding on 2 and on 4 ranks.
constexpr int64_t kClasses = 127;

tenfold::Gpt whole_gpt() { return tenfold::test::cut_gpt(kClasses); }
std::pair<Tensor, Tensor> batch() { return tenfold::test::cut_gpt_batch(kClasses); }

/// One process's model after backward().
tenfold::Gpt alone() {
  tenfold::Gpt model = whole_gpt();
  const auto [ids, targets] = batch();
  torch::cross_entropy_loss(model->forward(ids).flatten(0, 1), targets.flatten()).backward();
  return model;
}

tenfold::ParallelGpt divided(Scheme scheme, const TensorGroup& group, Mistake mistake = Mistake::none) {
  tenfold::Division division = tenfold::division_of(scheme, group);
  division.mistake = mistake;
  return {whole_gpt(), division};
}

void run_backward(tenfold::ParallelGpt& model) {
  const auto [ids, targets] = batch();
  model.loss(ids, targets).backward();
  model.sum_replicated_gradients();
}

TEST(ClipGradNormSharded, EqualsOneProcess) {
  tenfold::Gpt reference = alone();
  const double norm = torch::nn::utils::clip_grad_norm_(reference->parameters(), 1e9);
  for (const double most : {0.5 * norm, 2 * norm}) {  // clipped, and left as they are
    tenfold::Gpt clipped = alone();
    torch::nn::utils::clip_grad_norm_(clipped->parameters(), most);
    for (const int ranks : {1, 2, 4}) {
      on_ranks(ranks, [&](int, const TensorGroup& group) {
        for (const Scheme scheme : {Scheme::tensor, Scheme::vocabulary, Scheme::sequence}) {
          tenfold::ParallelGpt model = divided(scheme, group);
          run_backward(model);
          const Tensor before = clip_grad_norm_sharded(model.divided(), model.replicated(), most, group);
          // Sums of the same squares in another order: some 1e-6. A part that is left out or counted twice moves it by
          // 1e-2 and more.
          EXPECT_NEAR(before.item<double>() / norm, 1, 1e-5) << ranks;
          const auto gathered = model.gather();
          for (const auto& item : clipped->named_parameters()) {
            const Tensor difference = gathered.gradients[item.key()] - item.value().grad();
            EXPECT_LT(difference.norm().item<double>(), 1e-5 * norm) << item.key() << " on " << ranks;
          }
        }
      });
    }
  }
}

/// How far apart the first block's LayerNorm weights are on two ranks after some updates.
double drift(Mistake mistake) {
  double apart = 0;
  on_ranks(2, [&](int rank, const TensorGroup& group) {
    tenfold::ParallelGpt model = divided(Scheme::sequence, group, mistake);
    const auto optimizer = tenfold::sgd(model.parameters(), 0.1);
    for (int update = 0; update < 5; ++update) {
      optimizer->zero_grad();
      run_backward(model);
      model.clip_gradients(0.1);
      optimizer->step();
    }
    const Tensor weight = model.blocks[0]->norm1->weight.detach();
    const auto of_ranks = group.gather(weight.unsqueeze(0)).unbind(0);
    if (rank == 0) apart = (of_ranks[0] - of_ranks[1]).abs().max().item<double>();
  });
  return apart;
}

// Every rank scales what it has whole: by the same number, it stays the same to the last bit.
TEST(ClipGradNormSharded, WhatIsWholeStaysEqualAndByEachRanksOwnNormItDoesNot) {
  EXPECT_EQ(drift(Mistake::none), 0);
  EXPECT_GT(drift(Mistake::norm_of_own_part), 1e-5);
}

/// A parameter with this gradient.
Tensor with_gradient(const Tensor& gradient) {
  Tensor parameter = torch::zeros_like(gradient).requires_grad_();
  parameter.mutable_grad() = gradient.clone();
  return parameter;
}

// Stages of a pipeline: all parameters are cut. The first and the last have one in common, and one of the ranks between
// them has none at all.
TEST(ClipGradNormSharded, StagesCountEachGradientOnceAndARankWithoutTakesPart) {
  const Tensor first = random({3, 4}, 1), last = random({5}, 2), tied = random({6}, 3), frozen = torch::zeros({2});
  const std::vector<Tensor> model = {with_gradient(first), with_gradient(last), with_gradient(tied)};
  const double norm = torch::nn::utils::clip_grad_norm_(model, 1.0);
  on_ranks(4, [&](int rank, const TensorGroup& group) {
    std::vector<Tensor> cut, whole;
    if (rank == 0) cut = {with_gradient(first)};
    if (rank == 2) cut = {frozen};
    if (rank == 3) cut = {with_gradient(last)};
    if (rank == 0 || rank == 3) whole = {with_gradient(tied)};
    const Tensor before = clip_grad_norm_sharded(cut, whole, 1.0, group);
    EXPECT_NEAR(before.item<double>(), norm, 1e-5 * norm) << rank;
    if (rank == 0) EXPECT_TRUE(torch::allclose(cut[0].grad(), model[0].grad()));
    if (rank == 3) EXPECT_TRUE(torch::allclose(cut[0].grad(), model[1].grad()));
    if (!whole.empty()) EXPECT_TRUE(torch::allclose(whole[0].grad(), model[2].grad()));
  });
}

TEST(ClipGradNormSharded, AllRanksGetTheSameNumberAlsoWhereWholeGradientsDifferByRounding) {
  on_ranks(4, [&](int rank, const TensorGroup& group) {
    const std::vector<Tensor> cut = {with_gradient(random({7}, static_cast<uint64_t>(rank)))};
    const std::vector<Tensor> whole = {with_gradient(random({9}, 8) * (1 + 1e-6 * rank))};
    const auto of_ranks = group.gather(clip_grad_norm_sharded(cut, whole, 1.0, group).view({1})).unbind(0);
    for (const Tensor& other : of_ranks) EXPECT_TRUE(torch::equal(other, of_ranks[0]));
  });
}

// Two groups: a pipeline of two stages, whose layers two ranks share.
TEST(GradientSquare, SumsOverOneGroupAfterTheOther) {
  on_ranks(2, [&](int rank, const TensorGroup& group) {
    const Tensor cut = with_gradient(torch::full({1}, 3.0 + rank)), whole = with_gradient(torch::full({1}, 2.0));
    const Tensor of_stage = tenfold::gradient_square({cut}, {whole}, group);  // 9 + 16 + 4
    EXPECT_EQ(of_stage.item<double>(), 29);
    tenfold::scale_gradients({cut, whole}, (of_stage + 71).sqrt(), 5.0);  // another stage's 71: a norm of 10
    EXPECT_NEAR(cut.grad().item<double>(), 0.5 * (3 + rank), 1e-5);
    EXPECT_NEAR(whole.grad().item<double>(), 1.0, 1e-5);
  });
}

TEST(ClipGradNormSharded, TakesHalvesDoublesAndTiedNames) {
  for (const auto type : {torch::kHalf, torch::kBFloat16, torch::kFloat, torch::kDouble}) {
    const Tensor wide = with_gradient(torch::full({4}, 300.0, type));  // its square overflows 16 bits
    const Tensor other = with_gradient(torch::full({4}, 400.0));
    const Tensor before = clip_grad_norm_sharded({wide, other, wide}, {}, 10.0, {});
    EXPECT_EQ(before.scalar_type(), torch::kFloat);
    EXPECT_NEAR(before.item<double>(), 1000, 1e-3);
    EXPECT_EQ(wide.grad().scalar_type(), type);
    EXPECT_NEAR(wide.grad()[0].item<double>(), 3, 0.02) << type;
    EXPECT_NEAR(other.grad()[0].item<double>(), 4, 1e-4) << type;
  }
  EXPECT_EQ(clip_grad_norm_sharded({}, {}, 1.0, {}).item<double>(), 0);
}

}  // namespace
