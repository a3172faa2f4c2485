#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "loader.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <map>
#include <set>
#include <thread>

#include "tests/support/loader_samples.h"
#include "tests/support/support.h"

namespace {

using namespace tenfold;
using namespace tenfold::test;
using testing::HasSubstr;

TEST(Loader, BringsEverySampleExactlyOncePerEpoch) {
  for (const int workers : {0, 1, 3}) {
    for (const int64_t ranks : {1, 2, 3}) {
      for (const int prefetch : {1, 4}) {
        for (const int64_t batch : {1, 7, 64}) {
          for (const bool ordered : {true, false}) {
            SCOPED_TRACE(testing::Message() << workers << " workers, " << ranks << " ranks, prefetch " << prefetch
                                            << ", batch " << batch << (ordered ? "" : ", unordered"));
            std::vector<std::unique_ptr<Loader>> loaders;
            for (int64_t rank = 0; rank < ranks; ++rank) {
              loaders.push_back(std::make_unique<Loader>(numbers(53), LoaderOptions{.batch = batch,
                                                                                    .workers = workers,
                                                                                    .prefetch = prefetch,
                                                                                    .ordered = ordered,
                                                                                    .rank = {rank, ranks}}));
            }
            for (int64_t epoch = 0; epoch < 2; ++epoch) {
              std::vector<int64_t> seen;
              for (auto& loader : loaders) {
                int64_t batches = 0;
                while (const Batch* one = loader->next()) {
                  ++batches;
                  EXPECT_EQ(one->epoch, epoch);
                  EXPECT_EQ(copy_of(*one).samples, one->samples) << "the rows hold what the batch says";
                  seen.insert(seen.end(), one->samples.begin(), one->samples.end());
                }
                EXPECT_EQ(batches, loaders.front()->batches_per_epoch());
              }
              EXPECT_EQ(sorted(seen), counting_up(53));
            }
          }
        }
      }
    }
  }
}

TEST(Loader, MakesTheSameBatchesWithAnyNumberOfWorkers) {
  const auto two_epochs = [](int workers, int prefetch, uint64_t seed) {
    Loader loader(numbers(50), {.batch = 8, .workers = workers, .prefetch = prefetch, .seed = seed});
    auto batches = epoch_of(loader);
    for (Copy& batch : epoch_of(loader)) batches.push_back(std::move(batch));
    return batches;
  };
  const auto expected = two_epochs(0, 1, 5);
  ASSERT_EQ(expected.size(), 14u);
  EXPECT_EQ(two_epochs(1, 1, 5), expected);
  EXPECT_EQ(two_epochs(2, 3, 5), expected);
  EXPECT_EQ(two_epochs(8, 2, 5), expected);
  EXPECT_NE(two_epochs(2, 3, 6), expected);

  const std::vector<Copy> first(expected.begin(), expected.begin() + 7), second(expected.begin() + 7, expected.end());
  EXPECT_NE(samples_of(first), samples_of(second)) << "each epoch shuffles anew";
  std::map<int64_t, double> random;
  for (const Copy& batch : first) {
    for (size_t row = 0; row < batch.samples.size(); ++row) random[batch.samples[row]] = batch.random[3 * row];
  }
  for (const Copy& batch : second) {
    for (size_t row = 0; row < batch.samples.size(); ++row) {
      EXPECT_NE(random.at(batch.samples[row]), batch.random[3 * row]) << "each epoch augments anew";
    }
  }
}

TEST(Loader, RanksTogetherStepAsOneRankWithTheJointBatch) {
  Loader joint(numbers(47), {.batch = 12, .workers = 1});
  std::vector<std::unique_ptr<Loader>> ranks;
  for (int64_t rank = 0; rank < 3; ++rank) {
    ranks.push_back(std::make_unique<Loader>(numbers(47), LoaderOptions{.batch = 4, .workers = 2, .rank = {rank, 3}}));
  }
  for (int64_t step = 0; step < joint.batches_per_epoch(); ++step) {
    std::vector<int64_t> together, wanted = joint.next()->samples;
    size_t most = 0, least = 100;
    for (auto& rank : ranks) {
      const Batch* batch = rank->next();
      together.insert(together.end(), batch->samples.begin(), batch->samples.end());
      most = std::max(most, batch->samples.size()), least = std::min(least, batch->samples.size());
    }
    EXPECT_EQ(sorted(together), sorted(wanted));
    EXPECT_LE(most - least, 1u);
  }
}

TEST(Loader, GivesRanksWithNothingLeftAnEmptyLastBatch) {
  Loader last(numbers(9), {.batch = 2, .workers = 2, .rank = {3, 4}});
  EXPECT_EQ(last.next()->rows(), 2);
  const Batch* empty = last.next();
  ASSERT_NE(empty, nullptr);
  EXPECT_EQ(empty->rows(), 0);
  EXPECT_EQ(last.next(), nullptr);
  EXPECT_EQ(last.next()->rows(), 2);
}

TEST(Loader, DropsTheTailOnAllRanksAlike) {
  std::vector<int64_t> seen;
  for (int64_t rank = 0; rank < 2; ++rank) {
    Loader loader(numbers(47), {.batch = 5, .workers = 2, .tail = Tail::drop, .rank = {rank, 2}});
    EXPECT_EQ(loader.batches_per_epoch(), 4);
    for (const Copy& batch : epoch_of(loader)) {
      EXPECT_EQ(batch.samples.size(), 5u);
      seen.insert(seen.end(), batch.samples.begin(), batch.samples.end());
    }
  }
  std::ranges::sort(seen);
  EXPECT_EQ(std::ranges::adjacent_find(seen), seen.end());
  EXPECT_EQ(seen.size(), 40u);
}

TEST(Loader, TakesSamplesAsTheyComeWithoutShuffling) {
  Loader loader(numbers(10), {.batch = 4, .workers = 2, .shuffle = false});
  EXPECT_EQ(samples_of(epoch_of(loader)), counting_up(10));
}

TEST(Loader, UsesItsBuffersAgain) {
  Loader loader(numbers(200), {.batch = 4, .workers = 2, .prefetch = 3});
  std::set<const void*> buffers;
  while (const Batch* batch = loader.next()) buffers.insert(batch->fields[0].data_ptr());
  EXPECT_LE(buffers.size(), 4u);
}

// The buffer that the caller holds is not written to.
TEST(Loader, LeavesTheCallersBatchAlone) {
  Loader loader(numbers(300), {.batch = 3, .workers = 3, .prefetch = 1});
  while (const Batch* batch = loader.next()) {
    const Copy before = copy_of(*batch);
    std::this_thread::sleep_for(std::chrono::microseconds(200));
    ASSERT_EQ(copy_of(*batch), before);
  }
}

TEST(Loader, RunsAheadByThePrefetchDepthAndNoFurther) {
  std::atomic<int> loaded{0};
  Dataset counted = numbers(1000);
  counted.load = [&](int64_t, SampleRandom&, const Row&) { ++loaded; };
  Loader loader(counted, {.batch = 10, .workers = 2, .prefetch = 3});
  loader.next();
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (loaded < 40 && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
  EXPECT_EQ(loaded, 40) << "one batch with the caller and three ahead";
}

TEST(Loader, StandsStillWhileParked) {
  std::atomic<int> loaded{0};
  Dataset counted = numbers(1000);
  counted.load = [&](int64_t, SampleRandom&, const Row&) {
    std::this_thread::sleep_for(std::chrono::microseconds(300));
    ++loaded;
  };
  Loader loader(counted, {.batch = 10, .workers = 3, .prefetch = 50});
  loader.next();
  loader.park(true);
  const int before = loaded;
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
  EXPECT_EQ(loaded, before);
  loader.park(false);
  EXPECT_EQ(epoch_of(loader).size(), 99u);
}

TEST(Loader, HandsOutTheFirstThatIsReadyWhenOrderDoesNotMatter) {
  std::atomic<bool> go_on{false};
  Dataset slow = numbers(10);
  slow.load = [&](int64_t i, SampleRandom&, const Row&) {
    while (i == 0 && !go_on) std::this_thread::yield();
  };
  Loader loader(slow, {.batch = 1, .workers = 2, .prefetch = 9, .shuffle = false, .ordered = false});
  std::vector<int64_t> order = {loader.next()->samples[0]};
  EXPECT_NE(order.front(), 0);
  go_on = true;
  for (int i = 1; i < 10; ++i) order.push_back(loader.next()->samples[0]);
  EXPECT_EQ(sorted(order), counting_up(10));
}

TEST(Loader, NamesTheSampleThatCouldNotBeLoaded) {
  for (const int workers : {0, 3}) {
    Loader loader(numbers_but(13, 40), {.batch = 10, .workers = workers, .shuffle = false});
    EXPECT_EQ(loader.next()->samples[0], 0);
    try {
      loader.next();
      FAIL() << "the second batch has the faulty sample";
    } catch (const LoadError& error) {
      EXPECT_STREQ(error.what(), "food/13.png: is no image");
      EXPECT_THROW(std::rethrow_if_nested(error), std::domain_error);
    }
    EXPECT_EQ(loader.next()->samples[0], 20) << "training may go on without that batch";
    EXPECT_EQ(loader.next()->samples[0], 30);
    EXPECT_EQ(loader.next(), nullptr);
  }
}

TEST(Loader, NamesTheFirstOfSeveralAndWhatIsNoException) {
  Dataset faulty = numbers(8);
  faulty.load = [](int64_t i, SampleRandom&, const Row&) {
    if (i == 6) throw std::domain_error("late");
    if (i == 2) throw 7;  // NOLINT(*): what users do
  };
  Loader loader(faulty, {.batch = 8, .workers = 3, .shuffle = false});
  EXPECT_THAT([&] { loader.next(); }, testing::ThrowsMessage<LoadError>(HasSubstr("sample 2: could not be loaded")));
}

TEST(Loader, StopsAtAnyMomentAndLeavesNothingBehind) {
  expect_nothing_left_behind([](Dataset samples, int round) {
    return std::make_unique<Loader>(
        std::move(samples),
        LoaderOptions{.batch = 5, .workers = 4, .prefetch = 1 + round % 4, .ordered = round % 2 == 0});
  });
}

TEST(Loader, GoesOnInMidEpochWithOtherWorkers) {
  Loader whole(numbers(70), {.batch = 6, .workers = 2, .seed = 3});
  epoch_of(whole);
  for (int i = 0; i < 5; ++i) whole.next();
  const LoaderState state = whole.state();
  EXPECT_EQ(state.epoch, 1);
  EXPECT_EQ(state.batch, 5);
  const auto rest = epoch_of(whole);
  for (const int workers : {0, 1, 4}) {
    Loader resumed(numbers(70), {.batch = 6, .workers = workers, .prefetch = 3, .seed = 3}, state);
    EXPECT_EQ(epoch_of(resumed), rest);
    EXPECT_EQ(resumed.next()->epoch, 2);
  }
}

TEST(Loader, GoesOnAtTheVeryEndOfAnEpoch) {
  Loader loader(numbers(20), {.batch = 10, .workers = 1});
  loader.next(), loader.next();
  const LoaderState state = loader.state();
  EXPECT_EQ(loader.next(), nullptr);
  const Copy expected = copy_of(*loader.next());
  for (const int workers : {0, 1, 3}) {
    for (int repeat = 0; repeat < 20; ++repeat) {  // the caller is in the next epoch before a worker begins, or after
      Loader resumed(numbers(20), {.batch = 10, .workers = workers}, state);
      EXPECT_EQ(resumed.next(), nullptr);
      EXPECT_EQ(copy_of(*resumed.next()), expected);
    }
  }
}

TEST(Loader, GoesOnWithoutLossesWhenOrderDoesNotMatter) {
  for (int handed_out = 0; handed_out <= 12; ++handed_out) {
    Dataset uneven = numbers(60);
    uneven.load = [load = uneven.load](int64_t i, SampleRandom& random, const Row& row) {
      if (i % 11 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      load(i, random, row);
    };
    const LoaderOptions options{.batch = 5, .workers = 4, .prefetch = 6, .ordered = false};
    Loader loader(uneven, options);
    std::vector<int64_t> seen;
    for (int i = 0; i < handed_out; ++i) {
      const Batch* batch = loader.next();
      seen.insert(seen.end(), batch->samples.begin(), batch->samples.end());
    }
    Loader resumed(uneven, options, loader.state());
    for (const int64_t sample : samples_of(epoch_of(resumed))) seen.push_back(sample);
    EXPECT_EQ(sorted(seen), counting_up(60));
  }
}

TEST(Loader, RefusesAStateOfOtherBatches) {
  Loader loader(numbers(20), {.batch = 4, .workers = 0, .seed = 1});
  loader.next();
  const LoaderState state = loader.state();
  const auto resume = [&](int64_t size, const LoaderOptions& options) {
    Loader resumed(numbers(size), options, state);
  };
  EXPECT_THAT([&] { resume(21, {.batch = 4, .seed = 1}); },
              testing::ThrowsMessage<std::invalid_argument>(HasSubstr("size 20")));
  EXPECT_THAT([&] { resume(20, {.batch = 5, .seed = 1}); },
              testing::ThrowsMessage<std::invalid_argument>(HasSubstr("batch size 4")));
  EXPECT_THAT([&] { resume(20, {.batch = 4, .seed = 2}); },
              testing::ThrowsMessage<std::invalid_argument>(HasSubstr("seed 1")));
  EXPECT_THROW(resume(20, {.batch = 4, .seed = 1, .rank = {0, 2}}), std::invalid_argument);
}

TEST(Loader, RefusesAStateOfAnotherOrderTailOrRank) {
  const LoaderOptions options{.batch = 4, .workers = 0, .seed = 1, .rank = {1, 2}};
  Loader loader(numbers(21), options);
  loader.next(), loader.next();
  const LoaderState state = loader.state();
  const auto refusal = [&](auto change) {
    LoaderOptions changed = options;
    change(changed);
    return message_of<std::invalid_argument>([&] { Loader(numbers(21), changed, state); });
  };
  EXPECT_THAT(refusal([](LoaderOptions& o) { o.tail = Tail::drop; }), HasSubstr("tail keep, this loader has drop"));
  EXPECT_THAT(refusal([](LoaderOptions& o) { o.shuffle = false; }), HasSubstr("shuffle 1, this loader has 0"));
  EXPECT_THAT(refusal([](LoaderOptions& o) { o.rank.index = 0; }), HasSubstr("rank 1, this loader has 0"));
  EXPECT_THAT(refusal([](LoaderOptions& o) { o.rank.count = 3; }), HasSubstr("rank count 2, this loader has 3"));
  LoaderState of_all = state;
  of_all.rank = 0;
  LoaderOptions first = options;
  first.rank.index = 0;
  Loader resumed(numbers(21), first, of_all);
  EXPECT_EQ(resumed.next()->index, 2) << "ordered ranks stand at the same batch";
}

TEST(Loader, RefusesAStateThatIsNoPlaceOfAnEpoch) {
  for (const int workers : {0, 2}) {
    const LoaderOptions options{.batch = 4, .workers = workers, .shuffle = false};  // two batches
    Loader loader(numbers(5), options);
    loader.next(), loader.next();
    const LoaderState end = loader.state();
    EXPECT_EQ(Loader(numbers(5), options, end).next(), nullptr) << "the end is a place";
    const auto refusal = [&](auto change) {
      LoaderState changed = end;
      change(changed);
      return message_of<std::invalid_argument>([&] { Loader(numbers(5), options, changed); });
    };
    const auto no_place = HasSubstr("no place in epochs of 2 batches");
    EXPECT_THAT(refusal([](LoaderState& s) { s.batch = 100; }), HasSubstr("stands at batch 100 of epoch 0"));
    EXPECT_THAT(refusal([](LoaderState& s) { s.batch = 3; }), no_place);
    EXPECT_THAT(refusal([](LoaderState& s) { s.batch = -1; }), no_place);
    EXPECT_THAT(refusal([](LoaderState& s) { s.epoch = -1; }), no_place);
    EXPECT_THAT(refusal([](LoaderState& s) { s.ahead = {2}; }), no_place);
    EXPECT_THAT(refusal([](LoaderState& s) { s.batch = 0, s.ahead = {0}; }), no_place);
    EXPECT_THAT(refusal([](LoaderState& s) { s.batch = 1, s.ahead = {0}; }), no_place);
    EXPECT_THAT(refusal([](LoaderState& s) { s = {.batch = 7}; }), no_place) << "nor without what it was saved of";
    // Two batches of Tail::keep, resumed with Tail::drop, whose epochs have one.
    LoaderOptions dropping = options;
    dropping.tail = Tail::drop;
    EXPECT_THROW(Loader(numbers(5), dropping, end), std::invalid_argument);
  }
}

TEST(Loader, RefusesADataSetThatCannotBeLoaded) {
  const auto refusal = [](auto change) {
    Dataset changed = numbers(5);
    change(changed);
    return message_of<std::invalid_argument>([&] { Loader(changed, {}); });
  };
  EXPECT_THAT(refusal([](Dataset& d) { d.fields.clear(); }), HasSubstr("there are no fields"));
  EXPECT_THAT(refusal([](Dataset& d) { d.load = nullptr; }), HasSubstr("no load()"));
  EXPECT_THAT(refusal([](Dataset& d) { d.fields[1].shape = {3, -1}; }), HasSubstr("field 1 has a dimension of -1"));
}

TEST(Loader, GivesNoNumbersOfAFieldWithAZeroDimension) {
  for (const auto& shape : {std::vector<int64_t>{0}, {2, 0}, {0, 2}, {3, 0, 2}}) {
    Dataset empty{.size = 7, .fields = {{shape, torch::kFloat}, {{}, torch::kLong}, {{2, 3}, torch::kByte}}};
    empty.load = [](int64_t i, SampleRandom&, const Row& row) {
      for (float& x : row.field<float>(0)) x = 1;
      EXPECT_TRUE(row.field<float>(0).empty());
      EXPECT_EQ(row.field<int64_t>(1).size(), 1U);
      EXPECT_EQ(row.field<uint8_t>(2).size(), 6U);
      row.field<int64_t>(1)[0] = i;
    };
    Loader loader(empty, {.batch = 3, .workers = 2, .shuffle = false});
    int64_t rows = 0;
    while (const Batch* batch = loader.next()) {
      EXPECT_EQ(batch->fields[0].numel(), 0);
      EXPECT_EQ(batch->fields[0].size(0), batch->rows());
      EXPECT_EQ(batch->fields[1][0].item<int64_t>(), rows);
      rows += batch->rows();
    }
    EXPECT_EQ(rows, 7);
  }
}

TEST(Loader, ANameThatThrowsHidesNoError) {
  for (const int workers : {0, 3}) {
    Dataset faulty = numbers_but(2, 8);
    faulty.name = [](int64_t) -> std::string { throw std::out_of_range("no such name"); };
    Loader loader(faulty, {.batch = 4, .workers = workers, .shuffle = false});
    try {
      loader.next();
      FAIL() << "sample 2 cannot be loaded";
    } catch (const LoadError& error) {
      EXPECT_THAT(error.what(), testing::StartsWith("sample 2 (whose name could not be told"));
      EXPECT_THAT(error.what(), HasSubstr("is no image"));
      EXPECT_THROW(std::rethrow_if_nested(error), std::domain_error);
    }
    EXPECT_EQ(loader.next()->samples[0], 4) << "training may go on";
    faulty.name = [](int64_t) -> std::string { throw 7; };                              // NOLINT(*): what users do
    faulty.load = [](int64_t, SampleRandom&, const Row& row) { row.field<float>(0); };  // is int64, and field 5 is none
    Loader all(faulty, {.batch = 4, .workers = workers});
    EXPECT_THROW(all.next(), LoadError);
    faulty.load = [](int64_t, SampleRandom&, const Row& row) { row.field<float>(5); };
    Loader none(faulty, {.batch = 4, .workers = workers});
    EXPECT_THROW(none.next(), LoadError);
  }
}

TEST(Loader, RefusesOptionsThatMakeNoSense) {
  const auto make = [](int64_t size, const LoaderOptions& options) { Loader loader(numbers(size), options); };
  EXPECT_THROW(make(0, {}), std::invalid_argument);
  EXPECT_THROW(make(10, {.batch = 0}), std::invalid_argument);
  EXPECT_THROW(make(10, {.workers = -1}), std::invalid_argument);
  EXPECT_THROW(make(10, {.prefetch = 0}), std::invalid_argument);
  EXPECT_THROW(make(10, {.rank = {2, 2}}), std::invalid_argument);
  EXPECT_THAT([&] { make(10, {.batch = 6, .tail = Tail::drop, .rank = {0, 2}}); },
              testing::ThrowsMessage<std::invalid_argument>(HasSubstr("use Tail::keep")));
}

TEST(SampleRandom, DrawsEvenly) {
  SampleRandom random(1, 2, 3);
  std::array<int, 6> counts{};
  double sum = 0;
  for (int i = 0; i < 60000; ++i) {
    ++counts[static_cast<size_t>(random.below(6))];
    sum += random.uniform();
  }
  for (const int count : counts) EXPECT_NEAR(count, 10000, 500);
  EXPECT_NEAR(sum / 60000, 0.5, 0.01);
}

TEST(SampleRandom, DependsOnSeedEpochAndSample) {
  std::set<uint64_t> firsts;
  for (uint64_t seed = 0; seed < 10; ++seed) {
    for (int64_t epoch = 0; epoch < 10; ++epoch) {
      for (int64_t sample = 0; sample < 100; ++sample) firsts.insert(SampleRandom(seed, epoch, sample)());
    }
  }
  EXPECT_EQ(firsts.size(), 10000u);
  EXPECT_EQ(SampleRandom(1, 2, 3)(), SampleRandom(1, 2, 3)());
}

}  // namespace
