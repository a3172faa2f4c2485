#include "common/measure/rank_share.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "common/ranks/rank_threads.h"

#include "tests/support/support.h"

namespace {

using tenfold::needs_two_ranks;
using tenfold::Setting;
using tenfold::share_of_rank;
using tenfold::Skipped;
using tenfold::Trial;

constexpr Setting<int64_t> kBatch{"batch", 8, "sequences of all ranks together"};

Trial trial_on(int ranks, int64_t batch) {
  auto record = std::make_shared<tenfold::TrialRecord>();
  record->given["batch"] = batch;
  Trial trial(record);
  trial.world_size = ranks;
  return trial;
}

TEST(RankShare, IsTheBatchOverTheRanks) {
  EXPECT_EQ(share_of_rank(trial_on(1, 5), kBatch), 5);
  EXPECT_EQ(share_of_rank(trial_on(3, 12), kBatch), 4);
  EXPECT_EQ(share_of_rank(trial_on(4, 12), kBatch, 1), 12) << "each rank has a batch of its own";
}

TEST(RankShare, WhatCannotBeSharedIsSkipped) {
  const auto reason = [](int ranks, int64_t batch) {
    return tenfold::test::message_of<Skipped>([&] { share_of_rank(trial_on(ranks, batch), kBatch); });
  };
  EXPECT_EQ(reason(2, 5), "batch=5 cannot be divided by 2 ranks");
  EXPECT_EQ(reason(8, 4), "batch=4 cannot be divided by 8 ranks") << "fewer than ranks";
}

TEST(RankShare, OneRankHasNobodyToSendTo) {
  EXPECT_EQ(tenfold::test::message_of<Skipped>([] { needs_two_ranks(trial_on(1, 8)); }), "needs two ranks");
  tenfold::on_rank_threads(2, std::chrono::seconds(20), [](int rank, const auto& group) {
    Trial trial = trial_on(2, 8);
    trial.rank = rank;
    trial.group = group;
    EXPECT_NO_THROW(needs_two_ranks(trial));
  });
}

}  // namespace
