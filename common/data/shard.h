#pragma once
// Many small records in one file that is mapped into memory: what a loader reads instead of thousands of files.
//
// The file, little-endian, all numbers unsigned:
//   header    128 bytes, see shard_format.h: magic, version, counts, sizes, and a checksum of header and tables
//   records   each at a multiple of 64 bytes, in order, zeros between
//   index     32 bytes for each record: offset, bytes (64 bits each), label, CRC-32 (32 bits each), 64 bits of zero
//   strings   the note, the names of the classes, the names of the records: 32 bits of length, then the bytes

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tenfold {

/// What every record of a shard is.
enum class RecordKind : uint64_t {
  encoded = 0,  ///< a PNG or JPEG file
  pixels = 1,   ///< (height, width, 3) bytes, the same sizes for all
};

struct ShardEntry {
  uint64_t offset = 0, bytes = 0;
  uint32_t label = 0, checksum = 0;
};

/// A shard, read. The whole file is mapped, not loaded; every view lives as long as the object. Safe to read from many
/// threads. Do not alter the file meanwhile (a new one is written beside and renamed, which does no harm).
class Shard {
 public:
  /// Checks everything but the records' bytes: sizes, index, names. Throws DataError, one line that says which file and
  /// what is wrong: missing, truncated, altered, of another version, a record outside the file or over another.
  explicit Shard(const std::filesystem::path& path);
  Shard(Shard&& other) noexcept;
  Shard& operator=(Shard&& other) noexcept;
  Shard(const Shard&) = delete;
  Shard& operator=(const Shard&) = delete;
  ~Shard();

  int64_t size() const { return static_cast<int64_t>(index_.size()); }
  RecordKind kind() const { return kind_; }
  int64_t height() const { return height_; }  ///< of pixels; 0 for encoded records
  int64_t width() const { return width_; }
  const std::string& note() const { return note_; }  ///< what the writer said about the whole
  const std::vector<std::string>& classes() const { return classes_; }
  int64_t file_bytes() const { return static_cast<int64_t>(map_.size()); }

  /// Of record i, 0 <= i < size(); std::out_of_range otherwise. A record is a view into the mapped file: no copy.
  std::span<const uint8_t> record(int64_t i) const;
  int64_t label(int64_t i) const { return entry(i).label; }
  std::string_view name(int64_t i) const;

  /// Holds one record, or all, against its checksum; throws DataError that names the first that was altered.
  void verify(int64_t i) const;
  void verify() const;

 private:
  const ShardEntry& entry(int64_t i) const;
  void map();
  void read_tables();
  [[noreturn]] void fail(const std::string& what) const;

  std::filesystem::path path_;
  std::span<const uint8_t> map_;
  RecordKind kind_ = RecordKind::encoded;
  int64_t height_ = 0, width_ = 0;
  std::string note_;
  std::vector<std::string> classes_;
  std::vector<std::string_view> names_;
  std::vector<ShardEntry> index_;
};

/// A shard, written: records one by one, then finish(). The file appears under its name only when it is whole; without
/// finish() nothing is left. Throws DataError when the disk does not take it.
class ShardWriter {
 public:
  /// Encoded records.
  ShardWriter(std::filesystem::path path, std::vector<std::string> classes);
  /// Records of (height, width, 3) bytes.
  ShardWriter(std::filesystem::path path, std::vector<std::string> classes, int64_t height, int64_t width);
  ShardWriter(const ShardWriter&) = delete;
  ShardWriter& operator=(const ShardWriter&) = delete;
  ~ShardWriter();

  /// Throws std::invalid_argument for a label that is no class, an empty record, or pixels of another size.
  void add(std::span<const uint8_t> record, int64_t label, std::string_view name);
  /// `note` says what the reader should know about the whole.
  void finish(const std::string& note);

 private:
  void write(const void* bytes, size_t count);
  void pad();

  std::filesystem::path path_, partial_;
  std::vector<std::string> classes_, names_;
  RecordKind kind_;
  uint64_t height_, width_;
  std::ofstream out_;
  uint64_t at_ = 0;
  std::vector<ShardEntry> index_;
};

}  // namespace tenfold
