#include <gtest/gtest.h>

#include EXERCISE

#include <algorithm>
#include <vector>

namespace {

/// How many readers take each of `length` samples, and how many samples each reader takes.
void read_all(int length, int ranks, int workers, std::vector<int>& readers, std::vector<int>& samples) {
  readers.assign(static_cast<size_t>(length), 0);
  samples.clear();
  for (int rank = 0; rank < ranks; ++rank) {
    for (int worker = 0; worker < workers; ++worker) {
      Mine mine(rank, ranks, worker, workers);
      samples.push_back(0);
      for (int& count : readers) {
        const bool taken = mine.next();
        count += taken ? 1 : 0;
        samples.back() += taken ? 1 : 0;
      }
    }
  }
}

TEST(Exercise13, EverySampleHasExactlyOneReader) {
  for (const int ranks : {1, 2, 3}) {
    for (const int workers : {1, 2, 5}) {
      std::vector<int> readers, samples;
      read_all(101, ranks, workers, readers, samples);
      EXPECT_EQ(std::ranges::count(readers, 1), 101)
          << ranks << " ranks with " << workers
          << " workers\nhint: a sample with 0 readers is lost, one with 2 is a duplicate";
    }
  }
}

TEST(Exercise13, NoReaderGetsMuchMoreThanAnother) {
  for (const int length : {0, 7, 64}) {
    std::vector<int> readers, samples;
    read_all(length, 2, 3, readers, samples);
    const auto [least, most] = std::ranges::minmax(samples);
    EXPECT_LE(most - least, 1) << "of " << length << " samples";
  }
}

}  // namespace
