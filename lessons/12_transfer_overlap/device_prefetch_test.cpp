#include <gtest/gtest.h>

#include "copy_streams.h"
#include "device_prefetch.h"

#include <atomic>
#include <chrono>
#include <future>
#include <limits>
#include <random>
#include <thread>
#include <vector>

namespace {

using tenfold::CopyThread;
using tenfold::DevicePrefetch;
using tenfold::HostEvent;
using tenfold::HostStream;
using torch::Tensor;
using Tensors = std::vector<Tensor>;

constexpr int64_t kNumbers = 64;

// A GPU in small: copies and compute on a stream each, so that the host runs ahead of both. A copy arrives in two
// halves, and anything may take a while; a batch that is read too early or overwritten too soon is found torn or wrong.
struct SmallGpu {
  using Event = HostEvent;
  explicit SmallGpu(unsigned seed, int most_us) : random(seed), most_us(most_us) {}
  torch::Device device() const { return torch::kCPU; }

  void copy(const Tensor& to, const Tensor& from) {
    const int first = pause(), second = pause();
    copies.run([=, this] {
      const int64_t half = to.numel() / 2;
      std::this_thread::sleep_for(std::chrono::microseconds(first));
      to.narrow(0, 0, half).copy_(from.narrow(0, 0, half));
      std::this_thread::sleep_for(std::chrono::microseconds(second));
      to.narrow(0, half, half).copy_(from.narrow(0, half, half));
      ++copied;
    });
  }
  void mark_copies(Event& event) { event = copies.record(); }
  void mark_compute(Event& event) { event = compute.record(); }
  void copies_wait_for(const Event& event) { copies.wait(event); }
  void compute_waits_for(const Event& event) { compute.wait(event); }

  int pause() { return most_us == 0 ? 0 : std::uniform_int_distribution<int>(0, most_us)(random); }
  // A kernel that reads all of the batch, twice, with a pause between.
  void read(const Tensor& batch, int64_t expected) {
    const int before = pause(), between = pause();
    compute.run([=, this] {
      std::this_thread::sleep_for(std::chrono::microseconds(before));
      const bool first = batch.eq(expected).all().item<bool>();
      std::this_thread::sleep_for(std::chrono::microseconds(between));
      const bool again = batch.eq(expected).all().item<bool>();
      wrong += first && again ? 0 : 1;
    });
  }

  std::mt19937 random;
  int most_us;
  std::atomic<int64_t> copied = 0;
  int wrong = 0;  // touched by the compute's thread, read after it was waited for
  HostStream copies, compute;
};

Tensor batch_of(int64_t value) { return torch::full({kNumbers}, value, torch::kLong); }

class Delays : public testing::TestWithParam<std::pair<unsigned, int>> {};

TEST_P(Delays, EveryBatchIsReadWholeAndOnce) {
  SmallGpu gpu(GetParam().first, GetParam().second);
  {
    DevicePrefetch<SmallGpu> prefetch(gpu);
    prefetch.start({batch_of(0)});
    Tensors here = prefetch.take();
    for (int64_t i = 0; i < 60; ++i) {
      prefetch.start({batch_of(i + 1)});
      gpu.read(here[0], i);
      here = prefetch.take();
    }
    gpu.compute.record().synchronize();
  }
  EXPECT_EQ(gpu.wrong, 0) << "seed " << GetParam().first;
}

TEST_P(Delays, TwoHostBuffersAreEnough) {
  SmallGpu gpu(GetParam().first, GetParam().second);
  const std::vector<Tensor> host{batch_of(-1), batch_of(-1)};
  {
    DevicePrefetch<SmallGpu> prefetch(gpu);
    prefetch.start({host[0].fill_(0)});
    Tensors here = prefetch.take();
    for (int64_t i = 0; i < 60; ++i) {
      prefetch.start(
          {host[static_cast<size_t>(i + 1) % 2].fill_(i + 1)});  // the loader refills what was sent two batches ago
      gpu.read(here[0], i);
      here = prefetch.take();
    }
    gpu.compute.record().synchronize();
  }
  EXPECT_EQ(gpu.wrong, 0) << "seed " << GetParam().first;
}

INSTANTIATE_TEST_SUITE_P(DevicePrefetch, Delays,
                         testing::Values(std::pair{1U, 0}, std::pair{2U, 50}, std::pair{3U, 300}, std::pair{4U, 300},
                                         std::pair{5U, 1000}));

// Not by luck: the compute is stopped in the middle of a batch, and the next one has to arrive all the same.
TEST(DevicePrefetch, TheNextBatchArrivesWhileThisOneIsComputedOn) {
  SmallGpu gpu(1, 0);
  DevicePrefetch<SmallGpu> prefetch(gpu);
  for (int64_t i = 0; i < 2; ++i) {  // both buffers are there from now on
    prefetch.start({batch_of(i)});
    prefetch.take();
  }
  std::promise<void> gate;
  gpu.compute.run([open = gate.get_future().share()] { open.wait(); });
  prefetch.start({batch_of(2)});
  const HostEvent arrived = gpu.copies.record();
  for (int ms = 0; ms < 5000 && !arrived.reached(); ++ms) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_TRUE(arrived.reached()) << "the copy waits for the compute: nothing overlaps";
  gate.set_value();
  prefetch.take();
}

TEST(DevicePrefetch, ABufferIsNotRefilledWhileItIsRead) {
  SmallGpu gpu(1, 0);
  {
    DevicePrefetch<SmallGpu> prefetch(gpu);
    prefetch.start({batch_of(0)});
    const Tensors first = prefetch.take();
    std::promise<void> gate;
    gpu.compute.run([open = gate.get_future().share()] { open.wait(); });
    gpu.read(first[0], 0);  // behind the gate
    prefetch.start({batch_of(1)});
    prefetch.take();
    prefetch.start({batch_of(2)});  // into the first buffer, as soon as that has been read
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    gate.set_value();
    gpu.compute.record().synchronize();
  }
  EXPECT_EQ(gpu.wrong, 0);
}

TEST(DevicePrefetch, ABatchIsNotReadBeforeItIsHere) {
  CopyThread copies(torch::kCPU);
  DevicePrefetch<CopyThread> prefetch(copies);
  copies.hold();
  prefetch.start({batch_of(7)});
  auto taken = std::async(std::launch::async, [&] { return prefetch.take()[0].eq(7).all().item<bool>(); });
  EXPECT_EQ(taken.wait_for(std::chrono::milliseconds(20)), std::future_status::timeout)
      << "taken while its copy is held back";
  copies.let_go();
  EXPECT_TRUE(taken.get());
}

TEST(DevicePrefetch, TakesBatchesOfSeveralTensorsAndOfAnotherSize) {
  CopyThread copies(torch::kCPU);
  DevicePrefetch<CopyThread> prefetch(copies);
  torch::manual_seed(1);
  for (const int64_t rows : {8, 8, 8, 3, 8, 1, 1, 1}) {  // an epoch's last batch is often smaller
    const Tensors batch{torch::randn({rows, 5}), torch::randint(0, 9, {rows}, torch::kLong)};
    prefetch.start(batch);
    const Tensors here = prefetch.take();
    ASSERT_EQ(here.size(), 2U);
    EXPECT_TRUE(torch::equal(here[0], batch[0]));
    EXPECT_TRUE(torch::equal(here[1], batch[1]));
    EXPECT_NE(here[0].data_ptr(), batch[0].data_ptr());
  }
}

TEST(DevicePrefetch, UsesTwoBuffersAndNoMore) {
  CopyThread copies(torch::kCPU);
  DevicePrefetch<CopyThread> prefetch(copies);
  std::vector<const void*> at;
  for (int64_t i = 0; i < 6; ++i) {
    prefetch.start({batch_of(i)});
    at.push_back(prefetch.take()[0].data_ptr());
  }
  EXPECT_NE(at[0], at[1]);
  for (size_t i = 2; i < at.size(); ++i) EXPECT_EQ(at[i], at[i - 2]);
}

TEST(DevicePrefetch, RefusesToSkipABatch) {
  CopyThread copies(torch::kCPU);
  DevicePrefetch<CopyThread> prefetch(copies);
  EXPECT_THROW(prefetch.take(), c10::Error);
  prefetch.start({batch_of(0)});
  EXPECT_THROW(prefetch.start({batch_of(1)}), c10::Error);
  EXPECT_TRUE(prefetch.take()[0].eq(0).all().item<bool>());
  EXPECT_THROW(prefetch.take(), c10::Error);
}

// The buffers must outlive the copies into them. That a destructor does not wait shows only when a copy is still going
// on then, which is nearly always; one that waits for ever, as the thread's might, shows at the program's time limit.
TEST(DevicePrefetch, MayEndWithABatchOnItsWay) {
  SmallGpu gpu(1, 1000);
  for (int64_t i = 0; i < 3; ++i) {
    {
      DevicePrefetch<SmallGpu> prefetch(gpu);
      prefetch.start({batch_of(i)});
    }
    EXPECT_EQ(gpu.copied, i + 1);
  }
  CopyThread copies(torch::kCPU);
  copies.hold();  // nobody lets go: the copies must end all the same
  copies.copy(batch_of(0), batch_of(1));
}

TEST(Overlap, IsTheShareOfTheCopyingThatNobodyWaitedFor) {
  EXPECT_EQ((tenfold::Overlap{.copies = 1, .copy_seconds = 4, .waited_seconds = 1}.hidden()), 0.75);
  EXPECT_EQ((tenfold::Overlap{.copies = 1, .copy_seconds = 1, .waited_seconds = 2}.hidden()), 0)
      << "waiting also for the copies before";
  EXPECT_EQ(tenfold::Overlap{}.hidden(), 0);
}

// Copies that take 300 ms to begin, behind computing of 600 ms are hidden; in front of computing that takes no time
// they are not. A busy machine may add up to half of that.
TEST(Overlap, IsMetered) {
  for (const int compute_ms : {600, 0}) {
    SmallGpu gpu(1, 0);
    DevicePrefetch<SmallGpu> prefetch(gpu);
    for (int64_t i = 0; i < 5; ++i) {
      gpu.copies.run(
          [] { std::this_thread::sleep_for(std::chrono::milliseconds(300)); });  // before the copy: not part of it
      prefetch.start({batch_of(i)});
      gpu.compute.run([=] { std::this_thread::sleep_for(std::chrono::milliseconds(compute_ms)); });
      prefetch.take();
    }
    gpu.compute.record().synchronize();
    EXPECT_EQ(prefetch.overlap().copies, 3) << "of five batches the first is not metered and the last not done";
    EXPECT_LT(prefetch.overlap().copy_seconds, 3 * 0.150) << "the wait before a copy was counted as copying";
    if (compute_ms > 0) {
      EXPECT_LT(prefetch.overlap().waited_seconds, 3 * 0.150);
    } else {
      EXPECT_GT(prefetch.overlap().waited_seconds, 3 * 0.150);
    }
  }
}

#ifdef TENFOLD_WITH_CUDA
TEST(DevicePrefetch, CudaBatchesAreReadWholeAndOnce) {
  if (!torch::cuda::is_available()) GTEST_SKIP() << "needs a CUDA device";
  const torch::Device device(torch::kCUDA, 0);
  tenfold::CopyStream copies(device);
  const int64_t numbers = 8 << 20;  // 64 MiB: the copy takes milliseconds
  const Tensors host{torch::empty({numbers}, torch::dtype(torch::kLong).pinned_memory(true)),
                     torch::empty({numbers}, torch::dtype(torch::kLong).pinned_memory(true))};
  Tensor wrong = torch::zeros({}, torch::dtype(torch::kLong).device(device));
  {
    DevicePrefetch<tenfold::CopyStream> prefetch(copies);
    prefetch.start({host[0].fill_(0)});
    Tensors here = prefetch.take();
    for (int64_t i = 0; i < 50; ++i) {
      prefetch.start({host[static_cast<size_t>(i + 1) % 2].fill_(i + 1)});
      for (int again = 0; again < 3; ++again) wrong += here[0].ne(i).sum();
      here = prefetch.take();
    }
    EXPECT_GT(prefetch.overlap().copy_seconds, 0);
  }
  EXPECT_EQ(wrong.item<int64_t>(), 0);
}
#endif

}  // namespace
