#include <gtest/gtest.h>

#include EXERCISE

#include "lessons/55_pipeline/pipeline_check.h"

#include <algorithm>
#include <string>
#include <vector>

namespace {

using tenfold::PipelineAction, tenfold::PipelinePass;

struct Size {
  int ranks, micro_batches;
};
const Size kSizes[] = {{1, 3}, {2, 4}, {4, 8}, {4, 2}, {3, 1}};

tenfold::PipelineSchedule schedule_of(const Size& size) {
  tenfold::PipelineSchedule schedule{size.ranks, size.micro_batches};
  for (int rank = 0; rank < size.ranks; ++rank)
    schedule.of_rank.push_back(order_of_rank(rank, size.ranks, size.micro_batches));
  return schedule;
}

std::string text_of(const Size& size) {
  return std::to_string(size.ranks) + " ranks, " + std::to_string(size.micro_batches) + " micro-batches: ";
}

TEST(Exercise55, EveryPassIsThereOnceAndNobodyWaitsForEver) {
  for (const Size& size : kSizes) {
    EXPECT_EQ(tenfold::check_schedule(schedule_of(size)).fault, "")
        << "hint: " << text_of(size)
        << "the check of pipeline_check.h says what is missing, there twice, or waits for ever";
  }
}

TEST(Exercise55, MicroBatchesComeInRisingOrder) {
  for (const Size& size : kSizes) {
    for (const auto& order : schedule_of(size).of_rank) {
      for (const PipelinePass pass : {PipelinePass::forward, PipelinePass::backward}) {
        std::vector<int> micro_batches;
        for (const PipelineAction& action : order)
          if (action.pass == pass) micro_batches.push_back(action.micro_batch);
        EXPECT_TRUE(std::ranges::is_sorted(micro_batches))
            << "hint: " << text_of(size) << "the micro-batch that came first forward goes first backward, too";
      }
    }
  }
}

TEST(Exercise55, NoRankHoldsMoreThanItMust) {
  for (const Size& size : kSizes) {
    for (int rank = 0; rank < size.ranks; ++rank) {
      int held = 0, most = 0;
      for (const PipelineAction& action : order_of_rank(rank, size.ranks, size.micro_batches)) {
        held += action.pass == PipelinePass::forward ? 1 : -1;
        most = std::max(most, held);
      }
      EXPECT_LE(most, std::min(size.micro_batches, size.ranks - rank))
          << "hint: " << text_of(size) << "rank " << rank
          << " holds too many: run a backward as soon as its gradient can be there, and the last rank after each "
             "forward";
    }
  }
}

TEST(Exercise55, NoRankWaitsLongerThanGPipes) {
  for (const Size& size : kSizes) {
    const auto schedule = schedule_of(size);
    if (!tenfold::check_schedule(schedule).fault.empty()) continue;  // another check says so
    const double idle = tenfold::timeline_of(schedule, tenfold::equal_stages(schedule, 1, 2)).idle_share();
    EXPECT_LE(idle, tenfold::idle_share_of(size.ranks, size.micro_batches) + 1e-9)
        << "hint: " << text_of(size)
        << "the pipeline is not full; rank r runs one forward for each rank behind it before its first pair";
  }
}

}  // namespace
