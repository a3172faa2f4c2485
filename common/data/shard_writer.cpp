#include <unistd.h>
#include "common/data/data_files.h"
#include "common/data/shard.h"

#include <limits>
#include <stdexcept>
#include <utility>

#include "common/data/shard_format.h"

namespace tenfold {

namespace fs = std::filesystem;

ShardWriter::ShardWriter(fs::path path, std::vector<std::string> classes)
    : ShardWriter(std::move(path), std::move(classes), 0, 0) {}

ShardWriter::ShardWriter(fs::path path, std::vector<std::string> classes, int64_t height, int64_t width)
    : path_(std::move(path)),
      partial_(path_.string() + ".partial." + std::to_string(getpid())),
      classes_(std::move(classes)),
      kind_(height == 0 && width == 0 ? RecordKind::encoded : RecordKind::pixels),
      height_(static_cast<uint64_t>(height)),
      width_(static_cast<uint64_t>(width)) {
  constexpr int64_t kLongest = 65536;
  if (kind_ == RecordKind::pixels && (height < 1 || width < 1 || height > kLongest || width > kLongest))
    throw std::invalid_argument("ShardWriter: height and width must be 1 to 65536");
  std::error_code ignored;  // opening says what is wrong
  if (path_.has_parent_path()) fs::create_directories(path_.parent_path(), ignored);
  out_.open(partial_, std::ios::binary);
  const std::array<uint8_t, kShardHeaderBytes> header{};
  write(header.data(), header.size());
}

ShardWriter::~ShardWriter() {
  out_.close();
  std::error_code ignored;
  fs::remove(partial_, ignored);
}

void ShardWriter::write(const void* bytes, size_t count) {
  out_.write(static_cast<const char*>(bytes), static_cast<std::streamsize>(count));
  if (!out_)
    throw DataError(partial_.string() +
                    ": cannot be written; to fix: check the folder's permissions and the free space");
  at_ += count;
}

void ShardWriter::pad() {
  const std::array<uint8_t, kShardAlignment> zeros{};
  write(zeros.data(), aligned(at_) - at_);
}

void ShardWriter::add(std::span<const uint8_t> record, int64_t label, std::string_view name) {
  if (label < 0 || label >= static_cast<int64_t>(classes_.size()))
    throw std::invalid_argument("ShardWriter: " + std::to_string(label) + " is the label of no class");
  if (record.empty()) throw std::invalid_argument("ShardWriter: the record " + std::string(name) + " is empty");
  if (kind_ == RecordKind::pixels && record.size() != height_ * width_ * 3)
    throw std::invalid_argument("ShardWriter: the record " + std::string(name) +
                                " does not have height * width * 3 bytes");
  pad();
  index_.push_back({at_, record.size(), static_cast<uint32_t>(label), checksum(record)});
  names_.emplace_back(name);
  write(record.data(), record.size());
}

void ShardWriter::finish(const std::string& note) {
  pad();
  const uint64_t index_offset = at_;
  std::vector<uint8_t> tables(index_.size() * kShardEntryBytes);
  for (size_t i = 0; i < index_.size(); ++i) {
    uint8_t* target = tables.data() + i * kShardEntryBytes;
    store_little(target, index_[i].offset);
    store_little(target + 8, index_[i].bytes);
    store_little(target + 16, index_[i].label);
    store_little(target + 20, index_[i].checksum);
  }
  const uint64_t strings_offset = index_offset + tables.size();
  const auto append = [&](const std::string& text) {
    if (text.size() > std::numeric_limits<uint32_t>::max())
      throw std::invalid_argument("ShardWriter: a text of more than 4 GiB");
    tables.resize(tables.size() + 4);
    store_little(tables.data() + tables.size() - 4, static_cast<uint32_t>(text.size()));
    tables.insert(tables.end(), text.begin(), text.end());
  };
  append(note);
  for (const std::string& text : classes_) append(text);
  for (const std::string& text : names_) append(text);
  write(tables.data(), tables.size());

  std::array<uint8_t, kShardHeaderBytes> header{};
  std::memcpy(header.data(), kShardMagic.data(), kShardMagic.size());
  const auto set = [&](HeaderField field, uint64_t value) { store_little(header.data() + field, value); };
  set(kVersion, kShardVersion);
  set(kFileBytes, at_);
  set(kKind, static_cast<uint64_t>(kind_));
  set(kHeight, height_);
  set(kWidth, width_);
  set(kClassCount, classes_.size());
  set(kRecordCount, index_.size());
  set(kIndexOffset, index_offset);
  set(kStringsOffset, strings_offset);
  set(kStringsBytes, at_ - strings_offset);
  set(kTablesChecksum, checksum(tables, checksum(std::span(header).first(kTablesChecksum))));
  out_.seekp(0);
  write(header.data(), header.size());
  out_.close();
  if (!out_) throw DataError(partial_.string() + ": cannot be written; to fix: check the free space");
  std::error_code error;
  fs::rename(partial_, path_, error);
  if (error)
    throw DataError(path_.string() + ": cannot be written (" + error.message() +
                    "); to fix: check the folder's permissions");
}

}  // namespace tenfold
