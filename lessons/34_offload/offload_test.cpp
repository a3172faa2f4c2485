// Saved-tensor hooks, activations, optimizer and weights on the host: the same numbers, and where the bytes are.
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "activation_offload.h"
#include "common/measure/memory.h"
#include "common/models/gpt.h"
#include "host_pool.h"
#include "lessons/12_transfer_overlap/copy_streams.h"
#include "lessons/21_mixed_precision/autocast.h"
#include "lessons/31_activation_checkpointing/checkpoint.h"
#include "lessons/45_fused_adamw/adamw_steps.h"
#include "optimizer_offload.h"
#include "prediction.h"
#include "saved_tensor_hooks.h"
#include "tests/support/support.h"
#include "weight_stream.h"

namespace tenfold {
namespace {

using test::message_of;
using torch::Tensor;

TEST(SavedTensorHooks, EveryTensorGoesThroughThem) {
  const Tensor a = torch::rand({3, 4}).requires_grad_(), b = torch::rand({4, 5}).requires_grad_();
  int packed = 0, unpacked = 0;
  Tensor product;
  {
    const SavedTensorHooks hooks([&](const Tensor& tensor) -> Unpack {
      ++packed;
      return [&unpacked, copy = tensor.clone()] {
        ++unpacked;
        return copy;
      };
    });
    product = a.matmul(b);
  }
  const Tensor outside = a.exp();
  EXPECT_EQ(packed, 2) << "a matmul saves both factors; what is computed after the scope is not packed";
  (product.sum() + outside.sum()).backward();
  EXPECT_EQ(unpacked, 2);
  EXPECT_TRUE(torch::equal(b.grad(), a.detach().t().matmul(torch::ones({3, 5}))));
}

TEST(SavedTensorHooks, Nest) {
  const Tensor x = torch::rand({4}).requires_grad_();
  int outer = 0, inner = 0;
  const auto count = [](int& counter) {
    return [&counter](const Tensor& tensor) -> Unpack {
      ++counter;
      return [kept = tensor.detach()] { return kept; };
    };
  };
  const SavedTensorHooks first(count(outer));
  {
    const SavedTensorHooks second(count(inner));
    x.exp();
  }
  x.exp();
  EXPECT_EQ(outer, 1);
  EXPECT_EQ(inner, 1);
}

TEST(HostPool, UsesBuffersAgain) {
  HostPool pool(/*pinned=*/false);
  const Tensor first = pool.take(64);
  void* const address = first.data_ptr();
  EXPECT_NE(pool.take(64).data_ptr(), address) << "it is taken";
  pool.give_back(first);
  EXPECT_EQ(pool.take(64).data_ptr(), address);
  EXPECT_NE(pool.take(32).data_ptr(), address);
  EXPECT_EQ(pool.bytes(), 64 + 64 + 32);
}

TEST(HostPool, SizesThatChangeDoNotMakeItGrow) {
  HostPool pool(/*pinned=*/false);
  for (int64_t bytes = 1026; bytes <= 2048; bytes += 31) {
    const Tensor first = pool.take(bytes), second = pool.take(bytes - 1);
    EXPECT_EQ(first.numel(), bytes);
    first.fill_(1);
    second.fill_(2);
    EXPECT_EQ(first.sum().item<int64_t>(), bytes) << "the other one is elsewhere";
    pool.give_back(first);
    pool.give_back(second);
  }
  EXPECT_EQ(pool.bytes(), 2 * 2048);
  pool.drop();
  EXPECT_EQ(pool.bytes(), 0);
}

constexpr int64_t kBlocks = 4, kRows = 32, kWidth = 16, kLeast = 1024;

/// A residual block whose saved tensors are views: two halves of one storage, and a tensor with its transpose.
struct BlockImpl : torch::nn::Module {
  BlockImpl() : up(kWidth, 2 * kWidth), down(kWidth, kWidth) {
    register_module("up", up);
    register_module("down", down);
  }
  Tensor forward(const Tensor& x) {
    const std::vector<Tensor> halves = up(x).chunk(2, 1);
    return x + down(torch::sigmoid((halves[0] * halves[1]).t()).t());
  }
  torch::nn::Linear up, down;
};
TORCH_MODULE(Block);

struct Model {
  Model() {
    torch::manual_seed(34);
    for (int64_t i = 0; i < kBlocks; ++i) blocks.emplace_back();
    input = torch::rand({kRows, kWidth});
  }
  std::vector<Tensor> parameters() const {
    std::vector<Tensor> all;
    for (const Block& block : blocks) {
      for (const Tensor& parameter : block->parameters()) all.push_back(parameter);
    }
    return all;
  }
  std::vector<Tensor> gradients() const {
    std::vector<Tensor> all;
    for (const Tensor& parameter : parameters()) all.push_back(parameter.grad());
    return all;
  }
  std::vector<Block> blocks;
  Tensor input;
};

void expect_equal(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) EXPECT_TRUE(torch::equal(a[i], b[i])) << "tensor " << i;
}

struct Offloaded {
  explicit Offloaded(Model& model, int64_t least = kLeast)
      : pool(std::make_shared<HostPool>(false)), offload(copies, pool, model.parameters(), least) {}
  Tensor loss(Model& model, int64_t stay = 1) {
    Tensor h = model.input;
    for (int64_t i = 0; i < kBlocks; ++i) {
      const auto run = [&](const Tensor& x) { return model.blocks[static_cast<size_t>(i)]->forward(x); };
      h = offload.block(run, h, i >= kBlocks - stay);
    }
    offload.end_of_forward();
    return h.square().mean();
  }
  CopyThread copies{torch::kCPU};
  std::shared_ptr<HostPool> pool;
  ActivationOffload<CopyThread> offload;
};

std::vector<Tensor> plain_gradients() {
  Model model;
  Tensor h = model.input;
  for (Block& block : model.blocks) h = block->forward(h);
  h.square().mean().backward();
  return model.gradients();
}

TEST(ActivationOffload, GradientsAreTheSame) {
  for (const int64_t stay : {0, 1, 2, 4}) {
    Model model;
    Offloaded offloaded(model);
    offloaded.loss(model, stay).backward();
    expect_equal(model.gradients(), plain_gradients());
  }
}

TEST(ActivationOffload, OfARecomputedBlockOnlyTheInputLeaves) {
  Model model;
  Offloaded offloaded(model);
  Tensor h = model.input;
  h.requires_grad_();  // as an embedding's result
  for (int64_t i = 0; i < kBlocks; ++i) {
    const auto run = [&](const Tensor& x) { return checkpoint(model.blocks[static_cast<size_t>(i)], x); };
    h = offloaded.offload.block(run, h, i == kBlocks - 1);
  }
  offloaded.offload.end_of_forward();
  EXPECT_EQ(offloaded.offload.bytes_to_host(), 4 * (kBlocks - 1) * kRows * kWidth);
  h.square().mean().backward();
  expect_equal(model.gradients(), plain_gradients());
}

TEST(ActivationOffload, BuffersAreUsedAgain) {
  Model model;
  Offloaded offloaded(model);
  offloaded.loss(model).backward();
  const int64_t bytes = offloaded.pool->bytes();
  const int64_t moved = offloaded.offload.bytes_to_host();
  EXPECT_EQ(bytes, moved) << "each buffer was filled once";
  EXPECT_EQ(offloaded.offload.bytes_to_device(), moved) << "what left came back";
  for (int step = 0; step < 3; ++step) offloaded.loss(model).backward();
  EXPECT_EQ(offloaded.pool->bytes(), bytes);
  EXPECT_EQ(offloaded.offload.bytes_to_host(), 4 * moved);
}

TEST(ActivationOffload, AStorageLeavesOnceWhateverViewsOfItAreSaved) {
  Model model;
  Offloaded offloaded(model);
  offloaded.loss(model).backward();
  // The input, both halves in one storage, and sigmoid's result, which is saved as it is and transposed.
  EXPECT_EQ(offloaded.offload.bytes_to_host(), 4 * (kBlocks - 1) * kRows * (1 + 2 + 1) * kWidth);
}

TEST(ActivationOffload, SmallTensorsAndParametersStay) {
  Model model;
  Offloaded offloaded(model, /*least=*/1 << 20);
  offloaded.loss(model).backward();
  EXPECT_EQ(offloaded.offload.bytes_to_host(), 0);
  expect_equal(model.gradients(), plain_gradients());
}

TEST(ActivationOffload, BackwardMayComeTwice) {
  Model model;
  Offloaded offloaded(model);
  const Tensor loss = offloaded.loss(model);
  loss.backward({}, /*retain_graph=*/true);
  for (const Tensor& parameter : model.parameters()) Tensor(parameter).mutable_grad() = Tensor();
  loss.backward();
  expect_equal(model.gradients(), plain_gradients());
}

TEST(ActivationOffload, AGraphThatNobodyGoesThroughGivesItsBuffersBack) {
  Model model;
  Offloaded offloaded(model);
  offloaded.loss(model);
  const int64_t bytes = offloaded.pool->bytes();
  offloaded.loss(model).backward();
  EXPECT_EQ(offloaded.pool->bytes(), bytes);
}

TEST(ActivationOffload, ABlockThatChangesWhatItSavedIsRefused) {
  Model model;
  Offloaded offloaded(model);
  const auto changes = [](const Tensor& x) {
    Tensor y = x * 2, z = y.exp() + y.square();
    y.mul_(3);
    return z;
  };
  const Tensor x = torch::rand({kRows, kWidth}).requires_grad_();
  EXPECT_NE(message_of<c10::Error>([&] { offloaded.offload.block(changes, x); }).find("changed in place"),
            std::string::npos);
}

TEST(ActivationOffload, ANextBlockThatChangesWhatIsOnItsWayIsRefused) {
  Model model;
  Offloaded offloaded(model);
  const Tensor x = torch::rand({kRows, kWidth}).requires_grad_();
  Tensor saved;
  offloaded.offload.block([&](const Tensor& in) { return (saved = in * 2).exp() + saved.square(); }, x);
  const auto changes = [&](const Tensor& in) {
    const torch::NoGradGuard unrecorded;
    saved.mul_(3);
    return in.clone();
  };
  EXPECT_NE(message_of<c10::Error>([&] { offloaded.offload.block(changes, x); }).find("changed in place"),
            std::string::npos);
}

TEST(ActivationOffload, AWeightsCopyInSixteenBitsMayStay) {
  for (const bool keep : {false, true}) {
    Model model;
    Offloaded offloaded(model, /*least=*/1);
    const Autocast scope(torch::kCPU, torch::kBFloat16);
    const Tensor x = model.input.clone().requires_grad_(), weight = model.blocks[0]->down->weight;
    if (keep) offloaded.offload.keep(autocast_input(weight));
    offloaded.offload.block([&](const Tensor& in) { return torch::linear(in, weight); }, x);
    EXPECT_EQ(offloaded.offload.bytes_to_host(), 2 * (kRows * kWidth + (keep ? 0 : kWidth * kWidth)));
  }
}

/// Trains a few updates with AdamW on one side or the other.
template <class Train>
std::vector<Tensor> trained(const Train& train) {
  Model model;
  train(model);
  std::vector<Tensor> all;
  for (const Tensor& parameter : model.parameters()) all.push_back(parameter.detach().clone());
  return all;
}

constexpr int kUpdates = 4;

std::vector<Tensor> trained_on_the_device() {
  return trained([](Model& model) {
    AdamWState state(model.parameters());
    for (int update = 0; update < kUpdates; ++update) {
      for (const Tensor& parameter : model.parameters()) Tensor(parameter).mutable_grad() = Tensor();
      Tensor h = model.input;
      for (Block& block : model.blocks) h = block->forward(h);
      h.square().mean().backward();
      fused_adamw(state, {});
    }
  });
}

/// The optimizer of parameters that are anywhere.
struct SingleStates {
  explicit SingleStates(size_t parameters) : states(parameters) {}
  void update(size_t i, Tensor& parameter, const Tensor& gradient) {
    parameter.mutable_grad() = gradient;
    if (!states[i]) states[i] = std::make_unique<AdamWState>(std::vector<Tensor>{parameter});
    fused_adamw(*states[i], {});
  }
  std::vector<std::unique_ptr<AdamWState>> states;
};

TEST(OptimizerOffload, ParametersAreTheSame) {
  for (const size_t most : {size_t{0}, size_t{3}, size_t{100}}) {
    for (const bool leave : {false, true}) {
      const std::vector<Tensor> offloaded = trained([&](Model& model) {
        const std::vector<Tensor> parameters = model.parameters();
        SingleStates states(parameters.size());
        CopyThread to_host(torch::kCPU), to_device(torch::kCPU);
        OptimizerOffload<CopyThread> optimizer(
            to_host, to_device, parameters, std::vector<bool>(parameters.size(), true),
            [&](size_t i, Tensor& parameter, const Tensor& gradient) { states.update(i, parameter, gradient); },
            {.leave = leave, .most = most});
        int64_t bytes = 0;
        for (const Tensor& parameter : parameters) bytes += static_cast<int64_t>(parameter.nbytes());
        for (int update = 0; update < kUpdates; ++update) {
          for (const Tensor& parameter : parameters) Tensor(parameter).mutable_grad() = Tensor();
          Tensor h = model.input;
          for (Block& block : model.blocks) h = block->forward(h);
          h.square().mean().backward();
          EXPECT_EQ(parameters.front().grad().defined(), !leave);
          optimizer.step();
        }
        EXPECT_EQ(optimizer.bytes_to_host(), kUpdates * bytes);
        EXPECT_EQ(optimizer.bytes_to_device(), kUpdates * bytes);
      });
      expect_equal(offloaded, trained_on_the_device());
    }
  }
}

TEST(WeightStream, ComesBeforeEachBlockAndGoesBehindIt) {
  Model model;
  std::vector<std::vector<WeightStream<CopyThread>::Weight>> weights;
  for (const Block& block : model.blocks) {
    weights.emplace_back();
    for (const Tensor& parameter : block->parameters())
      weights.back().push_back({parameter, parameter.detach().clone()});
  }
  const auto on_device = [&] {
    int64_t blocks = 0;
    for (const Block& block : model.blocks) blocks += block->up->weight.storage().nbytes() > 0 ? 1 : 0;
    return blocks;
  };
  CopyThread copies(torch::kCPU);
  WeightStream<CopyThread> stream(copies, weights);
  EXPECT_EQ(on_device(), 0);
  for (int pass = 0; pass < 2; ++pass) {
    for (const Tensor& parameter : model.parameters()) Tensor(parameter).mutable_grad() = Tensor();
    Tensor h = model.input;
    for (size_t i = 0; i < model.blocks.size(); ++i) {
      stream.before_forward(i);
      EXPECT_LE(on_device(), 2);
      h = model.blocks[i]->forward(h);
      stream.after_forward(i);
      h.register_hook([&stream, &on_device, i](const Tensor&) {
        stream.before_backward(i);
        EXPECT_LE(on_device(), 2);
      });
    }
    EXPECT_EQ(on_device(), 1) << "the last block's backward comes next";
    h.square().mean().backward();
    stream.after_backward();
    EXPECT_EQ(on_device(), 0);
    expect_equal(model.gradients(), plain_gradients());
  }
}

TEST(Prediction, SixteenNumbersOfEachFeatureLeave) {
  const GptOptions options{.layers = 3, .width = 32, .heads = 2, .length = 32, .batch = 1};
  Gpt model(options);
  CopyThread copies(torch::kCPU);
  const auto pool = std::make_shared<HostPool>(false);
  ActivationOffload<CopyThread> offload(copies, pool, model->parameters(), /*least_bytes=*/4096);
  Tensor h = model->embed(torch::zeros({options.batch, options.length}, torch::kLong));
  for (int64_t i = 0; i < options.layers; ++i)
    h = offload.block([&](const Tensor& x) { return model->blocks[static_cast<size_t>(i)]->forward(x); }, h, i == 2);
  offload.end_of_forward();
  const BlockActivations block(options.batch * options.length, options.width, options.heads);
  EXPECT_EQ(offload.bytes_to_host(), moved_bytes(options.layers, 1, block));
  EXPECT_EQ(pool->bytes(), (options.layers - 1) * block.on_host);
}

}  // namespace
}  // namespace tenfold
