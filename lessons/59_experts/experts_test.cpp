#include <gtest/gtest.h>

#include "common/ranks/rank_threads.h"
#include "expert_capacity.h"
#include "expert_parallel.h"
#include "mistakes.h"
#include "mixture_of_experts.h"
#include "moe_gpt.h"
#include "plain_experts.h"
#include "prediction.h"
#include "surveys.h"

#include <ATen/CPUGeneratorImpl.h>

#include <chrono>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/rank_threads.h"
#include "tests/support/support.h"

namespace {

using tenfold::ExpertOrder;
using tenfold::MoeSizes;
using tenfold::Routing;
using tenfold::Splits;
using tenfold::TensorGroup;
using tenfold::Way;
using tenfold::test::random;
using torch::Tensor;

void on_ranks(int ranks, const std::function<void(int, const TensorGroup&)>& work) {
  tenfold::test::on_ranks<TensorGroup>(ranks, work);
}

constexpr int64_t kWidth = 8, kInner = 12, kTokens = 10, kExperts = 12;

/// A mixture's parameters, the whole of them or a rank's part; of 12 experts 1, 2, 3 and 4 ranks have some.
struct Parameters {
  explicit Parameters(const TensorGroup& group = {}, int64_t experts = kExperts) {
    const int64_t own = experts / group.ranks();
    const auto part = [&](const Tensor& whole) {
      return whole.narrow(0, group.rank() * own, own).clone().requires_grad_();
    };
    router = random({experts, kWidth}, 1).requires_grad_();
    up = part(random({experts, kWidth, kInner}, 2));
    down = part(random({experts, kInner, kWidth}, 3));
  }
  Tensor router, up, down;
};

/// What a mixture gives for tokens, and the gradients of the mean of `result * scale` over them.
struct Result {
  Tensor result, of_x, of_router, of_up, of_down;
};

using Compute = std::function<Tensor(const Tensor& x, const Routing& routing, const Parameters& of)>;

Result computed(const Tensor& tokens, const Tensor& scale, int64_t active, const Parameters& of,
                const Compute& compute) {
  const Tensor x = tokens.clone().requires_grad_();
  const Tensor y = compute(x, tenfold::route(x, of.router, active), of);
  (y * scale).sum().div(static_cast<double>(tokens.size(0))).backward();
  return {y.detach(), x.grad(), of.router.grad(), of.up.grad(), of.down.grad()};
}

/// Token by token, expert by expert: nothing is sorted.
Tensor pair_by_pair(const Tensor& x, const Routing& routing, const Parameters& of) {
  std::vector<Tensor> rows;
  for (int64_t token = 0; token < x.size(0); ++token) {
    Tensor sum = torch::zeros({kWidth});
    for (int64_t slot = 0; slot < routing.experts.size(1); ++slot) {
      const auto expert = routing.experts[token][slot].item<int64_t>();
      const Tensor inner = torch::gelu(x[token].matmul(of.up[expert]), "tanh");
      sum = sum + inner.matmul(of.down[expert]) * routing.weights[token][slot];
    }
    rows.push_back(sum);
  }
  return torch::stack(rows);
}

Tensor sorted(const Tensor& x, const Routing& routing, const Parameters& of) {
  return tenfold::sorted_mlp(x, routing, of.up, of.down);
}

bool is_close(const Tensor& a, const Tensor& b) {
  // Sums of at most 12 products of size 10 in another order: rounding stays below 1e-4. A row in the wrong place, or a
  // factor of two, moves a value by 1e-2 and more.
  return a.defined() && b.defined() && torch::allclose(a, b, 1e-4, 1e-4);
}

void expect_close(const Result& a, const Result& b, const std::string& which) {
  EXPECT_TRUE(is_close(a.result, b.result)) << which;
  EXPECT_TRUE(is_close(a.of_x, b.of_x)) << which;
  EXPECT_TRUE(is_close(a.of_router, b.of_router)) << which;
  EXPECT_TRUE(is_close(a.of_up, b.of_up)) << which;
  EXPECT_TRUE(is_close(a.of_down, b.of_down)) << which;
}

TEST(Routing, TakesTheMostProbableExpertsAndTheirWeights) {
  const Tensor x = torch::tensor({{1.0F, 0.0F}, {0.0F, 1.0F}});
  const Tensor router = torch::tensor({{0.0F, 2.0F}, {1.0F, 0.0F}, {3.0F, 1.0F}});
  const Routing two = tenfold::route(x, router, 2);
  EXPECT_TRUE(torch::equal(two.experts, torch::tensor({{2, 1}, {0, 2}})));
  EXPECT_TRUE(torch::allclose(two.weights.sum(1), torch::ones({2})));
  EXPECT_NEAR(two.weights[0][0].item<double>(), 1 / (1 + std::exp(-2.0)), 1e-6);  // of logits 3 and 1
  // One expert's weight is its probability: divided by itself it would be 1, and the router would not learn.
  const Routing one = tenfold::route(x, router, 1);
  EXPECT_LT(one.weights.max().item<double>(), 0.9);
  // The bias chooses, and does not weigh.
  const Routing biased = tenfold::route(x, router, 1, torch::tensor({0.0F, 9.0F, 0.0F}));
  EXPECT_TRUE(torch::equal(biased.experts, torch::tensor({{1}, {1}})));
  EXPECT_TRUE(torch::equal(biased.weights, biased.probabilities.narrow(1, 1, 1)));
  EXPECT_NE(tenfold::test::message_of<c10::ValueError>([&] {
              tenfold::route(x, router, 4);
            }).find("each token uses 4 of 3 experts"),
            std::string::npos);
}

TEST(Routing, IsThatOf32BitsUnderAutocast) {
  const Tensor x = random({64, 8}, 1), router = random({16, 8}, 2);
  const Routing expected = tenfold::route(x, router, 2);
  const tenfold::Autocast scope(torch::kCPU, torch::kBFloat16);
  const Routing routing = tenfold::route(x, router, 2);
  EXPECT_TRUE(torch::equal(routing.probabilities, expected.probabilities));
  EXPECT_TRUE(torch::equal(routing.experts, expected.experts));
  const Tensor rows = random({128, 4}, 3).to(torch::kBFloat16);
  EXPECT_EQ(tenfold::weighted_sum(rows, routing.weights).scalar_type(), torch::kBFloat16) << "that of the rows";
}

TEST(ExpertOrder, SortsByExpertAndBack) {
  const ExpertOrder order = tenfold::sort_by_expert(torch::tensor({{3, 0}, {0, 2}, {3, 2}}), 5);
  EXPECT_TRUE(torch::equal(order.order, torch::tensor({1, 2, 3, 5, 0, 4})));  // stable
  EXPECT_TRUE(torch::equal(order.inverse, torch::tensor({4, 0, 1, 2, 5, 3})));
  EXPECT_TRUE(torch::equal(order.counts, torch::tensor({2, 0, 2, 2, 0})));
  const Tensor x = random({3, 4}, 1), rows = tenfold::permute_tokens(x, order, 2);
  EXPECT_TRUE(torch::equal(rows, x.index_select(0, torch::tensor({0, 1, 1, 2, 0, 2}))));
  EXPECT_TRUE(torch::equal(tenfold::unpermute_rows(rows, order.order, order.inverse), x.repeat_interleave(2, 0)));
}

TEST(Mixture, EveryWayEqualsPairByPair) {
  const Tensor x = random({kTokens, kWidth}, 4), scale = random({kTokens, kWidth}, 5);
  for (const int64_t active : {1, 2, 3}) {
    const Result reference = computed(x, scale, active, Parameters(), pair_by_pair);
    EXPECT_GT(reference.of_router.abs().max().item<double>(), 1e-3);  // also where a token uses one expert
    const tenfold::GptOptions gpt{.layers = 1, .width = kWidth};
    const auto as_compute = [&](const tenfold::Experts& way) {
      return [&gpt, way, active](const Tensor& y, const Routing& routing, const Parameters& of) {
        tenfold::MixtureImpl mixture(gpt, {.experts = kExperts, .active = active}, way);
        mixture.up = of.up;
        mixture.down = of.down;
        return way(y, routing, mixture);
      };
    };
    expect_close(computed(x, scale, active, Parameters(), sorted), reference, "sorted");
    expect_close(computed(x, scale, active, Parameters(), as_compute(tenfold::every_expert)), reference, "every");
    expect_close(computed(x, scale, active, Parameters(), as_compute(tenfold::loop_over_experts)), reference, "loop");
    const Compute buffers = [](const Tensor& y, const Routing& routing, const Parameters& of) {
      return tenfold::capacity_mlp(y, routing, kTokens, of.up, of.down);
    };
    expect_close(computed(x, scale, active, Parameters(), buffers), reference, "buffers");
  }
}

// The kernel that a GPU has for bfloat16 is another one; its interface and its groups without rows are the same.
TEST(Mixture, GroupsInBfloat16EqualALoop) {
  const Tensor rows = random({6, 16}, 1).to(torch::kBFloat16), up = random({3, 16, 32}, 2).to(torch::kBFloat16);
  const Tensor down = random({3, 32, 16}, 3).to(torch::kBFloat16);
  const Tensor ends = torch::tensor({4, 4, 6}, torch::kInt);
  const Tensor result = tenfold::grouped_mlp(rows, up, down, ends);
  const auto mlp = [&](int64_t begin, int64_t size, int64_t expert) {
    return torch::gelu(rows.narrow(0, begin, size).mm(up[expert]), "tanh").mm(down[expert]);
  };
  // Both round to 8 bits after sums of 32 products: values of some 20 differ by a few units of 1/8.
  EXPECT_TRUE(
      torch::allclose(result.to(torch::kFloat), torch::cat({mlp(0, 4, 0), mlp(4, 2, 2)}).to(torch::kFloat), 0.05, 0.5));
}

// A rank that got no token: the weights' gradients are zeros, in 32 bits and under autocast.
TEST(Mixture, NoRowsHaveNoResultAndGradientsOfZero) {
  for (const bool autocast : {false, true}) {
    const Tensor rows = torch::zeros({0, 16}, torch::requires_grad());
    const Tensor up = random({3, 16, 32}, 2).requires_grad_(), down = random({3, 32, 16}, 3).requires_grad_();
    Tensor result;
    {
      const auto scope = autocast ? std::make_unique<tenfold::Autocast>(torch::kCPU, torch::kBFloat16) : nullptr;
      result = tenfold::grouped_mlp(rows, up, down, torch::zeros({3}, torch::kInt));
    }
    EXPECT_EQ(result.sizes(), (std::vector<int64_t>{0, 16}));
    EXPECT_EQ(result.scalar_type(), autocast ? torch::kBFloat16 : torch::kFloat);
    result.sum().backward();
    for (const Tensor& weight : {up, down}) EXPECT_TRUE(torch::equal(weight.grad(), torch::zeros_like(weight)));
  }
}

// Autocast has no rule for _grouped_mm: what is not cast by hand stays in 32 bits.
TEST(Mixture, UnderAutocastAllWaysComputeAndSendIn16Bits) {
  constexpr int64_t kFew = 4;
  const Tensor x = random({kTokens, 16}, 1), router = random({kFew, 16}, 2), all_up = random({kFew, 16, 32}, 3);
  const Tensor all_down = random({kFew, 32, 16}, 4);
  const Routing routing = tenfold::route(x, router, 2);
  const Tensor in_32_bits = tenfold::sorted_mlp(x, routing, all_up, all_down);
  on_ranks(2, [&](int rank, const TensorGroup& group) {
    const auto own = [&](const Tensor& t) { return t.narrow(0, 2 * rank, 2).clone().requires_grad_(); };
    for (const std::string way : {"sorted", "ranks", "buffers"}) {
      const bool divided = way != "sorted";
      const Tensor up = divided ? own(all_up) : all_up.clone().requires_grad_();
      const Tensor down = divided ? own(all_down) : all_down.clone().requires_grad_();
      const Tensor leaf = x.clone().requires_grad_();
      Tensor result;
      {
        const tenfold::Autocast scope(torch::kCPU, torch::kBFloat16);
        result = way == "sorted"  ? tenfold::sorted_mlp(leaf, routing, up, down)
                 : way == "ranks" ? tenfold::expert_parallel_mlp(leaf, routing, up, down, group)
                                  : tenfold::capacity_mlp(leaf, routing, kTokens, up, down, group);
      }
      EXPECT_EQ(result.scalar_type(), torch::kBFloat16) << way;
      result.to(torch::kFloat).sum().backward();
      for (const Tensor& with_gradient : {leaf, up, down}) {
        ASSERT_TRUE(with_gradient.grad().defined()) << way;
        EXPECT_EQ(with_gradient.grad().scalar_type(), torch::kFloat) << way << ": master weights";
      }
      // 8 bits after sums of 32 products: values of some 20 are off by a few units of 1/8, and most by much less.
      EXPECT_TRUE(torch::allclose(result.to(torch::kFloat), in_32_bits, 0.05, 0.5)) << way;
    }
  });
}

TEST(Mixture, WhatIsWrongIsFound) {
  const Tensor x = random({kTokens, kWidth}, 4), scale = random({kTokens, kWidth}, 5);
  const Result reference = computed(x, scale, 2, Parameters(), pair_by_pair);
  const tenfold::GptOptions gpt{.layers = 1, .width = kWidth};
  for (const auto& [name, way] : {std::pair<std::string, tenfold::Experts>{"weights", tenfold::weights_first},
                                  {"order", tenfold::order_for_inverse}}) {
    const auto compute = [&, wrong = way](const Tensor& y, const Routing& routing, const Parameters& of) {
      tenfold::MixtureImpl mixture(gpt, {.experts = kExperts, .active = 2}, wrong);
      mixture.up = of.up;
      mixture.down = of.down;
      return wrong(y, routing, mixture);
    };
    EXPECT_FALSE(is_close(computed(x, scale, 2, Parameters(), compute).result, reference.result)) << name;
  }
}

TEST(AllToAll, RowsArriveAndTheirGradientsReturn) {
  for (const int ranks : {2, 3, 4}) {
    on_ranks(ranks, [&](int rank, const TensorGroup& group) {
      // Rank r sends r + s rows to rank s: unequal, and rank 0 sends itself none.
      Splits splits;
      for (int other = 0; other < ranks; ++other) {
        splits.to.push_back(rank + other);
        splits.from.push_back(other + rank);
      }
      std::vector<Tensor> sent, expected;
      for (int other = 0; other < ranks; ++other) {
        sent.push_back(torch::full({rank + other, 3}, 10.0 * rank + other));
        expected.push_back(torch::full({other + rank, 3}, 10.0 * other + rank));
      }
      const Tensor rows = torch::cat(sent).requires_grad_();
      const Tensor received = tenfold::all_to_all(rows, splits, group);
      EXPECT_TRUE(torch::equal(received, torch::cat(expected)));
      (received * received.detach()).sum().backward();  // each row's gradient is the row
      EXPECT_TRUE(torch::equal(rows.grad(), rows.detach()));
    });
  }
}

/// Tokens of unequal number on the ranks: rank r has 3 + r of them.
int64_t tokens_of(int rank) { return 3 + rank; }

TEST(ExpertParallel, EqualsOneProcess) {
  for (const int64_t active : {1, 2}) {
    for (const int ranks : {1, 2, 3, 4}) {
      int64_t all = 0;
      for (int rank = 0; rank < ranks; ++rank) all += tokens_of(rank);
      const Tensor x = random({all, kWidth}, 4), scale = random({all, kWidth}, 5);
      const Result whole = computed(x, scale, active, Parameters(), pair_by_pair);
      on_ranks(ranks, [&](int rank, const TensorGroup& group) {
        int64_t begin = 0;
        for (int before = 0; before < rank; ++before) begin += tokens_of(before);
        const auto mine = [&](const Tensor& t) { return t.narrow(0, begin, tokens_of(rank)); };
        for (const bool buffers : {false, true}) {
          const Parameters part(group);
          const Compute compute = [&](const Tensor& y, const Routing& routing, const Parameters& of) {
            // Buffers are of one size on all ranks, so the largest number of tokens says how large.
            return buffers ? tenfold::capacity_mlp(y, routing, tokens_of(ranks - 1), of.up, of.down, group)
                           : tenfold::expert_parallel_mlp(y, routing, of.up, of.down, group);
          };
          const Result own = computed(mine(x), mine(scale), active, part, compute);
          const std::string on = std::to_string(rank) + " of " + std::to_string(ranks);
          EXPECT_TRUE(is_close(own.result, mine(whole.result))) << on;
          const double share = static_cast<double>(tokens_of(rank)) / static_cast<double>(all);
          EXPECT_TRUE(is_close(own.of_x * share, mine(whole.of_x))) << on;
          Tensor of_router = own.of_router * share;
          group.sum(of_router);
          EXPECT_TRUE(is_close(of_router, whole.of_router)) << on;
        }
      });
    }
  }
}

TEST(ExpertParallel, AnExpertsGradientIsASumOverTheRanks) {
  constexpr int kRanks = 2;
  const Tensor x = random({kTokens, kWidth}, 4), scale = random({kTokens, kWidth}, 5);
  const Result whole = computed(x, scale, 2, Parameters(), pair_by_pair);
  on_ranks(kRanks, [&](int rank, const TensorGroup& group) {
    const auto mine = [&](const Tensor& t) { return t.narrow(0, rank * kTokens / kRanks, kTokens / kRanks); };
    const auto experts = [&](const Tensor& t) { return t.narrow(0, rank * kExperts / kRanks, kExperts / kRanks); };
    const Parameters part(group);
    computed(mine(x), mine(scale), 2, part, [&](const Tensor& y, const Routing& routing, const Parameters& of) {
      return tenfold::expert_parallel_mlp(y, routing, of.up, of.down, group);
    });
    EXPECT_TRUE(is_close(part.up.grad() / kRanks, experts(whole.of_up)));  // of two means of half the tokens each
    tenfold::divide_expert_gradients({part.up, part.down}, kRanks);
    EXPECT_TRUE(is_close(part.up.grad(), experts(whole.of_up)));
    EXPECT_TRUE(is_close(part.down.grad(), experts(whole.of_down)));
  });
}

// All tokens go to experts of one rank: the other computes nothing, and still has gradients.
TEST(ExpertParallel, ARankMayGetNothing) {
  on_ranks(2, [&](int, const TensorGroup& group) {
    const Parameters part(group);
    const Tensor x = random({4, kWidth}, 4).requires_grad_();
    Routing routing = tenfold::route(x, part.router, 1);
    routing.experts = torch::tensor({{0}, {5}, {0}, {1}});
    tenfold::expert_parallel_mlp(x, routing, part.up, part.down, group).sum().backward();
    ASSERT_TRUE(part.up.grad().defined());
    EXPECT_EQ(part.up.grad().abs().sum().item<double>() > 0, group.rank() == 0);
    EXPECT_TRUE(part.up.grad().isfinite().all().item<bool>());
  });
}

TEST(ExpertParallel, ExpertsThatTheRanksDoNotDivideAreRefused) {
  on_ranks(3, [&](int, const TensorGroup& group) {
    EXPECT_NE(tenfold::test::message_of<c10::ValueError>([&] {
                tenfold::exchange_counts(torch::ones({8}, torch::kLong), group);
              }).find("3 ranks do not divide 8 experts"),
              std::string::npos);
  });
}

TEST(Capacity, LaterTokensAreDropped) {
  const auto slots = tenfold::assign_slots(torch::tensor({{0}, {0}, {2}, {0}, {2}}), 3, 2);
  EXPECT_TRUE(torch::equal(slots.slots, torch::tensor({0, 1, 4, 6, 5})));  // 6: dropped
  EXPECT_EQ(slots.dropped().item<int64_t>(), 1);
  // A dropped pair contributes nothing, and has no gradient.
  const Tensor x = random({5, 2}, 1).requires_grad_();
  const Tensor buffers = tenfold::expert_capacity::Fill::apply(x, slots.slots, slots.rows());
  const Tensor back = tenfold::expert_capacity::Empty::apply(buffers, slots.slots);
  const Tensor kept = torch::tensor({1.0F, 1.0F, 1.0F, 0.0F, 1.0F}).unsqueeze(1);
  EXPECT_TRUE(torch::equal(back, x.detach() * kept));
  (back * x.detach()).sum().backward();
  EXPECT_TRUE(torch::equal(x.grad(), x.detach() * kept));
}

// In fp16 an expert may give infinity, which a gradient scaler finds; a dropped token has nothing to do with it.
TEST(Capacity, ADroppedTokenIsZeroWhateverTheExpertsGive) {
  const Tensor slots = torch::tensor({0, 2, 1});  // of 2 rows: the second pair is dropped
  const Tensor buffers = torch::full({2, 3}, std::numeric_limits<float>::infinity()).requires_grad_();
  const Tensor back = tenfold::expert_capacity::Empty::apply(buffers, slots);
  EXPECT_EQ(back[1].abs().sum().item<float>(), 0);
  EXPECT_TRUE(back[2].isinf().all().item<bool>());
  const Tensor x = torch::ones({3, 3}).requires_grad_();
  tenfold::expert_capacity::Fill::apply(x, slots, 2).backward(buffers.detach());
  EXPECT_EQ(x.grad()[1].abs().sum().item<float>(), 0);
}

TEST(Capacity, IsAFactorOfTheMean) {
  EXPECT_EQ(tenfold::capacity_of(64, 32, 8, 1.25), 10);
  EXPECT_EQ(tenfold::capacity_of(10, 10, 8, 1.0), 2);   // 1.25 rows are two
  EXPECT_EQ(tenfold::capacity_of(64, 32, 8, 100), 32);  // no expert gets a token twice
  EXPECT_EQ(tenfold::capacity_of(64, 32, 8, 0), 32);
  EXPECT_NE(tenfold::test::message_of<c10::ValueError>([] { tenfold::capacity_of(64, 32, 8, -1); }).find("below 0"),
            std::string::npos);
}

TEST(Balance, LossIsOneWhereAllGetTheSame) {
  Routing routing;
  routing.experts = torch::tensor({{0, 1}, {2, 3}});
  routing.probabilities = torch::full({2, 4}, 0.25);
  EXPECT_NEAR(tenfold::balance_loss(routing, torch::tensor({1, 1, 1, 1})).item<double>(), 1, 1e-6);
  routing.probabilities = torch::tensor({{0.7F, 0.1F, 0.1F, 0.1F}, {0.7F, 0.1F, 0.1F, 0.1F}});
  EXPECT_NEAR(tenfold::balance_loss(routing, torch::tensor({4, 0, 0, 0})).item<double>(), 4 * 0.7, 1e-6);
}

TEST(Balance, BiasMovesTowardsTheMean) {
  const Tensor bias = torch::zeros({3});
  tenfold::update_bias(bias, torch::tensor({5, 1, 3}), 0.5);
  EXPECT_TRUE(torch::equal(bias, torch::tensor({-0.5F, 0.5F, 0.0F})));
}

TEST(MoeSizes, SentBytesAreThoseOfTheFormula) {
  for (const int64_t ranks : {2, 4, 8}) {
    for (const auto& [way, factor] : {std::pair{Way::sorted, 0.0}, {Way::buffers, 0.0}, {Way::buffers, 1.25}}) {
      const MoeSizes of{.gpt = {.width = 8, .length = 8, .batch = 8},
                        .experts = 16,
                        .active = 2,
                        .way = way,
                        .capacity_factor = factor,
                        .ranks = ranks,
                        .expert_ranks = ranks};
      const auto counted = tenfold::count_all_to_all(of);
      EXPECT_DOUBLE_EQ(counted.mean, static_cast<double>(of.all_to_all_bytes())) << ranks;
      if (way == Way::buffers) EXPECT_DOUBLE_EQ(counted.most, counted.mean) << ranks;
    }
  }
}

TEST(MoeSizes, ParametersAreThoseOfTheModel) {
  const tenfold::GptOptions gpt{.layers = 2, .width = 16, .heads = 2, .length = 8, .batch = 4};
  on_ranks(2, [&](int, const TensorGroup& group) {
    const tenfold::MoeGpt moe(gpt, {.experts = 4, .active = 2, .group = group}, tenfold::every_expert);
    int64_t bytes = 0, dense = 0;
    for (const Tensor& parameter : moe.model->parameters()) bytes += static_cast<int64_t>(parameter.nbytes());
    for (const Tensor& parameter : moe.dense_parameters()) dense += static_cast<int64_t>(parameter.nbytes());
    const MoeSizes of{.gpt = gpt, .experts = 4, .active = 2, .ranks = 2, .expert_ranks = 2};
    EXPECT_EQ(bytes, of.parameter_bytes());
    EXPECT_EQ(dense, of.dense_bytes());
  });
}

}  // namespace
