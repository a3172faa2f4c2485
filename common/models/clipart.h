#pragma once
// The convnet workload on images that a lesson reads, decodes and augments itself: openclipart's, from shards.

#include <cstdint>
#include <memory>
#include <vector>

#include "common/data/openclipart.h"
#include "common/data/shard.h"
#include "common/models/convnet.h"

namespace tenfold {

namespace clipart {
inline constexpr Setting<int64_t> kBatch{"batch", {32, 128, 512}, "images in a batch"};
}  // namespace clipart

/// The convnet with this batch. How many bytes a step needs depends on the images, and so does how it is made.
inline const Workload clipart_workload{
    .name = "convnet", .items = "images", .settings = {clipart::kBatch, convnet::kChannels, convnet::kLearningRate}};

/// Openclipart's shard of this form. Where it is not packed the variant cannot run, and says how to pack it.
std::shared_ptr<const Shard> open_clipart(const Trial& trial, const PackOptions& form, bool train = true);

/// Most bytes of a training step on squares of this side, with the trial's settings.
int64_t clipart_most_bytes(const Trial& trial, int64_t side);

/// What a variant trains with. Its batches are what the lesson brings: (B, colours, side, side) each.
struct ClipartTraining : ConvNetTraining {
  explicit ClipartTraining(const Trial& trial, int64_t colours = 3, int64_t side = 64,
                           int64_t classes = static_cast<int64_t>(kOpenclipartClasses.size()));
};

}  // namespace tenfold
