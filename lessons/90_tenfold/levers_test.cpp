// A lever changes how fast a pipeline trains, and nothing of what it computes.
#include "levers.h"

#include <gtest/gtest.h>

#include "pictures.h"
#include "texts.h"
#include "to_the_end.h"

namespace tenfold {
namespace {

Trial trial_with(const std::map<std::string, SettingValue>& given, const Workload& workload = pictures_workload) {
  auto record = std::make_shared<TrialRecord>();
  record->given = given;
  Trial trial(record);
  trial.workload = workload;
  trial.seed = 3;
  return trial;
}

std::vector<double> losses(const Step& step, int updates = 3) {
  std::vector<double> all;
  for (int i = 0; i < updates; ++i) all.push_back(step.update().item<double>());
  return all;
}

Levers only(const Lever& lever) {
  Levers levers;
  levers.*lever.pulled = true;
  return levers;
}

TEST(Levers, AreStackedInTheirOrder) {
  const Levers three = stack_of(3);
  EXPECT_TRUE(three.workers && three.ranks && three.sixteen_bits);
  EXPECT_FALSE(three.sharded || three.without_graph || three.packed);
  const Levers all = stack_of(kLevers.size());
  for (const Lever& lever : kLevers) {
    EXPECT_EQ(lever.pulled == nullptr, lever.why_no_step != nullptr) << lever.name;
    if (lever.pulled == nullptr) continue;
    EXPECT_TRUE(all.*lever.pulled) << lever.name;
    EXPECT_FALSE(all_but(lever).*lever.pulled) << lever.name;
  }
}

/// Bit for bit, but for what computes with other numbers or in another order.
void expect_same_training(Step (*step)(const Trial&, const Levers&), const Trial& trial) {
  torch::manual_seed(5);
  const std::vector<double> naive = losses(step(trial, {}));
  for (const Lever& lever : kLevers) {
    if (lever.pulled == nullptr || lever.pulled == &Levers::ranks) continue;
    torch::manual_seed(5);
    const std::vector<double> with = losses(step(trial, only(lever)));
    const bool other_order = lever.pulled == &Levers::fused || lever.pulled == &Levers::packed;
    const double tolerance = lever.pulled == &Levers::sixteen_bits ? 0.05 : other_order ? 1e-4 : 0;
    for (size_t i = 0; i < naive.size(); ++i)
      EXPECT_NEAR(with[i], naive[i], tolerance * naive[i]) << lever.name << ", update " << i;
  }
}

TEST(Levers, PicturesAreTrainedOnAlike) {
  try {
    expect_same_training(picture_step,
                         trial_with({{"batch", int64_t{4}}, {"workers", int64_t{2}}, {"validated", int64_t{4}}}));
  } catch (const Skipped& reason) {  // no pictures here
    GTEST_SKIP() << reason.what();
  }
}
TEST(Levers, TextsAreTrainedOnAlike) {
  expect_same_training(
      text_step,
      trial_with({{"batch", int64_t{4}}, {"workers", int64_t{2}}, {"validated", int64_t{2}}}, texts_workload));
}

TEST(Levers, ABatchThatTheRanksCannotShareIsSkipped) {
  Trial trial = trial_with({{"batch", int64_t{5}}});
  trial.world_size = 2;
  EXPECT_THROW(part_of_rank(trial, kBatch, true), Skipped);
  EXPECT_EQ(part_of_rank(trial, kBatch, false), 5);
}

TEST(Levers, RanksShareTheWorkersAndEachHasOne) {
  Trial trial = trial_with({{"workers", int64_t{4}}});
  for (const auto& [ranks, workers] : std::map<int, int64_t>{{1, 4}, {2, 2}, {4, 1}, {8, 1}}) {
    trial.world_size = ranks;
    EXPECT_EQ(workers_of_rank(trial, true), workers) << ranks << " ranks";
    EXPECT_EQ(workers_of_rank(trial, false), 4);
  }
}

TEST(ToTheEnd, StopsWhenValidationSaysSoAndKeepsTheBest) {
  const Trial trial = trial_with({{"batch", int64_t{4}},
                                  {"workers", int64_t{1}},
                                  {"validated", int64_t{4}},
                                  {"updates", int64_t{40}},
                                  {"every", int64_t{2}},
                                  {"patience", int64_t{1}}});
  try {
    torch::manual_seed(5);
    const Learned whole = train_pictures(trial, {});
    torch::manual_seed(5);
    const Learned stopped = train_pictures(trial, {.stops = true});
    EXPECT_EQ(whole.curve.quality.size(), 20U);
    EXPECT_LT(stopped.curve.quality.size(), 20U) << "a batch of four makes validation go up now and then";
    for (size_t i = 0; i + 1 < stopped.curve.quality.size(); ++i)
      EXPECT_EQ(stopped.curve.quality[i], whole.curve.quality[i]) << "the same training until it stops";
  } catch (const Skipped& reason) {  // no pictures here
    GTEST_SKIP() << reason.what();
  }
}

}  // namespace
}  // namespace tenfold
