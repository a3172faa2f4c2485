#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "record_stream.h"
#include "stream_loader.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "tests/support/loader_samples.h"
#include "tests/support/support.h"

namespace {

using namespace tenfold;
using namespace tenfold::test;

TEST(StreamLoader, BringsEverySampleExactlyOncePerEpoch) {
  for (const int workers : {0, 1, 3}) {
    for (const int64_t ranks : {1, 2, 3}) {
      for (const int64_t shards : {1, 2, 8}) {
        for (const int64_t batch : {1, 5, 64}) {
          for (const bool ordered : {true, false}) {
            SCOPED_TRACE(testing::Message() << workers << " workers, " << ranks << " ranks, " << shards
                                            << " shards, batch " << batch << (ordered ? "" : ", unordered"));
            std::vector<std::unique_ptr<StreamLoader>> loaders;
            for (int64_t rank = 0; rank < ranks; ++rank) {
              loaders.push_back(
                  std::make_unique<StreamLoader>(stream_of(numbers(53), 4, 1), StreamOptions{.batch = batch,
                                                                                             .workers = workers,
                                                                                             .prefetch = 3,
                                                                                             .shards = shards,
                                                                                             .ordered = ordered,
                                                                                             .rank = {rank, ranks}}));
            }
            for (int64_t epoch = 0; epoch < 2; ++epoch) {
              std::vector<Copy> all;
              for (auto& loader : loaders) {
                for (Copy& one : epoch_of(*loader)) {
                  EXPECT_EQ(one.epoch, epoch);
                  EXPECT_FALSE(one.samples.empty());
                  all.push_back(std::move(one));
                }
              }
              EXPECT_EQ(sorted(samples_of(all)), counting_up(53));
            }
          }
        }
      }
    }
  }
}

TEST(StreamLoader, MakesTheSameBatchesWithAnyNumberOfWorkers) {
  const auto two_epochs = [](int workers, int prefetch, int64_t shards) {
    StreamLoader loader(stream_of(numbers(101), 7, 5),
                        {.batch = 4, .workers = workers, .prefetch = prefetch, .shards = shards, .seed = 5});
    auto batches = epoch_of(loader);
    for (Copy& batch : epoch_of(loader)) batches.push_back(std::move(batch));
    return batches;
  };
  const auto expected = two_epochs(0, 1, 6);
  EXPECT_EQ(two_epochs(1, 1, 6), expected);
  EXPECT_EQ(two_epochs(2, 3, 6), expected);
  EXPECT_EQ(two_epochs(9, 4, 6), expected);
  EXPECT_NE(two_epochs(2, 3, 5), expected) << "shards decide what meets in a batch";
  for (size_t i = 0; i < expected.size() / 2; ++i) EXPECT_EQ(expected[i].index, static_cast<int64_t>(i));
}

TEST(StreamLoader, DropsTheTailOfEachLane) {
  StreamLoader loader(stream_of(numbers(53), 1, 0), {.batch = 4, .workers = 2, .shards = 5, .tail = Tail::drop});
  const auto batches = epoch_of(loader);  // three shards of 11 samples and two of 10
  EXPECT_EQ(batches.size(), 10u);
  for (const Copy& batch : batches) EXPECT_EQ(batch.samples.size(), 4u);
}

TEST(StreamLoader, EndsWithMoreLanesThanSamples) {
  StreamLoader loader(stream_of(numbers(3), 8, 0), {.batch = 2, .workers = 3, .shards = 16});
  EXPECT_EQ(sorted(samples_of(epoch_of(loader))), counting_up(3));
  EXPECT_EQ(sorted(samples_of(epoch_of(loader))), counting_up(3));
  StreamLoader nothing(stream_of(numbers(0), 8, 0), {.batch = 2, .workers = 2});
  EXPECT_EQ(nothing.next(), nullptr);
  EXPECT_EQ(nothing.next(), nullptr);
}

TEST(StreamLoader, GoesOnInMidEpochWithOtherWorkers) {
  for (const bool with_skip : {true, false}) {
    Stream stream = stream_of(numbers(90), 6, 2);
    if (!with_skip) {
      stream.open = [open = stream.open](const ShardIndex& shard, int64_t epoch) {
        StreamReader reader = open(shard, epoch);
        reader.skip = nullptr;
        return reader;
      };
    }
    const StreamOptions options{.batch = 4, .workers = 2, .shards = 5, .seed = 2};
    for (int handed_out = 0; handed_out < 25; handed_out += 3) {
      StreamLoader whole(stream, options);
      epoch_of(whole);
      for (int i = 0; i < handed_out; ++i) whole.next();
      const StreamState state = whole.state();
      EXPECT_EQ(state.epoch, 1);
      const auto rest = epoch_of(whole);
      for (const int workers : {0, 3}) {
        StreamOptions other = options;
        other.workers = workers;
        StreamLoader resumed(stream, other, state);
        EXPECT_EQ(epoch_of(resumed), rest);
      }
    }
  }
}

TEST(StreamLoader, RefusesAStateOfOtherBatches) {
  StreamLoader loader(stream_of(numbers(20), 1, 0), {.batch = 2, .workers = 0, .shards = 4});
  loader.next();
  const StreamState state = loader.state();
  for (const StreamOptions& options :
       {StreamOptions{.batch = 3, .shards = 4}, StreamOptions{.batch = 2, .shards = 5},
        StreamOptions{.batch = 2, .shards = 4, .seed = 9}, StreamOptions{.batch = 2, .shards = 4, .rank = {0, 2}}}) {
    EXPECT_THROW(StreamLoader(stream_of(numbers(20), 1, 0), options, state), std::invalid_argument);
  }
}

TEST(StreamLoader, RefusesAStateOfAnotherTailOrRankAndNoState) {
  const StreamOptions options{.batch = 4, .workers = 0, .shards = 3, .rank = {1, 2}};
  StreamLoader loader(stream_of(numbers(60), 1, 0), options);
  loader.next();
  const StreamState state = loader.state();
  const auto refusal = [&](auto change_options, auto change_state) {
    StreamOptions other = options;
    StreamState from = state;
    change_options(other), change_state(from);
    return message_of<std::invalid_argument>([&] { StreamLoader(stream_of(numbers(60), 1, 0), other, from); });
  };
  const auto as_it_is = [](auto&) {};
  EXPECT_THAT(refusal([](StreamOptions& o) { o.tail = Tail::drop; }, as_it_is),
              testing::HasSubstr("tail keep, this loader has drop"));
  EXPECT_THAT(refusal([](StreamOptions& o) { o.rank.index = 0; }, as_it_is),
              testing::HasSubstr("rank 1, this loader has 0"));
  EXPECT_THAT(refusal([](StreamOptions& o) { o.shards = 4; }, as_it_is),
              testing::HasSubstr("shard count 3, this loader has 4"));
  EXPECT_THAT(refusal(as_it_is, [](StreamState& s) { s.handed_out[1] = -1; }), testing::HasSubstr("out of range"));
  EXPECT_THAT(refusal(as_it_is, [](StreamState& s) { s.epoch = -2; }), testing::HasSubstr("out of range"));
  EXPECT_THAT(refusal(as_it_is, [](StreamState& s) { s.handed_out[0] = INT64_MAX; }),
              testing::HasSubstr("out of range"));
}

TEST(StreamLoader, AStateBeyondTheEndOfAShardIsAnErrorOfThatShard) {
  for (const bool with_skip : {true, false}) {
    for (const int workers : {0, 2}) {
      Stream stream = stream_of(numbers(33), 1, 0);  // three shards of 11 samples: three batches of 4, the last of 3
      stream.open = [open = stream.open, with_skip](const ShardIndex& shard, int64_t epoch) {
        StreamReader reader = open(shard, epoch);
        reader.where = nullptr;
        if (!with_skip) reader.skip = nullptr;
        return reader;
      };
      const StreamOptions options{.batch = 4, .workers = workers, .shards = 3};
      StreamLoader whole(stream, options);
      epoch_of(whole);
      for (int i = 0; i < 9; ++i) whole.next();
      StreamState end = whole.state();
      EXPECT_EQ(end.handed_out, std::vector<int64_t>(3, 3));
      StreamLoader at_the_end(stream, options, end);
      EXPECT_EQ(at_the_end.next(), nullptr) << "the end is a place";
      end.handed_out[1] = 4;
      StreamLoader beyond(stream, options, end);
      EXPECT_THAT([&] { epoch_of(beyond); },
                  testing::ThrowsMessage<LoadError>(
                      "shard 1 of the stream: the saved state has 4 batches of shard 1, which ends before"));
      EXPECT_EQ(beyond.next(), nullptr);
      EXPECT_EQ(samples_of(epoch_of(beyond)).size(), 33U) << "the next epoch has all";
    }
  }
}

TEST(StreamLoader, RefusesAStreamThatCannotBeRead) {
  const auto refusal = [](auto change) {
    Stream changed = stream_of(numbers(5), 1, 0);
    change(changed);
    return message_of<std::invalid_argument>([&] { StreamLoader(changed, {}); });
  };
  EXPECT_THAT(refusal([](Stream& s) { s.fields.clear(); }), testing::HasSubstr("there are no fields"));
  EXPECT_THAT(refusal([](Stream& s) { s.open = nullptr; }), testing::HasSubstr("no open()"));
  EXPECT_THAT(refusal([](Stream& s) { s.fields[0].shape = {-2}; }), testing::HasSubstr("field 0 has a dimension"));
  Stream unread = stream_of(numbers(5), 1, 0);
  unread.open = [](const ShardIndex&, int64_t) { return StreamReader{}; };
  StreamLoader loader(unread, {});
  EXPECT_THAT([&] { loader.next(); },
              testing::ThrowsMessage<LoadError>("shard 0 of the stream: open() gave a reader without read()"));
}

TEST(StreamLoader, APlaceThatThrowsHidesNoError) {
  for (const int workers : {0, 2}) {
    Stream stream = stream_of(numbers_but(2, 8), 1, 0);
    stream.open = [open = stream.open](const ShardIndex& shard, int64_t epoch) {
      StreamReader reader = open(shard, epoch);
      reader.where = []() -> std::string { throw std::out_of_range("nowhere"); };
      return reader;
    };
    StreamLoader loader(stream, {.batch = 4, .workers = workers, .shards = 1});
    EXPECT_THAT([&] { loader.next(); },
                testing::ThrowsMessage<LoadError>(testing::AllOf(
                    testing::StartsWith("shard 0 of the stream (whose name"), testing::HasSubstr("is no image"))));
    EXPECT_EQ(loader.next(), nullptr);
  }
}

TEST(StreamLoader, RefusesOptionsThatMakeNoSense) {
  for (const StreamOptions& options :
       {StreamOptions{.batch = 0}, StreamOptions{.workers = -1}, StreamOptions{.prefetch = 0},
        StreamOptions{.shards = 0}, StreamOptions{.shards = -3}, StreamOptions{.rank = {1, 1}}}) {
    EXPECT_THROW(StreamLoader(stream_of(numbers(20), 1, 0), options), std::invalid_argument);
  }
}

TEST(StreamLoader, NamesTheSampleAndEndsItsLane) {
  for (const int workers : {0, 2}) {
    StreamLoader loader(stream_of(numbers_but(13, 40), 1, 0), {.batch = 5, .workers = workers, .shards = 4});
    std::vector<int64_t> seen;
    int errors = 0;
    for (bool more = true; more;) {
      try {
        const Batch* batch = loader.next();
        more = batch != nullptr;
        if (more) {
          for (const int64_t sample : copy_of(*batch).samples) seen.push_back(sample);
        }
      } catch (const LoadError& error) {
        ++errors;
        EXPECT_STREQ(error.what(), "food/13.png: is no image");
        EXPECT_THROW(std::rethrow_if_nested(error), std::domain_error);
      }
    }
    EXPECT_EQ(errors, 1);
    EXPECT_EQ(seen.size(), 30u) << "three shards of ten; shard 1 ends in its first batch";
    EXPECT_THROW(epoch_of(loader), LoadError) << "the next epoch begins the shard anew";
  }
}

TEST(StreamLoader, SaysWhichPartCouldNotBeOpened) {
  Stream stream = stream_of(numbers(10), 1, 0);
  stream.open = [open = stream.open](const ShardIndex& shard, int64_t epoch) {
    if (shard.index == 2) throw std::runtime_error("connection refused");
    return open(shard, epoch);
  };
  StreamLoader loader(stream, {.batch = 5, .workers = 2, .shards = 4});
  EXPECT_THAT([&] { epoch_of(loader); },
              testing::ThrowsMessage<LoadError>("shard 2 of the stream: connection refused"));
}

TEST(StreamLoader, StopsAtAnyMomentAndLeavesNothingBehind) {
  expect_nothing_left_behind([](const Dataset& samples, int round) {
    return std::make_unique<StreamLoader>(
        stream_of(samples, 4, 0),
        StreamOptions{.batch = 3, .workers = 4, .prefetch = 1 + round % 4, .shards = 1 + round % 6});
  });
}

TEST(RecordOrder, PartsTogetherAreEverythingOnce) {
  for (const int64_t shards : {1, 3, 8}) {
    for (const int64_t buffer : {1, 5, 1000}) {
      const auto times = times_read(77, shards, buffer, 3);
      EXPECT_TRUE(std::ranges::all_of(times, [](int64_t n) { return n == 1; }));
    }
  }
  EXPECT_EQ(times_read(10, 4, 2, 3, /*sharded=*/false), std::vector<int64_t>(10, 4))
      << "without shards, as often as there are readers";
}

TEST(RecordOrder, MixesWithinItsBuffer) {
  RecordOrder as_it_comes(10, {1, 2}, 1, 0, 0), mixed(1000, {}, 50, 0, 0), again(1000, {}, 50, 0, 0),
      later(1000, {}, 50, 0, 1);
  for (int64_t i = 1; i < 10; i += 2) EXPECT_EQ(as_it_comes.next(), i);
  std::vector<int64_t> order, second;
  for (int64_t i = 0; i < 1000; ++i) {
    order.push_back(mixed.next().value());
    EXPECT_LT(order.back(), i + 50) << "what has not been read cannot be handed out";
    EXPECT_EQ(again.next(), order.back());
    second.push_back(later.next().value());
  }
  EXPECT_FALSE(std::ranges::is_sorted(order));
  EXPECT_NE(order, second) << "each epoch anew";
  EXPECT_EQ(mixed.next(), std::nullopt);
}

}  // namespace
