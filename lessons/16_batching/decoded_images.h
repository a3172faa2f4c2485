#pragma once
// What all variants of lesson 16 share: decoded images in a mapped shard, and a model that looks at squares of them.

#include <torch/torch.h>

#include "common/models/clipart.h"
#include "image_views.h"
#include "lessons/10_parallel_loading/loader.h"

#include <cstdint>
#include <memory>
#include <vector>

namespace tenfold::inline lesson_16 {

inline constexpr int64_t kStored = 64;  ///< side of the images in the shard, in pixels

inline constexpr Setting<int64_t> kSide{"side", 56, "height and width of the square that the model sees, in pixels"};

struct DecodedImages {
  explicit DecodedImages(const Trial& trial)
      : shard(open_clipart(trial, {PictureForm::raw, kStored})),
        side(trial.get(kSide)),
        options{.batch = trial.get(clipart::kBatch),
                .workers = 0,
                .tail = Tail::drop,
                .seed = trial.seed,
                .pinned = trial.device.is_cuda()},
        training(trial, /*colours=*/3, side),
        device(trial.device) {
    TORCH_CHECK_VALUE(side >= 4 && side <= kStored, "side=", side, " is outside 4 to ", kStored);
  }

  View view(SampleRandom& random) const { return random_view(kStored, kStored, side, random); }

  /// Image i as a tensor on the shard's own bytes, (H, W, 3): read it, never write to it.
  torch::Tensor image(int64_t i) const {
    auto* pixels = const_cast<uint8_t*>(shard->record(i).data());  // from_blob has no form for constants
    return torch::from_blob(pixels, {kStored, kStored, 3}, torch::kByte);
  }

  Parameters parameters() const { return training.parameters(); }

  std::shared_ptr<const Shard> shard;
  int64_t side;
  LoaderOptions options;
  ClipartTraining training;
  torch::Device device;
};

/// The loader's batches without a loader: which samples are in the next one, epoch after epoch.
class SampleNumbers {
 public:
  SampleNumbers(int64_t size, const LoaderOptions& options)
      : size_(size), seed_(options.seed), plan_(size, options.batch, {}, options.tail) {}

  std::vector<int64_t> next() {
    if (index_ == plan_.batches()) {
      ++epoch_;
      index_ = 0;
    }
    if (index_ == 0) order_ = epoch_order(size_, seed_, epoch_, /*shuffle=*/true);
    return plan_.samples(order_, index_++);
  }

  /// What is random of a sample of the last batch.
  SampleRandom random(int64_t sample) const { return {seed_, epoch_, sample}; }

 private:
  int64_t size_;
  uint64_t seed_;
  EpochPlan plan_;
  std::vector<int64_t> order_;
  int64_t epoch_ = 0, index_ = 0;
};

}  // namespace tenfold::inline lesson_16
