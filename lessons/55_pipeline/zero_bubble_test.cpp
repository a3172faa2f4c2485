// The zero-bubble schedule, and the split of a backward that it needs.
#include "pipeline.h"
#include "weight_grad_store.h"

#include <gtest/gtest.h>

#include "common/measure/memory.h"
#include "common/ranks/rank_threads.h"
#include "lessons/21_mixed_precision/autocast.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <functional>
#include <future>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace {

using tenfold::Pipeline, tenfold::PipelineAction, tenfold::PipelinePass;
using torch::Tensor;
using Group = c10::intrusive_ptr<c10d::ProcessGroup>;
using Tensors = std::vector<Tensor>;

std::vector<PipelineAction> order_of(const std::string& passes) {  // "F0 B0 W0"
  std::istringstream in(passes);
  std::vector<PipelineAction> order;
  for (std::string pass; in >> pass;) {
    using enum PipelinePass;
    order.push_back({pass[0] == 'F' ? forward : pass[0] == 'B' ? backward : weight_gradients, pass[1] - '0'});
  }
  return order;
}

TEST(ZbH1, IsOneFOneBWithTheWeightsGradientsWhereARankWouldWait) {
  const auto schedule = tenfold::zb_h1_schedule(3, 4);
  EXPECT_EQ(schedule.of_rank[0], order_of("F0 F1 F2 B0 W0 F3 B1 W1 B2 W2 B3 W3"));
  EXPECT_EQ(schedule.of_rank[1], order_of("F0 F1 B0 F2 B1 W0 F3 B2 W1 B3 W2 W3"));
  EXPECT_EQ(schedule.of_rank[2], order_of("F0 B0 F1 B1 F2 B2 W0 F3 B3 W1 W2 W3"));
  for (int ranks = 1; ranks <= 8; ++ranks) {
    for (int micro_batches = 1; micro_batches <= 2 * ranks + 1; ++micro_batches) {
      const auto zb_h1 = tenfold::zb_h1_schedule(ranks, micro_batches);
      const auto one_f_one_b = tenfold::one_f_one_b_schedule(ranks, micro_batches);
      const auto check = tenfold::check_schedule(zb_h1);
      EXPECT_EQ(check.fault, "") << ranks << " ranks, " << micro_batches;
      EXPECT_EQ(check.held, std::vector<int>(static_cast<size_t>(ranks), std::min(micro_batches, ranks)));
      EXPECT_EQ(std::ranges::max(check.held), std::ranges::max(tenfold::check_schedule(one_f_one_b).held));
      EXPECT_TRUE(check.in_order && check.exchanges_may_wait) << "hangs over NCCL";
      for (int rank = 0; rank < ranks; ++rank)
        EXPECT_EQ(tenfold::messages_of(zb_h1, rank), tenfold::messages_of(one_f_one_b, rank));
    }
  }
}

// In whole units: forward F, the input's gradient B, the weights' W.
TEST(ZbH1, TheBubbleIsTheClosedForm) {
  for (const int ranks : {1, 2, 3, 4, 8}) {
    for (const int micro_batches : {ranks, ranks + 1, 2 * ranks, 4 * ranks}) {
      const auto schedule = tenfold::zb_h1_schedule(ranks, micro_batches);
      const auto shortest = [&](int f, int b, int w) {
        auto times = tenfold::equal_stages(schedule, f * ranks, (b + w) * ranks);
        times.weights_share = static_cast<double>(w) / (b + w);
        const auto timeline = tenfold::timeline_of(schedule, times);
        EXPECT_NEAR(timeline.busy, ranks * micro_batches * (f + b + w), 1e-9);
        return std::pair(timeline.length - micro_batches * (f + b + w), timeline.idle_share());
      };
      for (const auto& [f, b, w] : {std::array{1, 1, 1}, {2, 2, 1}, {3, 4, 2}, {4, 3, 3}, {2, 5, 0}}) {
        const auto [bubble, idle] = shortest(f, b, w);
        EXPECT_NEAR(bubble, (ranks - 1) * (f + b - w), 1e-9) << ranks << " ranks, " << micro_batches;
        EXPECT_NEAR(idle, tenfold::zb_h1_idle_share_of(ranks, micro_batches, f, b, w), 1e-12);
      }
      // Weights' gradients that take longer than a forward do not fit into the waiting.
      if (ranks > 1) EXPECT_GT(shortest(1, 1, 2).first, 0);
    }
  }
  // A third of 1F1B's bubble, with one stage on each rank and its messages.
  EXPECT_NEAR(tenfold::zb_h1_idle_share_of(4, 8), 3.0 / 27, 1e-12);
  EXPECT_NEAR(tenfold::zb_h1_idle_share_of(8, 16), 7.0 / 55, 1e-12);
}

// Rank 1 computes its weights' gradients until rank 0 has used what rank 1 sent. A message takes microseconds; the
// seconds are for a machine that starves rank 0's thread, and a schedule that keeps the message never ends the wait.
TEST(ZbH1, TheGradientTravelsWhileTheWeightsGradientsAreComputed) {
  std::promise<void> used;
  bool was_used = false;
  tenfold::on_rank_threads(2, std::chrono::seconds(20), [&](int rank, const Group& group) {
    const auto store = c10::make_intrusive<tenfold::WeightGradStore>();
    const auto stage = [&, rank](const Tensor& input, int) {
      const Tensor h = (rank == 0 ? torch::ones({1}).requires_grad_() : input) * 2;
      h.register_hook([&, rank](const Tensor&) {
        if (rank == 0)
          used.set_value();
        else
          store->put(
              [&] { was_used = used.get_future().wait_for(std::chrono::seconds(5)) == std::future_status::ready; });
      });
      return rank == 0 ? h : h.sum();
    };
    Pipeline(tenfold::zb_h1_schedule(2, 1), group, {stage}, {1}, torch::kFloat, store).run();
  });
  EXPECT_TRUE(was_used);
}

Tensors gradients_of(const Tensors& leaves, const std::function<Tensor()>& loss) {
  for (const Tensor& leaf : leaves) leaf.mutable_grad() = Tensor();
  for (int i = 0; i < 2; ++i) loss().backward();
  Tensors gradients;
  for (const Tensor& leaf : leaves) gradients.push_back(leaf.grad().defined() ? leaf.grad().clone() : Tensor());
  return gradients;
}

enum class Precision { in_32_bits, autocast, in_16_bits };

TEST(WeightGradStore, LeavesTheWeightsGradientsAndTheyAreAutograds) {
  const auto store = c10::make_intrusive<tenfold::WeightGradStore>();
  const auto linear = torch::nn::functional::linear;  // torch::nn::Linear's
  for (const Precision precision : {Precision::in_32_bits, Precision::autocast, Precision::in_16_bits}) {
    const auto type = precision == Precision::in_16_bits ? torch::kBFloat16 : torch::kFloat;
    const auto leaf = [&](torch::IntArrayRef sizes) { return torch::randn(sizes).to(type).requires_grad_(); };
    // With 300 numbers in a sum the order shows, and whether the bias comes before it is rounded.
    const Tensor x = leaf({2, 16, 300}), weight = leaf({64, 300}), bias = leaf({64}), factors = torch::randn({64});
    const std::vector<std::pair<std::string, std::function<Tensor()>>> inputs = {
        {"(B, T, D)", [&] { return x * 1; }},
        {"(T, D)", [&] { return x[1] * 1; }},
        {"(D)", [&] { return x[1][2] * 1; }},
        {"transposed", [&] { return (x * 1).transpose(0, 1); }}};
    for (const auto& [name, input] : inputs) {
      for (const Tensor& added : {bias, Tensor()}) {
        const std::string of = name + ", precision " + std::to_string(static_cast<int>(precision));
        Tensor result;
        const auto loss_of = [&, &input = input](const auto& layer) {
          const tenfold::Autocast scope(torch::kCPU, torch::kBFloat16, precision == Precision::autocast);
          result = layer(input());
          return (result * factors).sum();
        };
        const auto expected = gradients_of(
            {x, weight, bias}, [&] { return loss_of([&](const Tensor& in) { return linear(in, weight, added); }); });
        const Tensor expected_result = result;
        const auto at_once = gradients_of({x, weight, bias}, [&] {
          return loss_of([&](const Tensor& in) { return tenfold::deferred_linear(in, weight, added, store); });
        });
        EXPECT_TRUE(torch::equal(result, expected_result)) << of;
        EXPECT_EQ(result.scalar_type(), expected_result.scalar_type()) << of;
        EXPECT_TRUE(torch::equal(at_once[0], expected[0])) << of;
        EXPECT_FALSE(at_once[1].defined() || at_once[2].defined()) << of;
        tenfold::run_weight_gradients(store->take());
        EXPECT_EQ(weight.grad().scalar_type(), type);
        EXPECT_TRUE(torch::equal(weight.grad(), expected[1])) << of;
        if (added.defined()) EXPECT_TRUE(torch::equal(bias.grad(), expected[2])) << of;
      }
    }
    tenfold::deferred_linear(x, weight.detach(), {}, store).sum().backward();
    EXPECT_TRUE(store->take().empty()) << "frozen weights have no gradients";
    EXPECT_THROW(tenfold::deferred_linear(x, weight * 2, bias, store), c10::ValueError);
  }
}

// The input, and one copy of the weight for all micro-batches of a scope.
TEST(WeightGradStore, UnderAutocastWhatIsKeptIsIn16Bits) {
  const auto store = c10::make_intrusive<tenfold::WeightGradStore>();
  const Tensor x = torch::randn({64, 32}).requires_grad_(), weight = torch::randn({16, 32}).requires_grad_();
  const auto kept_by = [&](const auto& linear) {
    const tenfold::CountCpuMemory counting;
    const tenfold::Autocast scope(torch::kCPU, torch::kBFloat16);
    const int64_t before = tenfold::live_bytes(torch::kCPU);
    const Tensor first = linear(x + 1), second = linear(x + 2);  // inputs that only the graph keeps
    return tenfold::live_bytes(torch::kCPU) - before;
  };
  const int64_t deferred = kept_by([&](const Tensor& in) { return tenfold::deferred_linear(in, weight, {}, store); });
  EXPECT_LT(deferred, 2 * (2 * x.numel() + 2 * 64 * 16) + 2 * weight.numel() + 256);
  EXPECT_LE(deferred, kept_by([&](const Tensor& in) { return torch::nn::functional::linear(in, weight); }));
}

TEST(WeightGradStore, HasNoSecondDerivative) {
  const auto store = c10::make_intrusive<tenfold::WeightGradStore>();
  const Tensor x = torch::randn({3, 4}).requires_grad_(), weight = torch::randn({5, 4}).requires_grad_();
  const Tensor result = tenfold::deferred_linear(x, weight, {}, store);
  EXPECT_THROW(torch::autograd::grad({result.sum()}, {x}, {}, {}, /*create_graph=*/true), c10::Error);
}

// Autograd checks its inputs in backward(): what comes later is the store's to check.
TEST(WeightGradStore, AnInputThatIsChangedBeforeItsUseIsRefused) {
  const auto store = c10::make_intrusive<tenfold::WeightGradStore>();
  const Tensor weight = torch::randn({5, 4}).requires_grad_();
  Tensor x = torch::randn({3, 4});
  tenfold::deferred_linear(x, weight, {}, store).sum().backward();
  x.mul_(2);
  EXPECT_THROW(tenfold::run_weight_gradients(store->take()), c10::Error);
}

}  // namespace
