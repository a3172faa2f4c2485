// checkpoint() against the plain block, and against Python's torch.utils.checkpoint.
#include <gtest/gtest.h>

#include "checkpoint.h"
#include "common/measure/memory.h"

#include "tests/support/exchange.h"
#include "tests/support/support.h"

namespace tenfold {
namespace {

using test::message_of;
using torch::Tensor;
namespace F = torch::nn::functional;

constexpr int64_t kBlocks = 4, kWidth = 16, kHidden = 32, kBatch = 8, kSteps = 5;

// A residual block with dropout between its two layers.
struct BlockImpl : torch::nn::Module {
  BlockImpl() : up(kWidth, kHidden), down(kHidden, kWidth) {
    register_module("up", up);
    register_module("down", down);
  }
  Tensor forward(const Tensor& x) {
    ++runs;
    if (seen_dtype) *seen_dtype = up(x).scalar_type();
    return x + down(torch::dropout(torch::tanh(up(x)), 0.25, /*train=*/true));
  }
  torch::nn::Linear up, down;
  int runs = 0;
  std::optional<at::ScalarType> seen_dtype;
};
TORCH_MODULE(Block);

struct ModelImpl : torch::nn::Module {
  ModelImpl() : first(register_module("first", torch::nn::Linear(kWidth, kWidth))) {
    for (int64_t i = 0; i < kBlocks; ++i) blocks.push_back(register_module("block" + std::to_string(i), Block()));
  }
  torch::nn::Linear first;
  std::vector<Block> blocks;
};
TORCH_MODULE(Model);

struct Trained {
  std::vector<Tensor> losses, gradients, parameters;
  Tensor random_state;
};

Trained train(Model& model, const Tensor& inputs, const Tensor& targets, bool recompute,
              CheckpointOptions options = {}) {
  torch::optim::SGD optimizer(model->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
  Trained result;
  torch::manual_seed(31);
  for (int64_t step = 0; step < kSteps; ++step) {
    optimizer.zero_grad();
    Tensor h = model->first(inputs[step]);
    for (auto& block : model->blocks) h = recompute ? checkpoint_with(options, block, h) : block->forward(h);
    const Tensor loss = F::mse_loss(h, targets[step]);
    loss.backward();
    optimizer.step();
    result.losses.push_back(loss.detach());
    for (const Tensor& parameter : model->parameters()) result.gradients.push_back(parameter.grad().clone());
  }
  for (const Tensor& parameter : model->parameters()) result.parameters.push_back(parameter.detach().clone());
  result.random_state = at::detail::getDefaultCPUGenerator().get_state();
  return result;
}

class Checkpoint : public testing::Test {
 protected:
  void SetUp() override {
    torch::set_num_threads(1);
    torch::manual_seed(1);
    inputs_ = torch::randn({kSteps, kBatch, kWidth});
    targets_ = torch::randn({kSteps, kBatch, kWidth});
  }
  static Model fresh() {
    torch::manual_seed(2);
    return Model();
  }
  Tensor inputs_, targets_;
};

TEST_F(Checkpoint, LossesGradientsAndParametersAreBitEqualWithDropout) {
  Model kept = fresh(), again = fresh();
  const Trained plain = train(kept, inputs_, targets_, false), recomputed = train(again, inputs_, targets_, true);
  EXPECT_TRUE(torch::equal(parity::joined(plain.losses), parity::joined(recomputed.losses)));
  EXPECT_TRUE(torch::equal(parity::joined(plain.gradients), parity::joined(recomputed.gradients)));
  EXPECT_TRUE(torch::equal(parity::joined(plain.parameters), parity::joined(recomputed.parameters)));
  EXPECT_EQ(kept->blocks[0]->runs, kSteps);
  EXPECT_EQ(again->blocks[0]->runs, 2 * kSteps) << "the block was not recomputed";
}

TEST_F(Checkpoint, TheRandomStateAfterwardsIsThatOfThePlainRun) {
  Model kept = fresh(), again = fresh();
  EXPECT_TRUE(torch::equal(train(kept, inputs_, targets_, false).random_state,
                           train(again, inputs_, targets_, true).random_state));
}

TEST_F(Checkpoint, TheRandomStateIsThatOfEveryDevice) {
  using checkpoint_detail::with_cpu;
  const torch::Device cpu(at::kCPU), first(at::kCUDA, 0), second(at::kCUDA, 1);
  using Devices = std::vector<torch::Device>;
  EXPECT_EQ(with_cpu({}), Devices{cpu});
  EXPECT_EQ(with_cpu({cpu, cpu}), Devices{cpu});
  EXPECT_EQ(with_cpu({second, cpu, first, second}), (Devices{cpu, second, first}));
}

TEST_F(Checkpoint, DropoutOnTwoGpusIsRepeatedOnBoth) {
  if (torch::cuda::device_count() < 2) GTEST_SKIP() << "needs two CUDA devices";
  const auto halves = [](const Tensor& a, const Tensor& b) -> std::vector<Tensor> {
    return {torch::dropout(a, 0.5, /*train=*/true), torch::dropout(b, 0.5, /*train=*/true)};
  };
  const torch::Device first(at::kCUDA, 0), second(at::kCUDA, 1);
  const Tensor a = torch::ones({1000}, first).requires_grad_(), b = torch::ones({1000}, second).requires_grad_();
  const std::vector<Tensor> out = checkpoint(halves, a, b);
  (out[0].sum().cpu() + out[1].sum().cpu()).backward();
  EXPECT_TRUE(torch::equal(a.grad(), out[0])) << "what was dropped then is dropped again";
  EXPECT_TRUE(torch::equal(b.grad(), out[1]));
}

TEST_F(Checkpoint, WithoutTheRandomStateTheGradientsAreOthers) {
  Model kept = fresh(), again = fresh();
  const Trained plain = train(kept, inputs_, targets_, false);
  const Trained other = train(again, inputs_, targets_, true, {.keep_random_state = false});
  EXPECT_TRUE(torch::equal(plain.losses[0], other.losses[0])) << "the first forward is the same";
  EXPECT_FALSE(torch::equal(parity::joined(plain.gradients), parity::joined(other.gradients)));
}

TEST_F(Checkpoint, TheSameAsPythonsBitForBit) {
  if (!parity::python_has_torch()) GTEST_SKIP() << parity::python() << " has no PyTorch";
  Model model = fresh();
  const parity::Exchange exchange;
  exchange.write("start.bin", model->parameters());
  exchange.write("inputs.bin", {inputs_});
  exchange.write("targets.bin", {targets_});
  const Trained ours = train(model, inputs_, targets_, true);
  ASSERT_EQ(exchange.run("checkpoint.py"), 0);
  EXPECT_TRUE(torch::equal(parity::joined(ours.losses), exchange.read("losses.bin")));
  EXPECT_TRUE(torch::equal(parity::joined(ours.parameters), exchange.read("finish.bin")));
}

TEST_F(Checkpoint, PeakMemoryIsSmaller) {
  const auto peak_of = [&](bool recompute) {
    Model model = fresh();
    const CountCpuMemory counting;
    const int64_t before = live_bytes(torch::kCPU);
    reset_peak(torch::kCPU);
    Tensor h = torch::ones({4096, kWidth}).requires_grad_();
    for (auto& block : model->blocks) h = recompute ? checkpoint(block, h) : block->forward(h);
    h.sum().backward();
    return peak_bytes(torch::kCPU) - before;
  };
  EXPECT_LT(peak_of(true), peak_of(false) * 2 / 3);
}

TEST_F(Checkpoint, RecomputesInTheAutocastStateOfTheFirstForward) {
  Model model = fresh();
  Block block = model->blocks[0];
  block->seen_dtype = torch::kFloat;
  Tensor loss;
  {
    const Autocast scope(at::kCPU, torch::kBFloat16);
    loss = checkpoint(block, inputs_[0].clone().requires_grad_()).sum();
  }
  ASSERT_EQ(*block->seen_dtype, torch::kBFloat16);
  block->seen_dtype = torch::kFloat;
  loss.backward();
  EXPECT_EQ(*block->seen_dtype, torch::kBFloat16);
  EXPECT_FALSE(at::autocast::is_autocast_enabled(at::kCPU));
}

TEST_F(Checkpoint, WeightsGetGradientsWhenBackwardRunsInsideAutocast) {
  Model kept = fresh(), again = fresh();
  for (const bool recompute : {false, true}) {
    Block block = (recompute ? again : kept)->blocks[0];
    const Tensor input = inputs_[0].clone().requires_grad_();
    torch::manual_seed(3);
    const Autocast scope(at::kCPU, torch::kBFloat16);
    (recompute ? checkpoint(block, input) : block->forward(input)).sum().backward();
  }
  ASSERT_TRUE(again->blocks[0]->up->weight.grad().defined());
  EXPECT_TRUE(torch::equal(kept->blocks[0]->up->weight.grad(), again->blocks[0]->up->weight.grad()));
}

TEST_F(Checkpoint, SeveralInputsAndOutputs) {
  const Tensor ids = torch::tensor({2, 0, 1});
  const auto both = [](const Tensor& a, const Tensor& b, const Tensor& rows) -> std::vector<Tensor> {
    return {(a * b).index_select(0, rows), torch::sin(b), rows + 1};
  };
  const auto gradients = [&](bool recompute) {
    const Tensor a = inputs_[0].slice(0, 0, 3).clone().requires_grad_(),
                 b = inputs_[1].slice(0, 0, 3).clone().requires_grad_();
    const auto out = recompute ? checkpoint(both, a, b, ids) : both(a, b, ids);
    EXPECT_TRUE(torch::equal(out[2], ids + 1));
    out[0].pow(2).sum().backward({}, /*retain_graph=*/true);  // one output alone
    out[1].sum().backward();
    return torch::cat({a.grad(), b.grad()});
  };
  EXPECT_TRUE(torch::equal(gradients(false), gradients(true)));
}

TEST_F(Checkpoint, Nests) {
  Model kept = fresh(), again = fresh();
  const auto gradient = [&](Model& model, bool recompute) {
    torch::manual_seed(4);
    const auto inner = [&model, recompute](Tensor x) {
      for (auto& block : model->blocks) x = recompute ? checkpoint(block, x) : block->forward(x);
      return x;
    };
    const Tensor input = inputs_[0].clone().requires_grad_();
    (recompute ? checkpoint(inner, input) : inner(input)).pow(2).sum().backward();
    return input.grad();
  };
  EXPECT_TRUE(torch::equal(gradient(kept, false), gradient(again, true)));
  EXPECT_TRUE(torch::equal(kept->blocks[0]->up->weight.grad(), again->blocks[0]->up->weight.grad()));
}

TEST_F(Checkpoint, WithoutGradModeItIsTheBlock) {
  const torch::NoGradGuard no_grad;
  Block block;
  EXPECT_FALSE(checkpoint(block, inputs_[0]).requires_grad());
  EXPECT_EQ(block->runs, 1);
}

TEST_F(Checkpoint, MisuseIsNamed) {
  Block block;
  EXPECT_NE(message_of<c10::Error>([&] { checkpoint(block, inputs_[0]); }).find("no input requires a gradient"),
            std::string::npos);

  const Tensor input = inputs_[0].clone().requires_grad_();
  const Tensor twice = checkpoint(block, input).sum();
  twice.backward();
  EXPECT_NE(message_of<c10::Error>([&] { twice.backward(); }).find("second time"), std::string::npos);

  const Tensor partial = checkpoint(block, input).sum();
  EXPECT_NE(
      message_of<c10::Error>([&] { torch::autograd::grad({partial}, {input}); }).find("call backward() without inputs"),
      std::string::npos);

  const Tensor higher = checkpoint(block, input).sum();
  EXPECT_NE(message_of<c10::Error>([&] {
              higher.backward({}, /*retain_graph=*/true, /*create_graph=*/true);
            }).find("create_graph"),
            std::string::npos);
}

/// The message of a forward and backward through checkpoint() that must fail; its first line.
template <class BlockT, class... Tensors>
std::string refusal_of(const BlockT& block, const Tensors&... inputs) {
  return message_of<c10::Error>([&] {
    const auto out = checkpoint(block, inputs...);
    if constexpr (std::is_same_v<std::decay_t<decltype(out)>, Tensor>) {
      out.sum().backward();
    } else {
      Tensor sum = torch::zeros({});
      for (const Tensor& output : out) {
        if (output.defined()) sum = sum + output.sum();
      }
      sum.backward();
    }
  });
}

void expect_part(const std::string& message, const std::string& part) {
  EXPECT_NE(message.find(part), std::string::npos) << "\"" << part << "\" is not in: " << message;
}

TEST_F(Checkpoint, ABlockThatChangesAnInputInPlaceIsRefused) {
  const Tensor a = torch::ones({3}).requires_grad_();
  const auto three = [] { return torch::full({3}, 3.0); };
  const std::string second = "the block changes its input 1 in place";
  expect_part(refusal_of([](const Tensor& x, const Tensor& y) { return x * Tensor(y).mul_(2); }, a, three()), second);
  expect_part(refusal_of([](const Tensor& x, const Tensor& y) { return x * y.slice(0, 0, 1).zero_(); }, a, three()),
              second);  // a part of it, through a view
  const Tensor captured = three();
  expect_part(refusal_of(
                  [&captured](const Tensor& x, const Tensor& y) {
                    captured.add_(1);
                    return x * y;
                  },
                  a, captured),
              second);
  expect_part(refusal_of([](const Tensor& x) -> std::vector<Tensor> { return {Tensor(x).clamp_min_(0), x}; }, a * 2),
              "the block changes its input 0 in place");
  expect_part(refusal_of([](const Tensor& x, const Tensor& ids) { return x * Tensor(ids).clamp_(0, 1); }, a,
                         torch::tensor({0, 5, 1})),
              second);
  // What is changed is the block's own.
  const Tensor b = three();
  checkpoint([](const Tensor& x, const Tensor& y) { return (x * y).mul_(2) + y.clone().mul_(5); }, a, b)
      .sum()
      .backward();
  EXPECT_TRUE(torch::equal(a.grad(), torch::full({3}, 6.0)));
  EXPECT_TRUE(torch::equal(b, three()));
}

TEST_F(Checkpoint, AnInputThatIsChangedLaterIsRefused) {
  const Tensor a = torch::ones({3}).requires_grad_(), b = torch::full({3}, 3.0);
  const auto product = [](const Tensor& x, const Tensor& y) { return x * y; };
  const Tensor between = checkpoint(product, a, b).sum();
  b.mul_(2);
  expect_part(message_of<c10::Error>([&] { between.backward(); }), "modified by an inplace operation");
  // Only when it is recomputed.
  int runs = 0;
  expect_part(refusal_of(
                  [&runs](const Tensor& x, const Tensor& y) {
                    if (++runs == 2) Tensor(y).mul_(2);
                    return x * y;
                  },
                  a, b),
              "the block changes its input 1 in place");
  EXPECT_FALSE(a.grad().defined());
}

TEST_F(Checkpoint, ASecondRunWithOtherOutputsIsRefused) {
  using Outputs = std::vector<Tensor>;
  const Tensor x = torch::ones({3}).requires_grad_();
  const auto other = [&x](auto first, auto second) {
    int runs = 0;
    std::string message = refusal_of([&](const Tensor& a) { return ++runs == 1 ? first(a) : second(a); }, x);
    EXPECT_FALSE(x.grad().defined()) << "a wrong gradient was added";
    return message;
  };
  const auto single = [](const Tensor& a) { return Outputs{a * 2}; };
  const auto pair = [](const Tensor& a) { return Outputs{a * 2, a * 3}; };
  expect_part(other(single, pair), "returned 1 outputs in forward and 2 when backward() ran it again");
  expect_part(other(pair, single), "returned 2 outputs in forward and 1 when backward() ran it again");
  expect_part(other(pair, [](const Tensor&) { return Outputs{}; }), "returned 2 outputs in forward and 0");
  expect_part(other([](const Tensor& a) { return a.expand({2, 3}) * 2; }, [](const Tensor& a) { return a * 2; }),
              "output 0 of the block was Float of shape [2, 3] on cpu in forward and Float of shape [3] on cpu");
  expect_part(other([](const Tensor& a) { return a * 2; }, [](const Tensor& a) { return (a * 2).sum(); }),
              "and Float of shape [] on cpu");
  expect_part(other(pair, [](const Tensor& a) { return Outputs{a * 2, (a * 3).to(torch::kDouble)}; }),
              "output 1 of the block was Float of shape [3] on cpu in forward and Double");
  expect_part(other(pair, [](const Tensor& a) { return Outputs{Tensor(), a * 3}; }), "in forward and undefined when");
  expect_part(other([](const Tensor& a) { return Outputs{Tensor(), a * 3}; }, pair), "was undefined in forward and");
}

TEST_F(Checkpoint, UndefinedOutputsArePassedOn) {
  const auto block = [](const Tensor& x) -> std::vector<Tensor> { return {Tensor(), x * 2, Tensor(), x * 3}; };
  const Tensor x = torch::ones({3}).requires_grad_();
  const std::vector<Tensor> out = checkpoint(block, x);
  ASSERT_EQ(out.size(), 4U);
  EXPECT_FALSE(out[0].defined() || out[2].defined());
  (out[1] + 10 * out[3]).sum().backward();
  EXPECT_TRUE(torch::equal(x.grad(), torch::full({3}, 32.0)));
  EXPECT_FALSE(checkpoint([](const Tensor&) { return Tensor(); }, x).defined());
  EXPECT_TRUE(checkpoint([](const Tensor&) { return std::vector<Tensor>(); }, x).empty());
}

TEST_F(Checkpoint, AThrowingRecomputationLeavesTheSurroundingsAsTheyWere) {
  int runs = 0;
  const auto failing = [&runs](const Tensor& x) {
    TORCH_CHECK(++runs < 2, "fails when recomputed");
    return torch::dropout(x, 0.5, true);
  };
  Tensor loss;
  {
    const Autocast scope(at::kCPU, torch::kBFloat16);
    loss = checkpoint(failing, inputs_[0].clone().requires_grad_()).sum();
  }
  const Tensor before = at::detail::getDefaultCPUGenerator().get_state();
  EXPECT_NE(message_of<c10::Error>([&] { loss.backward(); }).find("fails when recomputed"), std::string::npos);
  EXPECT_TRUE(torch::equal(before, at::detail::getDefaultCPUGenerator().get_state()));
  EXPECT_FALSE(at::autocast::is_autocast_enabled(at::kCPU));
}

}  // namespace
}  // namespace tenfold
