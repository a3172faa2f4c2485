#include <gtest/gtest.h>

#include EXERCISE

#include <limits>

namespace {

using Bytes = std::vector<uint8_t>;

std::vector<Bytes> some_records() {
  std::vector<Bytes> records;
  for (const size_t size : {1U, 64U, 0U, 65U, 1000U, 63U})
    records.emplace_back(size, static_cast<uint8_t>(size * 7 + 1));
  return records;
}

/// Opens the block and looks at all that it says it holds.
void read_all(const Bytes& block) {
  const Reader reader(block);
  for (int64_t i = 0; i < reader.size(); ++i) {
    const auto record = reader.record(i);
    // Compared as numbers: pointers into different objects have no order.
    const auto begin = reinterpret_cast<uintptr_t>(block.data()), at = reinterpret_cast<uintptr_t>(record.data());
    const bool inside =
        record.empty() || (at >= begin && record.size() <= block.size() && at - begin <= block.size() - record.size());
    EXPECT_TRUE(inside) << "hint: record " << i << " is not a view into the block";
  }
}

bool refused(const Bytes& block) {
  try {
    read_all(block);
  } catch (const std::runtime_error&) {
    return true;
  }
  return false;
}

void write_number(Bytes& block, size_t at, uint64_t value) {
  ASSERT_LE(at + sizeof(value), block.size()) << "hint: the block is too short to hold its index";
  std::memcpy(block.data() + at, &value, sizeof(value));
}

TEST(Exercise14, WhatWasPackedComesBack) {
  const auto records = some_records();
  const Bytes block = pack(records);
  const Reader reader(block);
  ASSERT_EQ(reader.size(), static_cast<int64_t>(records.size()));
  for (size_t i = 0; i < records.size(); ++i) {
    const auto record = reader.record(static_cast<int64_t>(i));
    EXPECT_EQ(Bytes(record.begin(), record.end()), records[i]) << "record " << i;
  }
  EXPECT_EQ(Reader(pack({})).size(), 0);
}

TEST(Exercise14, RecordsAreAlignedViews) {
  const Bytes block = pack(some_records());
  const Reader reader(block);
  ASSERT_GT(reader.size(), 0) << "hint: the reader finds no records";
  for (int64_t i = 0; i < reader.size(); ++i) {
    const auto record = reader.record(i);
    if (!record.empty()) {
      EXPECT_EQ((record.data() - block.data()) % static_cast<int64_t>(kAlignment), 0)
          << "hint: record " << i << " is not at a multiple of 64, or a copy";
    }
  }
  read_all(block);
}

TEST(Exercise14, NoSuchRecord) {
  const Bytes block = pack(some_records());
  const Reader reader(block);
  ASSERT_GT(reader.size(), 0) << "hint: the reader finds no records";
  EXPECT_THROW(reader.record(-1), std::out_of_range);
  EXPECT_THROW(reader.record(reader.size()), std::out_of_range);
}

TEST(Exercise14, ABlockCutShortIsRefused) {
  const Bytes block = pack(some_records());
  for (size_t size = 0; size < block.size(); ++size) {
    // A block of its own, so that AddressSanitizer sees whoever reads behind its end.
    ASSERT_TRUE(refused(Bytes(block.begin(), block.begin() + static_cast<int64_t>(size))))
        << "hint: cut after byte " << size;
  }
}

TEST(Exercise14, AnAlteredRecordIsRefused) {
  const Bytes block = pack({Bytes(100, 5), Bytes(100, 6)});
  const Reader whole(block);
  ASSERT_EQ(whole.size(), 2);
  const auto at = static_cast<size_t>(whole.record(1).data() - block.data());
  for (const size_t byte : {0U, 50U, 99U}) {
    Bytes altered = block;
    altered[at + byte] ^= 1;
    EXPECT_TRUE(refused(altered)) << "hint: byte " << byte << " of record 1 was changed and nobody noticed";
    EXPECT_NO_THROW(Reader(altered).record(0)) << "hint: record 0 is whole, and only record 1 need be refused";
  }
}

TEST(Exercise14, AHostileIndexIsRefused) {
  constexpr uint64_t kMost = std::numeric_limits<uint64_t>::max();
  const Bytes block = pack({Bytes(100, 5)});
  for (const uint64_t count : {kMost, kMost / sizeof(Entry) + 1, uint64_t{1000}}) {
    Bytes hostile = block;
    write_number(hostile, 0, count);
    EXPECT_TRUE(refused(hostile)) << "hint: the block says that it holds " << count << " records";
  }
  for (const uint64_t offset : {kMost, kMost - 99, uint64_t{100000}}) {
    Bytes hostile = block;
    write_number(hostile, sizeof(uint64_t), offset);
    EXPECT_TRUE(refused(hostile)) << "hint: the record is said to begin at " << offset;
  }
  for (const uint64_t bytes : {kMost, kMost - 63, uint64_t{100000}}) {
    Bytes hostile = block;
    write_number(hostile, 2 * sizeof(uint64_t), bytes);
    EXPECT_TRUE(refused(hostile)) << "hint: the record is said to have " << bytes << " bytes";
  }
}

}  // namespace
