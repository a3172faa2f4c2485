// Ranks of NCCL's stand-in, as threads of this process: what arrives, and what is said of what will not.
#include "common/dry_gpu/nccl/peers.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <future>
#include <numeric>

namespace tenfold::dry {
namespace {

std::string fresh_name() {
  static std::atomic<int> count = 0;
  return "test-" + std::to_string(getpid()) + "-" + std::to_string(++count);
}

GpuId gpu(int number) { return {static_cast<char>(number + 1)}; }

std::unique_ptr<Peers> peers_of(const std::string& name, int rank, int size, const Peers::Heard& heard = {}) {
  return std::make_unique<Peers>(name, rank, size, gpu(rank), heard ? heard : [](int, const Header&) {});
}

const auto kNobodyWaits = [] {};

TEST(DryPeers, TheOrderInWhichRanksComeDoesNotMatter) {
  const std::string name = fresh_name();
  std::vector<std::unique_ptr<Peers>> ranks;
  for (const int rank : {2, 0, 3, 1}) ranks.push_back(peers_of(name, rank, 4));
  for (const auto& rank : ranks) rank->wait_for_all();
}

TEST(DryPeers, WhatIsSentArrivesWhetherOrNotSomebodyWaits) {
  const std::string name = fresh_name();
  const auto first = peers_of(name, 0, 2), second = peers_of(name, 1, 2);
  // More than a socket holds, from both sides at once, before either takes anything: nobody may wait for himself.
  std::vector<int> numbers(4 << 20);
  std::iota(numbers.begin(), numbers.end(), 0);
  const Header header{.channel = Channel::collective, .number = 1, .bytes = numbers.size() * sizeof(int)};
  first->send(1, header, numbers.data());
  second->send(0, header, numbers.data());
  for (Peers* const rank : {first.get(), second.get()}) {
    const Message message = rank->take(rank == first.get() ? 1 : 0, Channel::collective, 1, kNobodyWaits);
    ASSERT_EQ(message.bytes.size(), numbers.size() * sizeof(int));
    EXPECT_EQ(reinterpret_cast<const int*>(message.bytes.data())[numbers.size() - 1], numbers.back());
  }
}

TEST(DryPeers, ANumberIsTakenInItsOwnChannelWhateverCameBefore) {
  const std::string name = fresh_name();
  const auto first = peers_of(name, 0, 2), second = peers_of(name, 1, 2);
  const auto send = [&](Channel channel, uint64_t number, char letter) {
    first->send(1, {.channel = channel, .number = number, .bytes = 1}, &letter);
  };
  send(Channel::collective, 2, 'b');
  send(Channel::message, 1, 'm');
  send(Channel::collective, 1, 'a');
  const auto taken = [&](Channel channel, uint64_t number) {
    return second->take(0, channel, number, kNobodyWaits).bytes.at(0);
  };
  EXPECT_EQ(taken(Channel::collective, 1), 'a');
  EXPECT_EQ(taken(Channel::message, 1), 'm');
  EXPECT_EQ(taken(Channel::collective, 2), 'b');
}

TEST(DryPeers, HeadersWithoutBytesAreHeard) {
  const std::string name = fresh_name();
  std::promise<Header> heard;
  const auto first = peers_of(name, 0, 2);
  const auto second = peers_of(name, 1, 2, [&](int rank, const Header& header) {
    EXPECT_EQ(rank, 0);
    heard.set_value(header);
  });
  first->send(1, {.channel = Channel::collective, .call = 3, .number = 9, .count = 12}, nullptr);
  const Header header = heard.get_future().get();
  EXPECT_EQ(header.call, 3);
  EXPECT_EQ(header.number, 9U);
  EXPECT_EQ(header.count, 12U);
}

TEST(DryPeers, WhoHasGoneSendsNoMoreButWhatHeSentIsThere) {
  const std::string name = fresh_name();
  auto first = peers_of(name, 0, 2);
  const auto second = peers_of(name, 1, 2);
  first->wait_for_all();
  const char letter = 'x';
  first->send(1, {.channel = Channel::collective, .number = 1, .bytes = 1}, &letter);
  first.reset();
  EXPECT_EQ(second->take(0, Channel::collective, 1, kNobodyWaits).bytes.at(0), 'x');
  try {
    second->take(0, Channel::collective, 2, kNobodyWaits);
    FAIL() << "nothing will come";
  } catch (const Lost& lost) {
    EXPECT_STREQ(lost.what(), "rank 0 has ended");
  }
  second->send(0, {.channel = Channel::collective, .number = 2, .bytes = 1},
               &letter);  // to nobody: no signal, no error
}

TEST(DryPeers, ARankMaySendToItself) {
  const std::string name = fresh_name();
  int heard = 0;
  const auto first = peers_of(name, 0, 2, [&](int rank, const Header&) { heard += rank == 0 ? 1 : 100; });
  const char letter = 'x';
  first->send(0, {.channel = Channel::message, .number = 1, .bytes = 1}, &letter);
  EXPECT_EQ(first->take(0, Channel::message, 1, kNobodyWaits).bytes.at(0), 'x');
  EXPECT_EQ(heard, 1);
}

// A send that fails must not keep what the other said before from being read: here the goodbye, which names the reason.
TEST(DryPeers, AFailedSendLeavesTheGoodbyeToBeRead) {
  const std::string name = fresh_name();
  std::promise<void> reads_on;
  std::promise<uint64_t> left_after;
  auto first = peers_of(name, 0, 2);
  const auto second = peers_of(name, 1, 2, [&](int, const Header& header) {
    if (header.channel == Channel::bye) return left_after.set_value(header.number);
    reads_on.get_future().wait();
  });
  first->wait_for_all();
  second->wait_for_all();
  first->send(1, {.channel = Channel::collective, .number = 1}, nullptr);
  first->send(1, {.channel = Channel::bye, .number = 1}, nullptr);
  first.reset();
  second->send(0, {.channel = Channel::collective, .number = 2}, nullptr);
  reads_on.set_value();
  auto heard = left_after.get_future();
  ASSERT_EQ(heard.wait_for(std::chrono::seconds(30)), std::future_status::ready);
  EXPECT_EQ(heard.get(), 1U);
}

TEST(DryPeers, WhoGivesUpWakesWhoWaits) {
  const std::string name = fresh_name();
  const auto first = peers_of(name, 0, 2), second = peers_of(name, 1, 2);
  auto waits = std::async(std::launch::async, [&] { first->take(1, Channel::collective, 1, kNobodyWaits); });
  first->give_up("no more");
  EXPECT_THROW(waits.get(), Lost);
}

TEST(DryPeers, TwoRanksOnOneGpuAreNamed) {
  const std::string name = fresh_name();
  const auto ignore = [](int, const Header&) {};
  Peers first(name, 0, 2, gpu(5), ignore), second(name, 1, 2, gpu(5), ignore);
  try {
    first.wait_for_all();
    FAIL() << "NCCL refuses it";
  } catch (const Lost& lost) {
    EXPECT_STREQ(lost.what(), "ranks 0 and 1 have the same GPU; give each its own before it starts NCCL");
  }
}

TEST(DryPeers, ARankThatIsThereIsRefused) {
  const std::string name = fresh_name();
  const auto first = peers_of(name, 0, 2);
  EXPECT_THROW(peers_of(name, 0, 2), std::runtime_error);
}

}  // namespace
}  // namespace tenfold::dry
