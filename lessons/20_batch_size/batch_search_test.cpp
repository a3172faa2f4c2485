// The search for the largest batch under memory that really runs out, and what it must not do.
#include <gtest/gtest.h>

#include "batch_search.h"
#include "by_utilisation.h"
#include "common/measure/byte_budget.h"
#include "training.h"

#include <map>
#include <memory>
#include <stdexcept>
#include <vector>

#include "tests/support/processor.h"
#include "tests/support/support.h"

namespace tenfold {
namespace {

using torch::Tensor;

Trial trial_with(const Workload& workload) {
  auto record = std::make_shared<TrialRecord>();
  record->given = {{"width", int64_t{256}}};  // of the mlp, as in case model states
  Trial trial(record);
  trial.workload = workload;
  trial.seed = 3;
  return trial;
}

LargestBatch search_in(int64_t most, int64_t limit, std::vector<int64_t>* tried = nullptr) {
  return largest_batch(torch::kCPU, limit, [&](int64_t batch) {
    if (tried) tried->push_back(batch);
    TORCH_CHECK_WITH(OutOfMemoryError, batch <= most, "no room for ", batch);
  });
}

TEST(LargestBatch, DoublesThenBisects) {
  std::vector<int64_t> tried;
  const LargestBatch found = search_in(11, 1000, &tried);
  EXPECT_EQ(tried, (std::vector<int64_t>{1, 2, 4, 8, 16, 12, 10, 11}));
  EXPECT_EQ(found.batch, 11);
  EXPECT_EQ(found.tries, 8);
  EXPECT_EQ(found.out_of_memory, 2);
}

TEST(LargestBatch, IsRightForEveryMemoryAndLimit) {
  for (int64_t limit = 1; limit <= 40; ++limit) {
    for (int64_t most = 0; most <= 45; ++most) {
      std::vector<int64_t> tried;
      EXPECT_EQ(search_in(most, limit, &tried).batch, std::min(most, limit)) << "most " << most << ", limit " << limit;
      for (const int64_t batch : tried) EXPECT_TRUE(batch >= 1 && batch <= limit) << batch;
    }
  }
}

TEST(LargestBatch, ALimitBelowOneIsRefused) {
  EXPECT_NE(test::message_of<c10::ValueError>([] { search_in(1, 0); }).find("limit=0"), std::string::npos);
}

TEST(LargestBatch, OtherErrorsReachTheCaller) {
  const auto throwing = [](const auto& error) {
    return [&error](int64_t batch) {
      if (batch == 4) throw error;
    };
  };
  const std::runtime_error file("labels.bin is missing");
  EXPECT_THROW(largest_batch(torch::kCPU, 8, throwing(file)), std::runtime_error);
  EXPECT_THROW(largest_batch(torch::kCPU, 8, [](int64_t batch) { TORCH_CHECK(batch != 4, "a wrong shape"); }),
               c10::Error);
}

// The texts are those of LibTorch 2.11's libraries. A CPU has neither of them.
constexpr const char* kNoEngine = "GET was unable to find an engine to execute this computation";
constexpr const char* kNoHandle = "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`";

TEST(LargestBatch, ALibrarysErrorIsNoLackOfMemoryOnACpu) {
  const auto fails = [](int64_t batch) { TORCH_CHECK(batch != 4, kNoEngine); };
  EXPECT_THROW(largest_batch(torch::kCPU, 8, fails), c10::Error);
}

// A stub for a convolution: its tensors take so many MiB a sample, and the library fails from a batch of 5 on.
TEST(LargestBatch, ALibrarysErrorMeansMemoryWhereItIsShort) {
  if (!torch::cuda::is_available()) GTEST_SKIP() << "needs a CUDA device";
  constexpr int64_t kMiB = 1 << 20;
  const auto search = [&](int64_t mib_of_sample, int64_t budget, const char* text) {
    return largest_batch(
        torch::kCUDA, 64,
        [=](int64_t batch) {
          const Tensor activations =
              torch::empty({batch * mib_of_sample * kMiB}, torch::dtype(torch::kByte).device(torch::kCUDA));
          TORCH_CHECK(batch < 5, text);
        },
        budget);
  };
  for (const char* text : {kNoEngine, kNoHandle}) {
    const LargestBatch found = search(20, 150 * kMiB, text);  // at 5 samples 100 MiB of 150 are taken
    EXPECT_EQ(found.batch, 4) << text;
    EXPECT_GT(found.out_of_memory, 0) << text;
    EXPECT_THROW(search(1, 150 * kMiB, text), c10::Error) << text << ": 145 MiB were left";
    EXPECT_THROW(search(1, 0, text), c10::Error) << text << ": the device is empty";
  }
  EXPECT_THROW(search(20, 150 * kMiB, "a wrong shape"), c10::Error);
}

// cuDNN catches the allocator's error, tries its next engine, and says at the end that it has found none.
TEST(LargestBatch, ALibrarysErrorMeansMemoryWhereABlockWasRefused) {
  if (!torch::cuda::is_available()) GTEST_SKIP() << "needs a CUDA device";
  const auto try_batch = [](int64_t batch) {
    if (batch < 5) return;
    try {
      torch::empty({int64_t{1} << 50}, torch::dtype(torch::kByte).device(torch::kCUDA));
    } catch (const c10::OutOfMemoryError&) {
    }
    TORCH_CHECK(false, kNoEngine);
  };
  EXPECT_EQ(largest_batch(torch::kCUDA, 64, try_batch).batch, 4);
}

// One model serves all tries: what is found, and what each try needs, is what a fresh model would have.
TEST(TriedTraining, EachTryNeedsAsMuchAsAFreshModel) {
  for (const Workload& workload : {convnet_workload, mlp_workload}) {
    const Trial trial = trial_with(workload);
    const CountCpuMemory counting;
    const int64_t before = live_bytes(torch::kCPU);
    const auto peak_of = [&](const auto& train) {
      reset_peak(torch::kCPU);
      train();
      return peak_bytes(torch::kCPU) - before;
    };
    const int64_t fresh = peak_of([&] {
      const Step step = training_step(trial, 24);
      for (int i = 0; i < 2; ++i) step.update();
    });
    TriedTraining tried(trial);
    tried.train(1, 1);
    const int64_t resting = live_bytes(torch::kCPU) - before;
    constexpr double kMallocRoundsUp = 4096;
    EXPECT_NEAR(peak_of([&] { tried.train(24, 2); }), fresh, kMallocRoundsUp) << workload.name;
    {
      const ByteBudget budget(torch::kCPU, fresh / 2);
      EXPECT_THROW(tried.train(1000, 2), c10::OutOfMemoryError) << workload.name;
    }
    EXPECT_NEAR(peak_of([&] { tried.train(24, 2); }), fresh, kMallocRoundsUp)
        << workload.name << ", after a try that failed";
    EXPECT_NEAR(live_bytes(torch::kCPU) - before, resting, kMallocRoundsUp)
        << workload.name << ": gradients or states stayed";
  }
}

TEST(LargestBatch, LeavesTheRandomStateAlsoWhenItThrows) {
  const auto draws = [](int64_t batch) { torch::randn({batch}); };
  const auto draws_and_throws = [](int64_t) {
    torch::randn({7});
    throw std::runtime_error("no");
  };
  const auto draw = [&](bool search) {
    torch::manual_seed(5);
    torch::randn({3});  // an odd number: half a pair is kept
    if (search) {
      largest_batch(torch::kCPU, 8, draws);
      EXPECT_THROW(largest_batch(torch::kCPU, 8, draws_and_throws), std::runtime_error);
    }
    return torch::randn({9});
  };
  EXPECT_TRUE(torch::equal(draw(true), draw(false)));
}

// The step's peak, counted without a budget, is at most the budget for the batch that was found, and more for the next.
TEST(LargestBatch, FitsAndTheNextDoesNot) {
  for (const Workload& workload : {convnet_workload, mlp_workload}) {
    const Trial trial = trial_with(workload);
    const int64_t bytes = workload.name == "mlp" ? 5 << 20 : 8 << 20;
    const auto train = [&](int64_t batch) {
      const Step step = training_step(trial, batch);
      for (int i = 0; i < 2; ++i) step.update();
    };
    LargestBatch found;
    int64_t left = 0;
    {
      const CountCpuMemory counting;
      const int64_t before = live_bytes(torch::kCPU);
      const ByteBudget budget(torch::kCPU, bytes);
      {
        TriedTraining tried(trial);
        found = largest_batch(torch::kCPU, 1 << 20, [&](int64_t batch) { tried.train(batch, 2); });
      }
      EXPECT_EQ(largest_batch(torch::kCPU, 1 << 20, train).batch, found.batch)
          << workload.name << ": a fresh model each time";
      left = live_bytes(torch::kCPU) - before;
    }
    EXPECT_EQ(left, 0) << workload.name << ": bytes that the search left behind";
    EXPECT_GT(found.out_of_memory, 0);
    const auto peak = [&](int64_t batch) {
      const CountCpuMemory counting;
      const int64_t before = live_bytes(torch::kCPU);
      reset_peak(torch::kCPU);
      train(batch);
      return peak_bytes(torch::kCPU) - before;
    };
    EXPECT_LE(peak(found.batch), bytes + 4096) << workload.name << ", batch " << found.batch;  // malloc rounds up
    EXPECT_GT(peak(found.batch + 1), bytes - 4096) << workload.name;
    const auto by_formula = static_cast<double>(largest_by_formula(trial, bytes));
    // The formulas are within 5 % of the peak (each lesson's own test), and the batch is a whole number near 30.
    if (test::convolutions_keep_copies())
      EXPECT_NEAR(static_cast<double>(found.batch) / by_formula, 1, 0.06) << workload.name;
    else
      EXPECT_GE(static_cast<double>(found.batch) / by_formula, 0.94) << workload.name;
  }
}

TEST(ByteBudget, RefusesInForwardAndInBackwardAndGivesBack) {
  const Tensor input = torch::ones({256, 256});
  Tensor weights = torch::ones({256, 256}).requires_grad_();  // 256 KiB each
  {
    const ByteBudget budget(torch::kCPU, (1 << 20) + (1 << 16));  // four such tensors, not five
    EXPECT_THROW(torch::ones({5 << 16}), c10::OutOfMemoryError);
    EXPECT_NO_THROW(torch::ones({4 << 16}));
    const Tensor a = torch::mm(input, weights), b = torch::mm(a, weights);
    EXPECT_THROW(b.backward(torch::ones({256, 256})), c10::OutOfMemoryError)
        << "an error on autograd's side keeps its type";
    EXPECT_NE(test::message_of<c10::OutOfMemoryError>([] { torch::ones({1 << 20}); }).find("are in use"),
              std::string::npos);
  }
  EXPECT_NO_THROW(torch::ones({1 << 20})) << "the budget is over";
}

TEST(ByteBudget, ABudgetOfNothingIsRefused) { EXPECT_THROW(ByteBudget(torch::kCPU, 0), c10::ValueError); }

TEST(FastestBatch, TheSmallestThatIsNearlyTheBest) {
  const std::map<int64_t, double> rates = {{1, 100}, {2, 190}, {4, 391}, {8, 400}, {16, 200}};
  const auto seconds = [&](int64_t batch) { return static_cast<double>(batch) / rates.at(batch); };
  const FastestBatch found = fastest_batch({1, 2, 4, 8, 16}, seconds);
  EXPECT_EQ(found.batch, 4) << "within 5 % of batch 8, with half of it";
  EXPECT_EQ(fastest_batch({1, 2, 4, 8, 16}, seconds, 5, 0.99).batch, 8);
  ASSERT_EQ(found.rates.size(), 5U);
  for (const BatchRate& rate : found.rates) EXPECT_NEAR(rate.samples_per_s, rates.at(rate.batch), 1e-6);
  EXPECT_EQ(fastest_batch({16, 8, 4}, seconds).batch, 4) << "in any order";
}

TEST(FastestBatch, TimesInTurnsAndTakesTheMedianWithoutTheFirst) {
  std::vector<int64_t> calls;
  const auto seconds = [&](int64_t batch) {
    calls.push_back(batch);
    if (calls.size() <= 2) return 1e9;  // cold
    return calls.size() == 3 ? 50.0 : static_cast<double>(batch);
  };
  const FastestBatch found = fastest_batch({1, 2}, seconds, 3);
  EXPECT_EQ(calls, (std::vector<int64_t>{1, 2, 1, 2, 1, 2, 1, 2}));
  EXPECT_NEAR(found.rates.at(0).samples_per_s, 1, 1e-9);
  EXPECT_NEAR(found.rates.at(1).samples_per_s, 1, 1e-9);
  EXPECT_THROW(fastest_batch({}, seconds), c10::ValueError);
  EXPECT_THROW(fastest_batch({1}, seconds, 0), c10::ValueError);
}

TEST(FastestBatch, Doublings) {
  EXPECT_EQ(doublings(1), (std::vector<int64_t>{1}));
  EXPECT_EQ(doublings(8), (std::vector<int64_t>{1, 2, 4, 8}));
  EXPECT_EQ(doublings(11), (std::vector<int64_t>{1, 2, 4, 8, 11}));
}

// Article D's search as it is: in a new process the most that was ever allocated is what is allocated now.
TEST(ByUtilisation, GivesUpAtOnceInANewProcess) {
  const Trial trial = trial_with(mlp_workload);
  EXPECT_EQ(search_by_utilisation(trial, 5 << 20, /*was_full=*/false), 0);
}

TEST(ByUtilisation, FindsABatchThatCannotBeTrained) {
  const Trial trial = trial_with(mlp_workload);
  constexpr int64_t kBytes = 5 << 20;
  const int64_t batch = search_by_utilisation(trial, kBytes, /*was_full=*/true);
  ASSERT_GT(batch, 0);
  const ByteBudget budget(torch::kCPU, kBytes);
  const auto train = [&] {
    const Step step = training_step(trial, batch);
    for (int i = 0; i < 2; ++i) step.update();
  };
  EXPECT_THROW(train(), c10::OutOfMemoryError) << "batch " << batch;
}

TEST(ByUtilisation, TakesAnyErrorForMemory) {
  const auto wrong_shape = [](int64_t batch) -> Tensor {
    TORCH_CHECK(batch < 16, "a wrong shape");
    return torch::ones({batch});
  };
  const ByteBudget budget(torch::kCPU, 1 << 20);
  torch::ones({(1 << 18) - 4096});  // so that the most that was ever allocated is large
  EXPECT_EQ(batch_by_utilisation(torch::kCPU, wrong_shape), 8);
}

}  // namespace
}  // namespace tenfold
