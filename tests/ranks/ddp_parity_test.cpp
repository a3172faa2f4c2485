// ddp.h against PyTorch's DistributedDataParallel: two processes of Python, two ranks here, the same weights and
// batches.
#include <gtest/gtest.h>

#include "common/ranks/rank_threads.h"
#include "lessons/52_ddp/ddp.h"
#include "lessons/52_ddp/distributed_sampler.h"

#include <array>

#include "tests/support/exchange.h"

namespace {

using torch::Tensor;

// As in tests/parity/ddp.py.
constexpr int kRanks = 2, kSteps = 6;
constexpr int64_t kRows = 8, kInputs = 5, kOutputs = 3, kBucketBytes = 4096;

torch::nn::Sequential net() {
  return torch::nn::Sequential(torch::nn::Linear(kInputs, 40), torch::nn::Tanh(), torch::nn::Linear(40, 33),
                               torch::nn::Tanh(), torch::nn::Linear(33, kOutputs));
}

struct Trained {
  Tensor losses = torch::zeros({kSteps});  // mean over the ranks
  Tensor finish;                           // rank 0's parameters, in one row
};

Trained train_here(const Tensor& start, const Tensor& batches) {
  std::array<Trained, kRanks> of;
  tenfold::on_rank_threads(kRanks, std::chrono::seconds(30), [&](int rank, const auto& group) {
    Trained& mine = of[static_cast<size_t>(rank)];
    auto model = net();
    if (rank == 0) torch::nn::utils::vector_to_parameters(start.clone(), model->parameters());
    tenfold::DistributedDataParallel ddp(*model, group,
                                         {.first_bucket_bytes = kBucketBytes, .bucket_bytes = kBucketBytes});
    torch::optim::SGD optimizer(model->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
    for (int step = 0; step < kSteps; ++step) {
      const auto parts = tenfold::local_batch(batches[step], rank, kRanks).split_with_sizes({kInputs, kOutputs}, 1);
      optimizer.zero_grad();
      const Tensor loss = torch::mse_loss(model->forward(parts[0]), parts[1]);
      loss.backward();
      ddp.finish();
      optimizer.step();
      mine.losses[step] = loss.detach() / kRanks;
    }
    mine.finish = tenfold::parity::joined(model->parameters());
  });
  return {of[0].losses + of[1].losses, of[0].finish};
}

double largest_difference(const Tensor& a, const Tensor& b) { return (a - b).abs().max().item<double>(); }

TEST(DdpParity, LossesWeightsAndSamplesAreThoseOfPython) {
  if (!tenfold::parity::python_has_torch())
    GTEST_SKIP() << tenfold::parity::python() << " has no PyTorch: ./tenfold setup";
  const tenfold::parity::Exchange exchange;
  torch::manual_seed(52);
  const Tensor start = tenfold::parity::joined(net()->parameters());
  const Tensor batches = torch::randn({kSteps, kRows, kInputs + kOutputs});
  exchange.write("start.bin", {start});
  exchange.write("batches.bin", {batches});
  ASSERT_EQ(exchange.run("ddp.py"), 0);

  const Trained ours = train_here(start, batches);
  const Tensor losses = exchange.read("losses.bin"), finish = exchange.read("finish.bin"),
               samples = exchange.read("samples.bin");
  ASSERT_EQ(losses.numel(), kSteps);
  ASSERT_EQ(finish.numel(), start.numel());
  EXPECT_LT(largest_difference(ours.losses, losses), 1e-6);
  EXPECT_LT(largest_difference(ours.finish, finish), 1e-6);
  EXPECT_GT(largest_difference(finish, start), 1e-2) << "nothing was trained, so nothing was compared";

  std::vector<Tensor> indices;
  for (int rank = 0; rank < 3; ++rank)
    indices.push_back(tenfold::indices_of_rank(101, rank, 3, /*seed=*/7, /*epoch=*/2));
  EXPECT_TRUE(torch::equal(torch::cat(indices).to(torch::kFloat), samples));
}

}  // namespace
