// The parts of a captured step that a CPU can show: buffers that stay, an update without numbers of the host; and on a
// GPU the graphs themselves.
#include "captured_step.h"

#include <gtest/gtest.h>

#include <cmath>
#include <stdexcept>
#include <vector>

#include "capturable_adamw.h"
#include "prediction.h"
#include "tests/support/support.h"

namespace tenfold {
namespace {

using torch::Tensor;

const torch::Device kHost(torch::kCPU);

TEST(StaticInputs, KeepTheirAddressesAndHaveTheNewValues) {
  StaticInputs inputs(kHost);
  const std::vector<Tensor> first = {torch::ones({4, 3}), torch::zeros({4}, torch::kLong)};
  inputs.fill(first);
  const void* const images = inputs.tensors()[0].data_ptr();
  const void* const labels = inputs.tensors()[1].data_ptr();
  EXPECT_NE(images, first[0].data_ptr()) << "a copy of its own";
  for (int i = 2; i < 5; ++i) {
    const std::vector<Tensor> batch = {torch::full({4, 3}, 1.0 * i), torch::full({4}, i, torch::kLong)};
    const std::vector<Tensor>& filled = inputs.fill(batch);
    EXPECT_EQ(filled[0].data_ptr(), images);
    EXPECT_EQ(filled[1].data_ptr(), labels);
    EXPECT_TRUE(filled[0].equal(batch[0]) && filled[1].equal(batch[1]));
  }
}

/// A batch whose memory is filled again, as lesson 10's Batch is.
struct Copied {
  torch::Device device = kHost;
  int times = 0;
  void record(torch::Device of) {
    device = of;
    ++times;
  }
};
struct ReusedBatch {
  std::vector<Tensor> fields;
  Copied* copied;
};

// Whoever fills it again must learn that it was read: the copy may be a whole step behind.
TEST(StaticInputs, TellABatchOfReusedMemoryThatItIsCopied) {
  Copied copied;
  const ReusedBatch batch{{torch::ones({4, 3})}, &copied};
  StaticInputs inputs(torch::kMeta);
  inputs.fill(batch);
  EXPECT_EQ(copied.times, 1);
  EXPECT_EQ(copied.device, torch::Device(torch::kMeta));
  CapturedStep step(kHost, [](const std::vector<Tensor>& on_device) { return on_device[0].sum(); });
  EXPECT_EQ(step(batch).item<double>(), 12);
  EXPECT_EQ(copied.times, 2);
}

// A loader's batch is on the host. Device meta stands for a GPU, which not every machine has.
TEST(StaticInputs, LieOnTheirDeviceWhereverTheBatchIs) {
  StaticInputs inputs(torch::kMeta);
  for (const Tensor& buffer : inputs.fill({torch::ones({4, 3}), torch::zeros({4}, torch::kLong)}))
    EXPECT_TRUE(buffer.is_meta());
}

TEST(StaticInputs, RefuseAnotherBatch) {
  StaticInputs inputs(kHost);
  inputs.fill({torch::ones({4, 3}), torch::zeros({4}, torch::kLong)});
  EXPECT_THROW(inputs.fill({torch::ones({4, 3})}), c10::ValueError) << "a tensor less";
  EXPECT_THROW(inputs.fill({torch::ones({3, 3}), torch::zeros({3}, torch::kLong)}), c10::ValueError)
      << "the last batch of an epoch; copy_ would broadcast some of them";
  EXPECT_THROW(inputs.fill({torch::ones({1, 3}), torch::zeros({4}, torch::kLong)}), c10::ValueError);
  EXPECT_THROW(inputs.fill({torch::ones({4, 3}), torch::zeros({4})}), c10::ValueError) << "copy_ would convert it";
}

TEST(CapturedStep, OnACpuTrainsOnEachBatchOnce) {
  std::vector<double> seen;
  const Tensor weight = torch::zeros({1}, torch::requires_grad());
  CapturedStep step(kHost, [&](const std::vector<Tensor>& batch) {
    seen.push_back(batch[0].item<double>());
    return (batch[0] - weight).square().sum();
  });
  for (int i = 1; i < 5; ++i) {
    const Tensor& loss = step({torch::full({1}, 1.0 * i)});
    EXPECT_EQ(loss.item<double>(), i * i);
    EXPECT_FALSE(loss.requires_grad()) << "its graph would keep the step's activations";
  }
  EXPECT_EQ(seen, (std::vector<double>{1, 2, 3, 4}));
}

/// Parameters of several sizes for two optimizers, which get the same gradients.
struct TwoTrainings {
  std::vector<Tensor> ours, theirs;

  TwoTrainings() {
    torch::manual_seed(25);
    for (const int64_t size : {1, 7, 64, 1000}) {
      theirs.push_back(torch::randn({size, 3}).requires_grad_());
      ours.push_back(theirs.back().detach().clone().requires_grad_());
    }
  }
  /// Gradients for all tensors but the first `without`.
  void differentiate(size_t without = 0) const {
    for (size_t i = without; i < ours.size(); ++i) {
      theirs[i].mutable_grad() = torch::randn_like(theirs[i]);
      ours[i].mutable_grad() = theirs[i].grad().clone();
    }
  }
  /// The last digit of a parameter may differ in each of ten updates: 10 x 2^-22 for values up to 4, and as much again.
  void expect_equal() const {
    for (size_t i = 0; i < ours.size(); ++i)
      EXPECT_TRUE(torch::allclose(ours[i], theirs[i], /*rtol=*/0, /*atol=*/5e-6)) << "tensor " << i;
  }
};

const auto kOptions = torch::optim::AdamWOptions(1e-3).weight_decay(0.1);

TEST(CapturableAdamW, IsLibTorchsButForRounding) {
  const TwoTrainings both;
  CapturableAdamW optimizer(both.ours, kOptions);
  torch::optim::AdamW reference(both.theirs, kOptions);
  for (int step = 0; step < 10; ++step) {
    both.differentiate();
    optimizer.step();
    reference.step();
  }
  both.expect_equal();
}

TEST(CapturableAdamW, FollowsASchedule) {
  const TwoTrainings both;
  CapturableAdamW optimizer(both.ours, kOptions);
  torch::optim::AdamW reference(both.theirs, kOptions);
  for (int step = 0; step < 10; ++step) {
    const double rate = 1e-3 * (step + 1);
    optimizer.set_rate(rate);
    static_cast<torch::optim::AdamWOptions&>(reference.param_groups()[0].options()).lr(rate);
    both.differentiate();
    optimizer.step();
    reference.step();
  }
  both.expect_equal();
}

TEST(CapturableAdamW, LeavesWhatHasNoGradient) {
  const TwoTrainings both;
  const Tensor before = both.ours[0].detach().clone();
  CapturableAdamW optimizer(both.ours, kOptions);
  torch::optim::AdamW reference(both.theirs, kOptions);
  for (int step = 0; step < 10; ++step) {
    both.differentiate(/*without=*/1);
    optimizer.step();
    reference.step();
  }
  EXPECT_TRUE(both.ours[0].equal(before)) << "not even decayed";
  both.expect_equal();
}

TEST(CapturableAdamW, WithoutAnyGradientNothingIsDone) {
  const TwoTrainings both;
  CapturableAdamW optimizer(both.ours, kOptions);
  EXPECT_NO_THROW(optimizer.step());
  for (size_t i = 0; i < both.ours.size(); ++i) EXPECT_TRUE(both.ours[i].equal(both.theirs[i])) << "tensor " << i;
}

// As a scaler for fp16 calls it, and nothing is read on the host: an update with an infinity is left out, its step is
// not counted, and the scale falls.
TEST(CapturableAdamW, DividesByAScaleAndSkipsInfinity) {
  const TwoTrainings both;
  CapturableAdamW optimizer(both.ours, kOptions);
  torch::optim::AdamW reference(both.theirs, kOptions);
  const Tensor one = torch::tensor(1.F);
  Tensor scale = torch::tensor(1024.F), found_inf = torch::tensor(0.F);
  Tensor growth = torch::zeros({}, torch::kInt);
  for (int step = 0; step < 10; ++step) {
    both.differentiate();
    std::vector<Tensor> gradients;
    for (const Tensor& parameter : both.ours) gradients.push_back(parameter.mutable_grad().mul_(scale));
    const bool infinite = step % 4 == 1;
    if (infinite) gradients[2][5][1] = INFINITY;
    found_inf.zero_();
    at::_amp_foreach_non_finite_check_and_unscale_(gradients, found_inf, one);
    optimizer.step(scale, found_inf);
    at::_amp_update_scale_(scale, growth, found_inf, 2, 0.5, 2000);
    if (!infinite) reference.step();
  }
  both.expect_equal();
  EXPECT_EQ(scale.item<float>(), 1024 / 8) << "three infinities";
}

TEST(CapturableAdamW, RefusesAmsgrad) {
  EXPECT_THROW(CapturableAdamW(TwoTrainings().ours, torch::optim::AdamWOptions(1e-3).amsgrad(true)), c10::ValueError);
}

TEST(CapturableAdamW, RefusesWhatItsOperatorWouldGetWrong) {
  EXPECT_THROW(CapturableAdamW({torch::ones({4}), torch::ones({4}, torch::kBFloat16)}, kOptions), c10::ValueError);
  torch::Tensor weight = torch::ones({3, 5}).requires_grad_();
  CapturableAdamW optimizer({weight}, kOptions);
  weight.mutable_grad() = torch::ones({5, 3}).t();
  EXPECT_THROW(optimizer.step(), c10::Error) << "it goes through both as they lie";
  EXPECT_TRUE(weight.equal(torch::ones({3, 5})));
}

TEST(CapturableAdamW, ATiedParameterIsUpdatedOnce) {
  torch::Tensor once = torch::ones({3}).requires_grad_(), tied = torch::ones({3}).requires_grad_();
  CapturableAdamW single({once}, kOptions), both({tied, tied}, kOptions);
  once.mutable_grad() = torch::full({3}, 0.5F), tied.mutable_grad() = torch::full({3}, 0.5F);
  for (int step = 0; step < 3; ++step) single.step(), both.step();
  EXPECT_TRUE(tied.equal(once));
}

/// A step of a GPU, counted: seconds of the host, of which some make the batch, and of the device.
Counted counted(double host, double batch, double step, double flops) {
  Counted baseline{.device = torch::kCUDA};
  baseline.ceilings = {{"cuda_launch_seconds", 5e-6}, {"cuda_flops_fp32", 1e13}, {"cuda_copy_bytes_per_s", 1e12}};
  baseline.step_seconds = baseline.whole.seconds = step;
  baseline.whole.flops = flops;
  baseline.regions = {{"data", {.host_seconds = batch}},
                      {"loss", {.host_seconds = (host - batch) / 2}},
                      {"optimizer", {.host_seconds = (host - batch) / 2}}};
  return baseline;
}

TEST(OneLaunch, LeavesTheBatchAndTheDevice) {
  EXPECT_NEAR(*one_launch(counted(1e-3, 1e-4, 1e-3, 0)).speed_ratio, 1e-3 / (1e-4 + 3 * 5e-6), 1e-6)
      << "launch-bound: what remains is the batch and three launches";
  EXPECT_NEAR(*one_launch(counted(1e-3, 1e-4, 1e-3, 5e9)).speed_ratio, 1e-3 / 5e-4, 1e-6)
      << "products take longer than what the host still does";
  EXPECT_EQ(*one_launch(counted(1e-3, 1e-4, 2e-2, 0)).speed_ratio, 1) << "the device is the slower one";
  EXPECT_GT(*one_launch(counted(0.9e-3, 1e-4, 1e-3, 0)).speed_ratio, 2) << "a tenth of the step lies between regions";
  Counted small_kernels = counted(1e-3, 1e-4, 1e-3, 0);
  small_kernels.whole.operators = 200;
  EXPECT_NEAR(*one_launch(small_kernels).speed_ratio, 1e-3 / (200 * 1.9e-6), 1e-6) << "each takes its least";
}

TEST(OneLaunch, IsNotPredictedWithoutAProbe) {
  Counted baseline = counted(1e-3, 1e-4, 1e-3, 0);
  baseline.ceilings.clear();
  EXPECT_TRUE(std::isnan(*one_launch(baseline).speed_ratio));
}

TEST(CapturedStep, OnAGpuIsTheSameAsOneByOne) {
  if (!torch::cuda::is_available()) GTEST_SKIP() << "needs a CUDA device";
  torch::manual_seed(1);
  const Tensor captured = torch::randn({8}, torch::kCUDA).requires_grad_();
  const Tensor plain = captured.detach().clone().requires_grad_();
  const auto train = [](const Tensor& weight, const Tensor& x) {
    weight.mutable_grad() = Tensor();
    Tensor loss = (x - weight).square().sum();
    loss.backward();
    const torch::NoGradGuard no_grad;
    weight.sub_(weight.grad(), 0.1);
    return loss.detach();
  };
  CapturedStep step(torch::kCUDA, [&](const std::vector<Tensor>& batch) { return train(captured, batch[0]); });
  for (int i = 0; i < 6; ++i) {
    const Tensor x = torch::full({8}, 1.0 * i, torch::kCUDA);
    const double loss = step({x}).item<double>();
    EXPECT_NEAR(loss, train(plain, x).item<double>(), 1e-4) << "step " << i;
    EXPECT_TRUE(captured.allclose(plain)) << "step " << i;
    EXPECT_TRUE(captured.grad().allclose(plain.grad())) << "step " << i;
  }
}

// The default generator's state is registered with a graph: a replay draws on.
TEST(CapturedWork, DrawsOtherNumbersInEachReplay) {
  if (!torch::cuda::is_available()) GTEST_SKIP() << "needs a CUDA device";
  Tensor drawn = torch::zeros({1000}, torch::kCUDA);
  CapturedWork work(torch::kCUDA, [&] { drawn.copy_(torch::rand_like(drawn)); });
  std::vector<Tensor> seen;
  for (int i = 0; i < 4; ++i) {
    work.run();
    for (const Tensor& before : seen) EXPECT_FALSE(before.equal(drawn)) << "call " << i;
    seen.push_back(drawn.clone());
  }
  EXPECT_TRUE(work.captured());
}

}  // namespace
}  // namespace tenfold
