// Arithmetic on a card that is not there: each operator gives what it gives on a CPU, in both orders in which streams
// may run, and whoever forgets a wait is found. Started with the stand-ins and the arithmetic preloaded.

#include <ATen/cuda/CUDAContext.h>
#include <ATen/cuda/CUDAEvent.h>
#include <ATen/cuda/CUDAGeneratorImpl.h>
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <atomic>
#include <thread>

#include "common/dry_gpu/state.h"

namespace tenfold {
namespace {

namespace F = torch::nn::functional;
using at::cuda::CUDAEvent;
using c10::cuda::CUDAStreamGuard;
using torch::Tensor;
using Tensors = std::vector<Tensor>;

const torch::Device kCard(torch::kCUDA, 0);

bool late() { return dry::state().order == dry::Order::late; }

/// Operators and kernels without arithmetic, since the last call.
std::set<std::string> taken_without_arithmetic() {
  const std::lock_guard guard(dry::state().lock);
  return std::exchange(dry::state().counts.without_arithmetic, {});
}

struct Case {
  const char* name;
  std::function<Tensor(const Tensors&)> work;
  std::vector<std::vector<int64_t>> shapes;
  double tolerance = 1e-5;
  bool gradient = false;  ///< also of the first input
};

Tensor half_of(const Tensor& x) { return x.to(torch::kBFloat16); }

std::vector<Case> cases() {
  return {
      {"matmul", [](const Tensors& x) { return x[0].matmul(x[1]); }, {{2, 8, 16}, {16, 4}}, 1e-5, true},
      {"linear with bias",
       [](const Tensors& x) { return F::linear(x[0], x[1], x[2]); },
       {{8, 16}, {4, 16}, {4}},
       1e-5,
       true},
      {"einsum", [](const Tensors& x) { return torch::einsum("ij,kj->ik", {x[0], x[0]}); }, {{8, 16}}},
      {"compiled at run time",
       [](const Tensors& x) { return torch::exp2(x[0]) + torch::lgamma(x[0].abs() + 1); },
       {{8, 16}},
       1e-5,
       true},
      {"broadcast", [](const Tensors& x) { return x[0] * x[1] + 1; }, {{8, 16}, {16}}, 1e-5, true},
      {"out=",
       [](const Tensors& x) {
         Tensor out = torch::empty({0}, x[0].options());
         return torch::add_out(out, x[0], x[0]);
       },
       {{8, 16}}},
      {"in place, through a view",
       [](const Tensors& x) {
         Tensor y = x[0].clone();
         y.view(-1).slice(0, 0, 128, 2).clamp_(0);
         return y;
       },
       {{8, 16}}},
      {"as_strided",
       [](const Tensors& x) { return x[0].clone().as_strided({4, 4}, {16, 2}).mul_(2).sum(); },
       {{8, 16}}},
      {"sum, var, mean in 64 bits",
       [](const Tensors& x) { return x[0].sum(0) + x[0].var(0) + x[0].mean(at::kDouble); },
       {{8, 16}}},
      {"cumsum, sort, topk",
       [](const Tensors& x) { return std::get<0>(std::get<0>(x[0].cumsum(0).sort(1)).topk(3)); },
       {{8, 16}}},
      {"cat of transposed parts",
       [](const Tensors& x) {
         Tensors parts;
         for (const Tensor& part : x[0].split(4)) parts.push_back(part.t());
         return torch::cat(parts, 1);
       },
       {{8, 16}}},
      {"where, masked_fill",
       [](const Tensors& x) { return torch::where(x[0] > 0, x[0], -x[0]).masked_fill(x[0] > 1, 0.); },
       {{8, 16}}},
      {"gelu", [](const Tensors& x) { return torch::gelu(x[0]); }, {{8, 16}}, 1e-5, true},
      {"softmax", [](const Tensors& x) { return torch::softmax(x[0], -1).square(); }, {{8, 16}}, 1e-5, true},
      {"softmax, 16 bits in, 32 out",
       [](const Tensors& x) { return torch::softmax(half_of(x[0]), -1, at::kFloat).square(); },
       {{8, 16}},
       1e-2,
       true},
      {"log_softmax, 16 bits in, 32 out",
       [](const Tensors& x) { return torch::log_softmax(half_of(x[0]), -1, at::kFloat).square(); },
       {{8, 16}},
       1e-2,
       true},
      {"cross-entropy",
       [](const Tensors& x) { return F::cross_entropy(x[0], torch::zeros({8}, x[0].options().dtype(at::kLong))); },
       {{8, 16}},
       1e-5,
       true},
      {"layer norm",
       [](const Tensors& x) { return torch::layer_norm(x[0], {16}, x[1], x[2]).square(); },
       {{8, 16}, {16}, {16}},
       1e-5,
       true},
      {"layer norm of 16 bits",
       [](const Tensors& x) { return torch::layer_norm(half_of(x[0]), {16}, half_of(x[1]), half_of(x[2])).square(); },
       {{8, 16}, {16}, {16}},
       5e-2,
       true},
      {"group norm", [](const Tensors& x) { return torch::group_norm(x[0], 2).square(); }, {{2, 4, 8}}, 1e-5, true},
      {"rms norm",
       [](const Tensors& x) { return torch::rms_norm(x[0], {16}, x[1]).square(); },
       {{8, 16}, {16}},
       1e-5,
       true},
      {"batch norm",
       [](const Tensors& x) { return torch::batch_norm(x[0], x[1], x[2], {}, {}, true, 0.1, 1e-5, true).square(); },
       {{2, 3, 8, 8}, {3}, {3}},
       1e-4,
       true},
      {"convolution",
       [](const Tensors& x) { return torch::conv2d(x[0], x[1], x[2], 1, 1); },
       {{2, 3, 8, 8}, {4, 3, 3, 3}, {4}},
       1e-4,
       true},
      {"max pool", [](const Tensors& x) { return torch::max_pool2d(x[0], 2); }, {{2, 3, 8, 8}}, 1e-5, true},
      {"embedding",
       [](const Tensors& x) {
         return torch::embedding(x[0], torch::tensor({1, 1, 2}, x[0].options().dtype(at::kLong).requires_grad(false)));
       },
       {{8, 16}},
       1e-5,
       true},
      {"index_put, accumulating",
       [](const Tensors& x) {
         return torch::zeros_like(x[0]).index_put({torch::tensor({0, 0, 3}, x[0].options().dtype(at::kLong))},
                                                  x[0].slice(0, 0, 3), true);
       },
       {{8, 16}}},
      {"scatter_add",
       [](const Tensors& x) {
         return torch::zeros_like(x[0]).scatter_add(0, torch::zeros({8, 16}, x[0].options().dtype(at::kLong)), x[0]);
       },
       {{8, 16}}},
      {"attention, 32 bits",
       [](const Tensors& x) { return at::scaled_dot_product_attention(x[0], x[1], x[2], {}, 0, true); },
       {{2, 2, 16, 8}, {2, 2, 16, 8}, {2, 2, 16, 8}},
       1e-5,
       true},
      {"attention, 16 bits",
       [](const Tensors& x) {
         return at::scaled_dot_product_attention(half_of(x[0]), half_of(x[1]), half_of(x[2]), {}, 0, true);
       },
       {{2, 2, 16, 8}, {2, 2, 16, 8}, {2, 2, 16, 8}},
       5e-2,
       true},
      {"attention with a mask",
       [](const Tensors& x) { return at::scaled_dot_product_attention(x[0], x[0], x[0], x[1]); },
       {{2, 2, 16, 8}, {16, 16}},
       1e-5,
       true},
      {"complex",
       [](const Tensors& x) {
         const Tensor z = torch::complex(x[0], x[0]);
         return torch::view_as_real(z.conj() * z).sum();
       },
       {{8, 16}},
       1e-2},
      // What depends on values, which a CUDA kernel would have to count.
      {"nonzero", [](const Tensors& x) { return (x[0] > 0).nonzero(); }, {{8, 16}}},
      {"index by a mask", [](const Tensors& x) { return x[0].index({x[0] > 0}); }, {{8, 16}}, 1e-5, true},
      {"index_put by a mask",
       [](const Tensors& x) { return x[0].clone().index_put_({x[0] > 0}, torch::zeros({}, x[0].options())); },
       {{8, 16}}},
      {"masked_select", [](const Tensors& x) { return x[0].masked_select(x[0] > 0); }, {{8, 16}}},
      {"unique", [](const Tensors& x) { return std::get<0>(at::_unique2(x[0].round())); }, {{8, 16}}},
      {"bincount", [](const Tensors& x) { return (x[0].abs() * 3).to(at::kLong).bincount(); }, {{64}}},
      {"histc", [](const Tensors& x) { return x[0].histc(5, -1, 1); }, {{64}}},
      {"repeat_interleave",
       [](const Tensors& x) { return torch::repeat_interleave((x[0].abs() * 2).to(at::kLong)); },
       {{8}}},
      {"equal, allclose, item",
       [](const Tensors& x) {
         const bool same =
             torch::equal(x[0], x[0].clone()) && torch::allclose(x[0], x[0]) && !torch::equal(x[0], -x[0]);
         return torch::full({}, same ? x[0].sum().item<double>() : -1e9);
       },
       {{8, 16}},
       1e-4},
      {"views in place",
       [](const Tensors& x) { return (x[0] * 1).unsqueeze_(0).transpose_(1, 2).squeeze_(0).t_().t_() + 1; },
       {{8, 8}}},
      // Whoever calls nothing but a schema a view: under inference_mode these are copies.
      {"inference mode",
       [](const Tensors& x) {
         const c10::InferenceMode guard;
         const Tensor y = x[0] * 1;
         return y.t().reshape(-1) + y.t().contiguous().flatten() + y.to(torch::kHalf).to(torch::kFloat).t().reshape(-1);
       },
       {{8, 16}},
       1e-2},
  };
}

class Operators : public testing::TestWithParam<Case> {};

TEST_P(Operators, GiveWhatTheyGiveOnACpu) {
  const Case& of = GetParam();
  const auto run = [&of](torch::Device device) {
    torch::manual_seed(0);
    Tensors inputs;
    for (const auto& shape : of.shapes) inputs.push_back(torch::randn(shape, torch::kCPU).to(device));
    if (of.gradient) inputs[0].requires_grad_();
    const Tensor out = of.work(inputs);
    if (!of.gradient) return std::pair(out.cpu(), Tensor());
    out.to(torch::kFloat).sum().backward();
    return std::pair(out.detach().cpu(), inputs[0].grad().cpu());
  };
  taken_without_arithmetic();
  const auto [expected, expected_gradient] = run(torch::kCPU);
  const auto [out, gradient] = run(kCard);
  ASSERT_EQ(out.sizes(), expected.sizes());
  EXPECT_TRUE(torch::allclose(out.to(at::kDouble), expected.to(at::kDouble), of.tolerance, of.tolerance))
      << out << expected;
  if (of.gradient)
    EXPECT_TRUE(torch::allclose(gradient, expected_gradient, of.tolerance, of.tolerance))
        << gradient << expected_gradient;
  EXPECT_THAT(taken_without_arithmetic(), testing::IsEmpty());
}
INSTANTIATE_TEST_SUITE_P(All, Operators, testing::ValuesIn(cases()), [](const auto& of) {
  std::string name;
  for (const char c : std::string(of.param.name)) name += std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
  return name;
});

// The same kernels on the same numbers; where they lie in memory may change which of them a library takes for the
// edges.
TEST(Training, IsThatOfTheCpu) {
  const auto losses = [](torch::Device device) {
    torch::manual_seed(1);
    torch::nn::Sequential model(torch::nn::Linear(64, 256), torch::nn::GELU(),
                                torch::nn::LayerNorm(torch::nn::LayerNormOptions({256})), torch::nn::Linear(256, 10));
    const Tensor x = torch::randn({32, 64}), y = torch::randint(0, 10, {32});
    model->to(device);
    torch::optim::AdamW optimizer(model->parameters());
    std::vector<float> all;
    for (int i = 0; i < 4; ++i) {
      optimizer.zero_grad();
      const Tensor loss = F::cross_entropy(model->forward(x.to(device)), y.to(device));
      loss.backward();
      torch::nn::utils::clip_grad_norm_(model->parameters(), 1.0);
      optimizer.step();
      all.push_back(loss.item<float>());
    }
    return all;
  };
  EXPECT_THAT(losses(kCard), testing::Pointwise(testing::FloatNear(1e-5F), losses(torch::kCPU)));
}

TEST(Generators, OnlyTheCardsOwnMoves) {
  torch::manual_seed(3);
  const Tensor of_cpu = torch::rand({4});
  torch::manual_seed(3);
  const Tensor first = torch::rand({1000}, kCard), second = torch::rand({1000}, kCard);
  EXPECT_TRUE(torch::equal(torch::rand({4}), of_cpu)) << "the CPU's did not move";
  EXPECT_FALSE(torch::equal(first, second));
  EXPECT_NEAR(first.mean().item<float>(), 0.5, 0.05);
  at::Generator generator = at::cuda::detail::getDefaultCUDAGenerator();
  const Tensor state = generator.get_state();
  const Tensor mask = torch::dropout(torch::ones({1000}, kCard), 0.5, true);
  generator.set_state(state);
  EXPECT_TRUE(torch::equal(torch::dropout(torch::ones({1000}, kCard), 0.5, true), mask)) << "put back: the same mask";
  EXPECT_FALSE(torch::equal(torch::dropout(torch::ones({1000}, kCard), 0.5, true), mask));
}

TEST(Generators, AThreadDrawsFromTheCpusMeanwhile) {
  const auto drawn = [] {
    torch::manual_seed(3);
    Tensors all;
    for (int i = 0; i < 5000; ++i) all.push_back(torch::rand({4}));
    return torch::cat(all);
  };
  const Tensor alone = drawn();
  Tensor x = torch::zeros({64}, kCard);
  std::atomic<bool> over = false;
  Tensor meanwhile;
  std::thread thread([&] {
    meanwhile = drawn();
    over = true;
  });
  while (!over) x.normal_().sum().item<float>();
  thread.join();
  EXPECT_TRUE(meanwhile.equal(alone));
}

// Their sizes or their numbers are made on the CPU, where no kernel moves the generator on.
TEST(Generators, AreMovedOnByWhatIsComputedFirst) {
  torch::manual_seed(3);
  const auto order = [] { return torch::randperm(1000, kCard); };
  const auto choice = [] { return torch::ones({1000}, kCard).multinomial(100); };
  const Tensor first_order = order(), first_choice = choice();
  EXPECT_FALSE(torch::equal(order(), first_order));
  EXPECT_FALSE(torch::equal(choice(), first_choice));
  torch::manual_seed(3);
  EXPECT_TRUE(torch::equal(order(), first_order));
  EXPECT_TRUE(torch::equal(choice(), first_choice));
}

TEST(Threads, AllOfThemCompute) {
  double sum = 0;
  const Tensor x = torch::arange(8, torch::kFloat).to(kCard);
  std::thread([&] { sum = (x * 2).sum().item<double>(); }).join();
  EXPECT_EQ(sum, 56);
}

// A wait that is missing before a read.
TEST(Waits, AReadThatDoesNotWaitSeesOldNumbers) {
  const auto with = [](bool wait) {
    const auto side = c10::cuda::getStreamFromPool(false, 0);
    const Tensor x = torch::ones({64}, kCard), y = torch::zeros({64}, kCard);
    c10::cuda::device_synchronize();
    CUDAEvent done;
    {
      const CUDAStreamGuard guard(side);
      torch::mul_out(const_cast<Tensor&>(y), x, x);
      done.record();
    }
    if (wait) done.block(c10::cuda::getCurrentCUDAStream());
    const double sum = y.sum().item<double>();
    c10::cuda::device_synchronize();
    return sum;
  };
  EXPECT_EQ(with(true), 64);
  EXPECT_EQ(with(false), late() ? 0 : 64);
}

// Two buffers; the copy of a batch must wait for whoever reads its buffer. (0 + ... + 7 = 28.)
TEST(Waits, ACopyThatDoesNotWaitOverwrites) {
  const auto with = [](bool wait) {
    Tensors host, buffers;
    for (int i = 0; i < 8; ++i) host.push_back(torch::full({64}, i, torch::kFloat).pin_memory());
    for (int i = 0; i < 2; ++i) buffers.push_back(torch::zeros({64}, kCard));
    Tensor sum = torch::zeros({64}, kCard);
    c10::cuda::device_synchronize();
    std::vector<CUDAEvent> copied(8), used(8);
    const auto side = c10::cuda::getStreamFromPool(false, 0);
    for (size_t i = 0; i < 8; ++i) {
      {
        const CUDAStreamGuard guard(side);
        if (i >= 2 && wait) used[i - 2].block(side);
        buffers[i % 2].copy_(host[i], true);
        copied[i].record();
      }
      copied[i].block(c10::cuda::getCurrentCUDAStream());
      sum += buffers[i % 2];
      used[i].record();
    }
    return sum.mean().item<double>();
  };
  EXPECT_EQ(with(true), 28);
  EXPECT_EQ(with(false), late() ? 28 : 52);
}

TEST(Waits, FreedWhileAnotherStreamReadsIt) {
  const auto with = [](bool recorded) {
    const auto side = c10::cuda::getStreamFromPool(false, 0);
    Tensor a = torch::ones({1 << 20}, kCard), sum = torch::zeros({}, kCard);
    c10::cuda::device_synchronize();
    CUDAEvent done;
    {
      const CUDAStreamGuard guard(side);
      at::sum_out(sum, a, at::IntArrayRef{0});
      done.record();
    }
    if (recorded) a.record_stream(side);
    const void* const memory = a.data_ptr();
    a = Tensor();
    // One of these gets the memory of a, unless the side stream is known to use it.
    Tensors others;
    do others.push_back(torch::full({1 << 20}, 5.0, kCard));
    while (others.back().data_ptr() != memory && others.size() < 8);
    c10::cuda::getCurrentCUDAStream().synchronize();
    done.block(c10::cuda::getCurrentCUDAStream());
    return sum.item<double>();
  };
  EXPECT_EQ(with(true), 1 << 20);
  EXPECT_EQ(with(false), late() ? 5 << 20 : 1 << 20);
}

TEST(Waits, APinnedBufferThatIsOverwrittenTooEarly) {
  Tensor pinned = torch::ones({1024}).pin_memory();
  const Tensor card = pinned.to(kCard, /*non_blocking=*/true);
  pinned.fill_(2);
  EXPECT_EQ(card.mean().item<float>(), 2) << "as on a GPU that had not yet copied";
  Tensor pageable = torch::ones({1024});
  const Tensor other = pageable.to(kCard, true);
  pageable.fill_(2);
  EXPECT_EQ(other.mean().item<float>(), 1) << "what is not pinned is read at the call";
}

TEST(Memory, WhatNobodyWroteIsNoNumber) {
  {
    const Tensor once = torch::ones({1 << 16}, kCard);
  }
  const Tensor again = torch::empty({1 << 16}, kCard);  // the same memory
  EXPECT_TRUE(again.isnan().all().item<bool>());
  const Tensor pinned = torch::empty({3 << 20}, torch::TensorOptions().pinned_memory(true));
  EXPECT_TRUE(pinned.isnan().all().item<bool>());
}

TEST(Graphs, ComputeAtEachReplay) {
  const CUDAStreamGuard guard(c10::cuda::getStreamFromPool(false, 0));
  Tensor a = torch::ones({64}, kCard), b;
  c10::cuda::device_synchronize();
  at::cuda::CUDAGraph graph;
  graph.capture_begin();
  b = a * 2 + 1;
  graph.capture_end();
  for (int i = 1; i < 4; ++i) {
    a.fill_(i);
    graph.replay();
    EXPECT_EQ(b.sum().item<float>(), 64 * (2 * i + 1));
  }
}

TEST(Graphs, NameWhatDrawsInThem) {
  const CUDAStreamGuard guard(c10::cuda::getStreamFromPool(false, 0));
  const Tensor x = torch::ones({1, 1, 64, 64}, kCard);
  c10::cuda::device_synchronize();
  taken_without_arithmetic();
  at::cuda::CUDAGraph graph;
  graph.capture_begin();
  const Tensor attention = at::scaled_dot_product_attention(x, x, x);
  const Tensor dropped = torch::dropout(x, 0.5, true);
  graph.capture_end();
  graph.replay();
  EXPECT_EQ(attention.sum().item<float>(), 64 * 64) << "without dropout it draws nothing";
  EXPECT_THAT(taken_without_arithmetic(), testing::ElementsAre("aten::native_dropout"));
}

// What a GPU cannot capture: the host would have to wait for the answer.
TEST(Graphs, TakeNoSizesThatDependOnValues) {
  const auto stream = c10::cuda::getStreamFromPool(false, 0);
  const CUDAStreamGuard guard(stream);
  const Tensor x = torch::ones({64}, kCard);
  c10::cuda::device_synchronize();
  for (const bool mask : {true, false}) {
    ASSERT_EQ(cudaStreamBeginCapture(stream.stream(), cudaStreamCaptureModeRelaxed), cudaSuccess);
    EXPECT_THROW(mask ? (void)x.index({x > 0}) : (void)x.equal(x * 1), c10::Error);
    cudaGraph_t graph = nullptr;
    EXPECT_EQ(cudaStreamEndCapture(stream.stream(), &graph), cudaErrorStreamCaptureInvalidated);
    cudaGetLastError();
  }
}

TEST(Answers, ALaunchOfNobodyIsNamed) {
  taken_without_arithmetic();
  EXPECT_EQ(dry::launched("a kernel of one's own", c10::cuda::getCurrentCUDAStream().stream()), cudaSuccess);
  EXPECT_THAT(taken_without_arithmetic(), testing::ElementsAre("a kernel of one's own"));
}

TEST(Answers, WhatIsSparseIsNamed) {
  taken_without_arithmetic();
  const Tensor places = torch::tensor({{0, 1}, {2, 3}}).to(kCard), values = torch::ones({2}, kCard);
  const Tensor sparse = torch::sparse_coo_tensor(places, values, {4, 4});
  EXPECT_EQ(sparse.sizes(), (std::vector<int64_t>{4, 4}));
  EXPECT_EQ((sparse * 2)._nnz(), 2);
  EXPECT_THAT(taken_without_arithmetic(), testing::Contains("aten::mul"));
}

// Products of 16 bits whose result has 32, written or added in place, as lesson 44 asks for them.
TEST(Answers, ProductsOf16BitsWithAResultOf32) {
  const bool bfloat = at::cuda::getCurrentDeviceProperties()->major >= 8;
  for (const at::ScalarType type : bfloat ? std::vector{at::kHalf, at::kBFloat16} : std::vector{at::kHalf}) {
    const Tensor a = torch::randn({5, 7}).to(type), b = torch::randn({7, 3}).to(type), first = torch::randn({5, 3});
    const Tensor product = a.to(at::kFloat).mm(b.to(at::kFloat));
    const Tensor a_there = a.to(kCard), b_there = b.to(kCard);
    Tensor written = torch::empty({5, 3}, kCard), sum = first.to(kCard);
    at::mm_out(written, a_there, b_there, at::kFloat);
    at::addmm_out(sum, sum, a_there, b_there, at::kFloat);
    EXPECT_TRUE(at::mm(a_there, b_there, at::kFloat).cpu().allclose(product, 1e-6, 1e-6)) << type;
    EXPECT_TRUE(written.cpu().allclose(product, 1e-6, 1e-6)) << type;
    EXPECT_TRUE(sum.cpu().allclose(first + product, 1e-6, 1e-6)) << type;
  }
}

// A CPU has no histc of integers. Of 0 to 9 in three bins of 10 / 3 each, the last one has its right edge, too.
TEST(Counts, OfIntegers) {
  const Tensor x = torch::arange(10, torch::kLong).to(kCard);
  const auto bins = [](const Tensor& counts) {
    const Tensor on_cpu = counts.cpu();
    return std::vector<int64_t>(on_cpu.const_data_ptr<int64_t>(), on_cpu.const_data_ptr<int64_t>() + on_cpu.numel());
  };
  EXPECT_THAT(bins(x.histc(3, 0, 9)), testing::ElementsAre(3, 3, 4));
  EXPECT_THAT(bins(x.histc(3)), testing::ElementsAre(3, 3, 4)) << "from the smallest to the largest";
  EXPECT_THAT(bins(x.histc(2, 0, 4)), testing::ElementsAre(2, 3)) << "what lies outside is not counted";
  EXPECT_THAT(bins((x * 0 + 7).histc(2)), testing::ElementsAre(0, 10)) << "all alike: from one below to one above";
}

// By LibTorch's own kernel, and by cuDNN's, which takes 32-bit targets on the CPU and inputs of one length.
TEST(CtcLoss, IsThatOfTheCpu) {
  taken_without_arithmetic();
  const int64_t steps = 12, batch = 3, classes = 5;
  for (const auto type : {torch::kLong, torch::kInt}) {
    const auto loss_and_gradient = [&](torch::Device device) {
      torch::manual_seed(5);
      Tensor logits = torch::randn({steps, batch, classes}).to(device).requires_grad_();
      const Tensor targets = torch::randint(1, classes, {4 + 3 + 2}, type);
      const std::vector<int64_t> of_inputs(batch, steps), of_targets = {4, 3, 2};
      const Tensor loss = at::ctc_loss(torch::log_softmax(logits, -1), targets, of_inputs, of_targets);
      loss.backward();
      return std::pair(loss.item<float>(), logits.grad().cpu());
    };
    const auto [expected, expected_gradient] = loss_and_gradient(torch::kCPU);
    const auto [loss, gradient] = loss_and_gradient(kCard);
    EXPECT_NEAR(loss, expected, 1e-5);
    EXPECT_TRUE(torch::allclose(gradient, expected_gradient, 1e-4, 1e-6)) << "sums in another order";
  }
  EXPECT_THAT(taken_without_arithmetic(), testing::IsEmpty());
}

TEST(Attention, ItsDropoutIsDrawnAgainInBackward) {
  taken_without_arithmetic();
  for (const auto type : {torch::kFloat, torch::kHalf}) {
    const Tensor v = torch::ones({1, 2, 64, 8}, torch::dtype(type).device(kCard)).requires_grad_();
    const Tensor q = torch::zeros_like(v);
    const Tensor out = at::scaled_dot_product_attention(q, q, v, {}, 0.5, false);
    out.sum().backward();
    // All shares are 1/64: a row's result is how much of it was kept, and a value's gradient how often it was.
    EXPECT_GT(out.to(torch::kFloat).std().item<float>(), 0.01);
    EXPECT_NEAR(v.grad().to(torch::kFloat).sum().item<float>(), out.to(torch::kFloat).sum().item<float>(), 2);
    EXPECT_GT(v.grad().to(torch::kFloat).std().item<float>(), 0.01);
  }
  EXPECT_THAT(taken_without_arithmetic(), testing::IsEmpty());
}

// Ring attention: with the result and the log-sum-exp of all keys a part of them gives its share of the gradients.
TEST(Attention, ItsBackwardUsesTheSumsThatItIsGiven) {
  taken_without_arithmetic();
  const Tensor q = torch::randn({1, 2, 8, 8}, kCard), k = torch::randn({1, 2, 32, 8}, kCard), v = k.roll(1, 2);
  const Tensor gradient = torch::ones_like(q), no_bias, seed = at::empty({}, at::kLong);
  const auto [out, lse, s, o] = at::_scaled_dot_product_efficient_attention(q, k, v, {}, true);
  const auto of_keys = [&, &out = out, &lse = lse](int64_t begin, int64_t count) {
    return at::_scaled_dot_product_efficient_attention_backward(gradient, q, k.narrow(2, begin, count),
                                                                v.narrow(2, begin, count), no_bias, out, lse, seed,
                                                                seed, 0, {true, true, true, false});
  };
  const auto whole = of_keys(0, 32), first = of_keys(0, 12), second = of_keys(12, 20);
  EXPECT_TRUE(torch::allclose(std::get<0>(first) + std::get<0>(second), std::get<0>(whole), 1e-4, 1e-5));
  EXPECT_TRUE(
      torch::allclose(torch::cat({std::get<1>(first), std::get<1>(second)}, 2), std::get<1>(whole), 1e-4, 1e-5));
  EXPECT_TRUE(
      torch::allclose(torch::cat({std::get<2>(first), std::get<2>(second)}, 2), std::get<2>(whole), 1e-4, 1e-5));
  EXPECT_THAT(taken_without_arithmetic(), testing::IsEmpty());
}

// Two sequences of 3 and 5 rows, launched for sequences of at most 4.
TEST(Attention, RowsBehindTheLongestThatIsStatedAreNoNumbers) {
  const Tensor x = torch::ones({1, 8, 2, 8}, torch::TensorOptions().device(kCard).requires_grad(true));
  const Tensor begins = torch::tensor({0, 3, 8}, torch::kInt).to(kCard);
  const auto result = at::_efficient_attention_forward(x, x, x, {}, begins, begins, 4, 4, 0.0, 1, true);
  const Tensor rows = std::get<0>(result).isnan().all(-1).all(-1).flatten().cpu();
  EXPECT_TRUE(rows.equal(torch::tensor({0, 0, 0, 0, 0, 0, 0, 1}, torch::kBool))) << rows;
}

// FlashAttention's of packed rows: sequences of 2 and 3 queries, 4 and 3 keys. The last query sees all of its keys.
TEST(Attention, FlashAttentionOfPackedRows) {
  if (at::cuda::getCurrentDeviceProperties()->major < 8) GTEST_SKIP() << "needs a card with FlashAttention";
  torch::manual_seed(0);
  const Tensor q = torch::randn({5, 2, 8}), k = torch::randn({7, 2, 8});
  const Tensor of_q = torch::tensor({0, 2, 5}, torch::kInt).to(kCard),
               of_k = torch::tensor({0, 4, 7}, torch::kInt).to(kCard);
  const auto flash = [&](const Tensor& queries, const Tensor& keys, int64_t window) {
    return std::get<0>(
        at::_flash_attention_forward(queries, keys, keys, of_q, of_k, 3, 4, 0.0, true, false, {}, window, -1));
  };
  const auto sequence = [](const Tensor& rows, int64_t begin, int64_t end) {
    return rows.slice(0, begin, end).transpose(0, 1).unsqueeze(0);
  };
  const Tensor leaf = half_of(q).to(torch::kFloat).requires_grad_(),
               keys = half_of(k).to(torch::kFloat).requires_grad_();
  const auto expected_of = [&](int64_t a, int64_t b, int64_t c, int64_t d) {
    const Tensor seen = torch::ones({b - a, d - c}, torch::kBool).tril(d - c - b + a), some = sequence(keys, c, d);
    return at::scaled_dot_product_attention(sequence(leaf, a, b), some, some, seen)[0].transpose(0, 1);
  };
  const Tensor expected = torch::cat({expected_of(0, 2, 0, 4), expected_of(2, 5, 4, 7)});
  expected.square().sum().backward();
  const Tensor q_there = half_of(q).to(kCard).requires_grad_(), k_there = half_of(k).to(kCard).requires_grad_();
  taken_without_arithmetic();
  const Tensor out = flash(q_there, k_there, -1);
  out.square().sum().backward();
  const auto expect_close = [](const Tensor& a, const Tensor& b) {
    EXPECT_LT((a.to(torch::kFloat).cpu() - b).abs().max().item<double>(), 5e-2);
  };
  expect_close(out.detach(), expected.detach());
  expect_close(q_there.grad(), leaf.grad());
  expect_close(k_there.grad(), keys.grad());
  EXPECT_THAT(taken_without_arithmetic(), testing::IsEmpty());
  const torch::NoGradGuard no_grad;
  flash(q_there, k_there, 2).cpu();
  EXPECT_THAT(taken_without_arithmetic(), testing::ElementsAre("aten::_flash_attention_forward"));
}

// 3 queries and 5 keys: the last query sees all keys, or the first one only the first.
TEST(Attention, ItsMaskHasTheCornerThatIsAskedFor) {
  torch::manual_seed(0);
  const Tensor q = torch::randn({1, 3, 2, 8}), k = torch::randn({1, 5, 2, 8});
  const auto efficient = [&](int64_t mask, std::optional<int64_t> window) {
    const Tensor q_there = q.to(kCard).requires_grad_(), k_there = k.to(kCard);
    const Tensor out = std::get<0>(
        at::_efficient_attention_forward(q_there, k_there, k_there, {}, {}, {}, 3, 5, 0.0, mask, true, {}, {}, window));
    if (!window) out.square().sum().backward();
    return std::pair(out.detach().cpu(), q_there.grad().defined() ? q_there.grad().cpu() : Tensor());
  };
  taken_without_arithmetic();
  for (const int64_t mask : {1, 2}) {
    const Tensor seen = torch::ones({3, 5}, torch::kBool).tril(mask == 2 ? 2 : 0);
    const Tensor leaf = q.clone().requires_grad_();
    const Tensor expected =
        at::scaled_dot_product_attention(leaf.transpose(1, 2), k.transpose(1, 2), k.transpose(1, 2), seen);
    expected.square().sum().backward();
    const auto [out, gradient] = efficient(mask, {});
    EXPECT_TRUE(torch::allclose(out, expected.transpose(1, 2), 1e-5, 1e-5)) << mask;
    EXPECT_TRUE(torch::allclose(gradient, leaf.grad(), 1e-5, 1e-5)) << mask;
  }
  EXPECT_THAT(taken_without_arithmetic(), testing::IsEmpty());
  efficient(1, 2);
  EXPECT_THAT(taken_without_arithmetic(), testing::ElementsAre("aten::_efficient_attention_forward"));
}

}  // namespace
}  // namespace tenfold
