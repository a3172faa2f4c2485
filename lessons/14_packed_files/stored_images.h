#pragma once
// The images of lesson 14, as they are stored, and their way from a record to a row of a batch.

#include <ATen/record_function.h>

#include "common/models/clipart.h"
#include "lessons/10_parallel_loading/loader.h"
#include "lessons/10_parallel_loading/random_resized_crop.h"
#include "record_files.h"

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace tenfold::inline lesson_14 {

inline constexpr int64_t kRawSide = 64;  ///< of the images that are stored as decoded pixels

inline constexpr Setting<std::string> kStored{
    "stored",
    "png",
    "what a record is: a PNG file as it was fetched, a JPEG file of 256 pixels, or 64 x 64 decoded pixels",
    {"png", "jpeg", "raw"}};
inline constexpr Setting<int64_t> kSide{"side", kRawSide, "height and width of an image in its batch, in pixels"};

/// Openclipart's images as the setting says, or as another form has them.
struct StoredImages {
  PictureForm form;
  std::shared_ptr<const Shard> shard;
};

inline PictureForm stored_form(const Trial& trial) {
  const std::string stored = trial.get(kStored);
  return stored == "png" ? PictureForm::png : stored == "jpeg" ? PictureForm::jpeg : PictureForm::raw;
}

inline StoredImages open_images(const Trial& trial, PictureForm form) {
  const int64_t side = form == PictureForm::jpeg ? 256 : form == PictureForm::raw ? kRawSide : 0;
  return {form, open_clipart(trial, {form, side})};
}
inline StoredImages open_images(const Trial& trial) { return open_images(trial, stored_form(trial)); }

inline void note_stored_size(const Trial& trial, const Shard& shard) {
  trial.note("stored per image", static_cast<double>(shard.file_bytes()) / static_cast<double>(shard.size()) / 1024,
             "KiB");
}

/// Record i in a file of its own. The PNG files are the data set itself; others are written once per process.
inline std::vector<std::string> files_of(const Trial& trial, const StoredImages& images) {
  if (images.form == PictureForm::png) {
    std::vector<std::string> paths;
    for (int64_t i = 0; i < images.shard->size(); ++i)
      paths.push_back((data_folder() / "openclipart" / images.shard->name(i)).string());
    return paths;
  }
  using Files = std::unique_ptr<UnpackedRecords>;
  const std::string form = images.form == PictureForm::jpeg ? "jpeg" : "raw";
  return trial.shared<Files>(form, [&] { return std::make_unique<UnpackedRecords>(*images.shard); })->paths();
}

/// From a record to an image. A PNG is shrunk to what the raw shard holds, so that both give the same pixels.
inline Picture decode(std::span<const uint8_t> record, PictureForm form, const std::string& name) {
  if (form == PictureForm::raw) return {kRawSide, kRawSide, {record.begin(), record.end()}};
  Picture image = decode_picture(record, name);
  return form == PictureForm::png ? square_picture(image, kRawSide) : image;
}

/// Reads, decodes and augments one image at a time. Names and labels come from the shard's index for all variants: only
/// `read` differs. Regions "read" and "decode".
inline Dataset samples_of(const Trial& trial, const StoredImages& images, const ReadRecord& read) {
  const int64_t side = trial.get(kSide);
  const auto load = [images, read, side](int64_t i, SampleRandom& random, const Row& row) {
    std::vector<uint8_t> buffer;
    std::span<const uint8_t> record;
    {
      RECORD_USER_SCOPE("read");
      record = read(i, buffer);
    }
    Picture image;
    {
      RECORD_USER_SCOPE("decode");
      image = decode(record, images.form, std::string(images.shard->name(i)));
    }
    const Crop crop = random_crop({image.height, image.width}, random);
    resize_normalised(image, crop, side, {}, row.field<float>(0));
    row.field<int64_t>(1)[0] = images.shard->label(i);
  };
  return {.size = images.shard->size(),
          .fields = {{{3, side, side}, torch::kFloat}, {{}, torch::kLong}},
          .load = load,
          .name = [shard = images.shard](int64_t i) { return std::string(shard->name(i)); }};
}

}  // namespace tenfold::inline lesson_14
