#pragma once
// Openclipart's drawings as samples: R1's pictures where decoding and augmenting matter.

#include <tenfold/loader.h>
#include <tenfold/openclipart.h>
#include <tenfold/random_resized_crop.h>
#include <tenfold/shard.h>

#include <cstdint>
#include <memory>
#include <string>

namespace tenfold {

/// What happens to a picture between its file and its batch.
struct PictureOptions {
  int64_t side = 64;    ///< of the result, in pixels
  bool augment = true;  ///< a random part, half of the time mirrored; else the square in the middle
  CropRange range = {};
  Normalisation normal = {};
};

/// The picture of record i, whatever the shard holds. Throws DataError for one that is damaged.
inline Picture decode_record(const Shard& shard, int64_t i) {
  const auto record = shard.record(i);
  if (shard.kind() == RecordKind::encoded) return decode_picture(record, std::string(shard.name(i)));
  return {shard.height(), shard.width(), {record.begin(), record.end()}};
}

/// The samples of a shard: fields (3, side, side) float, and () int64, the label.
inline Dataset picture_samples(const std::shared_ptr<const Shard>& shard, const PictureOptions& options) {
  const auto load = [shard, options](int64_t i, SampleRandom& random, const Row& row) {
    const Picture picture = decode_record(*shard, i);
    const PictureSize size{picture.height, picture.width};
    const Crop crop = options.augment ? random_crop(size, random, options.range) : centre_crop(size);
    resize_normalised(picture, crop, options.side, options.normal, row.field<float>(0));
    row.field<int64_t>(1)[0] = shard->label(i);
  };
  return {.size = shard->size(),
          .fields = {{{3, options.side, options.side}, torch::kFloat}, {{}, torch::kLong}},
          .load = load,
          .name = [shard](int64_t i) { return std::string(shard->name(i)); }};
}

}  // namespace tenfold
