// The search for levers, on a card that a formula stands in for.
#include "fit/search.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/base/flags.h"

namespace tenfold::fit {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

/// 100 of states and 10 of activations for each sequence at a time, less what levers save.
int64_t needed(const Way& way) {
  const auto uses = [&way](Lever lever) { return way.levers.contains(lever); };
  const int64_t states = uses(Lever::eight_bit_adamw) ? 60 : 100;
  const int64_t sequence = (uses(Lever::autocast) ? 8 : 10) - (uses(Lever::checkpointing) ? 5 : 0);
  return states + sequence * way.at_once;
}

Count card_of(int64_t bytes) {
  return [bytes](const Way& way, bool limited) {
    Counted counted;
    counted.fits = !limited || needed(way) <= bytes;
    if (!counted.fits) counted.stopped_in = "the backward pass";
    counted.requested_bytes = counted.fits ? needed(way) : bytes;
    return counted;
  };
}

std::vector<std::string> smallest_of(const Found& found) {
  return found.smallest ? keys_of(found.smallest->way.levers) : std::vector<std::string>{"nothing"};
}

TEST(FitSearch, NothingIsNeededWhereAllFits) {
  const Found found = find(levers_of(9), 4, card_of(1000));
  EXPECT_EQ(found.ladder.size(), 7u);
  EXPECT_THAT(smallest_of(found), IsEmpty());
  EXPECT_EQ(found.at_once, 90) << "100 + 10 a sequence";
  EXPECT_FALSE(found.more_may_fit);
}

TEST(FitSearch, LeversThatAreNotNeededAreLeftOutAgain) {
  // Autocast stays, though micro-batches would do it alone: a step is slower without it.
  const Found one = find(levers_of(9), 8, card_of(115));
  EXPECT_THAT(smallest_of(one), ElementsAre("autocast", "micro-batches"));
  EXPECT_EQ(one.smallest->way.at_once, 1);
  EXPECT_EQ(one.at_once, 1);
  // 60 of states and 16 of activations: nothing is needed besides 8 bits.
  const Found states = find(levers_of(9), 2, card_of(80));
  EXPECT_THAT(smallest_of(states), ElementsAre("autocast", "8-bit-adamw"));
  EXPECT_EQ(states.smallest->way.at_once, 2) << "micro-batches are left out, too";
}

TEST(FitSearch, WhatDoesNotFitSaysWhatItNeeds) {
  const Found found = find(levers_of(9), 2, card_of(50));
  EXPECT_EQ(smallest_of(found), std::vector<std::string>{"nothing"});
  EXPECT_FALSE(found.at_once.has_value());
  EXPECT_EQ(found.ladder.front().counted.requested_bytes, 120);
  EXPECT_FALSE(found.ladder.front().counted.fits);
  EXPECT_EQ(found.ladder.front().counted.stopped_in, "the backward pass");
}

TEST(FitSearch, OneSequenceHasNoMicroBatches) {
  const Found found = find(levers_of(9), 1, card_of(1000));
  for (const Row& row : found.ladder) EXPECT_FALSE(row.way.levers.contains(Lever::micro_batches));
}

TEST(FitSearch, ItEndsSomewhere) {
  const Found found = find(levers_of(9), 1, card_of(int64_t{1} << 40));
  EXPECT_EQ(found.at_once, kMostAtOnce);
  EXPECT_TRUE(found.more_may_fit);
}

TEST(FitSearch, ChosenLeversAreTheOnlyRow) {
  const Found found = find_with(levers_named("autocast,8-bit-adamw"), 2, card_of(80));
  ASSERT_EQ(found.ladder.size(), 1u);
  EXPECT_THAT(smallest_of(found), ElementsAre("autocast", "8-bit-adamw"));
  EXPECT_EQ(found.at_once, 2) << "60 + 8 a sequence";
  EXPECT_FALSE(find_with({}, 2, card_of(80)).at_once.has_value());
  const Found fewer = find_with({}, 64, card_of(155));
  EXPECT_FALSE(fewer.smallest.has_value());
  EXPECT_EQ(fewer.at_once, 5) << "of the 64";
}

TEST(FitLevers, AreNamedInOrder) {
  EXPECT_THAT(keys_of(levers_named("8-bit-adamw,autocast")), ElementsAre("autocast", "8-bit-adamw"));
  EXPECT_THAT(levers_named("none"), IsEmpty());
  for (const char* const bad : {"", "autocast,", "checkpoint", "none,autocast"}) {
    EXPECT_THROW(levers_named(bad), UsageError) << bad;
  }
}

TEST(FitLevers, ACardWithoutBfloat16HasFewer) { EXPECT_EQ(levers_of(7).size() + 1, levers_of(8).size()); }

}  // namespace
}  // namespace tenfold::fit
