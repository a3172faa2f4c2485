#include <gtest/gtest.h>

#include "common/ranks/counted_backend.h"
#include "common/ranks/rank_threads.h"
#include "lessons/21_mixed_precision/autocast.h"
#include "parallel_gpt.h"
#include "surveys.h"
#include "tensor_parallel.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/record_function.h>

#include <chrono>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "tests/support/cut_gpt.h"
#include "tests/support/rank_threads.h"
#include "tests/support/support.h"

namespace {

using tenfold::Cut;
using tenfold::DividedGpt;
using tenfold::Division;
using tenfold::Mistake;
using tenfold::Scheme;
using tenfold::TensorGroup;
using tenfold::test::random;
using torch::Tensor;

void on_ranks(int ranks, const std::function<void(int, const TensorGroup&)>& work) {
  tenfold::test::on_ranks<TensorGroup>(ranks, work);
}

TEST(Cut, PartsMakeTheWhole) {
  const Tensor weight = random({12, 4}, 1), bias = random({12}, 2);
  for (const Cut cut : {Cut{0}, Cut{0, 3}, Cut{1}, Cut{}}) {
    std::vector<Tensor> parts;
    for (int rank = 0; rank < 2; ++rank) parts.push_back(tenfold::part_of(weight, cut, rank, 2));
    EXPECT_TRUE(torch::equal(tenfold::whole_of(parts, cut), weight)) << cut.dimension << " " << cut.stacked;
  }
  // Queries, keys and values on top of each other: a rank has a part of each.
  EXPECT_TRUE(torch::equal(tenfold::part_of(bias, {0, 3}, 1, 2),
                           torch::cat({bias.narrow(0, 2, 2), bias.narrow(0, 6, 2), bias.narrow(0, 10, 2)})));
  EXPECT_NE(tenfold::test::message_of<c10::ValueError>([&] {
              tenfold::part_of(weight, {0}, 0, 5);
            }).find("5 ranks do not divide a dimension of 12"),
            std::string::npos);
}

/// x -> row(gelu(column(x))), with the gradients of everything, by rank; whole[0] is what one process has.
struct Layers {
  Tensor result, of_input, of_bias, of_up, of_down;
};

Layers two_layers(const TensorGroup& group, bool sequence, bool again) {
  torch::nn::Linear up(6, 12), down(12, 6);
  const torch::NoGradGuard no_grad;
  up->weight.copy_(random({12, 6}, 3));
  up->bias.copy_(random({12}, 4));
  down->weight.copy_(random({6, 12}, 5));
  down->bias.copy_(random({6}, 6));
  const tenfold::TensorParallel how{group, sequence, again};
  tenfold::ColumnParallelLinear first(*up, how);
  tenfold::RowParallelLinear second(*down, how);
  const Tensor all = random({8, 6}, 7), scale = random({8, 6}, 8);
  Tensor x = (sequence ? group.own_rows(all) : all).clone().requires_grad_();
  const Tensor own_scale = sequence ? group.own_rows(scale) : scale;
  Tensor y;
  {
    const torch::AutoGradMode with(true);
    y = second(torch::gelu(first(x)));
    (y * own_scale).sum().backward();
  }
  if (sequence) tenfold::sum_gradients({second->bias}, group);
  const auto whole = [&](const Tensor& part, const Cut& cut) {
    return tenfold::whole_of(group.gather(part.unsqueeze(0)).unbind(0), cut);
  };
  return {sequence ? group.gather(y) : y, sequence ? group.gather(x.grad()) : x.grad(), second->bias.grad(),
          whole(first->weight.grad(), first->cut), whole(second->weight.grad(), second->cut)};
}

void expect_close(const Layers& a, const Layers& b) {
  // Sums of at most 12 products of size 1 in another order: rounding is below 1e-5. A collective that is left out moves
  // them by 1 and more.
  EXPECT_TRUE(torch::allclose(a.result, b.result, 1e-4, 1e-5));
  EXPECT_TRUE(torch::allclose(a.of_input, b.of_input, 1e-4, 1e-4));
  EXPECT_TRUE(torch::allclose(a.of_bias, b.of_bias, 1e-4, 1e-4));
  EXPECT_TRUE(torch::allclose(a.of_up, b.of_up, 1e-4, 1e-4));
  EXPECT_TRUE(torch::allclose(a.of_down, b.of_down, 1e-4, 1e-4));
}

TEST(TensorParallel, TwoLayersEqualOneProcess) {
  const Layers alone = two_layers({}, false, false);
  for (const int ranks : {2, 4}) {
    std::vector<Layers> divided(3 * static_cast<size_t>(ranks));
    on_ranks(ranks, [&](int rank, const TensorGroup& group) {
      const auto at = 3 * static_cast<size_t>(rank);
      divided[at] = two_layers(group, false, false);
      divided[at + 1] = two_layers(group, true, false);
      divided[at + 2] = two_layers(group, true, true);
    });
    for (const Layers& each : divided) expect_close(each, alone);
  }
}

// backward() runs without autocast: what forward() multiplied in bf16 must be kept in bf16.
TEST(TensorParallel, TrainsUnderAutocastAndWithFrozenWeights) {
  const Tensor weight = random({12, 6}, 3), bias = random({12}, 4), all = random({8, 6}, 7);
  const auto trained = [&](const TensorGroup& group, bool frozen) {
    Tensor own = group.own_rows(all).clone().requires_grad_(), of_layer = weight.clone().requires_grad_(!frozen);
    Tensor result;
    {
      const tenfold::Autocast scope(torch::kCPU, torch::kBFloat16);
      result = tenfold::gather_linear(own, of_layer, bias, group);
    }
    result.to(torch::kFloat).sum().backward();
    return std::vector<Tensor>{result.detach().to(torch::kFloat), group.gather(own.grad()), of_layer.grad()};
  };
  for (const bool frozen : {false, true}) {
    const std::vector<Tensor> alone = trained({}, frozen);
    on_ranks(2, [&](int /*rank*/, const TensorGroup& group) {
      const std::vector<Tensor> divided = trained(group, frozen);
      EXPECT_TRUE(torch::equal(divided[0], alone[0])) << "the same products";
      // The gradient of the input is a sum over two ranks of equal parts here: twice one process's, rounded to bf16.
      EXPECT_TRUE(torch::allclose(divided[1], 2 * alone[1], 2e-2, 2e-2));
      EXPECT_EQ(divided[2].defined(), !frozen);
      if (!frozen) EXPECT_TRUE(torch::allclose(divided[2], alone[2], 2e-2, 2e-2)) << "bf16 has 8 significant bits";
    });
  }
}

// A bias of 32 bits would make the whole result one of 32 bits.
TEST(TensorParallel, UnderAutocastARowParallelLayersResultIsAsALinearLayers) {
  on_ranks(2, [](int /*rank*/, const TensorGroup& group) {
    torch::nn::Linear whole(12, 6);
    tenfold::RowParallelLinear divided(*whole, tenfold::TensorParallel{group});
    const tenfold::Autocast scope(torch::kCPU, torch::kBFloat16);
    EXPECT_EQ(divided(random({8, 6}, 7)).scalar_type(), whole(random({8, 12}, 7)).scalar_type());
  });
}

// Autograd does not record a collective: a second derivative would leave out what other ranks have.
TEST(TensorParallel, SecondDerivativesAreRefused) {
  on_ranks(2, [](int /*rank*/, const TensorGroup& group) {
    const Tensor weight = random({4, 6}, 1).requires_grad_(), x = random({8, 6}, 2).requires_grad_();
    using Layer = std::function<Tensor()>;
    for (const Layer& layer : {Layer([&] { return tenfold::copy_linear(x, weight, {}, group); }),
                               Layer([&] { return tenfold::copy_to_ranks(x, group); }),
                               Layer([&] { return tenfold::gather_linear(x, weight, {}, group); }),
                               Layer([&] { return tenfold::gather_tokens(x, group); }),
                               Layer([&] { return tenfold::reduce_scatter_tokens(x, group); })}) {
      const Tensor loss = layer().square().sum();
      EXPECT_NE(tenfold::test::message_of<c10::Error>([&] {
                  loss.backward({}, /*retain_graph=*/true, /*create_graph=*/true);
                }).find("create_graph"),
                std::string::npos);
      loss.backward();
    }
  });
}

constexpr int64_t kVocabulary = 125;

tenfold::GptOptions small() { return tenfold::test::cut_gpt_options(); }
tenfold::Gpt whole_gpt() { return tenfold::test::cut_gpt(kVocabulary); }
std::pair<Tensor, Tensor> batch() { return tenfold::test::cut_gpt_batch(kVocabulary); }

struct Trained {
  double loss = 0;
  std::map<std::string, Tensor> gradients;
};

Trained alone() {
  tenfold::Gpt model = whole_gpt();
  const auto [ids, targets] = batch();
  const Tensor loss = torch::cross_entropy_loss(model->forward(ids).flatten(0, 1), targets.flatten());
  loss.backward();
  Trained trained{loss.item<double>(), {}};
  for (const auto& item : model->named_parameters()) trained.gradients[item.key()] = item.value().grad();
  return trained;
}

Trained divided(const TensorGroup& group, Scheme scheme, Mistake mistake = Mistake::none) {
  Division division = tenfold::division_of(scheme, group);
  division.mistake = mistake;
  tenfold::ParallelGpt model(whole_gpt(), division);
  const auto [ids, targets] = batch();
  const Tensor loss = model.loss(ids, targets);
  loss.backward();
  model.sum_replicated_gradients();
  Trained trained{loss.item<double>(), {}};
  for (const auto& item : model.gather().gradients) trained.gradients[item.key()] = item.value();
  return trained;
}

/// The largest difference of a gradient from one process's, over that one's norm. The bias of attention's keys has a
/// true gradient of zero, so all are held against a thousandth of the whole at least, as the agreement check does.
double deviation(const Trained& trained, const Trained& reference) {
  double whole = 0, worst = std::abs(trained.loss / reference.loss - 1);
  for (const auto& [name, gradient] : reference.gradients) whole += gradient.square().sum().item<double>();
  for (const auto& [name, gradient] : reference.gradients) {
    const double norm = std::max(gradient.norm().item<double>(), 1e-3 * std::sqrt(whole));
    worst = std::max(worst, (trained.gradients.at(name) - gradient).norm().item<double>() / norm);
  }
  return worst;
}

TEST(ParallelGpt, EqualsOneProcess) {
  const Trained reference = alone();
  for (const int ranks : {1, 2, 4}) {
    on_ranks(ranks, [&](int rank, const TensorGroup& group) {
      for (const Scheme scheme : {Scheme::tensor, Scheme::vocabulary, Scheme::sequence, Scheme::gathered_again}) {
        // The same sums in another order: some 1e-6. Each mistake below moves it by 1e-3 and more.
        EXPECT_LT(deviation(divided(group, scheme), reference), 1e-4)
            << "rank " << rank << " of " << ranks << ", scheme " << static_cast<int>(scheme);
      }
    });
  }
}

TEST(ParallelGpt, MistakesAreFound) {
  const Trained reference = alone();
  on_ranks(2, [&](int, const TensorGroup& group) {
    EXPECT_GT(deviation(divided(group, Scheme::sequence, Mistake::norm_not_summed), reference), 1e-2);
    EXPECT_GT(deviation(divided(group, Scheme::tensor, Mistake::bias_on_every_rank), reference), 1e-3);
    EXPECT_GT(deviation(divided(group, Scheme::vocabulary, Mistake::padding_counted), reference), 1e-3);
  });
}

TEST(ParallelGpt, WhatCannotBeDividedIsRefused) {
  on_ranks(3, [&](int, const TensorGroup& group) {
    const auto message = tenfold::test::message_of<c10::ValueError>(
        [&] { tenfold::ParallelGpt(whole_gpt(), tenfold::division_of(Scheme::tensor, group)); });
    EXPECT_NE(message.find("3 ranks do not divide"), std::string::npos) << message;
    EXPECT_NE(tenfold::test::message_of<c10::ValueError>([&] {
                group.own_rows(torch::zeros({4}));
              }).find("3 ranks do not divide 4 tokens"),
              std::string::npos);
  });
}

/// The collectives that this thread has started: every one of them is an operator of c10d. If asked for, also matmuls
/// and the scopes in which a collective is started or waited for.
thread_local std::vector<std::string> started;

thread_local bool also_others = false;

std::vector<std::string> order_of(const std::function<void()>& work, bool matmuls_and_waits = false) {
  started.clear();
  also_others = matmuls_and_waits;
  const auto observer = at::addThreadLocalCallback(
      at::RecordFunctionCallback([](const at::RecordFunction& op) -> std::unique_ptr<at::ObserverContext> {
        const std::string name = op.name();
        if (name.starts_with("c10d::")) started.push_back(name.substr(6));
        if (also_others && name == "aten::mm") started.emplace_back("mm");
        if (also_others && name == "communication") started.push_back(name);
        return nullptr;
      }).scopes({at::RecordScope::FUNCTION, at::RecordScope::USER_SCOPE}));
  work();
  at::removeCallback(observer);
  return started;
}

TEST(ParallelGpt, CollectivesComeInTheOrderOfTheLayersOnEveryRank) {
  using Order = std::vector<std::string>;
  const std::string sum = "allreduce_", gather = "_allgather_base_", scatter = "_reduce_scatter_base_";
  on_ranks(2, [&](int, const TensorGroup& group) {
    for (const Scheme scheme : {Scheme::tensor, Scheme::sequence, Scheme::gathered_again}) {
      tenfold::ParallelBlock block(*whole_gpt()->blocks[0], Division{tenfold::division_of(scheme, group)});
      const bool sequence = scheme != Scheme::tensor;
      const Tensor x = random({sequence ? 16 : 32, 16}, 1).requires_grad_();
      Tensor y;
      const Order forward = order_of([&] { y = block(x, 8); });
      const Order backward = order_of([&] { y.sum().backward(); });
      if (!sequence) {
        EXPECT_EQ(forward, (Order{sum, sum}));
        EXPECT_EQ(backward, (Order{sum, sum}));
      } else if (scheme == Scheme::sequence) {
        EXPECT_EQ(forward, (Order{gather, scatter, gather, scatter}));
        EXPECT_EQ(backward, (Order{gather, scatter, gather, scatter}));
      } else {
        EXPECT_EQ(forward, (Order{gather, scatter, gather, scatter}));
        EXPECT_EQ(backward, (Order{gather, gather, scatter, gather, gather, scatter}));
      }
    }
  });
}

// What has been started is waited for in the last "communication" of a layer's backward: the weight's matmul stands
// before it, and the input's before that of the inputs that are gathered again.
TEST(ColumnParallelLinear, TheBackwardsCollectivesRunNextToItsMatmuls) {
  using Order = std::vector<std::string>;
  const auto with_waits = [](const std::string& collective, bool again) {
    const std::string scope = "communication", product = "mm";
    if (!again) return Order{product, scope, collective, product, scope};
    return Order{scope, "_allgather_base_", product, scope, scope, collective, product, scope};
  };
  on_ranks(2, [&](int, const TensorGroup& group) {
    for (const Scheme scheme : {Scheme::tensor, Scheme::sequence, Scheme::gathered_again}) {
      const auto how = tenfold::division_of(scheme, group).how;
      torch::nn::Linear whole(6, 12);
      tenfold::ColumnParallelLinear layer(*whole, how);
      const Tensor y = layer(random({how.sequence ? 4 : 8, 6}, 1).requires_grad_());
      const Tensor loss = y.sum();
      EXPECT_EQ(order_of([&] { loss.backward(); }, /*matmuls_and_waits=*/true),
                with_waits(how.sequence ? "_reduce_scatter_base_" : "allreduce_", how.gather_again));
    }
  });
}

TEST(DividedGpt, BytesAreThoseOfTheFormula) {
  for (const int ranks : {1, 2, 4}) {
    for (const Scheme scheme : {Scheme::tensor, Scheme::vocabulary, Scheme::sequence, Scheme::gathered_again}) {
      const DividedGpt formula = tenfold::divided_gpt(small(), kVocabulary, ranks, scheme);
      auto counts = tenfold::count_update(small(), kVocabulary, ranks, scheme);
      const auto expect = [&](const std::string& collective, const DividedGpt::Sent& sent) {
        EXPECT_EQ(counts.asked[collective].bytes, sent.bytes) << collective << " on " << ranks;
        EXPECT_EQ(counts.asked[collective].calls, sent.calls) << collective << " on " << ranks;
      };
      expect("all_reduce", formula.all_reduce());
      expect("all_gather", formula.all_gather());
      expect("reduce_scatter", formula.reduce_scatter());
      // malloc gives a tensor some bytes more than it needs: 32 of each at most.
      constexpr int64_t kParameters = 2 * 12 + 5, kActivations = 16;
      EXPECT_GE(counts.state_bytes, formula.state_bytes()) << ranks << " ranks";
      EXPECT_LT(counts.state_bytes, formula.state_bytes() + 32 * 3 * kParameters) << ranks << " ranks";
      EXPECT_GE(counts.block_kept_bytes, formula.block_kept_bytes()) << ranks << " ranks";
      EXPECT_LT(counts.block_kept_bytes, formula.block_kept_bytes() + 32 * kActivations) << ranks << " ranks";
    }
  }
}

TEST(DividedGpt, FormulasAreThoseOfThePapers) {
  // 8 of D >> 1: a block keeps 16, 4 + 12 / N, 16 / N activations.
  const auto kept = [](Scheme scheme, int64_t ranks) {
    const auto of = tenfold::divided_gpt({.width = 4096, .heads = 8}, 128, ranks, scheme);
    return static_cast<double>(of.block_kept_bytes()) / static_cast<double>(of.stream());
  };
  EXPECT_NEAR(kept(Scheme::one_process, 1), 16, 0.01);
  EXPECT_NEAR(kept(Scheme::tensor, 4), 7, 0.01);
  EXPECT_NEAR(kept(Scheme::sequence, 4), 5.5, 0.01);
  EXPECT_NEAR(kept(Scheme::gathered_again, 4), 4, 0.01);
  // A reduce-scatter and an all-gather send what an all-reduce sends; beyond it the replicated weights' gradients.
  const auto tensor = tenfold::divided_gpt({.width = 4096}, 128, 4, Scheme::vocabulary);
  const auto sequence = tenfold::divided_gpt({.width = 4096}, 128, 4, Scheme::sequence);
  EXPECT_EQ(sequence.ring_bytes() - tensor.ring_bytes(), 2 * 4 * sequence.replicated_values() / 4 * 3);
}

}  // namespace
