#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "record_files.h"

#include "tests/support/support.h"

namespace {

using namespace tenfold;
using tenfold::test::message_of;
using tenfold::test::Scratch;
using testing::ElementsAreArray;
using testing::HasSubstr;
using Bytes = std::vector<uint8_t>;

/// Record i: i + 1 times the number i, so that sizes differ and many do not fill a multiple of 64.
Bytes content(int64_t i) { return Bytes(static_cast<size_t>(i + 1), static_cast<uint8_t>(i)); }

constexpr int64_t kRecords = 130;

std::filesystem::path write_shard(const Scratch& scratch) {
  const auto path = scratch.path() / "some.shard";
  ShardWriter writer(path, {"even", "odd"});
  // Names that would leave the folder if they were used.
  for (int64_t i = 0; i < kRecords; ++i) writer.add(content(i), i % 2, "../" + std::to_string(i));
  writer.finish("");
  return path;
}

Bytes read(const ReadRecord& from, int64_t i) {
  Bytes buffer;
  const auto bytes = from(i, buffer);
  return {bytes.begin(), bytes.end()};
}

/// Changes one byte of a file.
void alter(const std::filesystem::path& path, int64_t at) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(at);
  const int byte = file.get();
  file.seekp(at);
  file.put(static_cast<char>(byte ^ 1));
  ASSERT_TRUE(file.good());
}

TEST(RecordFiles, EveryWayGivesTheSameBytes) {
  const Scratch scratch;
  const auto shard = std::make_shared<Shard>(write_shard(scratch));
  const UnpackedRecords files(*shard);
  const std::vector<ReadRecord> ways = {read_files(files.paths()), read_packed(shard), read_packed_and_checked(shard)};
  for (const ReadRecord& way : ways) {
    for (int64_t i = 0; i < kRecords; ++i) EXPECT_EQ(read(way, i), content(i)) << i;
  }
}

TEST(RecordFiles, PackedIsAViewAndAFileIsACopy) {
  const Scratch scratch;
  const auto shard = std::make_shared<Shard>(write_shard(scratch));
  const UnpackedRecords files(*shard);
  Bytes buffer;
  EXPECT_EQ(read_packed(shard)(7, buffer).data(), shard->record(7).data());
  EXPECT_TRUE(buffer.empty());
  const auto copied = read_files(files.paths())(7, buffer);
  EXPECT_EQ(copied.data(), buffer.data());
}

TEST(RecordFiles, ABufferUsedAgainHoldsNothingOfTheLastFile) {
  const Scratch scratch;
  const auto shard = std::make_shared<Shard>(write_shard(scratch));
  const UnpackedRecords files(*shard);
  const ReadRecord way = read_files(files.paths());
  Bytes buffer;
  for (const int64_t i : {129, 3, 64}) {
    const auto bytes = way(i, buffer);
    EXPECT_THAT(Bytes(bytes.begin(), bytes.end()), ElementsAreArray(content(i)));
  }
}

TEST(RecordFiles, ARecordThatDoesNotExist) {
  const Scratch scratch;
  const auto shard = std::make_shared<Shard>(write_shard(scratch));
  const UnpackedRecords files(*shard);
  for (const ReadRecord& way : {read_files(files.paths()), read_packed(shard), read_packed_and_checked(shard)}) {
    for (const int64_t i : {int64_t{-1}, kRecords}) EXPECT_THROW(read(way, i), std::out_of_range) << i;
  }
}

TEST(RecordFiles, AMissingFileIsNamed) {
  const Scratch scratch;
  const ReadRecord way = read_files({(scratch.path() / "gone.png").string(), scratch.path().string()});
  const auto missing = message_of<DataError>([&] { read(way, 0); });
  EXPECT_THAT(missing, HasSubstr("gone.png: is missing; to fix:"));
  const auto folder = message_of<DataError>([&] { read(way, 1); });
  EXPECT_THAT(folder, HasSubstr("is not a file"));
}

TEST(RecordFiles, AnEmptyFileHasNoBytes) {
  const Scratch scratch;
  tenfold::test::write_text(scratch.path() / "empty", "");
  EXPECT_EQ(read(read_files({(scratch.path() / "empty").string()}), 0), Bytes());
}

// What the checksum is for: without looking at it a changed byte passes for data.
TEST(RecordFiles, AnAlteredRecordIsFoundByWhoeverChecks) {
  const Scratch scratch;
  const auto path = write_shard(scratch);
  const auto offset = [&] {
    const Shard whole(path);
    return whole.record(5).data() - whole.record(0).data();
  }();
  alter(path, 128 + offset);                         // the first record begins after the header
  const auto shard = std::make_shared<Shard>(path);  // opens: header, index and names are whole
  EXPECT_NE(read(read_packed(shard), 5), content(5));
  const auto altered = message_of<DataError>([&] { read(read_packed_and_checked(shard), 5); });
  EXPECT_THAT(altered, HasSubstr("record 5 (../5) is altered"));
  EXPECT_EQ(read(read_packed_and_checked(shard), 4), content(4));
}

TEST(UnpackedRecords, TheFolderGoesWithTheObjectAndNothingIsWrittenOutsideIt) {
  const Scratch scratch;
  const Shard shard(write_shard(scratch));
  std::filesystem::path folder;
  {
    const UnpackedRecords files(shard);
    folder = files.folder();
    int64_t count = 0;
    for ([[maybe_unused]] const auto& file : std::filesystem::directory_iterator(folder)) ++count;
    EXPECT_EQ(count, kRecords);
    EXPECT_FALSE(std::filesystem::exists(folder.parent_path() / "0"));
  }
  EXPECT_FALSE(std::filesystem::exists(folder));
}

}  // namespace
