#pragma once
// The images of a shard as samples: decoded and augmented one at a time, by whatever thread loads them.

#include "common/data/shard.h"
#include "loader.h"
#include "random_resized_crop.h"

#include <cstdint>
#include <memory>
#include <string>

namespace tenfold::inline lesson_10 {

/// What happens to an image between its file and its batch.
struct ImageOptions {
  int64_t side = 64;    ///< of the result, in pixels
  bool augment = true;  ///< a random part, half of the time mirrored; else the square in the middle
  CropRange range = {};
  Normalisation normal = {};
};

/// The image of record i, whatever the shard holds. Throws DataError for one that is damaged.
inline Picture decode_record(const Shard& shard, int64_t i) {
  const auto record = shard.record(i);
  if (shard.kind() == RecordKind::encoded) return decode_picture(record, std::string(shard.name(i)));
  return {shard.height(), shard.width(), {record.begin(), record.end()}};
}

/// The samples of a shard: fields (3, side, side) float, and () int64, the label.
inline Dataset image_samples(const std::shared_ptr<const Shard>& shard, const ImageOptions& options) {
  const auto load = [shard, options](int64_t i, SampleRandom& random, const Row& row) {
    const Picture image = decode_record(*shard, i);
    const PictureSize size{image.height, image.width};
    const Crop crop = options.augment ? random_crop(size, random, options.range) : centre_crop(size);
    resize_normalised(image, crop, options.side, options.normal, row.field<float>(0));
    row.field<int64_t>(1)[0] = shard->label(i);
  };
  return {.size = shard->size(),
          .fields = {{{3, options.side, options.side}, torch::kFloat}, {{}, torch::kLong}},
          .load = load,
          .name = [shard](int64_t i) { return std::string(shard->name(i)); }};
}

}  // namespace tenfold::inline lesson_10
