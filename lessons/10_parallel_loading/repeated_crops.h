#pragma once
// How often the same random crop is drawn: counted over an epoch, as the worker threads really draw them.

#include "loader.h"
#include "loading_workload.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <unordered_set>
#include <utility>
#include <vector>

namespace tenfold::inline lesson_10 {

/// What may be done to a data set on its way to the loader.
using Seeding = std::function<Dataset(Dataset, uint64_t seed)>;

/// The first random number that each image of an epoch gets: two images with the same one get the same crop, in parts
/// of their height and width, and both are mirrored or neither. It is a field more of the batch, since workers already
/// draw for the next epoch when this one ends.
inline std::vector<uint64_t> numbers_drawn(const Dataset& images, const LoaderOptions& options,
                                           const Seeding& seeding = nullptr) {
  const size_t drawn = images.fields.size();
  Dataset watched = images;
  watched.fields.push_back({{}, torch::kLong});
  watched.load = [load = images.load, drawn](int64_t i, SampleRandom& random, const Row& row) {
    SampleRandom copy = random;
    row.field<int64_t>(drawn)[0] = static_cast<int64_t>(copy());
    load(i, random, row);
  };
  std::vector<uint64_t> numbers(static_cast<size_t>(images.size));
  Loader loader(seeding ? seeding(watched, options.seed) : watched, options);
  while (const Batch* batch = loader.next()) {
    for (int64_t row = 0; row < batch->rows(); ++row) {
      numbers[static_cast<size_t>(batch->samples[static_cast<size_t>(row)])] =
          static_cast<uint64_t>(batch->fields[drawn][row].item<int64_t>());
    }
  }
  return numbers;
}

/// Numbers that stand in the list a second time or more often.
inline int64_t repeated(const std::vector<uint64_t>& numbers) {
  const std::unordered_set<uint64_t> different(numbers.begin(), numbers.end());
  return static_cast<int64_t>(numbers.size() - different.size());
}

/// Notes of an epoch of the first images how many crops repeat another image's, and how many images have another crop
/// when the same program runs again with the same seed.
inline void note_repeated_crops(const Trial& trial, LoaderOptions options, const Seeding& seeding = nullptr) {
  constexpr int64_t kCounted = 256;
  Dataset images = clipart_samples(trial);
  images.size = std::min(images.size, kCounted);
  options.tail = Tail::keep;
  const auto first = numbers_drawn(images, options, seeding), second = numbers_drawn(images, options, seeding);
  int64_t changed = 0;
  for (size_t i = 0; i < first.size(); ++i) changed += first[i] == second[i] ? 0 : 1;
  trial.note("images", static_cast<double>(images.size), "images");
  trial.note("repeated crops", static_cast<double>(repeated(first)), "images");
  trial.note("other crops in a second run", static_cast<double>(changed), "images");
}

}  // namespace tenfold::inline lesson_10
