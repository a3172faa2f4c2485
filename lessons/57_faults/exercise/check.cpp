#include <gtest/gtest.h>

#include EXERCISE

#include "common/ranks/rank_threads.h"

#include <chrono>
#include <exception>
#include <string>
#include <vector>

namespace {

using Steps = std::vector<std::vector<int64_t>>;  // of each rank

/// What each rank answers. One that waits for ever is cut off by the group.
std::vector<int64_t> answers(const Steps& good) {
  std::vector<int64_t> result(good.size(), -2);
  std::vector<std::string> failed(good.size());
  tenfold::on_rank_threads(static_cast<int>(good.size()), std::chrono::seconds(4), [&](int rank, const auto& group) {
    const auto at = static_cast<size_t>(rank);
    try {
      result[at] = newest_of_all(good[at], *group);
      tenfold::thread_barrier(*group);
    } catch (const std::exception& error) {
      failed[at] = error.what();
    }
  });
  for (const auto& failure : failed)
    EXPECT_EQ(failure.substr(0, failure.find('\n')), "")
        << "hint: a rank made more all-reduces than another: decide only by what came out of an all-reduce";
  return result;
}

void expect_answer(const Steps& good, int64_t expected, const std::string& hint) {
  for (const int64_t answer : answers(good)) EXPECT_EQ(answer, expected) << "hint: " << hint;
}

TEST(Exercise57, RanksThatHaveTheSameTakeTheNewest) {
  expect_answer({{5, 10}, {5, 10}, {5, 10}}, 10, "where all ranks have the same files, the newest is right");
}

TEST(Exercise57, AFileThatOneRankLacksIsNotTaken) {
  expect_answer({{5, 10}, {5}, {5, 10}}, 5, "rank 1 has no step 10: ask for the least of the ranks' newest");
}

TEST(Exercise57, TheLeastOfTheNewestNeedNotBeEverywhere) {
  expect_answer(
      {{5, 10}, {5, 15}, {5, 15}}, 5,
      "rank 1 has 5 and 15, not the 10 of rank 0: look again for the newest that is not newer than the least");
}

TEST(Exercise57, AskedUntilNothingChanges) {
  expect_answer({{1, 4, 8}, {1, 3, 8}, {1, 3, 7}}, 1, "7, then 3, then 1: go on until every rank has the least");
}

TEST(Exercise57, NothingInCommon) {
  expect_answer({{5}, {10}, {5, 10}}, -1, "-1 where no step is everywhere: training begins anew");
  expect_answer({{5, 10}, {}, {10}}, -1, "a rank without any file has -1, and must still take part");
  expect_answer({{}, {}, {}}, -1, "no files at all are no reason to wait");
}

}  // namespace
