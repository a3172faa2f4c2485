// The rule, the copy that it keeps, and the trainings that obey it.
#include <gtest/gtest.h>

#include "chosen_on.h"
#include "early_stopping.h"
#include "images.h"
#include "stopped_training.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/support.h"

namespace tenfold {
namespace {

using torch::Tensor;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN(), kInfinity = std::numeric_limits<double>::infinity();

/// The check, from 1, at which the losses stop training; 0 if none does.
int64_t stopped_at(const std::vector<double>& losses, EarlyStoppingOptions options) {
  EarlyStopping stopping({}, options);
  for (const double loss : losses) {
    if (stopping.should_stop(loss)) return stopping.checks();
  }
  return 0;
}

TEST(EarlyStopping, StopsAfterPatienceChecksInARowWithoutAnImprovement) {
  EXPECT_EQ(stopped_at({3, 2, 2.5, 2.4, 2.3, 1}, {.patience = 3}), 5);
  EXPECT_EQ(stopped_at({3, 2, 2.5, 2.4, 1.9, 2.5, 2.4}, {.patience = 3}), 0) << "an improvement begins the count again";
  EXPECT_EQ(stopped_at({3, 2, 2.5, 1}, {.patience = 1}), 3);
  EXPECT_EQ(stopped_at({3, 2, 1}, {.patience = 1}), 0);
  EXPECT_EQ(stopped_at({3, 2, 2, 2}, {.patience = 2}), 4) << "an equal loss is no improvement";
}

TEST(EarlyStopping, AnImprovementMustExceedTheMinimum) {
  EXPECT_EQ(stopped_at({3, 2.75, 2.5, 2.25}, {.patience = 2, .minimum_improvement = 0.25}), 0)
      << "held against the best loss that counted, small steps add up";
  EXPECT_EQ(stopped_at({3, 2.75, 2.75, 2.75}, {.patience = 2, .minimum_improvement = 0.25}), 3);
}

TEST(EarlyStopping, NaNAndInfinityAreNoImprovement) {
  EXPECT_EQ(stopped_at({kNaN, kNaN, kNaN}, {.patience = 3}), 3) << "a training that diverges ends";
  EXPECT_EQ(stopped_at({3, kNaN, -kInfinity, 4}, {.patience = 3}), 4);
  EXPECT_EQ(stopped_at({kNaN, 5, 4, 3}, {.patience = 2}), 0);
}

TEST(EarlyStopping, RestoresTheBestWeightsAndBuffersInPlace) {
  torch::nn::BatchNorm1d model(3);
  std::vector<Tensor> state = training_state(*model);
  EXPECT_EQ(state.size(), 5U) << "weight, bias, running mean and variance, and the number of batches";
  const torch::NoGradGuard no_gradients;
  const auto train = [&] {
    for (Tensor& tensor : state) tensor.add_(1);
  };
  EarlyStopping stopping(state, {.patience = 2});
  EXPECT_EQ(stopping.best_bytes(), 0);
  stopping.should_stop(2);
  train();
  stopping.should_stop(1);
  std::vector<Tensor> best;
  for (const Tensor& tensor : state) best.push_back(tensor.clone());
  train();
  EXPECT_FALSE(stopping.should_stop(1.5));
  train();
  EXPECT_TRUE(stopping.should_stop(1.4));
  EXPECT_FALSE(torch::equal(model->weight, best[0])) << "the copy must not go on with the training";
  stopping.restore_best();
  for (size_t i = 0; i < state.size(); ++i) EXPECT_TRUE(torch::equal(training_state(*model)[i], best[i])) << i;
  EXPECT_EQ(stopping.best_loss(), 1);
  EXPECT_EQ(stopping.best_check(), 2);
  EXPECT_EQ(stopping.best_bytes(), 4 * 3 * 4 + 8) << "four tensors of three floats, and a count";
}

TEST(EarlyStopping, KeepsNoCopyWhereNoneIsAskedFor) {
  Tensor weights = torch::ones({8});
  EarlyStopping stopping({weights}, {.patience = 2, .keep_best = false});
  stopping.should_stop(1);
  EXPECT_EQ(stopping.best_bytes(), 0);
  EXPECT_THROW(stopping.restore_best(), c10::Error);
}

TEST(EarlyStopping, RefusesWhatMakesNoSense) {
  EXPECT_THROW(EarlyStopping({}, {.patience = 0}), c10::ValueError);
  EXPECT_THROW(EarlyStopping({}, {.patience = 1, .minimum_improvement = -1}), c10::ValueError);
  EXPECT_THROW(EarlyStopping({}, {.patience = 1, .minimum_improvement = kNaN}), c10::ValueError);
  EarlyStopping never_finite({torch::ones({2})});
  never_finite.should_stop(kNaN);
  EXPECT_THROW(never_finite.restore_best(), c10::Error);
}

TEST(EarlyStopping, AResumedTrainingStopsWhereAnUninterruptedOneDoes) {
  const std::vector<double> losses = {5, 4, 3, 3.5, kNaN, 3.2, 3.1, 3.5, 3.4, 3.3};
  const EarlyStoppingOptions options{.patience = 4, .minimum_improvement = 0.25};
  for (size_t interrupted = 0; interrupted <= 6; ++interrupted) {
    Tensor weights = torch::zeros({3});
    auto stopping = std::make_unique<EarlyStopping>(std::vector<Tensor>{weights}, options);
    size_t stopped = 0;
    for (size_t check = 0; check < losses.size() && stopped == 0; ++check) {
      if (check == interrupted) {
        const EarlyStoppingState state = stopping->state();
        weights = weights.clone();  // as another process has read them
        stopping = std::make_unique<EarlyStopping>(std::vector<Tensor>{weights}, options);
        stopping->load(state);
      }
      weights.add_(1);
      if (stopping->should_stop(losses[check])) stopped = check;
    }
    EXPECT_EQ(stopped, 6U) << "interrupted before check " << interrupted;
    EXPECT_EQ(stopping->checks(), 7);
    EXPECT_EQ(stopping->best_check(), 3);
    EXPECT_EQ(stopping->best_loss(), 3);
    stopping->restore_best();
    EXPECT_TRUE(torch::equal(weights, torch::full({3}, 3.0))) << "interrupted before check " << interrupted;
  }
}

TEST(EarlyStopping, ASavedStateStaysAsItWas) {
  Tensor weights = torch::ones({2});
  EarlyStopping stopping({weights});
  stopping.should_stop(2);
  const EarlyStoppingState state = stopping.state();
  weights.fill_(7);
  stopping.should_stop(1);
  EXPECT_TRUE(torch::equal(state.best.at(0), torch::ones({2})));
  stopping.load(state);  // back to the first check
  EXPECT_EQ(stopping.best_loss(), 2);
  state.best.at(0).fill_(9);
  stopping.restore_best();
  EXPECT_TRUE(torch::equal(weights, torch::ones({2})));
  stopping.load(EarlyStopping({weights}).state());
  EXPECT_EQ(stopping.checks(), 0);
  EXPECT_EQ(stopping.best_bytes(), 0);
  EXPECT_THROW(stopping.restore_best(), c10::Error) << "the copy of another state was kept";
}

TEST(EarlyStopping, RefusesAStateThatIsNotItsOwn) {
  Tensor weights = torch::ones({2});
  const EarlyStoppingOptions options{.patience = 3, .minimum_improvement = 0.5};
  EarlyStopping stopping({weights}, options);
  stopping.should_stop(2);
  stopping.should_stop(1.9);
  const EarlyStoppingState own = stopping.state();
  const auto refusal = [&](auto change) {
    EarlyStoppingState changed = own;
    change(changed);
    std::string message = test::message_of<c10::ValueError>([&] { stopping.load(changed); });
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
    return message;
  };
  const auto has = [](const std::string& message, const char* part) {
    EXPECT_NE(message.find(part), std::string::npos) << message;
  };
  has(refusal([](auto& s) { s.patience = 5; }), "patience 5 and minimum improvement 0.5, this one 3 and 0.5");
  has(refusal([](auto& s) { s.minimum_improvement = 0; }), "training would stop at another check");
  has(refusal([](auto& s) { s = {}; }), "patience 0");
  has(refusal([](auto& s) { s.best_check = 3; }), "2 checks, of which number 3 was best");
  has(refusal([](auto& s) { s.best_check = -1; }), "does not exist");
  has(refusal([](auto& s) { s.best_check = 0; }), "does not exist");
  has(refusal([](auto& s) { s.best_loss = kNaN; }), "does not exist");
  has(refusal([](auto& s) { s.best_loss = kInfinity; }), "does not exist");
  has(refusal([](auto& s) { s.best.clear(); }), "copy of 0 tensors; expected 1");
  has(refusal([](auto& s) { s.best[0] = torch::ones({3}); }), "tensor 0 of the saved state is not Float of shape [2]");
  has(refusal([](auto& s) { s.best[0] = torch::ones({2}, torch::kLong); }), "is not Float");
  has(refusal([](auto& s) { s.best[0] = Tensor(); }), "is not Float");
  EXPECT_EQ(stopping.best_loss(), 2) << "a refused state has changed something";
  EarlyStopping without({weights}, {.patience = 3, .minimum_improvement = 0.5, .keep_best = false});
  EXPECT_NE(test::message_of<c10::ValueError>([&] { without.load(own); }).find("keep_best is off"), std::string::npos);
  stopping.load(own);
  EXPECT_EQ(stopping.checks(), 2);
}

std::shared_ptr<TrialRecord> small_record(const std::map<std::string, SettingValue>& more = {}) {
  auto record = std::make_shared<TrialRecord>();
  record->given = {{"images", int64_t{32}},  {"batch", int64_t{16}}, {"channels", int64_t{2}},
                   {"updates", int64_t{40}}, {"every", int64_t{4}},  {"validation", int64_t{16}},
                   {"patience", int64_t{2}}};
  for (const auto& [name, value] : more) record->given[name] = value;
  return record;
}

Trial trial_of(const std::shared_ptr<TrialRecord>& record) {
  Trial trial(record);
  trial.seed = 7;
  return trial;
}

Trial small_trial(const std::map<std::string, SettingValue>& more = {}) { return trial_of(small_record(more)); }

Learned trained(const Trial& trial, const StopRule& rule) {
  torch::manual_seed(3);  // the model's first weights
  return train_until(trial, rule);
}

TEST(StoppedTraining, EndsWhenTheRuleSays) {
  // A learning rate of 0 never improves: the first check is the best, and `patience` more end it.
  const auto part_trained = [](const StopRule& rule) {
    const auto record = small_record({{"learning_rate", 0.0}});
    trained(trial_of(record), rule);
    return record->notes.at("trained").value;
  };
  EXPECT_EQ(part_trained({}), 100);
  EXPECT_EQ(part_trained({.patience = 2}), 30) << "the third check, after 12 of 40 updates";
  EXPECT_EQ(part_trained({.patience = 1, .every = 2}), 10) << "the second check, after 4 of 40 updates";
  EXPECT_EQ(part_trained({.patience = 10}), 100) << "the tenth check is the last update";
}

TEST(StoppedTraining, ChecksChangeNoUpdate) {
  const std::vector<double> full = trained(small_trial(), {}).curve.quality;
  EXPECT_EQ(full.size(), 5U);
  EXPECT_EQ(trained(small_trial(), {.patience = 40, .restore = false}).curve.quality, full);
}

TEST(StoppedTraining, EndsWithTheWeightsOfTheBestCheck) {
  const Trial trial = small_trial({{"learning_rate", 0.05}});
  torch::manual_seed(3);
  ImagesTraining work(trial);
  std::vector<double> chosen_by, unseen;  // at each check
  for (int check = 0; check < 10; ++check) {
    for (int update = 0; update < 4; ++update) work.update();
    chosen_by.push_back(mean_loss(work.model, validation_images(trial), trial.device));
    unseen.push_back(mean_loss(work.model, unseen_images(512), trial.device));
  }
  const auto best = std::min_element(chosen_by.begin(), chosen_by.end()) - chosen_by.begin();
  ASSERT_NE(best, 9) << "the test needs a training that is not best at its end";
  const Learned restored = trained(trial, {.patience = 40});
  EXPECT_EQ(restored.curve.quality.back(), unseen[static_cast<size_t>(best)]);
  const Learned last = trained(trial, {.patience = 40, .restore = false});
  EXPECT_EQ(last.curve.quality.back(), unseen.back());
}

TEST(ThreeSplits, ShareNoImage) {
  for (const uint64_t seed : {uint64_t{0}, uint64_t{1}, uint64_t{19}, uint64_t{1234}}) {
    Trial trial = small_trial({{"validation", int64_t{512}}});
    trial.seed = seed;
    const ImageSet validation = validation_images(trial), unseen = unseen_images(512);
    const auto* end = validation.images.const_data_ptr<uint8_t>() + validation.images.numel();
    EXPECT_LE(end, unseen.images.const_data_ptr<uint8_t>()) << "views of one file, one behind the other";
  }
}

TEST(ThreeSplits, AnotherSeedHasOtherImages) {
  Trial one = small_trial(), two = small_trial();
  two.seed = one.seed + 1;
  EXPECT_FALSE(torch::equal(training_images(one).images, training_images(two).images));
  EXPECT_FALSE(torch::equal(validation_images(one).images, validation_images(two).images));
}

TEST(ThreeSplits, AllImagesAreTheWorkload) {
  Trial trial = small_trial({{"images", int64_t{60000}}});
  torch::manual_seed(3);
  ImagesTraining ours(trial);
  torch::manual_seed(3);
  FashionConvNet workload(trial);
  for (int i = 0; i < 2; ++i) {
    const auto [images, labels] = ours.next_batch();
    const auto [their_images, their_labels] = workload.next_batch();
    EXPECT_TRUE(torch::equal(images, their_images));
    EXPECT_TRUE(torch::equal(labels, their_labels));
  }
  EXPECT_TRUE(torch::equal(ours.model->conv1->weight, workload.model->conv1->weight));
}

// The losses of all images move together: whoever chooses, chooses the best check, and no choice flatters.
TEST(ChosenOn, IsRightWhereEveryImageSaysTheSame) {
  const Tensor falls_and_rises = torch::tensor({3.0, 1.0, 2.0}).unsqueeze(1).expand({3, 50});
  const ChosenOn found = chosen_on(falls_and_rises, 5, 20, 1);
  EXPECT_NEAR(found.optimism, 0, 1e-9);
  EXPECT_NEAR(found.lost, 0, 1e-9);
}

// Pure noise: no check is better than another, the lowest of ten means only looks so.
TEST(ChosenOn, FindsTheOptimismOfNoise) {
  torch::manual_seed(1);
  const Tensor noise = 5 + torch::randn({10, 4000}, torch::kDouble);
  const ChosenOn few = chosen_on(noise, 16, 400, 1), more = chosen_on(noise, 256, 400, 1);
  // The expected lowest of ten standard normal means is -1.539 of their deviation: 1.539 / sqrt(16) / 5 = 7.7 %.
  EXPECT_NEAR(few.optimism, 7.7, 0.6);
  EXPECT_NEAR(more.optimism, 7.7 / 4, 0.5);
  EXPECT_NEAR(few.optimism_fixed, 0, 0.8) << "a check that nobody chose looks as good as it is";
  EXPECT_THROW(chosen_on(noise, 4000, 1, 1), c10::ValueError);
}

}  // namespace
}  // namespace tenfold
