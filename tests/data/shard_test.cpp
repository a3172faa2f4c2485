// A shard gives back what was written; every kind of damage is found and named.
#include "common/data/shard.h"
#include <gtest/gtest.h>
#include "common/data/data_files.h"

#include <algorithm>
#include <functional>
#include <stdexcept>
#include <utility>

#include "common/base/files.h"
#include "common/data/shard_format.h"
#include "scratch.h"

namespace tenfold {
namespace {

namespace fs = std::filesystem;
using Bytes = std::vector<uint8_t>;
using test::message_of;
using test::read_text;
using test::Scratch;
using test::write_text;

void expect_refused(const fs::path& file, const std::string& part) {
  const std::string line = message_of<DataError>([&] { Shard{file}; });
  EXPECT_NE(line, "") << "expected: " << part;
  EXPECT_EQ(line.find('\n'), std::string::npos) << line;
  for (const std::string& wanted : {file.string(), part, std::string("./tenfold data pack")})
    EXPECT_NE(line.find(wanted), std::string::npos) << "\"" << wanted << "\" is not in: " << line;
}

class ShardFile : public testing::Test {
 protected:
  ShardFile() {
    for (int64_t i = 0; i < 5; ++i)
      records_.emplace_back(static_cast<size_t>(1 + i * 37), static_cast<uint8_t>(40 + i));
    ShardWriter writer(file_, {"cats", "dogs", "none"});
    for (size_t i = 0; i < records_.size(); ++i)
      writer.add(records_[i], static_cast<int64_t>(i % 2), "picture/" + std::to_string(i));
    writer.finish("a note\nof two lines");
    whole_ = read_text(file_);
  }

  /// The file after `change`, with right checksums unless told otherwise.
  void altered(const std::function<void(uint8_t*)>& change, bool mend = true) {
    std::string text = whole_;
    auto* bytes = reinterpret_cast<uint8_t*>(text.data());
    change(bytes);
    const uint64_t index = load_little<uint64_t>(reinterpret_cast<const uint8_t*>(whole_.data()) + kIndexOffset);
    const std::span<const uint8_t> all(bytes, text.size());
    if (mend)
      store_little<uint64_t>(bytes + kTablesChecksum,
                             checksum(all.subspan(index), checksum(all.first(kTablesChecksum))));
    write_text(file_, text);
  }
  uint8_t* entry(uint8_t* bytes, uint64_t i) const {
    return bytes + load_little<uint64_t>(reinterpret_cast<const uint8_t*>(whole_.data()) + kIndexOffset) +
           i * kShardEntryBytes;
  }

  Scratch scratch_;
  fs::path file_ = scratch_.path() / "folder" / "some.shard";
  std::vector<Bytes> records_;
  std::string whole_;
};

TEST_F(ShardFile, GivesBackWhatWasWritten) {
  const Shard shard(file_);
  EXPECT_EQ(shard.kind(), RecordKind::encoded);
  EXPECT_EQ(shard.size(), 5);
  EXPECT_EQ(shard.classes(), (std::vector<std::string>{"cats", "dogs", "none"}));
  EXPECT_EQ(shard.note(), "a note\nof two lines");
  EXPECT_EQ(shard.file_bytes(), static_cast<int64_t>(whole_.size()));
  for (int64_t i = 0; i < shard.size(); ++i) {
    const std::span<const uint8_t> record = shard.record(i);
    EXPECT_TRUE(std::ranges::equal(record, records_[static_cast<size_t>(i)])) << i;
    EXPECT_EQ(reinterpret_cast<uintptr_t>(record.data()) % 64, 0u) << "a loader may read it with wide loads";
    EXPECT_EQ(shard.record(i).data(), record.data()) << "a copy was made";
    EXPECT_EQ(shard.label(i), i % 2);
    EXPECT_EQ(shard.name(i), "picture/" + std::to_string(i));
  }
  EXPECT_EQ(message_of<DataError>([&] { shard.verify(); }), "");
  for (const int64_t i : {int64_t{-1}, int64_t{5}}) {
    EXPECT_THROW(shard.record(i), std::out_of_range);
    EXPECT_THROW(shard.label(i), std::out_of_range);
    EXPECT_THROW(shard.name(i), std::out_of_range);
    EXPECT_THROW(shard.verify(i), std::out_of_range);
  }
}

TEST_F(ShardFile, CanBeMovedAndReplacedWhileItIsRead) {
  Shard shard(file_);
  const uint8_t* place = shard.record(3).data();
  Shard moved = std::move(shard);
  EXPECT_EQ(moved.record(3).data(), place);
  ShardWriter writer(file_, {"other"});
  writer.add(Bytes{1, 2, 3}, 0, "x");
  writer.finish("");
  EXPECT_TRUE(std::ranges::equal(moved.record(3), records_[3])) << "the mapped file is still the old one";
  EXPECT_EQ(Shard(file_).size(), 1);
  moved = Shard(file_);
  EXPECT_EQ(moved.name(0), "x");
}

TEST_F(ShardFile, MayBeEmpty) {
  ShardWriter(file_, {}).finish("");
  EXPECT_EQ(Shard(file_).size(), 0);
}

TEST_F(ShardFile, RawPixelsHaveOneSize) {
  ShardWriter writer(file_, {"a"}, 4, 6);
  writer.add(Bytes(72, 5), 0, "x");
  EXPECT_THROW(writer.add(Bytes(71, 5), 0, "y"), std::invalid_argument);
  writer.finish("");
  const Shard shard(file_);
  EXPECT_EQ(shard.kind(), RecordKind::pixels);
  EXPECT_EQ(shard.height(), 4);
  EXPECT_EQ(shard.width(), 6);
  EXPECT_EQ(shard.record(0).size(), 72u);
  EXPECT_THROW(ShardWriter(file_, {"a"}, 4, 0), std::invalid_argument);
  EXPECT_THROW(ShardWriter(file_, {"a"}, -1, 4), std::invalid_argument);
}

TEST_F(ShardFile, EveryTruncationIsFound) {
  for (size_t n = 0; n < whole_.size(); ++n) {
    write_text(file_, whole_.substr(0, n));
    expect_refused(file_, n < kShardHeaderBytes ? "is no shard" : "is truncated");
  }
  write_text(file_, whole_ + "x");
  expect_refused(file_, "truncated or altered");
}

TEST_F(ShardFile, EveryFlippedByteIsFound) {
  std::vector<bool> padding(whole_.size(), true);
  {
    const Shard shard(file_);
    const auto* begin = reinterpret_cast<const uint8_t*>(whole_.data());
    const auto tables = load_little<uint64_t>(begin + kIndexOffset);
    std::fill(padding.begin(), padding.begin() + kShardHeaderBytes, false);
    std::fill(padding.begin() + static_cast<int64_t>(tables), padding.end(), false);
    for (uint64_t i = 0; i < 5; ++i) {
      const auto offset = load_little<uint64_t>(begin + tables + i * kShardEntryBytes);
      std::fill_n(padding.begin() + static_cast<int64_t>(offset), records_[i].size(), false);
    }
  }
  for (size_t i = 0; i < whole_.size(); ++i) {
    std::string text = whole_;
    text[i] = static_cast<char>(text[i] ^ 0x10);
    write_text(file_, text);
    const std::string line = message_of<DataError>([&] { Shard(file_).verify(); });
    EXPECT_EQ(line.empty(), bool{padding[i]}) << "byte " << i << ": " << line;
  }
}

TEST_F(ShardFile, AnAlteredRecordIsNamedWhenItIsVerified) {
  altered([&](uint8_t* bytes) { bytes[load_little<uint64_t>(entry(bytes, 2))] ^= 1; });
  const Shard shard(file_);
  shard.verify(1);
  const std::string line = message_of<DataError>([&] { shard.verify(); });
  EXPECT_NE(line.find("record 2 (picture/2) is altered"), std::string::npos) << line;
}

TEST_F(ShardFile, OtherFilesAndVersions) {
  write_text(file_, std::string(500, 'x'));
  expect_refused(file_, "is no shard");
  altered([](uint8_t* bytes) { store_little<uint64_t>(bytes + kVersion, 2); });
  expect_refused(file_, "version 2, expected 1");
  fs::remove(file_);
  expect_refused(file_, "is missing");
  fs::create_directory(file_);
  expect_refused(file_, "is not a file");
}

// Damage that a checksum cannot show, because whoever wrote the file got it wrong.
TEST_F(ShardFile, AFaultyWriterIsFound) {
  const auto set_entry = [&](uint64_t i, size_t place, uint64_t value) {
    altered([&](uint8_t* bytes) { store_little<uint64_t>(entry(bytes, i) + place, value); });
  };
  const auto set = [&](HeaderField field, uint64_t value) {
    altered([&](uint8_t* bytes) { store_little<uint64_t>(bytes + field, value); });
  };
  set_entry(1, 0, 128);  // where record 0 lies
  expect_refused(file_, "record 1 overlaps");
  set_entry(0, 0, 0);
  expect_refused(file_, "record 0 overlaps the one before or the header");
  set_entry(1, 0, 193);
  expect_refused(file_, "record 1 is not aligned");
  set_entry(4, 0, uint64_t{1} << 40);
  expect_refused(file_, "record 4 is empty or outside");
  set_entry(4, 8, ~uint64_t{0});
  expect_refused(file_, "record 4 is empty or outside");
  set_entry(4, 8, 0);
  expect_refused(file_, "record 4 is empty or outside");
  set_entry(3, 16, 3);
  expect_refused(file_, "record 3 has the label 3");
  set(kClassCount, 4);
  expect_refused(file_, "names");
  set(kClassCount, 1);
  expect_refused(file_, "names");
  set(kClassCount, uint64_t{1} << 60);
  expect_refused(file_, "names");
  set(kRecordCount, uint64_t{1} << 60);
  expect_refused(file_, "do not fit");
  set(kRecordCount, (uint64_t{1} << 59) + 5);  // times 32 it is 5 again
  expect_refused(file_, "do not fit");
  set(kRecordCount, 4);
  expect_refused(file_, "do not fit");
  set(kIndexOffset, ~uint64_t{0} - 3);
  expect_refused(file_, "do not fit");
  set(kStringsBytes, 1);
  expect_refused(file_, "do not fit");
  altered([](uint8_t* bytes) {
    store_little<uint32_t>(bytes + load_little<uint64_t>(bytes + kStringsOffset), ~uint32_t{0});
  });
  expect_refused(file_, "ends too early");
  set(kKind, 2);
  expect_refused(file_, "unknown kind 2");
  set(kKind, 1);
  expect_refused(file_, "impossible size");
  set(kHeight, 5);
  expect_refused(file_, "impossible size");
  altered([](uint8_t* bytes) {
    store_little<uint64_t>(bytes + kKind, 1);
    store_little<uint64_t>(bytes + kHeight, 1);
    store_little<uint64_t>(bytes + kWidth, 1);
  });
  expect_refused(file_, "does not have the size");
  altered([](uint8_t* bytes) { bytes[kTablesChecksum] ^= 1; }, false);
  expect_refused(file_, "checksum of its header and tables");
}

TEST_F(ShardFile, WithoutFinishNothingIsLeft) {
  {
    ShardWriter writer(scratch_.path() / "new.shard", {"a"});
    writer.add(Bytes(1000, 1), 0, "x");
    EXPECT_THROW(writer.add(Bytes(10, 1), 1, "y"), std::invalid_argument);
    EXPECT_THROW(writer.add(Bytes(10, 1), -1, "y"), std::invalid_argument);
    EXPECT_THROW(writer.add({}, 0, "y"), std::invalid_argument);
  }
  {
    ShardWriter writer(file_, {"a"});  // over one that is there
    writer.add(Bytes(1000, 1), 0, "x");
  }
  EXPECT_EQ(read_text(file_), whole_);
  int64_t files = 0;
  for (const auto& one : fs::recursive_directory_iterator(scratch_.path())) files += one.is_regular_file();
  EXPECT_EQ(files, 1);
}

TEST_F(ShardFile, AFolderThatCannotBeMadeIsSaidSo) {
  const std::string line = message_of<DataError>([&] { ShardWriter(file_ / "below_a_file" / "x.shard", {}); });
  EXPECT_NE(line.find("cannot be written"), std::string::npos) << line;
}

}  // namespace
}  // namespace tenfold
