#pragma once
// What a rank of lesson 57 trains: lesson 52's GPT on the rank's own sequences, with a sampler that knows its place;
// and the folder that its checkpoints are in.

#include <torch/torch.h>

#include <ATen/record_function.h>
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "atomic_checkpoint.h"
#include "background_checkpoint.h"
#include "common/harness/lesson.h"
#include "common/measure/dry.h"
#include "common/measure/rank_share.h"
#include "common/models/gpt.h"
#include "common/models/host_batch.h"
#include "lessons/52_ddp/gradient_buckets.h"
#include "lessons/52_ddp/rank_training.h"
#include "resume.h"
#include "same_on_ranks.h"
#include "settings.h"

namespace tenfold::inline lesson_57 {

struct SavedTraining : GptTraining {
  explicit SavedTraining(const Trial& trial)
      : GptTraining(trial),
        sequences{shakespeare_tokens(model->options.tokens, /*train=*/true), model->options.length},
        sampler(sequences.size(), trial.rank, trial.world_size, trial.seed),
        device_(trial.device),
        group_(trial.group),
        rows_(share_of_rank(trial, gpt::kBatch)),
        trained_(model->parameters()),
        buckets_(assign_buckets(trained_, bucket_sizes(trial))) {}

  /// One update with the mean gradient of all ranks. Returns this rank's loss.
  torch::Tensor update() {
    torch::Tensor ids, targets;  // (B / ranks, T) each
    {
      RECORD_USER_SCOPE("data");
      const auto [host_ids, host_targets] = sequences(sampler.next(rows_));
      ids = tensor_on(device_, host_ids);
      targets = tensor_on(device_, host_targets);
    }
    optimizer->zero_grad();
    torch::Tensor loss = model->loss(model->hidden(ids), targets);
    loss.backward();
    if (group_) average_in_buckets(trained_, buckets_, *group_);
    optimizer->step();
    ++updates;
    return loss.detach();
  }

  /// That many updates; their mean loss.
  torch::Tensor update(int64_t count) {
    torch::Tensor total = torch::zeros({}, torch::dtype(torch::kFloat).device(device_));
    for (int64_t i = 0; i < count; ++i) total += update();
    return total / count;
  }

  NamedTensors state() { return training_state(*model, *optimizer, sampler); }

  TextSequences sequences;
  ResumableSampler sampler;
  int64_t updates = 0;  ///< made so far

 private:
  torch::Device device_;
  c10::intrusive_ptr<c10d::ProcessGroup> group_;
  int64_t rows_;
  std::vector<torch::Tensor> trained_;
  std::vector<std::vector<size_t>> buckets_;
};

/// Tokens of so many updates, on all ranks.
inline int64_t tokens_of_step(const Trial& trial) {
  return trial.get(kEvery) * share_of_rank(trial, gpt::kBatch) * trial.world_size * trial.get(gpt::kLength);
}

/// Waits for the host of every rank.
inline void wait_for_ranks(const Trial& trial) {
  if (!trial.group) return;
  const torch::Tensor one = torch::zeros({1}, trial.device);
  start_all_reduce(one, *trial.group)->wait();
  one.cpu();  // NCCL's wait() lets the host go on
}

/// Throws, on every rank, naming the ranks whose parameters differ. Not on a dry GPU that computes nothing: its numbers
/// are none.
inline void require_same_parameters(const SavedTraining& training, torch::Device device, c10d::ProcessGroup& group) {
  RECORD_USER_SCOPE("check");
  const std::string what = "the parameters after update " + std::to_string(training.updates);
  try {
    require_same_on_ranks(what, hash_of(training.model->parameters()), device, group);
  } catch (const c10::ValueError&) {
    if (!memory_only()) throw;
  }
}

/// A temporary folder that all ranks of this machine know. It goes with the last rank's object. Every rank must make
/// it.
class SharedFolder {
 public:
  explicit SharedFolder(const Trial& trial) {
    torch::Tensor name = torch::zeros({512}, torch::kByte);
    if (trial.rank == 0) {
      std::string path = (std::filesystem::temp_directory_path() / "tenfold-checkpoints-XXXXXX").string();
      TORCH_CHECK(path.size() < 512 && mkdtemp(path.data()) != nullptr, path, ": cannot be made (",
                  std::strerror(errno), "); to fix: set TMPDIR");
      std::memcpy(name.data_ptr(), path.data(), path.size());
    }
    if (trial.group) {
      std::vector<torch::Tensor> on_device{name.to(trial.device)};
      trial.group->broadcast(on_device)->wait();
      name = on_device[0].cpu();
    }
    folder_ = static_cast<const char*>(name.const_data_ptr());
    in_use_ = open(folder_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    TORCH_CHECK(in_use_ >= 0 && flock(in_use_, LOCK_SH) == 0, folder_.string(), ": ", std::strerror(errno));
    wait_for_ranks(trial);  // or one could be the last before another has come
  }
  /// The last rank removes the folder: another may still read or write in it. A rank that is killed holds no lock.
  ~SharedFolder() {
    std::error_code ignored;
    if (flock(in_use_, LOCK_EX | LOCK_NB) == 0) std::filesystem::remove_all(folder_, ignored);
    close(in_use_);
  }
  SharedFolder(const SharedFolder&) = delete;
  SharedFolder& operator=(const SharedFolder&) = delete;

  const std::filesystem::path& path() const { return folder_; }
  CheckpointFolder checkpoints() const { return CheckpointFolder(folder_); }

 private:
  std::filesystem::path folder_;
  int in_use_ = -1;
};

/// One whose files a thread writes. The thread ends before the folder goes.
struct BackgroundFolder {
  explicit BackgroundFolder(const Trial& trial) : folder(trial), checkpoints(folder.checkpoints()) {}
  SharedFolder folder;
  BackgroundCheckpoints checkpoints;
};

}  // namespace tenfold::inline lesson_57
