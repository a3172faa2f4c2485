#include <gtest/gtest.h>

#include EXERCISE

#include <algorithm>
#include <string>

namespace {

using Samples = std::vector<int64_t>;

constexpr StreamSettings kSettings{.size = 103, .shards = 6, .buffer = 8, .seed = 13};

/// What the stream hands out until its end; no more than `most`, so that one that never ends fails.
Samples rest_of(ShuffledStream& stream, int64_t most = 10 * kSettings.size) {
  Samples samples;
  while (static_cast<int64_t>(samples.size()) < most) {
    const auto sample = stream.next();
    if (!sample) break;
    samples.push_back(*sample);
  }
  return samples;
}

/// What is left of the epoch for `ranks` ranks that go on after `from`.
Samples rest_of_all(const StreamSettings& settings, int ranks, const StreamState& from) {
  Samples samples;
  for (int rank = 0; rank < ranks; ++rank) {
    ShuffledStream stream(settings, rank, ranks, from);
    std::ranges::copy(rest_of(stream), std::back_inserter(samples));
  }
  return samples;
}

Samples all_samples(int64_t size) {
  Samples samples;
  for (int64_t i = 0; i < size; ++i) samples.push_back(i);
  return samples;
}

TEST(Exercise13, AnEpochHasEverySampleOnce) {
  for (const int ranks : {1, 2, 3, 6}) {
    Samples samples = rest_of_all(kSettings, ranks, {});
    EXPECT_NE(samples, all_samples(kSettings.size)) << "hint: nothing was shuffled";
    std::ranges::sort(samples);
    EXPECT_EQ(samples, all_samples(kSettings.size))
        << ranks << " ranks\nhint: a shard has one reader; which samples are lost, which come twice?";
  }
}

TEST(Exercise13, EpochsDifferAndRepeat) {
  ShuffledStream first(kSettings, 0, 1, {.epoch = 0}), second(kSettings, 0, 1, {.epoch = 1});
  ShuffledStream again(kSettings, 0, 1, {.epoch = 1});
  const Samples of_second = rest_of(second);
  EXPECT_NE(rest_of(first), of_second) << "hint: every epoch has an order of its own";
  EXPECT_EQ(rest_of(again), of_second) << "hint: the same seed and epoch give the same order";
}

TEST(Exercise13, ResumesExactly) {
  for (const int ranks : {1, 2}) {
    ShuffledStream whole(kSettings, 0, ranks, {.epoch = 3});
    const Samples expected = rest_of(whole);
    for (size_t stop = 0; stop <= expected.size(); ++stop) {
      ShuffledStream stream(kSettings, 0, ranks, {.epoch = 3});
      for (size_t i = 0; i < stop; ++i) stream.next();
      const StreamState saved = stream.state();
      ASSERT_EQ(saved.epoch, 3) << "hint: the state says which epoch it is of";
      ASSERT_EQ(saved.handed_out.size(), static_cast<size_t>(kSettings.shards))
          << "hint: state() counts what was handed out of each shard";
      ShuffledStream resumed(kSettings, 0, ranks, saved);
      ASSERT_EQ(rest_of(resumed), Samples(expected.begin() + static_cast<int64_t>(stop), expected.end()))
          << "after " << stop << " samples, rank 0 of " << ranks
          << "\nhint: which samples wait in each buffer, which random number comes next, and whose turn is it?";
    }
  }
}

TEST(Exercise13, ResumesTwice) {
  ShuffledStream whole(kSettings, 0, 1);
  const Samples expected = rest_of(whole);
  StreamState state;
  Samples samples;
  for (int part = 0; part < 30; ++part) {
    ShuffledStream stream(kSettings, 0, 1, state);
    for (const int64_t sample : rest_of(stream, 5)) samples.push_back(sample);
    state = stream.state();
  }
  EXPECT_EQ(samples, expected) << "hint: the state of a stream that was resumed counts from the epoch's beginning, too";
}

TEST(Exercise13, OtherRanksGoOn) {
  Samples before;
  std::vector<StreamState> saved;
  for (int rank = 0; rank < 2; ++rank) {
    ShuffledStream stream(kSettings, rank, 2);
    for (const int64_t sample : rest_of(stream, rank == 0 ? 20 : 17)) before.push_back(sample);
    saved.push_back(stream.state());
  }
  for (const int ranks : {1, 2, 3, 4}) {
    Samples samples = rest_of_all(kSettings, ranks, merged(saved));
    samples.insert(samples.end(), before.begin(), before.end());
    std::ranges::sort(samples);
    EXPECT_EQ(samples, all_samples(kSettings.size))
        << "saved by 2 ranks, resumed by " << ranks
        << "\nhint: each rank knows its own shards only; and a shard's order must not depend on who reads it";
  }
}

TEST(Exercise13, OneRankMeetsTheSameSamplesOfAShard) {
  // Shard 5 of 6 is the last of one rank, and the only one of rank 5 of 6.
  ShuffledStream one(kSettings, 0, 1), six(kSettings, 5, 6);
  Samples of_shard;
  for (const int64_t sample : rest_of(one)) {
    if (sample % kSettings.shards == 5) of_shard.push_back(sample);
  }
  EXPECT_EQ(of_shard, rest_of(six)) << "hint: one generator for all shards ties each shard's order to its neighbours";
}

TEST(Exercise13, FewSamplesAndManyShards) {
  for (const int64_t size : {0, 1, 5, 7}) {
    Samples samples = rest_of_all({.size = size, .shards = 6, .buffer = 100, .seed = 1}, 4, {});
    std::ranges::sort(samples);
    EXPECT_EQ(samples, all_samples(size)) << "hint: a shard may be empty";
  }
}

}  // namespace
