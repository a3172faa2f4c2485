// Kernel times: who is launched when, and what a wrong result does. The times here are a CPU's.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "common/measure/kernel_time.h"
#include "common/result/statistics.h"

namespace {

using tenfold::Contender;

constexpr uint64_t kSeed = 7;

/// Contenders that write their letter into one list, in the order of their launches.
struct Letters {
  Contender contender(char letter) {
    const std::string name(1, letter);
    return {name, [this, letter] { launched += letter; }, [this, name] { return wrong == name ? wrong_result : ""; }};
  }
  std::string launched;
  std::string wrong = "";
  std::string wrong_result = "is wrong";
};

std::string sorted(std::string text) {
  std::sort(text.begin(), text.end());
  return text;
}

TEST(SecondsInTurn, EveryRoundHasEveryContenderOnce) {
  Letters letters;
  const auto seconds = tenfold::seconds_in_turn(
      torch::kCPU, {letters.contender('a'), letters.contender('b'), letters.contender('c')}, kSeed, 20);
  ASSERT_EQ(seconds.size(), 3U);
  for (const auto& samples : seconds) EXPECT_EQ(samples.size(), 20U);
  ASSERT_EQ(letters.launched.size(), 60U);
  std::set<std::string> orders;
  for (size_t round = 0; round < 20; ++round) {
    const std::string order = letters.launched.substr(3 * round, 3);
    EXPECT_EQ(sorted(order), "abc");
    orders.insert(order);
  }
  EXPECT_GE(orders.size(), 4U) << "the orders of 20 rounds are drawn from six";
}

TEST(SecondsInTurn, TheSeedDrawsTheOrders) {
  const auto orders = [](uint64_t seed) {
    Letters letters;
    tenfold::seconds_in_turn(torch::kCPU, {letters.contender('a'), letters.contender('b')}, seed, 30);
    return letters.launched;
  };
  EXPECT_EQ(orders(1), orders(1));
  EXPECT_NE(orders(1), orders(2));
}

TEST(SecondsInTurn, ASampleIsTheTimeOfOneLaunch) {
  const auto sleeper = [](int milliseconds) {
    return Contender{"sleeper", [=] { std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds)); },
                     [] { return ""; }};
  };
  const auto seconds = tenfold::seconds_in_turn(torch::kCPU, {sleeper(1), sleeper(8)}, kSeed, 5);
  EXPECT_GE(*std::min_element(seconds[0].begin(), seconds[0].end()), 0.001);
  EXPECT_GE(*std::min_element(seconds[1].begin(), seconds[1].end()), 0.008);
  EXPECT_LT(*std::min_element(seconds[0].begin(), seconds[0].end()), 0.008)
      << "each contender has its own samples; of five sleeps of 1 ms one ends within 8";
}

TEST(LaunchTimer, HotIsTheMeanOfManyLaunches) {
  const tenfold::LaunchTimer timer(torch::kCPU);
  int launches = 0;
  const auto launch = [&] {
    ++launches;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  };
  EXPECT_GE(timer.hot(launch, 3), 0.001);
  EXPECT_EQ(launches, 3);
  EXPECT_GE(timer.cold(launch), 0.001);
  EXPECT_EQ(launches, 4);
}

TEST(SecondsInTurn, AWrongResultIsNamedAndNothingIsTimed) {
  Letters letters;
  letters.wrong = "b";
  try {
    tenfold::seconds_in_turn(torch::kCPU, {letters.contender('a'), letters.contender('b')}, kSeed);
    FAIL() << "it was taken";
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "b: is wrong");
  }
  EXPECT_EQ(letters.launched, "");
}

TEST(SecondsInTurn, AResultThatTurnsWrongWhileItIsTimedIsNamed) {
  Letters letters;
  Contender spoils = letters.contender('a');
  spoils.launch = [&] { letters.wrong = "b"; };
  EXPECT_THROW(tenfold::seconds_in_turn(torch::kCPU, {spoils, letters.contender('b')}, kSeed), std::runtime_error);
}

TEST(SecondsInTurn, WithoutSamplesTheContendersAreChecked) {
  Letters letters;
  const auto check = [&] {
    return tenfold::seconds_in_turn(torch::kCPU, {letters.contender('a')}, kSeed, /*samples=*/0);
  };
  EXPECT_TRUE(check().at(0).empty());
  EXPECT_EQ(letters.launched, "");
  letters.wrong = "a";
  EXPECT_THROW(check(), std::runtime_error);
}

}  // namespace
