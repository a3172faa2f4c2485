#include "common/measure/rank_counts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/support.h"

namespace {

using tenfold::AliveOnRanks;
using tenfold::Requests;
using tenfold::sent_bytes_of;
using torch::Tensor;

using Asked = std::map<std::string, Requests>;
constexpr int64_t kMiB = 1 << 20;

TEST(SentBytes, OfAnAllReduceAreTwiceThoseOfItsHalves) {
  EXPECT_EQ(sent_bytes_of({{"all_reduce", {1, 1200}}}, 3), 1600);
  EXPECT_EQ(sent_bytes_of({{"all_gather", {1, 1200}}}, 3), 800);
  EXPECT_EQ(sent_bytes_of({{"reduce_scatter", {1, 1200}}}, 3), 800);
  EXPECT_EQ(sent_bytes_of({{"all_to_all", {1, 1200}}}, 3), 800);
  EXPECT_EQ(sent_bytes_of({{"send", {1, 1200}}}, 3), 1200);
  EXPECT_EQ(sent_bytes_of({{"all_gather", {2, 300}}, {"barrier", {1, 0}}, {"send", {1, 7}}}, 3), 207);
  EXPECT_EQ(sent_bytes_of({{"all_reduce", {1, 1200}}}, 1), 0) << "one rank has all";
}

/// What ranks send around a ring where the tensor is cut between elements: in each half of an all-reduce every rank
/// hands on all chunks but one.
std::vector<int64_t> sent_by_ranks(int64_t elements, int ranks) {
  std::vector<int64_t> chunks(static_cast<size_t>(ranks)), sent(static_cast<size_t>(ranks));
  const int64_t rounded_up = (elements + ranks - 1) / ranks;
  for (int i = 0; i < ranks; ++i)
    chunks[static_cast<size_t>(i)] = std::clamp<int64_t>(elements - i * rounded_up, 0, rounded_up);
  for (int rank = 0; rank < ranks; ++rank) {
    for (int step = 0; step + 1 < ranks; ++step) {
      sent[static_cast<size_t>(rank)] += 4 * chunks[static_cast<size_t>((rank + step) % ranks)];      // to sum
      sent[static_cast<size_t>(rank)] += 4 * chunks[static_cast<size_t>((rank + 1 + step) % ranks)];  // to share
    }
  }
  return sent;
}

TEST(SentBytes, AreTheMeanOfTheRanksWhereTheyDoNotDivideThePayload) {
  for (const int ranks : {2, 3, 4, 8}) {
    for (const int64_t elements : {1, 5, 7, 24, 1001}) {
      int64_t all = 0;
      for (const int64_t bytes : sent_by_ranks(elements, ranks)) all += bytes;
      EXPECT_EQ(sent_bytes_of({{"all_reduce", {1, 4 * elements}}}, ranks), all / ranks) << elements << " on " << ranks;
    }
  }
  // Two collectives whose parts are no whole bytes: 7 / 2 each.
  EXPECT_EQ(sent_bytes_of({{"all_gather", {1, 7}}, {"all_to_all", {1, 7}}}, 2), 7);
}

TEST(SentBytes, NobodyGuessesWhoSendsABroadcast) {
  EXPECT_EQ(tenfold::test::message_of<std::invalid_argument>([] { sent_bytes_of({{"broadcast", {1, 4}}}, 2); }),
            "what a rank sends of broadcast is not known");
}

TEST(CountedRanks, EachCountsWhatItAsksFor) {
  std::vector<Asked> asked(3);
  tenfold::on_counted_ranks(3, [&](int rank, const auto& group, tenfold::RequestCounter& counter) {
    std::vector<Tensor> sum{torch::ones({5})};
    group->allreduce(sum)->wait();
    if (rank == 2) counter.take();  // forgets its own
    EXPECT_EQ(sum[0][0].item<float>(), 3);
    asked[static_cast<size_t>(rank)] = counter.take();
  });
  EXPECT_EQ(asked[0]["all_reduce"].bytes, 20);
  EXPECT_EQ(asked[1]["all_reduce"].calls, 1);
  EXPECT_TRUE(asked[2].empty());
}

TEST(CountedRanks, AreCalledByTheirNumber) {
  EXPECT_EQ(tenfold::ranks_text(1), "1 rank");
  EXPECT_EQ(tenfold::ranks_text(8), "8 ranks");
}

TEST(AliveOnRanks, AreReadWhenAllRanksHaveCome) {
  const tenfold::CountCpuMemory counting;
  constexpr int kRanks = 3;
  AliveOnRanks alive(kRanks);
  std::vector<int64_t> held(kRanks), after(kRanks);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < kRanks; ++rank) {
    threads.emplace_back([&, rank] {
      const int64_t before = alive.bytes(rank);
      std::this_thread::sleep_for(std::chrono::milliseconds(20 * rank));  // rank 0 comes first, and reads last
      {
        const Tensor own = torch::empty({(rank + 1) * kMiB / 4});
        held[static_cast<size_t>(rank)] = alive.bytes(rank) - before;
      }
      after[static_cast<size_t>(rank)] = alive.bytes(rank) - before;
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (int rank = 0; rank < kRanks; ++rank) {
    EXPECT_NEAR(held[static_cast<size_t>(rank)], 6 * kMiB, 1 << 14) << rank;
    EXPECT_NEAR(after[static_cast<size_t>(rank)], 0, 1 << 14) << rank;
  }
}

// The other thread frees after 10 of the 40 ms that are waited for. On a busy machine it may not get a core until they
// are over: then the attempt says nothing. Who does not wait reads too much each time.
TEST(AliveOnRanks, WhatIsFreedAMomentLaterIsNotCounted) {
  const tenfold::CountCpuMemory counting;
  const int64_t before = tenfold::live_bytes(torch::kCPU);
  const Tensor kept = torch::empty({kMiB / 4});
  constexpr int64_t kOther = 1 << 14;
  int64_t alive = 2 * kMiB;
  for (int attempt = 0; attempt < 50 && alive > kMiB + kOther; ++attempt) {
    Tensor late = torch::empty({kMiB / 4});
    std::thread frees([&late] {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
      late.reset();
    });
    alive = tenfold::settled_live_bytes() - before;
    frees.join();
  }
  EXPECT_NEAR(alive, kMiB, kOther);
}

TEST(AliveOnRanks, NobodyWaitsForEverForARankThatIsLost) {
  AliveOnRanks alive(2, std::chrono::milliseconds(30));
  EXPECT_THROW(alive.bytes(0), std::runtime_error);
  AliveOnRanks other(2, std::chrono::milliseconds(30));
  EXPECT_THROW(other.bytes(1), std::runtime_error);
}

}  // namespace
