#pragma once
// A training whose ranks all die after each step and are started again, in one process: everything is made anew, and
// only what was saved is left. Three of the four do it wrong.

#include <torch/torch.h>

#include <algorithm>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>

#include "common/harness/lesson.h"
#include "resume.h"
#include "saved_training.h"

namespace tenfold::inline lesson_57 {

enum class Mistake {
  none,
  optimizer_forgotten,  ///< the model alone is saved, as `torch.save(model.state_dict())` does
  sampler_anew,         ///< the data begins again at the epoch's first sample
  torn_file             ///< the only file is overwritten where it lies, and half of it is taken
};

/// Wrong: no second name, no checksum. The first half of the file has the new bytes, the second still the old ones:
/// what a crash in the middle of writing leaves.
inline void overwrite_half(const std::filesystem::path& file, const std::string& bytes) {
  if (!std::filesystem::exists(file)) std::ofstream(file, std::ios::binary) << bytes;
  std::fstream old(file, std::ios::binary | std::ios::in | std::ios::out);
  old.write(bytes.data(), static_cast<std::streamsize>(bytes.size() / 2));
}

inline std::string bytes_of_file(const std::filesystem::path& file) {
  std::ostringstream bytes;
  bytes << std::ifstream(file, std::ios::binary).rdbuf();
  return bytes.str();
}

class Restarts {
 public:
  Restarts(const Trial& trial, Mistake mistake)
      : trial_(trial), mistake_(mistake), folder_(trial), training_(std::make_unique<SavedTraining>(trial)) {}

  SavedTraining& training() { return *training_; }

  /// Rank 0 saves; then every rank is gone and comes again.
  void save_and_restart() {
    const int64_t updates = training_->updates;
    if (trial_.rank == 0) save();
    wait_for_ranks(trial_);
    training_.reset();
    training_ = std::make_unique<SavedTraining>(trial_);  // other weights
    const int64_t step = trial_.group ? agree_on_step(good_steps(), trial_.device, *trial_.group) : good_steps().back();
    TORCH_CHECK(step == updates, "resumed from ", step, ", and ", updates, " was saved");
    NamedTensors saved = load(step);
    if (mistake_ == Mistake::sampler_anew) saved["sampler"] = training_->sampler.state();
    load_training_state(saved, *training_->model, *training_->optimizer, training_->sampler);
    training_->updates = step;
  }

 private:
  std::filesystem::path torn() const { return folder_.path() / "checkpoint"; }

  void save() {
    NamedTensors state = training_->state();
    if (mistake_ == Mistake::optimizer_forgotten)
      std::erase_if(state, [](const auto& item) { return item.first.starts_with("optimizer/"); });
    if (mistake_ == Mistake::torn_file) overwrite_half(torn(), checkpoint_bytes(state));
    folder_.checkpoints().save(training_->updates, state);
  }

  std::vector<int64_t> good_steps() const { return folder_.checkpoints().good_steps(); }

  NamedTensors load(int64_t step) const {
    if (mistake_ == Mistake::torn_file) return tensors_of(bytes_of_file(torn()));
    return folder_.checkpoints().load(step);
  }

  Trial trial_;
  Mistake mistake_;
  SharedFolder folder_;
  std::unique_ptr<SavedTraining> training_;
};

}  // namespace tenfold::inline lesson_57
