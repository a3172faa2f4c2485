#include "common/data/shard.h"
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>
#include "common/base/text.h"
#include "common/data/data_files.h"

#include <algorithm>
#include <cerrno>
#include <stdexcept>
#include <utility>

#include "common/data/shard_format.h"

namespace tenfold {

uint32_t checksum(std::span<const uint8_t> bytes, uint32_t before) {
  return static_cast<uint32_t>(crc32_z(before, bytes.data(), bytes.size()));
}

Shard::Shard(const std::filesystem::path& path) : path_(path) {
  map();
  try {
    read_tables();
  } catch (...) {  // there is no destructor call for half an object
    munmap(const_cast<uint8_t*>(map_.data()), map_.size());
    throw;
  }
}

Shard::Shard(Shard&& other) noexcept { *this = std::move(other); }

Shard& Shard::operator=(Shard&& other) noexcept {
  if (this == &other) return *this;
  std::swap(path_, other.path_);
  std::swap(map_, other.map_);
  std::swap(kind_, other.kind_);
  std::swap(height_, other.height_);
  std::swap(width_, other.width_);
  std::swap(note_, other.note_);
  std::swap(classes_, other.classes_);
  std::swap(names_, other.names_);
  std::swap(index_, other.index_);
  return *this;
}

Shard::~Shard() {
  if (!map_.empty()) munmap(const_cast<uint8_t*>(map_.data()), map_.size());
}

void Shard::fail(const std::string& what) const {
  // A record's name comes out of the file.
  throw DataError(path_.string() + ": " + one_line(what) + "; to fix: ./tenfold data pack");
}

void Shard::map() {
  const auto with_reason = [](const char* what) { return std::string(what) + " (" + std::strerror(errno) + ")"; };
  const int file = open(path_.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) fail(errno == ENOENT ? "is missing" : with_reason("cannot be opened"));
  struct stat status{};
  void* memory = MAP_FAILED;
  std::string problem;
  if (fstat(file, &status) != 0) {
    problem = with_reason("cannot be read");
  } else if (!S_ISREG(status.st_mode)) {
    problem = "is not a file";
  } else if (static_cast<uint64_t>(status.st_size) < kShardHeaderBytes) {
    problem = "is no shard: it ends inside its header";
  } else {
    memory = mmap(nullptr, static_cast<size_t>(status.st_size), PROT_READ, MAP_SHARED, file, 0);
    if (memory == MAP_FAILED) problem = with_reason("cannot be mapped");
  }
  close(file);
  if (!problem.empty()) fail(problem);
  map_ = {static_cast<const uint8_t*>(memory), static_cast<size_t>(status.st_size)};
}

void Shard::read_tables() {
  const auto field = [&](HeaderField at) { return load_little<uint64_t>(map_.data() + at); };
  if (std::memcmp(map_.data(), kShardMagic.data(), kShardMagic.size()) != 0) fail("is no shard");
  if (field(kVersion) != kShardVersion)
    fail("is a shard of version " + std::to_string(field(kVersion)) + ", expected " + std::to_string(kShardVersion));
  if (field(kFileBytes) != map_.size())
    fail("is truncated or altered: it has " + std::to_string(map_.size()) + " bytes, its header says " +
         std::to_string(field(kFileBytes)));

  // The tables stand at the end, one behind the other; each bound is checked before it is used.
  const uint64_t count = field(kRecordCount), index = field(kIndexOffset), strings = field(kStringsOffset);
  const uint64_t bytes = map_.size();
  if (index < kShardHeaderBytes || index > bytes || count > (bytes - index) / kShardEntryBytes ||
      strings != index + count * kShardEntryBytes || field(kStringsBytes) != bytes - strings)
    fail("is altered: its tables do not fit into the file");
  const uint32_t expected = checksum(map_.subspan(index), checksum(map_.first(kTablesChecksum)));
  if (field(kTablesChecksum) != expected) fail("is altered: the checksum of its header and tables is wrong");

  // What follows cannot come from damage any more, but from a faulty or hostile writer.
  if (field(kKind) > 1) fail("holds records of an unknown kind " + std::to_string(field(kKind)));
  kind_ = static_cast<RecordKind>(field(kKind));
  const uint64_t height = field(kHeight), width = field(kWidth);
  const bool sized = kind_ == RecordKind::pixels;
  if (sized != (height > 0) || sized != (width > 0) || height > INT32_MAX || width > INT32_MAX)
    fail("holds pictures of an impossible size");
  height_ = static_cast<int64_t>(height);
  width_ = static_cast<int64_t>(width);

  uint64_t at = strings;
  const auto next_string = [&]() -> std::string_view {
    if (bytes - at < 4) fail("has a table of names that ends too early");
    const auto length = load_little<uint32_t>(map_.data() + at);
    at += 4;
    if (bytes - at < length) fail("has a table of names that ends too early");
    at += length;
    return {reinterpret_cast<const char*>(map_.data() + at - length), length};
  };
  note_ = next_string();
  const uint64_t class_count = field(kClassCount);
  for (uint64_t i = 0; i < class_count; ++i) classes_.emplace_back(next_string());
  for (uint64_t i = 0; i < count; ++i) names_.push_back(next_string());
  if (at != bytes) fail("has more names than records");

  uint64_t free_from = kShardHeaderBytes;
  for (uint64_t i = 0; i < count; ++i) {
    const uint8_t* source = map_.data() + index + i * kShardEntryBytes;
    const ShardEntry entry{load_little<uint64_t>(source), load_little<uint64_t>(source + 8),
                           load_little<uint32_t>(source + 16), load_little<uint32_t>(source + 20)};
    const std::string record = "record " + std::to_string(i) + " ";
    if (entry.offset % kShardAlignment != 0) fail(record + "is not aligned");
    if (entry.offset < free_from) fail(record + "overlaps the one before or the header");
    if (entry.bytes == 0 || entry.offset > index || entry.bytes > index - entry.offset)
      fail(record + "is empty or outside the file");
    if (entry.label >= class_count)
      fail(record + "has the label " + std::to_string(entry.label) + ", which is no class");
    if (sized && entry.bytes != height * width * 3) fail(record + "does not have the size of the pictures");
    free_from = entry.offset + entry.bytes;
    index_.push_back(entry);
  }
}

const ShardEntry& Shard::entry(int64_t i) const {
  if (i < 0 || i >= size())
    throw std::out_of_range("record " + std::to_string(i) + " of a shard of " + std::to_string(size()) + ": " +
                            path_.string());
  return index_[static_cast<size_t>(i)];
}

std::span<const uint8_t> Shard::record(int64_t i) const {
  const ShardEntry& found = entry(i);
  return map_.subspan(found.offset, found.bytes);
}

std::string_view Shard::name(int64_t i) const {
  entry(i);
  return names_[static_cast<size_t>(i)];
}

void Shard::verify(int64_t i) const {
  if (checksum(record(i)) != entry(i).checksum)
    fail("record " + std::to_string(i) + " (" + std::string(name(i)) + ") is altered");
}

void Shard::verify() const {
  for (int64_t i = 0; i < size(); ++i) verify(i);
}

}  // namespace tenfold
