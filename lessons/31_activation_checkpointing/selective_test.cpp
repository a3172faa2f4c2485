// SelectiveRecomputation against the plain block.
#include <gtest/gtest.h>

#include "common/measure/memory.h"
#include "selective_recomputation.h"

#include "tests/support/support.h"

namespace tenfold {
namespace {

using test::message_of;
using torch::Tensor;

constexpr int64_t kRows = 32, kWidth = 16;

int64_t matmuls = 0;  // counted below
std::unique_ptr<at::ObserverContext> count_matmul(const at::RecordFunction& function) {
  const std::string name = function.name();
  if (name == "aten::mm" || name == "aten::addmm") ++matmuls;
  return nullptr;
}

// Pre-norm MLP with dropout, as half of a transformer's block.
struct BlockImpl : torch::nn::Module {
  BlockImpl() : norm(torch::nn::LayerNormOptions({kWidth})), up(kWidth, 4 * kWidth), down(4 * kWidth, kWidth) {
    register_module("norm", norm);
    register_module("up", up);
    register_module("down", down);
  }
  /// Plain without `again`.
  Tensor forward(const Tensor& x, SelectiveRecomputation* again) {
    const auto cheap = [again](const auto& function, const Tensor& t) {
      return again == nullptr ? function(t) : again->cheap(function, t);
    };
    const auto norm_of = [this](const Tensor& t) {
      ++norms;
      return autocast_input(norm->forward(t));
    };
    const Tensor inner = up(cheap(norm_of, x));
    const Tensor act = cheap([](const Tensor& t) { return torch::gelu(t, "tanh"); }, inner);
    return x + torch::dropout(down(act), 0.25, /*train=*/true);
  }
  torch::nn::LayerNorm norm;
  torch::nn::Linear up, down;
  int norms = 0;
};
TORCH_MODULE(Block);

struct Trained {
  std::vector<Tensor> values;  // the losses, then the gradients of the last step
  int64_t kept = 0;            // bytes by forward
  int64_t matmuls = 0;
  int norms = 0;
};

Trained train(bool selective, bool sixteen_bits = false) {
  torch::manual_seed(31);
  std::vector<Block> blocks{Block(), Block(), Block()};
  SelectiveRecomputation again;
  Trained result;
  const CountCpuMemory counting;
  matmuls = 0;
  for (int step = 0; step < 3; ++step) {
    const Tensor x = torch::randn({2, kRows / 2, kWidth}).requires_grad_();
    const int64_t before = live_bytes(torch::kCPU);
    Tensor h = x;
    {
      const Autocast scope(at::kCPU, torch::kBFloat16, sixteen_bits);
      for (Block& block : blocks) {
        h = selective ? again.block([&](const Tensor& t) { return block->forward(t, &again); }, h)
                      : block->forward(h, nullptr);
      }
    }
    result.kept = live_bytes(torch::kCPU) - before;
    const Tensor loss = h.pow(2).mean();
    loss.backward();
    result.values.push_back(loss.detach().reshape({1}));
    result.values.push_back(x.grad().flatten());
  }
  for (Block& block : blocks) {
    for (const Tensor& parameter : block->parameters()) result.values.push_back(parameter.grad().flatten());
    result.norms += block->norms;
  }
  result.matmuls = matmuls;
  return result;
}

class Selective : public testing::Test {
 protected:
  void SetUp() override {
    torch::set_num_threads(1);
    enable_saved_tensor_hooks();
  }
};

TEST_F(Selective, IsExactAndRunsNoMatmulTwice) {
  const auto handle = at::addGlobalCallback(at::RecordFunctionCallback(count_matmul));
  for (const bool sixteen_bits : {false, true}) {
    const Trained plain = train(false, sixteen_bits), ours = train(true, sixteen_bits);
    EXPECT_TRUE(torch::equal(torch::cat(plain.values), torch::cat(ours.values))) << sixteen_bits;
    EXPECT_EQ(ours.norms, 2 * plain.norms) << "once in forward, once in backward";
    EXPECT_GT(plain.matmuls, 0);
    EXPECT_EQ(ours.matmuls, plain.matmuls);
  }
  at::removeCallback(handle);
}

TEST_F(Selective, KeepsNoResultOfWhatIsCheap) {
  for (const int64_t bytes_a_number : {4, 2}) {
    const bool sixteen_bits = bytes_a_number == 2;
    const int64_t results = 3 * kRows * (kWidth + 4 * kWidth) * bytes_a_number;  // of three blocks: norm's and GELU's
    constexpr double kSpare = 512;  // bytes that the allocator adds to small tensors, now more and now less
    EXPECT_NEAR(static_cast<double>(train(false, sixteen_bits).kept - train(true, sixteen_bits).kept),
                static_cast<double>(results), kSpare);
  }
}

TEST_F(Selective, AStorageAtTheAddressOfOneThatIsGoneIsAnother) {
  SelectiveRecomputation again;
  const Tensor x = torch::rand({8}).requires_grad_();
  again
      .block(
          [&](const Tensor& t) {
            Tensor sum = torch::zeros({8});
            for (int i = 0; i < 32; ++i) {
              again.cheap([](const Tensor& u) { return u * 100; }, t);  // of no use to anybody, and gone
              const Tensor y = t * 2;
              sum = sum + y * y;  // saves y
            }
            return sum;
          },
          x)
      .sum()
      .backward();
  EXPECT_TRUE(torch::allclose(x.grad(), 32 * 8 * x.detach()));
}

TEST_F(Selective, WhatIsNotInABlockOrHasNoGradientIsComputedOnce) {
  SelectiveRecomputation again;
  int runs = 0;
  const auto twice = [&runs](const Tensor& t) {
    ++runs;
    return t * 2;
  };
  const Tensor x = torch::ones({4}).requires_grad_();
  c10::weak_intrusive_ptr<c10::StorageImpl> input = x.storage().getWeakStorageImpl();
  {
    const Tensor t = x * 3;
    input = t.storage().getWeakStorageImpl();
    again.cheap(twice, t).pow(2).sum().backward();
  }
  EXPECT_EQ(runs, 1);
  EXPECT_TRUE(input.expired()) << "no recipe keeps it";
  const torch::NoGradGuard no_grad;
  EXPECT_FALSE(again.block([&](const Tensor& t) { return again.cheap(twice, t).pow(2); }, x).requires_grad());
  EXPECT_EQ(runs, 2);
}

TEST_F(Selective, WhatChangesUntilBackwardIsRefused) {
  SelectiveRecomputation again;
  const auto message = [&](const auto& function, const auto& meanwhile) {
    const Tensor x = torch::rand({4}).requires_grad_(), input = x * 2, factor = torch::rand({4});
    const Tensor loss =
        again.block([&](const Tensor& t) { return again.cheap(function, t).pow(2) * factor; }, input).sum();
    meanwhile(input, factor);
    return message_of<c10::Error>([&] { loss.backward(); });
  };
  const auto half = [](const Tensor& t) { return t / 2; };
  EXPECT_NE(
      message(half, [](const Tensor& input, const Tensor&) { input.detach().zero_(); }).find("input of a cheap()"),
      std::string::npos);
  EXPECT_NE(message(half, [](const Tensor&, const Tensor& factor) { Tensor(factor).zero_(); }).find("had saved"),
            std::string::npos);
  int runs = 0;
  const auto other = [&runs](const Tensor& t) { return ++runs == 1 ? t / 2 : (t / 2).to(torch::kDouble); };
  EXPECT_NE(message(other, [](const Tensor&, const Tensor&) {}).find("Float of shape [4] on cpu in forward and Double"),
            std::string::npos);
}

}  // namespace
}  // namespace tenfold
