// installs as <tenfold/rank_checkpoints.h>
#pragma once
// Checkpoints of sharded training: each rank writes a file of its own, at its own pace, into a folder that all of them
// see. A step counts when the files of all its ranks are whole. Any number of ranks may go on from it.

#include <torch/torch.h>

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <stdexcept>
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

/// ROOT/rank_0_of_2/step_40 and so on. A save removes later steps of as many ranks only: who goes back behind a step of
/// another number of ranks removes its folders, or the next restart finds that step.
class RankCheckpoints {
 public:
  /// Makes the rank's folder. Throws std::filesystem::filesystem_error where that cannot be done.
  RankCheckpoints(std::filesystem::path root, int rank, int ranks)
      : root_(std::move(root)), rank_(rank), ranks_(ranks) {
    std::filesystem::create_directories(folder_of(rank_, ranks_));
  }

  /// Where this rank saves; atomic_checkpoint.h and background_checkpoint.h write to it. Three are kept: in the
  /// background a rank may have written a step while another still writes the one before, or could not write it.
  CheckpointFolder own() const { return CheckpointFolder(folder_of(rank_, ranks_), /*keep=*/3); }

  /// The newest step of which every rank's file is whole, whatever the number of ranks that saved it. Every rank of the
  /// group must call it, while nobody saves, and gets the same answer: rank 0 lists the steps, and the ranks share the
  /// files of each, newest first, until one is whole. After a save by as many ranks each reads the one file that it
  /// then loads. `device` is one of the group's backend. Throws std::runtime_error on all of them where one rank cannot
  /// list the folders or open a file: an older step would be taken, and the good file removed by the next save.
  std::optional<SavedStep> newest(torch::Device device, c10d::ProcessGroup& group) const {
    for (const SavedStep& saved : steps_of_rank_0(device, group)) {
      int64_t state = kWhole;
      for (int rank = group.getRank(); rank < saved.ranks && state == kWhole; rank += group.getSize()) {
        try {
          if (!folder(rank, saved.ranks).damage(saved.step).empty()) state = kDamaged;
        } catch (const std::exception&) {
          state = kUnreadable;
        }
      }
      std::vector<torch::Tensor> on_all{torch::tensor({state}, torch::kLong).to(device)};
      c10d::AllreduceOptions options;
      options.reduceOp = c10d::ReduceOp::MIN;
      group.allreduce(on_all, options)->wait();
      const auto worst = on_all[0].item<int64_t>();
      if (worst == kUnreadable)
        throw std::runtime_error(root_.string() + ": a rank cannot read step " + std::to_string(saved.step));
      if (worst == kWhole) return saved;
    }
    return std::nullopt;
  }
  /// The same without a group: one process reads the files of all ranks. Throws what CheckpointFolder::damage() throws.
  std::optional<SavedStep> newest() const {
    for (const SavedStep& saved : steps()) {
      bool is_whole = true;
      for (int rank = 0; rank < saved.ranks; ++rank)
        is_whole = is_whole && folder(rank, saved.ranks).damage(saved.step).empty();
      if (is_whole) return saved;
    }
    return std::nullopt;
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
  NamedTensors load_of(const SavedStep& saved, int rank) const { return folder(rank, saved.ranks).load(saved.step); }

 private:
  /// Of a rank's files of a step; the ranks take the least.
  static constexpr int64_t kUnreadable = -1, kDamaged = 0, kWhole = 1;

  std::filesystem::path folder_of(int rank, int ranks) const {
    return root_ / ("rank_" + std::to_string(rank) + "_of_" + std::to_string(ranks));
  }

  CheckpointFolder folder(int rank, int ranks) const { return CheckpointFolder(folder_of(rank, ranks)); }

  /// Of which every rank has a file, whole or not, newest first. Reads no file.
  std::vector<SavedStep> steps() const {
    std::vector<SavedStep> all;
    for (const int ranks : numbers_of_ranks()) {
      std::vector<int64_t> common = folder(0, ranks).steps();
      for (int rank = 1; rank < ranks; ++rank)
        std::erase_if(common,
                      [&](int64_t step) { return !std::filesystem::exists(folder(rank, ranks).file_of(step)); });
      for (const int64_t step : common) all.push_back({step, ranks});
    }
    std::sort(all.begin(), all.end(), [](const SavedStep& a, const SavedStep& b) {
      return a.step != b.step ? a.step > b.step : a.ranks < b.ranks;
    });
    return all;
  }

  /// A folder of a network may look different from each node, and the ranks must ask about the same steps.
  std::vector<SavedStep> steps_of_rank_0(torch::Device device, c10d::ProcessGroup& group) const {
    std::vector<int64_t> numbers;
    int64_t count = 0;
    if (group.getRank() == 0) {
      try {
        for (const SavedStep& saved : steps()) numbers.insert(numbers.end(), {saved.step, saved.ranks});
        count = static_cast<int64_t>(numbers.size());
      } catch (const std::exception&) {
        count = -1;  // the others wait already
      }
    }
    std::vector<torch::Tensor> size{torch::tensor({count}, torch::kLong).to(device)};
    group.broadcast(size)->wait();
    count = size[0].item<int64_t>();
    if (count < 0) throw std::runtime_error(root_.string() + ": rank 0 cannot list its folders");
    numbers.resize(static_cast<size_t>(count));
    if (numbers.empty()) return {};
    std::vector<torch::Tensor> sent{torch::tensor(numbers, torch::kLong).to(device)};
    group.broadcast(sent)->wait();
    const torch::Tensor received = sent[0].cpu().view({-1, 2});
    std::vector<SavedStep> all;
    for (int64_t i = 0; i < received.size(0); ++i)
      all.push_back({received[i][0].item<int64_t>(), static_cast<int>(received[i][1].item<int64_t>())});
    return all;
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
