#pragma once
// A training whose process dies after each step and is started again, in one process: everything is made anew, and only
// what was saved is left. All but one of the ways forget something.

#include <torch/torch.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/measure/dry.h"
#include "saved_training.h"

namespace tenfold::inline lesson_65 {

enum class Forgotten {
  nothing,
  buffers,       ///< parameters are saved, the running statistics of batch normalisation are not
  optimizer,     ///< the model alone is saved, as `torch.save(model.state_dict())` does
  scaler,        ///< the loss scale begins again, and skips other updates
  generators,    ///< dropout draws what it drew at the start
  place,         ///< the data begins again at the epoch's first sample
  delivered,     ///< the place is the one that workers have read, not the one that training has got
  update_count,  ///< the schedule begins again
  copy,          ///< a thread writes the tensors themselves, and is half way through at the next update
  other_shards   ///< rank 0 alone saves, and every rank goes on from its shards
};

/// What a checkpoint's entries begin with.
inline std::string entries_of(Forgotten forgotten) {
  switch (forgotten) {
    case Forgotten::buffers:
      return "model/norm";
    case Forgotten::optimizer:
      return "optimizer/";
    case Forgotten::scaler:
      return "scaler";
    case Forgotten::generators:
      return "generator/";
    case Forgotten::place:
      return "loader";
    case Forgotten::update_count:
      return "counter/updates";
    default:
      return "";
  }
}

class Restarts {
 public:
  Restarts(const Trial& trial, Forgotten forgotten)
      : trial_(trial), forgotten_(forgotten), run_(std::make_unique<SavedRun>(trial)) {}

  Resumable& training() { return *run_->training; }

  /// Every rank saves; then it is gone and comes again.
  void save_and_restart() {
    const int64_t updates = training().updates();
    run_->checkpoints.own().save(updates, state());
    wait_for_ranks(trial_);
    run_->training.reset();
    torch::manual_seed(trial_.seed + 1);  // a process draws its first weights; which ones does not matter
    run_->training = training_of(trial_);
    const RankCheckpoints& checkpoints = run_->checkpoints;
    const auto newest = trial_.group ? checkpoints.newest(trial_.device, *trial_.group) : checkpoints.newest();
    TORCH_CHECK(newest && newest->step == updates, "the newest checkpoint is not that of update ", updates);
    std::vector<NamedTensors> of_ranks = run_->checkpoints.load(*newest);
    for (NamedTensors& saved : of_ranks) forget(saved);
    if (forgotten_ == Forgotten::other_shards)
      of_ranks.assign(of_ranks.size(), run_->checkpoints.load_of(*newest, /*rank=*/0));
    training().load(of_ranks);
    wait_for_ranks(trial_);  // nobody saves while another reads
  }

 private:
  NamedTensors state() {
    NamedTensors state = training().state();
    if (forgotten_ != Forgotten::copy) return state;
    for (auto& [name, tensor] : state) {
      if (name.starts_with("model/")) tensor = tensor.detach().clone();  // the thread has written these
    }
    training().update();
    return state;  // the others are those of the update after it
  }

  /// As if it had not been saved: what the new process has made for itself stays.
  void forget(NamedTensors& saved) {
    if (forgotten_ == Forgotten::delivered) {
      const torch::Tensor place = saved.at("loader");  // epoch, batch in it, ...
      const int64_t batches = trial_.get(kImages) / trial_.get(convnet::kBatch);
      const int64_t read = place[0].item<int64_t>() * batches + place[1].item<int64_t>() + kPrefetch;
      place[0] = read / batches;
      place[1] = read % batches;
    }
    const std::string begin = entries_of(forgotten_);
    if (begin.empty()) return;
    std::erase_if(saved, [&](const auto& item) { return is_forgotten(item.first, begin); });
    for (const auto& [name, tensor] : training().state()) {
      if (is_forgotten(name, begin)) saved[name] = tensor.detach().clone();
    }
  }
  /// Weights and biases of batch normalisation are parameters.
  bool is_forgotten(const std::string& name, const std::string& begin) const {
    const bool buffer = name.find(".running_") != std::string::npos || name.ends_with(".num_batches_tracked");
    return name.starts_with(begin) && (forgotten_ != Forgotten::buffers || buffer);
  }

  Trial trial_;
  Forgotten forgotten_;
  std::unique_ptr<SavedRun> run_;
};

/// Restarts before each step but the first.
inline Step restarted(const Trial& trial, Forgotten forgotten) {
  if (memory_only()) trial.skip("what is loaded are values: not on a dry GPU that computes nothing");
  auto process = std::make_shared<Restarts>(trial, forgotten);
  auto updates = [process, every = trial.get(kEvery)] {
    if (process->training().updates() > 0) process->save_and_restart();
    return process->training().update(every);
  };
  return {.items = trial.get(kEvery) * process->training().items(),
          .parameters = process->training().parameters(),
          .update = updates,
          .park = [process](bool parked) { process->training().park(parked); },
          .batches_ahead = kPrefetch,
          .gather = [process] { return process->training().whole(); }};
}

}  // namespace tenfold::inline lesson_65
