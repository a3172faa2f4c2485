#include <gtest/gtest.h>

#include "accuracy_training.h"

#include <map>
#include <memory>

namespace {

using namespace tenfold;

Trial small_trial(int64_t updates = 12) {
  auto record = std::make_shared<TrialRecord>();
  record->given = {{"side", int64_t{16}}, {"channels", int64_t{2}}, {"updates", updates}};
  Trial trial(record);
  trial.seed = 7;
  return trial;
}

torch::Tensor update(ClipartTraining& training, const std::vector<torch::Tensor>& batch) {
  training.optimizer->zero_grad();
  torch::Tensor loss = torch::cross_entropy_loss(training.model(batch[0]), batch[1]);
  loss.backward();
  training.optimizer->step();
  return loss;
}

std::vector<double> accuracies(const Trial& trial, int workers) {
  torch::manual_seed(3);  // the model's first weights
  return accuracy_training(trial, clipart_samples(trial),
                           {.batch = 16, .workers = workers, .tail = Tail::drop, .seed = trial.seed}, update)
      .curve.quality;
}

TEST(AccuracyTraining, IsTheSameWithAnyNumberOfWorkers) {
  try {
    const Trial trial = small_trial();
    const std::vector<double> in_the_loop = accuracies(trial, 0);
    EXPECT_EQ(in_the_loop.size(), 6U) << "evaluations";
    EXPECT_GT(in_the_loop.back(), 1);
    EXPECT_LT(in_the_loop.back(), 99);
    EXPECT_EQ(accuracies(trial, 2), in_the_loop);
    EXPECT_NE(in_the_loop.front(), in_the_loop.back()) << "ten updates change what the model answers";
  } catch (const Skipped& reason) {
    GTEST_SKIP() << reason.what();
  }
}

TEST(AccuracyTraining, TheMajorityClassIsTheTestImagesLargest) {
  try {
    const Trial trial = small_trial();
    const Dataset unseen = clipart_samples(trial, /*train=*/false);
    Loader loader(unseen, {.batch = 64, .workers = 2, .shuffle = false});
    std::map<int64_t, int64_t> of_class;
    while (const Batch* batch = loader.next()) {
      for (int64_t i = 0; i < batch->rows(); ++i) ++of_class[batch->fields[1][i].item<int64_t>()];
    }
    int64_t most = 0;
    for (const auto& [label, count] : of_class) most = std::max(most, count);
    EXPECT_EQ(majority_class_accuracy(trial), 100 * static_cast<double>(most) / static_cast<double>(unseen.size));
  } catch (const Skipped& reason) {
    GTEST_SKIP() << reason.what();
  }
}

}  // namespace
