#pragma once
// What the tests of the loaders load, and how they look at it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lessons/10_parallel_loading/loader.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace tenfold::test {

/// Sample i: its number, and three random ones.
inline Dataset numbers(int64_t size) {
  return {.size = size,
          .fields = {{{}, torch::kLong}, {{3}, torch::kDouble}},
          .load = [](int64_t i, SampleRandom& random, const Row& row) {
            row.field<int64_t>(0)[0] = i;
            for (double& x : row.field<double>(1)) x = random.uniform();
          }};
}

/// The same, except that sample `broken` cannot be loaded.
inline Dataset numbers_but(int64_t broken, int64_t size) {
  Dataset faulty = numbers(size);
  faulty.load = [broken, load = faulty.load](int64_t i, SampleRandom& random, const Row& row) {
    if (i == broken) throw std::domain_error("is no image");
    load(i, random, row);
  };
  faulty.name = [](int64_t i) { return "food/" + std::to_string(i) + ".png"; };
  return faulty;
}

/// A batch that stays.
struct Copy {
  int64_t epoch, index;
  std::vector<int64_t> declared;  // what the batch says that its rows hold; a stream does not say
  std::vector<int64_t> samples;   // what they hold
  std::vector<double> random;     // three of each row
  bool operator==(const Copy&) const = default;
};

inline Copy copy_of(const Batch& batch) {
  const auto numbers = batch.fields[0].const_data_ptr<int64_t>();
  const auto random = batch.fields[1].const_data_ptr<double>();
  return {batch.epoch,
          batch.index,
          batch.samples,
          {numbers, numbers + batch.fields[0].numel()},
          {random, random + batch.fields[1].numel()}};
}

/// The rest of the epoch.
template <class Loader>
std::vector<Copy> epoch_of(Loader& loader) {
  std::vector<Copy> all;
  while (const Batch* batch = loader.next()) all.push_back(copy_of(*batch));
  return all;
}

inline std::vector<int64_t> samples_of(const std::vector<Copy>& batches) {
  std::vector<int64_t> all;
  for (const Copy& batch : batches) all.insert(all.end(), batch.samples.begin(), batch.samples.end());
  return all;
}

inline std::vector<int64_t> sorted(std::vector<int64_t> numbers) {
  std::ranges::sort(numbers);
  return numbers;
}

inline std::vector<int64_t> counting_up(int64_t size) {
  std::vector<int64_t> all(static_cast<size_t>(size));
  std::iota(all.begin(), all.end(), int64_t{0});
  return all;
}

inline std::ptrdiff_t threads_of_this_process() {
  const auto tasks = std::filesystem::directory_iterator("/proc/self/task");
  return std::distance(begin(tasks), end(tasks));
}

/// Loaders that are destroyed after any number of batches, some in mid-epoch, some after errors, some parked, leave no
/// thread and no sample behind. `make` gives a unique_ptr to a loader of a data set with four workers; `round` is for
/// it to vary its options.
template <class Make>
void expect_nothing_left_behind(const Make& make) {
  const auto before = threads_of_this_process();
  const auto alive = std::make_shared<int>(0);
  for (int round = 0; round < 30; ++round) {
    Dataset kept = numbers(100);
    kept.load = [alive, load = kept.load, round](int64_t i, SampleRandom& random, const Row& row) {
      if (round % 3 == 2 && i % 20 == 0) throw std::runtime_error("broken");
      if (i % 7 == 0) std::this_thread::sleep_for(std::chrono::microseconds(50));
      load(i, random, row);
    };
    const auto loader = make(std::move(kept), round);
    if (round % 5 == 4) loader->park(true), loader->park(false);
    for (int batch = 0; batch < round; ++batch) {
      try {
        loader->next();
      } catch (const LoadError& error) {
        EXPECT_THAT(error.what(), testing::HasSubstr("broken"));
      }
    }
    if (round % 7 == 6) loader->park(true);
  }
  EXPECT_EQ(alive.use_count(), 1);
  // A thread that was joined stays in /proc until the kernel has cleared it away.
  for (int ms = 0; ms < 10000 && threads_of_this_process() > before; ++ms)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_LE(threads_of_this_process(), before);
}

}  // namespace tenfold::test
