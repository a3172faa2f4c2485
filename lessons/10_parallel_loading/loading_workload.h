#pragma once
// What the lessons about loading train on, as a trial asks for it: images to decode and augment, or decoded ones.

#include "common/models/clipart.h"
#include "common/models/fashion_mnist.h"
#include "image_samples.h"

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

namespace tenfold::inline lesson_10 {

namespace loading {
inline constexpr Setting<std::string> kImages{
    "images",
    "png",
    "openclipart's PNG files, the same as JPEG files of 256 pixels, or Fashion-MNIST, decoded already",
    {"png", "jpeg", "decoded"}};
inline constexpr Setting<int64_t> kSide{"side", {64, 128, 224}, "height and width of an image in its batch, in pixels"};
inline constexpr Setting<int64_t> kPrefetch{"prefetch", 2, "batches that workers have ready or are at work on"};
}  // namespace loading

/// The convnet on images of these kinds.
inline const Workload loading_workload = clipart_workload.with({loading::kImages, loading::kSide, loading::kPrefetch});

/// Openclipart's shard, of the form that `images` names.
inline std::shared_ptr<const Shard> clipart_shard(const Trial& trial, bool train = true) {
  PackOptions form{PictureForm::png, 0};
  if (trial.get(loading::kImages) == "jpeg") form = {PictureForm::jpeg, 256};
  return open_clipart(trial, form, train);
}

/// Its images, augmented to train on, as they are to test on: fields (3, side, side) float, and () int64, the label.
inline Dataset clipart_samples(const Trial& trial, bool train = true) {
  return image_samples(clipart_shard(trial, train), {.side = trial.get(loading::kSide), .augment = train});
}

/// Fashion-MNIST, which lies in memory as it is needed: nothing to decode. Fields (1, 28, 28) bytes, and () int64, the
/// label.
inline Dataset fashion_samples() {
  const ImageSet set = fashion_mnist(/*train=*/true);
  const auto load = [set](int64_t i, SampleRandom&, const Row& row) {
    std::memcpy(row.field<uint8_t>(0).data(), set.images.const_data_ptr<uint8_t>() + i * 28 * 28, 28 * 28);
    row.field<int64_t>(1)[0] = set.labels.const_data_ptr<int64_t>()[i];
  };
  return {.size = set.size(), .fields = {{{1, 28, 28}, torch::kByte}, {{}, torch::kLong}}, .load = load};
}

/// What the trial trains on.
inline Dataset training_samples(const Trial& trial) {
  return trial.get(loading::kImages) == "decoded" ? fashion_samples() : clipart_samples(trial);
}

/// The convnet for such samples. Fashion-MNIST has ten classes and openclipart eight; the model has ten for both.
inline ClipartTraining training_on(const Trial& trial, const Dataset& samples) {
  const auto& shape = samples.fields[0].shape;  // (C, S, S)
  return ClipartTraining(trial, shape[0], shape[1], /*classes=*/10);
}

}  // namespace tenfold::inline lesson_10
