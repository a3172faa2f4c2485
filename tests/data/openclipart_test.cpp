// The pictures as they were fetched: how many there are, what is left out, and that no series crosses the split.
#include "common/data/openclipart.h"
#include <gtest/gtest.h>
#include "common/data/data_files.h"
#include "common/data/pictures.h"
#include "common/data/shard.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <set>

#include "scratch.h"

namespace tenfold {
namespace {

namespace fs = std::filesystem;

/// Ends the program with 77 when the pictures are not there, before any test.
class Fetched : public testing::Environment {
  void SetUp() override {
    if (fs::exists(data_folder() / "openclipart" / "SHA256SUMS")) return;
    std::puts("the pictures of openclipart are not there; to fetch them: ./tenfold data pack");
    std::fflush(stdout);
    std::_Exit(77);
  }
};
const testing::Environment* const kFetched = testing::AddGlobalTestEnvironment(new Fetched);

TEST(Openclipart, IsTheSubsetThatIsDocumented) {
  std::map<std::string, int> classes;
  for (const auto& entry : fs::recursive_directory_iterator(data_folder() / "openclipart")) {
    if (!entry.is_regular_file() || entry.path().filename() == "SHA256SUMS") continue;
    ++classes[entry.path().lexically_relative(data_folder() / "openclipart").begin()->string()];
  }
  const std::map<std::string, int> expected = {
      {"animals", 286}, {"computer", 500},          {"food", 330},          {"people", 345}, {"recreation", 487},
      {"shapes", 500},  {"signs_and_symbols", 500}, {"transportation", 170}};
  EXPECT_EQ(classes, expected);
}

TEST(Openclipart, PacksWithoutCrossingSeries) {
  const test::Scratch scratch;
  fs::create_directories(scratch.path() / "data");
  fs::create_directory_symlink(data_folder() / "openclipart", scratch.path() / "data" / "openclipart");
  const test::CacheAt cache(scratch.path());
  const PackOptions options{PictureForm::raw, 16};
  const Packed packed = pack_openclipart(options);
  std::map<std::string, int> reasons;
  for (const LeftOut& one : packed.left_out) ++reasons[one.reason];
  EXPECT_EQ(reasons, (std::map<std::string, int>{{"a copy", 32}, {"blank", 2}, {"too large", 15}, {"too small", 8}}));
  EXPECT_EQ(packed.train_pictures + packed.test_pictures, 3061);

  std::map<std::string, std::set<bool>> groups;
  std::map<int64_t, std::map<bool, double>> labels;
  for (const bool train : {true, false}) {
    const Shard shard(openclipart_shard(options, train));
    shard.verify();
    for (int64_t i = 0; i < shard.size(); ++i) {
      groups[picture_group(shard.name(i))].insert(train);
      ++labels[shard.label(i)][train];
    }
  }
  EXPECT_GT(groups.size(), 1000u);
  for (const auto& [group, sides] : groups) EXPECT_EQ(sides.size(), 1u) << group;
  EXPECT_EQ(labels.size(), kOpenclipartClasses.size());
  for (auto& [label, count] : labels) {
    const double share = count[false] / (count[false] + count[true]);
    EXPECT_GT(share, 0.05) << kOpenclipartClasses[static_cast<size_t>(label)];
    EXPECT_LT(share, 0.15) << kOpenclipartClasses[static_cast<size_t>(label)];
  }
}

// A real file with alpha, cut at every 97th byte.
TEST(Openclipart, TruncatedPicturesAreRefused) {
  const fs::path file = data_folder() / "openclipart" / "animals" / "2_dead_frogs_lumen_desig_01.png";
  const std::string text = read_file(file);
  const std::span<const uint8_t> bytes(reinterpret_cast<const uint8_t*>(text.data()), text.size());
  EXPECT_GT(decode_png(bytes, "x").pixels.size(), 0u);
  for (size_t n = 0; n < bytes.size(); n += 97)
    ASSERT_NE(test::message_of<DataError>([&] { decode_picture(bytes.first(n), "x"); }), "") << n;
}

}  // namespace
}  // namespace tenfold
