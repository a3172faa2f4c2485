#include <gtest/gtest.h>

#include EXERCISE

#include <functional>
#include <stdexcept>
#include <vector>

#include "common/measure/byte_budget.h"

namespace {

using torch::Tensor;

/// Batches up to `most` fit; every try is written down.
struct Memory {
  int64_t most;
  std::vector<int64_t> tried = {};

  std::function<void(int64_t)> try_batch() {
    return [this](int64_t batch) {
      tried.push_back(batch);
      TORCH_CHECK_WITH(OutOfMemoryError, batch <= most, "no room for ", batch, " samples");
    };
  }
};

TEST(Exercise20, FindsPowersOfTwo) {
  for (const int64_t most : {1, 2, 64}) {
    Memory memory{most};
    EXPECT_EQ(largest_batch(1000, memory.try_batch()), most) << "hint: return the last batch that fitted";
  }
}

TEST(Exercise20, BisectsBetweenTheLastThatFittedAndTheFirstThatDidNot) {
  for (const int64_t most : {3, 5, 100, 127, 129, 700}) {
    Memory memory{most};
    EXPECT_EQ(largest_batch(1000, memory.try_batch()), most)
        << "hint: doubling ends between n and 2 n; bisect there until the two differ by 1";
  }
}

TEST(Exercise20, StopsAtTheLimit) {
  for (const int64_t limit : {1, 2, 7, 100}) {
    Memory memory{1'000'000};
    EXPECT_EQ(largest_batch(limit, memory.try_batch()), limit) << "hint: all fit, so the limit is the answer";
    for (const int64_t batch : memory.tried) EXPECT_TRUE(batch >= 1 && batch <= limit) << "tried " << batch;
  }
}

TEST(Exercise20, NotEvenOneSample) {
  Memory memory{0};
  EXPECT_EQ(largest_batch(64, memory.try_batch()), 0) << "hint: when one sample is too many the answer is 0";
}

TEST(Exercise20, NeedsFewTries) {
  Memory memory{77'777};
  largest_batch(1 << 20, memory.try_batch());
  EXPECT_LE(memory.tried.size(), 42U) << "hint: every try takes time; 2 log2(limit) of them are enough";
}

TEST(Exercise20, AnotherErrorIsNotSwallowed) {
  // A label that no class has: wrong from batch 5 on, however much memory there is.
  const Tensor scores = torch::randn({8, 10}), labels = torch::tensor({0, 1, 2, 3, 10, 5, 6, 7});
  const auto wrong_label = [&](int64_t batch) {
    torch::cross_entropy_loss(scores.narrow(0, 0, batch), labels.narrow(0, 0, batch));
  };
  EXPECT_THROW(largest_batch(8, wrong_label), c10::Error)
      << "hint: a label out of bounds is no lack of memory; catch c10::OutOfMemoryError alone, not its base class";
  const auto no_file = [](int64_t batch) {
    if (batch == 4) throw std::runtime_error("cannot open labels.bin");
  };
  EXPECT_THROW(largest_batch(8, no_file), std::runtime_error)
      << "hint: the caller must see that a file is missing; do not catch std::exception";
}

TEST(Exercise20, AnErrorAmongTheBisectedIsNotSwallowedEither) {
  const auto try_batch = [](int64_t batch) {
    TORCH_CHECK_WITH(OutOfMemoryError, batch < 8, "no room");
    TORCH_CHECK_INDEX(batch != 6, "an index that is out of bounds");
  };
  EXPECT_THROW(largest_batch(100, try_batch), c10::IndexError)
      << "hint: while bisecting, too, only c10::OutOfMemoryError means that a batch does not fit";
}

TEST(Exercise20, RecoversFromMemoryThatReallyRunsOut) {
  const tenfold::ByteBudget budget(torch::kCPU, 1 << 20);
  const auto train = [](int64_t batch) {
    const Tensor weights = torch::ones({64, 64}).requires_grad_();
    torch::mm(torch::ones({batch, 64}), weights).pow(2).sum().backward();
  };
  const int64_t found = largest_batch(1 << 16, train);
  EXPECT_NO_THROW(train(found)) << "hint: the batch that is returned must have been tried, and fitted";
  EXPECT_THROW(train(found + 1), c10::OutOfMemoryError) << "hint: one sample more would have fitted, too";
}

}  // namespace
