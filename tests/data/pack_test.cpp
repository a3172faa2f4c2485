// Packing: groups never cross the split, what is left out is named, a pack is made once. On a small set of our own.
#include <gtest/gtest.h>
#include "common/base/files.h"
#include "common/base/sha256.h"
#include "common/data/data_files.h"
#include "common/data/openclipart.h"
#include "common/data/pictures.h"
#include "common/data/shard.h"

#include <algorithm>
#include <map>
#include <set>
#include <stdexcept>

#include "picture_files.h"
#include "scratch.h"

namespace tenfold {
namespace {

namespace fs = std::filesystem;
using test::Bytes;
using test::message_of;
using test::noise_png;

TEST(PictureGroup, IsTheFirstWordInItsClass) {
  EXPECT_EQ(picture_group("animals/dino_architetto_francesc_08.png"), "animals/dino");
  EXPECT_EQ(picture_group("animals/Dino2.png"), "animals/dino");
  EXPECT_EQ(picture_group("food/milk_bw.png"), picture_group("food/beverages/milk_ganson.png"));
  EXPECT_EQ(picture_group("shapes/stars/star_05pt02step.png"), "shapes/star");
  EXPECT_EQ(picture_group("computer/icons/70a003.png"), "computer/a");
  EXPECT_NE(picture_group("people/star.png"), picture_group("shapes/star.png"));
  EXPECT_EQ(picture_group("recreation/games/cards/white/white_s_q.png"),
            picture_group("recreation/games/cards/simple/simple_c_2.png"));
  EXPECT_EQ(picture_group("shapes/12.png"), "shapes/png");  // no letter before the ending: all such are one group
}

// The same on every machine, or a published result could not be repeated.
TEST(PictureGroup, TheSplitIsFixedAndAboutATenth) {
  std::string pattern;
  for (int i = 0; i < 40; ++i) pattern += in_test_set("food/word" + std::to_string(i)) ? '1' : '0';
  EXPECT_EQ(pattern, "0000000100000000000000000100000000000011");
  int test = 0;
  for (int i = 0; i < 10000; ++i) test += in_test_set("shapes/group" + std::to_string(i));
  EXPECT_GT(test, 900);
  EXPECT_LT(test, 1100);
}

class Packing : public testing::Test {
 protected:
  void SetUp() override {
    for (uint32_t i = 0; i < 60; ++i) {
      // Three series in each class.
      const std::string series(1, static_cast<char>('a' + i / 8 % 3));
      const std::string name =
          std::string(kOpenclipartClasses[i % 8]) + "/" + series + "_" + std::to_string(i) + ".png";
      add(name, noise_png(40 + i, 50, i + 1));
    }
    list();
  }
  void add(const std::string& name, const Bytes& file) {
    test::write_text(folder_ / name, std::string(file.begin(), file.end()));
    names_.push_back(name);
  }
  void list() const {
    std::string sums;
    for (const std::string& name : names_) sums += sha256(test::read_text(folder_ / name)) + "  " + name + "\n";
    test::write_text(folder_ / "SHA256SUMS", sums);
  }

  test::Scratch scratch_;
  test::CacheAt cache_{scratch_.path()};
  fs::path folder_ = data_folder() / "openclipart";
  std::vector<std::string> names_;
};

TEST_F(Packing, EveryPictureIsInOneShardWithItsLabelAndGroupsDoNotCross) {
  const Packed packed = pack_openclipart({});
  EXPECT_TRUE(packed.made_now);
  EXPECT_TRUE(packed.left_out.empty());
  EXPECT_EQ(packed.train_pictures + packed.test_pictures, 60);
  std::map<std::string, std::set<bool>> groups;
  std::set<std::string> names;
  for (const bool train : {true, false}) {
    const Shard shard(openclipart_shard({}, train));
    shard.verify();
    EXPECT_EQ(shard.size(), train ? packed.train_pictures : packed.test_pictures);
    EXPECT_EQ(shard.file_bytes(), train ? packed.train_bytes : packed.test_bytes);
    for (int64_t i = 0; i < shard.size(); ++i) {
      const std::string name(shard.name(i));
      EXPECT_TRUE(names.insert(name).second);
      groups[picture_group(name)].insert(train);
      EXPECT_EQ(shard.classes()[static_cast<size_t>(shard.label(i))], name.substr(0, name.find('/')));
      EXPECT_EQ(std::string(shard.record(i).begin(), shard.record(i).end()), test::read_text(folder_ / name));
    }
  }
  EXPECT_EQ(names, std::set<std::string>(names_.begin(), names_.end()));
  for (const auto& [group, sides] : groups) EXPECT_EQ(sides.size(), 1u) << group;
  EXPECT_GT(packed.test_pictures, 0);
}

TEST_F(Packing, WhatIsLeftOutIsNamed) {
  add("food/large.png", test::with_png_size(noise_png(40, 40), 5000, 5000));
  add("food/small.png", noise_png(31, 900));
  add("food/torn.png", [] {
    Bytes file = noise_png(40, 40);
    file.resize(2000);
    return file;
  }());
  add("food/text.png", {'h', 'i'});
  add("food/blank.png", test::png_file(40, 40, std::vector<Bytes>(40, Bytes(120, 200))));
  add("shapes/zz_again.png", noise_png(40, 50, 1));  // the first picture of the set, in another class
  list();
  const Packed packed = pack_openclipart({});
  EXPECT_EQ(packed.train_pictures + packed.test_pictures, 60);
  const auto reason_of = [&](const std::string& name) {
    const auto found =
        std::ranges::find_if(packed.left_out, [&](const LeftOut& one) { return one.detail.starts_with(name); });
    return found == packed.left_out.end() ? "none" : found->reason;
  };
  EXPECT_EQ(packed.left_out.size(), 6u);
  EXPECT_EQ(reason_of("food/large.png (5000 x 5000)"), "too large");
  EXPECT_EQ(reason_of("food/small.png (31 x 900)"), "too small");
  EXPECT_EQ(reason_of("food/torn.png: is a truncated"), "damaged");
  EXPECT_EQ(reason_of("food/text.png: is no PNG"), "damaged");
  EXPECT_EQ(reason_of("food/blank.png"), "blank");
  EXPECT_EQ(reason_of("shapes/zz_again.png (of animals/a_0.png)"), "a copy");
  const Packed again = pack_openclipart({});
  EXPECT_FALSE(again.made_now);
  ASSERT_EQ(again.left_out.size(), 6u);
  for (size_t i = 0; i < 6; ++i) {
    EXPECT_EQ(again.left_out[i].reason, packed.left_out[i].reason);
    EXPECT_EQ(again.left_out[i].detail, packed.left_out[i].detail);
  }
}

TEST_F(Packing, IsDoneOnceUntilSomethingChanges) {
  EXPECT_TRUE(pack_openclipart({}).made_now);
  EXPECT_FALSE(pack_openclipart({}).made_now);
  EXPECT_TRUE(pack_openclipart({PictureForm::jpeg, 32}).made_now);
  EXPECT_TRUE(pack_openclipart({PictureForm::jpeg, 48}).made_now) << "another size is another shard";
  EXPECT_FALSE(pack_openclipart({PictureForm::jpeg, 32}).made_now);
  test::write_text(openclipart_shard({}, false), "torn");
  EXPECT_TRUE(pack_openclipart({}).made_now);
  fs::remove(openclipart_shard({}, true));
  EXPECT_TRUE(pack_openclipart({}).made_now);
  add("animals/new.png", noise_png(77, 77));
  list();
  const Packed packed = pack_openclipart({});
  EXPECT_TRUE(packed.made_now) << "other pictures";
  EXPECT_EQ(packed.train_pictures + packed.test_pictures, 61);
}

TEST_F(Packing, OtherForms) {
  const PackOptions jpeg{PictureForm::jpeg, 32}, raw{PictureForm::raw, 16};
  pack_openclipart(jpeg);
  pack_openclipart(raw);
  const Shard png_shard = [] {
    pack_openclipart({});
    return Shard(openclipart_shard({}, true));
  }();
  const Shard jpeg_shard(openclipart_shard(jpeg, true)), raw_shard(openclipart_shard(raw, true));
  EXPECT_EQ(raw_shard.kind(), RecordKind::pixels);
  EXPECT_EQ(raw_shard.height(), 16);
  ASSERT_EQ(jpeg_shard.size(), png_shard.size());
  ASSERT_EQ(raw_shard.size(), png_shard.size());
  for (int64_t i = 0; i < png_shard.size(); ++i) {
    EXPECT_EQ(jpeg_shard.name(i), png_shard.name(i));
    EXPECT_EQ(raw_shard.label(i), png_shard.label(i));
    const PictureSize size = picture_size(jpeg_shard.record(i), "record");
    EXPECT_EQ(std::max(size.height, size.width), 32);
    EXPECT_TRUE(
        std::ranges::equal(raw_shard.record(i), square_picture(decode_png(png_shard.record(i), "record"), 16).pixels));
  }
  for (const int64_t side : {0, 7, 4097})
    EXPECT_THROW(pack_openclipart({PictureForm::raw, side}), std::invalid_argument);
}

TEST_F(Packing, AlteredOrMissingPicturesAreFetchedAgain) {
  const auto expect_error = [&](const std::string& part) {
    const std::string line = message_of<DataError>([&] { pack_openclipart({}); });
    EXPECT_NE(line.find(part), std::string::npos) << line;
    EXPECT_NE(line.find("; to fix: ./tenfold data pack"), std::string::npos) << line;
    EXPECT_EQ(line.find('\n'), std::string::npos) << line;
    EXPECT_FALSE(fs::exists(folder_ / "SHA256SUMS")) << "the advised command would not fetch";
    EXPECT_FALSE(fs::exists(openclipart_shard({}, true)));
    list();
  };
  const std::string kept = test::read_text(folder_ / names_[7]);
  std::string other = kept;
  other.back() = 'x';
  test::write_text(folder_ / names_[7], other);
  expect_error(names_[7] + ": is truncated or altered");  // list() now takes it for right
  fs::remove(folder_ / names_[7]);
  test::write_text(folder_ / "SHA256SUMS", sha256(kept) + "  " + names_[7] + "\n");
  {
    const std::string line = message_of<DataError>([&] { pack_openclipart({}); });
    EXPECT_NE(line.find("is missing"), std::string::npos) << line;
  }
  test::write_text(folder_ / names_[7], kept);
  test::write_text(folder_ / "SHA256SUMS", "<html>\n");
  expect_error("is damaged");
  test::write_text(folder_ / "SHA256SUMS", std::string(64, 'a') + "  boats/x.png\n");
  expect_error("boats/x.png, which is of no known class");
  fs::remove(folder_ / "SHA256SUMS");
  expect_error("was not fetched");
}

}  // namespace
}  // namespace tenfold
