#pragma once
// Openclipart: some three thousand drawings in eight classes, to decode and to train on; packed into shards.
// Fetched and packed by the set-up; docs/data.md says what was chosen and why.

#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace tenfold {

/// A picture's label is its class's place here.
inline constexpr std::array<std::string_view, 8> kOpenclipartClasses = {
    "animals", "computer", "food", "people", "recreation", "shapes", "signs_and_symbols", "transportation"};

/// Pictures with a shorter side below this are left out.
inline constexpr int64_t kSmallestSide = 32;

/// What may not be torn apart by a split: the drawings of one series. A series is what shares its class and the first
/// word of its name; case, leading digits and folders inside the class do not count:
///   animals/dinosaurs/dino_architetto_francesc_03.png   animals/dino
///   food/beverages/milk_bw.png                          food/milk
///   shapes/stars/star_05pt02step.png                    shapes/star
///   computer/icons/70a003.png                           computer/a
/// Four decks of the same cards are one group, "recreation/games/cards/". (Whole artists would be groups too large to
/// split: one of them drew more than half of the shapes.)
std::string picture_group(std::string_view name);

/// Whether a group belongs to the test set: about one in ten, by a hash of its name. The same on every machine.
bool in_test_set(std::string_view group);

/// What a shard holds of each picture.
enum class PictureForm {
  png,   ///< the file as it was fetched
  jpeg,  ///< longer side at most `side`, JPEG of quality 90
  raw,   ///< (side, side, 3) bytes, the picture in the middle of white
};

struct PackOptions {
  PictureForm form = PictureForm::png;
  int64_t side = 0;  ///< of jpeg and raw
};

struct LeftOut {
  std::string reason;  ///< "too large", "too small", "damaged", "blank", "a copy"
  std::string detail;  ///< the picture's name and what is wrong with it
};

struct Packed {
  std::filesystem::path train, test;
  int64_t train_pictures = 0, test_pictures = 0, train_bytes = 0, test_bytes = 0;
  std::vector<LeftOut> left_out;
  bool made_now = false;  ///< false: both shards were there already
};

/// Where the shards of such options lie: data_folder()/shards/openclipart-png-train.shard and the like.
std::filesystem::path openclipart_shard(const PackOptions& options, bool train);

/// Packs data_folder()/openclipart into two shards, the classes as labels, pictures in the order of their names; a
/// picture that is too large, too small, damaged, blank or a copy of another is left out and listed. What was packed
/// from the same files with the same options is not packed again. `progress` is called with the share that is done.
/// Throws DataError when the pictures were not fetched or are altered, std::invalid_argument for a side outside 8 to
/// 4096.
Packed pack_openclipart(const PackOptions& options, const std::function<void(double)>& progress = [](double) {});

}  // namespace tenfold
