#include <gtest/gtest.h>

#include EXERCISE

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace {

using torch::Tensor;
constexpr int64_t kTexts = 10, kLength = 6, kVocabulary = 5;

class Exercise29 : public testing::Test {
 protected:
  void SetUp() override {
    torch::manual_seed(29);
    targets_ = torch::randint(kVocabulary, {kTexts, kLength});
    logits_ = torch::randn({kTexts, kLength, kVocabulary});
    // The later a text, the surer the model, and the more it is right: so that weights matter.
    const Tensor strength = torch::arange(kTexts, torch::kFloat).view({kTexts, 1, 1}) / 4;
    logits_ += strength * torch::one_hot(targets_, kVocabulary);
  }

  /// The batches keep unequal numbers of targets, and every third text none.
  void pad() {
    for (int64_t text = 0; text < kTexts; ++text)
      targets_[text].slice(0, 0, text % 3 == 2 ? kLength : text / 2).fill_(kIgnore);
  }

  HeldOutMetric of(int64_t begin, int64_t end, int64_t rows) {
    HeldOutMetric metric;
    for (int64_t at = begin; at < end; at += rows) {
      const int64_t stop = std::min(at + rows, end);
      metric.add(logits_.slice(0, at, stop), targets_.slice(0, at, stop));
    }
    return metric;
  }

  /// Target by target, by hand.
  HeldOutResult expected() {
    double loss = 0, right = 0, counted = 0;
    const Tensor logarithms = torch::log_softmax(logits_.to(torch::kDouble), -1), best = logits_.argmax(-1);
    for (int64_t text = 0; text < kTexts; ++text) {
      for (int64_t place = 0; place < kLength; ++place) {
        const auto target = targets_[text][place].item<int64_t>();
        if (target == kIgnore) continue;
        loss -= logarithms[text][place][target].item<double>();
        right += best[text][place].item<int64_t>() == target ? 1 : 0;
        ++counted;
      }
    }
    return {loss / counted, right / counted, std::exp(loss / counted)};
  }

  void expect_exact(const Tensor& reduced, const char* hint) {
    const HeldOutResult found = HeldOutMetric::from_reduced(reduced), right = expected();
    EXPECT_NEAR(found.loss, right.loss, 1e-5) << hint;
    EXPECT_NEAR(found.accuracy, right.accuracy, 1e-9) << hint;
    EXPECT_NEAR(found.perplexity, right.perplexity, 1e-4) << hint;
  }

  Tensor logits_, targets_;
};

TEST_F(Exercise29, OneBatchIsTheWholeSet) {
  expect_exact(of(0, kTexts, kTexts).to_reduce(), "hint: with one batch nothing has to be weighted");
}

TEST_F(Exercise29, TheLastBatchIsSmaller) {
  expect_exact(
      of(0, kTexts, 4).to_reduce(),
      "hint: the last batch of 2 texts has as much say as one of 4; add sums and counts, and divide at the end");
}

TEST_F(Exercise29, PaddingCountsNowhere) {
  pad();
  expect_exact(of(0, kTexts, 4).to_reduce(),
               "hint: batches have unequal numbers of targets that count, whatever their rows; count those that are "
               "not kIgnore");
}

TEST_F(Exercise29, ABatchOfPaddingAloneChangesNothing) {
  pad();
  expect_exact(of(0, kTexts, 1).to_reduce(),
               "hint: a text without a target that counts has no mean (0 / 0); it has a sum and a count, both 0");
}

TEST_F(Exercise29, RanksHaveUnequalShares) {
  pad();
  const Tensor reduced = of(0, 7, 2).to_reduce() + of(7, kTexts, 2).to_reduce() + HeldOutMetric().to_reduce();
  expect_exact(reduced,
               "hint: what ranks add up must be sums and counts; the third rank has seen nothing, and adds zeros");
}

TEST_F(Exercise29, NoGraphIsKept) {
  logits_.requires_grad_();
  EXPECT_FALSE(of(0, kTexts, 4).to_reduce().requires_grad())
      << "hint: the sums hold the graph of every batch, and with it all activations; add under torch::NoGradGuard";
}

}  // namespace
