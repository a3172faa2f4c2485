#include "sync_batch_norm.h"

#include <gtest/gtest.h>

#include "common/ranks/rank_threads.h"
#include "lessons/21_mixed_precision/autocast.h"

#include <ATen/CPUGeneratorImpl.h>

#include <chrono>
#include <mutex>
#include <vector>

#include "tests/support/support.h"

namespace {

using tenfold::SyncBatchNorm;
using torch::Tensor;
using Group = c10::intrusive_ptr<c10d::ProcessGroup>;

constexpr int64_t kChannels = 3;
constexpr int kUpdates = 3;

Tensor samples(const std::vector<int64_t>& shape, uint64_t seed) {
  // Far from zero, so that a sum of squares would cancel.
  return 20 + torch::randn(shape, at::detail::createCPUGenerator(seed));
}

/// What an update leaves: output, gradients of input, weight and bias, and the running statistics.
struct Left {
  Tensor output, of_input, of_weight, of_bias, mean, variance;
};

/// The loss weighs the samples, so that its gradient is no constant.
template <class Norm>
Left updates(Norm& norm, const std::vector<int64_t>& shape, int64_t first, int64_t rows) {
  Left left;
  for (int update = 0; update < kUpdates; ++update) {
    norm->zero_grad();
    const Tensor x = samples(shape, 7 + static_cast<uint64_t>(update)).narrow(0, first, rows).clone().requires_grad_();
    const Tensor weights = torch::randn(shape, at::detail::createCPUGenerator(50)).narrow(0, first, rows);
    left.output = norm->forward(x);
    (left.output.square() * weights).sum().backward();
    left.of_input = x.grad();
  }
  left.of_weight = norm->weight.grad();
  left.of_bias = norm->bias.grad();
  left.mean = norm->running_mean;
  left.variance = norm->running_var;
  return left;
}

double difference(const Tensor& a, const Tensor& b) { return (a - b).abs().max().item<double>(); }

// In float32, of values near 20 whose deviation is 1: a mean of some hundred values is off by some 20 * 2^-24, and so
// is what is normalised; the gradient's sums have hundreds of terms.
constexpr double kTolerance = 1e-4;

template <class Whole>
void expect_as_whole(const std::vector<int64_t>& shape, const std::vector<int64_t>& rows) {
  Whole whole{torch::nn::BatchNormOptions(shape[1])};
  const Left expected = updates(whole, shape, 0, shape[0]);
  const int ranks = static_cast<int>(rows.size());
  std::mutex lock;
  Tensor of_weight = torch::zeros({shape[1]}), of_bias = torch::zeros({shape[1]});
  tenfold::on_rank_threads(ranks, std::chrono::seconds(20), [&](int rank, const Group& group) {
    int64_t first = 0;
    for (int before = 0; before < rank; ++before) first += rows[static_cast<size_t>(before)];
    const int64_t own = rows[static_cast<size_t>(rank)];
    SyncBatchNorm norm(shape[1], group);
    const Left left = updates(norm, shape, first, own);
    EXPECT_LT(difference(left.output, expected.output.narrow(0, first, own)), kTolerance);
    EXPECT_LT(difference(left.of_input, expected.of_input.narrow(0, first, own)), kTolerance);
    EXPECT_LT(difference(left.mean, expected.mean), kTolerance);
    EXPECT_LT(difference(left.variance, expected.variance), kTolerance);
    EXPECT_EQ(norm->num_batches_tracked.template item<int64_t>(), kUpdates);
    const std::lock_guard guard(lock);
    of_weight += left.of_weight;
    of_bias += left.of_bias;
  });
  // Sums of a hundred terms of size 1.
  EXPECT_LT(difference(of_weight, expected.of_weight), 100 * kTolerance);
  EXPECT_LT(difference(of_bias, expected.of_bias), 100 * kTolerance);
}

TEST(SyncBatchNorm, IsBatchNormOverTheSamplesOfAllRanks) {
  expect_as_whole<torch::nn::BatchNorm1d>({12, kChannels}, {6, 6});
  expect_as_whole<torch::nn::BatchNorm1d>({12, kChannels, 5}, {4, 4, 4});
  expect_as_whole<torch::nn::BatchNorm2d>({8, kChannels, 4, 5}, {2, 2, 2, 2});
}

TEST(SyncBatchNorm, RanksMayHaveDifferentNumbersOfSamples) {
  expect_as_whole<torch::nn::BatchNorm2d>({9, kChannels, 3, 3}, {1, 6, 2});
}

// The mean of nothing is NaN, which would spread to all ranks.
TEST(SyncBatchNorm, ARankMayHaveNoSamples) {
  tenfold::on_rank_threads(2, std::chrono::seconds(20), [&](int rank, const Group& group) {
    torch::nn::BatchNorm1d alone(kChannels);
    SyncBatchNorm norm(kChannels, group);
    const Tensor x = samples({6, kChannels}, 7).narrow(0, 0, rank == 0 ? 6 : 0).clone().requires_grad_();
    const Tensor y = norm->forward(x);
    y.square().sum().backward();
    EXPECT_TRUE(torch::isfinite(norm->running_var).all().item<bool>());
    EXPECT_TRUE(torch::isfinite(norm->weight.grad()).all().item<bool>());
    if (rank == 0) EXPECT_LT(difference(y, alone->forward(x)), kTolerance);
  });
}

TEST(SyncBatchNorm, HasTheInputsTypeAlsoUnderAutocast) {
  tenfold::on_rank_threads(2, std::chrono::seconds(20), [&](int rank, const Group& group) {
    SyncBatchNorm norm(kChannels, group);
    const Tensor x = samples({6, kChannels}, static_cast<uint64_t>(rank)).to(torch::kBFloat16).requires_grad_();
    Tensor y;
    {
      const tenfold::Autocast scope(torch::kCPU, torch::kBFloat16);
      y = norm->forward(x);
    }
    EXPECT_EQ(y.scalar_type(), torch::kBFloat16);
    y.sum().backward();
    EXPECT_EQ(x.grad().scalar_type(), torch::kBFloat16);
  });
}

// In 32 bits the difference would be some 1e-6.
TEST(SyncBatchNorm, ComputesIn64BitsWhatComesIn64) {
  tenfold::on_rank_threads(2, std::chrono::seconds(20), [&](int rank, const Group& group) {
    torch::nn::BatchNorm1d alone(kChannels);
    SyncBatchNorm norm(kChannels, group);
    alone->to(torch::kDouble);
    norm->to(torch::kDouble);
    const Tensor all = samples({8, kChannels}, 3).to(torch::kDouble);
    const Tensor y = norm->forward(all.narrow(0, 4 * rank, 4));
    EXPECT_LT(difference(y, alone->forward(all).narrow(0, 4 * rank, 4)), 1e-12);
  });
}

// The bug that it is for: each rank normalises by its own samples.
TEST(SyncBatchNorm, BatchNormOnEachRankIsAnotherModel) {
  const std::vector<int64_t> shape = {8, kChannels, 4, 5};
  torch::nn::BatchNorm2d whole(kChannels), part(kChannels);
  const Left expected = updates(whole, shape, 0, 8), own = updates(part, shape, 0, 4);
  EXPECT_GT(difference(own.output, expected.output.narrow(0, 0, 4)), 100 * kTolerance);
}

// One value has no variance; of two ranks with one value each there is one.
TEST(SyncBatchNorm, OneValueAChannelIsRefusedOnEveryRank) {
  const auto refused = [](SyncBatchNorm& norm, int64_t rows) {
    const auto message = tenfold::test::message_of<c10::ValueError>([&] { norm(torch::ones({rows, kChannels})); });
    EXPECT_TRUE(torch::equal(norm->running_var, torch::ones({kChannels}))) << "as it was";
    EXPECT_EQ(norm->num_batches_tracked.item<int64_t>(), 0);
    return message.find("more than 1 value a channel") != std::string::npos;
  };
  SyncBatchNorm alone(kChannels, nullptr);
  EXPECT_TRUE(refused(alone, 1));
  tenfold::on_rank_threads(2, std::chrono::seconds(20), [&](int rank, const Group& group) {
    SyncBatchNorm norm(kChannels, group);
    EXPECT_TRUE(refused(norm, rank == 0 ? 1 : 0));
    EXPECT_TRUE(refused(norm, 0));
    norm(torch::full({1, kChannels}, 1.0F + static_cast<float>(rank)));
    EXPECT_LT(difference(norm->running_var, torch::full({kChannels}, 0.9 + 0.1 * 0.5)), 1e-6);
    norm->eval();
    EXPECT_NO_THROW(norm(torch::ones({1, kChannels})));
  });
}

TEST(SyncBatchNorm, SecondDerivativesAreRefused) {
  tenfold::on_rank_threads(2, std::chrono::seconds(20), [&](int rank, const Group& group) {
    SyncBatchNorm norm(kChannels, group);
    const Tensor x = samples({6, kChannels}, static_cast<uint64_t>(rank)).requires_grad_();
    const Tensor loss = norm(x).pow(3).sum();
    const auto message = tenfold::test::message_of<c10::Error>(
        [&] { torch::autograd::grad({loss}, {x}, {}, /*retain_graph=*/true, /*create_graph=*/true); });
    EXPECT_NE(message.find("create_graph"), std::string::npos) << message;
    EXPECT_TRUE(torch::autograd::grad({loss}, {x})[0].defined());
  });
}

TEST(SyncBatchNorm, InEvaluationAndWithoutAGroupItIsBatchNorm) {
  const Tensor x = samples({4, kChannels, 2, 2}, 1);
  torch::nn::BatchNorm2d plain(kChannels);
  SyncBatchNorm alone(kChannels, nullptr);
  EXPECT_TRUE(torch::equal(alone(x), plain(x)));
  EXPECT_TRUE(torch::equal(alone->running_var, plain->running_var));
  plain->eval();
  alone->eval();
  EXPECT_TRUE(torch::equal(alone(x), plain(x)));
  tenfold::on_rank_threads(2, std::chrono::seconds(20), [&](int rank, const Group& group) {
    SyncBatchNorm norm(kChannels, group);
    norm->eval();
    if (rank == 0) norm(x);  // nobody waits for the other rank
  });
  EXPECT_THROW(alone(torch::ones({2, kChannels + 1})), c10::ValueError);
}

TEST(SyncBatchNorm, HasTheNamesOfBatchNorm) {
  const SyncBatchNorm norm(kChannels, nullptr);
  const torch::nn::BatchNorm2d plain(kChannels);
  const auto names = [](const torch::nn::Module& module) {
    std::vector<std::string> all;
    for (const auto& item : module.named_parameters()) all.push_back(item.key());
    for (const auto& item : module.named_buffers()) all.push_back(item.key());
    return all;
  };
  EXPECT_EQ(names(*norm), names(*plain));
}

}  // namespace
