// installs as <tenfold/rank_checkpoints.h>
#pragma once
// Checkpoints of sharded training: each rank writes a file of its own, at its own pace, into a folder that all of them
// see. A step counts when the files of all its ranks are whole. Any number of ranks may go on from it.

#include <torch/torch.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "lessons/10_parallel_loading/loader.h"
#include "lessons/57_faults/atomic_checkpoint.h"

namespace tenfold {

/// A step that all of its ranks have saved.
struct SavedStep {
  int64_t step = 0;
  int ranks = 1;
};

/// ROOT/rank_0_of_2/step_40 and so on.
class RankCheckpoints {
 public:
  /// Makes the rank's folder. Throws std::filesystem::filesystem_error where that cannot be done.
  RankCheckpoints(std::filesystem::path root, int rank, int ranks)
      : root_(std::move(root)), rank_(rank), ranks_(ranks) {
    std::filesystem::create_directories(folder_of(rank_, ranks_));
  }

  /// Where this rank saves; atomic_checkpoint.h and background_checkpoint.h write to it. Two are kept: ranks that save
  /// in the background may be a checkpoint apart.
  CheckpointFolder own() const { return CheckpointFolder(folder_of(rank_, ranks_)); }

  /// The newest step of which every rank's file is whole, whatever the number of ranks that saved it. Every rank finds
  /// the same as long as nobody saves. It reads the files of all ranks, one after the other: where they are large, let
  /// rank 0 call it and tell the others.
  std::optional<SavedStep> newest() const {
    std::optional<SavedStep> newest;
    for (const int ranks : numbers_of_ranks()) {
      std::vector<int64_t> common = CheckpointFolder(folder_of(0, ranks)).good_steps();
      for (int rank = 1; rank < ranks && !common.empty(); ++rank) {
        const std::filesystem::path folder = folder_of(rank, ranks);
        const auto good =
            std::filesystem::exists(folder) ? CheckpointFolder(folder).good_steps() : std::vector<int64_t>();
        std::erase_if(common, [&](int64_t step) { return !std::binary_search(good.begin(), good.end(), step); });
      }
      if (!common.empty() && (!newest || common.back() > newest->step)) newest = {common.back(), ranks};
    }
    return newest;
  }

  /// What this rank goes on from, by the rank that saved it, on the CPU: of as many ranks its own file alone, so that
  /// the ranks of a node do not read all of the state each, and nothing of the others; of more or fewer ranks all
  /// files. Throws std::runtime_error, in one line, for a file that is not whole.
  std::vector<NamedTensors> load(const SavedStep& saved) const {
    std::vector<NamedTensors> of_ranks(static_cast<size_t>(saved.ranks));
    for (int rank = 0; rank < saved.ranks; ++rank) {
      if (saved.ranks != ranks_ || rank == rank_) of_ranks[static_cast<size_t>(rank)] = load_of(saved, rank);
    }
    return of_ranks;
  }
  /// What one of them has saved.
  NamedTensors load_of(const SavedStep& saved, int rank) const {
    return CheckpointFolder(folder_of(rank, saved.ranks)).load(saved.step);
  }

 private:
  std::filesystem::path folder_of(int rank, int ranks) const {
    return root_ / ("rank_" + std::to_string(rank) + "_of_" + std::to_string(ranks));
  }

  std::vector<int> numbers_of_ranks() const {
    const std::string begin = "rank_0_of_";
    std::vector<int> numbers;
    for (const auto& item : std::filesystem::directory_iterator(root_)) {
      const std::string name = item.path().filename().string();
      int ranks = 0;
      if (!name.starts_with(begin)) continue;
      const char *first = name.data() + begin.size(), *last = name.data() + name.size();
      if (std::from_chars(first, last, ranks).ptr == last && ranks > 0) numbers.push_back(ranks);
    }
    std::sort(numbers.begin(), numbers.end());
    return numbers;
  }

  std::filesystem::path root_;
  int rank_, ranks_;
};

/// The place of rank `rank` of `ranks` in the data, from that of any rank of another number of them with the same
/// global batch: a batch is dealt out to the ranks sample by sample, so that its number is the same. Throws
/// c10::ValueError where the ranks cannot share the global batch, and for a loader that hands batches out in no order.
inline LoaderState place_of_rank(LoaderState place, int rank, int ranks) {
  const int64_t global = place.batch_size * place.ranks;
  TORCH_CHECK_VALUE(global % ranks == 0, "a global batch of ", global, " cannot be shared by ", ranks, " ranks");
  TORCH_CHECK_VALUE(place.ahead.empty(), "a place with batches handed out ahead of it belongs to one rank");
  place.batch_size = global / ranks;
  place.rank = rank, place.ranks = ranks;
  return place;
}

}  // namespace tenfold
