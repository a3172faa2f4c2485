#include "snapshot.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

#include "common/base/files.h"
#include "places.h"

namespace tenfold {
namespace {

using Kind = Value::Kind;

/// More than any card holds; sums of a whole trace stay far below 2^63.
constexpr int64_t kMostBytes = int64_t{1} << 48, kMostInAll = int64_t{1} << 61;

constexpr int kMostDevices = 1024;

/// One dict of the tree, with its name for complaints.
class Fields {
 public:
  Fields(const Document& document, const Value& dict, const std::string& name)
      : document_(document), dict_(dict), name_(name) {
    if (dict.kind != Kind::DICT) fail(name, "is no dict");
  }

  const Value* find(const char* key) const { return document_.find(dict_, key); }

  const Value& need(const char* key, Kind kind, const char* what) const {
    const Value* value = find(key);
    if (!value) fail(below(key), "is missing");
    if (value->kind != kind) fail(below(key), std::string("is no ") + what);
    return *value;
  }
  int64_t integer(const char* key) const { return need(key, Kind::INTEGER, "whole number").bits; }
  int64_t integer_or(const char* key, int64_t otherwise) const { return find(key) ? integer(key) : otherwise; }
  int64_t bytes(const char* key) const {
    const int64_t value = integer(key);
    if (value < 0 || value > kMostBytes) fail(below(key), std::to_string(value) + " bytes, which no card holds");
    return value;
  }
  std::string_view text(const char* key) const { return document_.text(need(key, Kind::TEXT, "text")); }
  const std::vector<Value>& list(const char* key) const { return document_.items(need(key, Kind::LIST, "list")); }
  bool is_true(const char* key) const {
    const Value* value = find(key);
    return value && value->kind == Kind::BOOLEAN && value->bits != 0;
  }
  std::string below(const char* key) const { return name_.empty() ? key : name_ + "." + key; }

  [[noreturn]] static void fail(const std::string& name, const std::string& what) {
    throw SnapshotError((name.empty() ? "" : name + ": ") + what);
  }

 private:
  const Document& document_;
  const Value& dict_;
  const std::string& name_;
};

std::string element(const std::string& list, size_t index) { return list + "[" + std::to_string(index) + "]"; }

std::optional<AllocatorAction> action_named(std::string_view name) {
  constexpr std::pair<std::string_view, AllocatorAction> kActions[] = {
      {"alloc", AllocatorAction::ALLOC},
      {"free_completed", AllocatorAction::FREE_COMPLETED},
      {"segment_alloc", AllocatorAction::SEGMENT_ALLOC},
      {"segment_free", AllocatorAction::SEGMENT_FREE},
      {"segment_map", AllocatorAction::SEGMENT_MAP},
      {"segment_unmap", AllocatorAction::SEGMENT_UNMAP},
      {"oom", AllocatorAction::OUT_OF_MEMORY}};
  for (const auto& [key, action] : kActions) {
    if (key == name) return action;
  }
  return std::nullopt;  // "free_requested", "snapshot", and what later versions add
}

class SnapshotReader {
 public:
  explicit SnapshotReader(const Document& document) : document_(document), places_(document) {}

  MemorySnapshot read() {
    if (document_.root.kind != Kind::DICT)
      throw SnapshotError("holds no dict; a snapshot is what torch.cuda.memory._dump_snapshot() writes");
    const std::string none;
    const Fields root(document_, document_.root, none);
    if (!root.find("segments")) throw SnapshotError("has no segments: no snapshot of PyTorch's allocator");
    const std::vector<Value>& segments = root.list("segments");
    for (size_t i = 0; i < segments.size(); ++i) add_segment(segments[i], element("segments", i));
    if (root.find("device_traces")) {
      const std::vector<Value>& traces = root.list("device_traces");
      if (traces.size() > kMostDevices) throw SnapshotError("device_traces: more devices than a machine has");
      for (size_t i = 0; i < traces.size(); ++i) add_trace(traces[i], element("device_traces", i));
    }
    if (const Value* settings = root.find("allocator_settings")) read_settings(*settings);
    snapshot_.places = places_.take();
    return std::move(snapshot_);
  }

 private:
  void count(int64_t bytes) {
    in_all_ += bytes;
    if (in_all_ > kMostInAll) throw SnapshotError("sizes that add up to more than any program asks for");
  }

  static int64_t checked_address(const std::string& name, int64_t address) {
    if (address < 0 || address > INT64_MAX - kMostBytes) Fields::fail(name + ".address", "is no address");
    return address;
  }

  void add_segment(const Value& value, const std::string& name) {
    const Fields fields(document_, value, name);
    SnapshotSegment segment;
    const int64_t device = fields.integer_or("device", 0);
    if (device < 0 || device >= kMostDevices) Fields::fail(name + ".device", "is no index of a device");
    segment.device = static_cast<int>(device);
    segment.address = checked_address(name, fields.integer("address"));
    segment.bytes = fields.bytes("total_size");
    count(segment.bytes);
    segment.small = fields.find("segment_type") && fields.text("segment_type") == "small";
    segment.expandable = fields.is_true("is_expandable");
    if (const Value* pool = fields.find("segment_pool_id"); pool && pool->kind == Kind::LIST) {
      segment.of_graphs = std::ranges::any_of(document_.items(*pool), [](const Value& id) { return id.bits != 0; });
    }
    const std::vector<Value>& blocks = fields.list("blocks");
    int64_t next = segment.address, in_blocks = 0;
    for (size_t i = 0; i < blocks.size(); ++i) {
      segment.blocks.push_back(block_of(blocks[i], element(name + ".blocks", i), next));
      in_blocks += segment.blocks.back().bytes;
      if (in_blocks > segment.bytes) Fields::fail(name, "its blocks are larger than it is");
      next = segment.blocks.back().address + segment.blocks.back().bytes;
    }
    snapshot_.segments.push_back(std::move(segment));
  }

  SnapshotBlock block_of(const Value& value, const std::string& name, int64_t address) {
    const Fields fields(document_, value, name);
    SnapshotBlock block;
    block.address = checked_address(name, fields.integer_or("address", address));
    block.bytes = fields.bytes("size");
    const std::string_view state = fields.text("state");
    if (state != "inactive") {
      block.state = state == "active_allocated" ? SnapshotBlock::State::IN_USE : SnapshotBlock::State::AWAITING_FREE;
      block.requested = fields.find("requested_size") ? fields.bytes("requested_size") : block.bytes;
      count(block.requested);
      block.place = places_.of(fields.find("frames"));
    }
    return block;
  }

  void add_trace(const Value& value, const std::string& name) {
    if (value.kind != Kind::LIST) Fields::fail(name, "is no list");
    const std::vector<Value>& entries = document_.items(value);
    std::vector<AllocatorEvent>& trace = snapshot_.traces.emplace_back();
    std::string own;
    for (size_t i = 0; i < entries.size(); ++i) {
      own = element(name, i);
      const Fields fields(document_, entries[i], own);
      const auto action = action_named(fields.text("action"));
      if (!action) continue;
      AllocatorEvent event;
      event.action = *action;
      event.bytes = fields.bytes("size");
      count(event.bytes);
      event.address = *action == AllocatorAction::OUT_OF_MEMORY
                          ? (fields.find("device_free") ? fields.bytes("device_free") : 0)
                          : fields.integer("addr");
      event.time_us = fields.integer_or("time_us", 0);
      if (event.time_us < 0 || event.time_us > kMostInAll) Fields::fail(own + ".time_us", "is no time");
      event.place = places_.of(fields.find("frames"));
      trace.push_back(event);
    }
  }

  void read_settings(const Value& value) {
    if (value.kind != Kind::DICT) return;
    const std::string name = "allocator_settings";
    const Fields fields(document_, value, name);
    AllocatorSettings& settings = snapshot_.settings;
    settings.known = true;
    settings.expandable_segments = fields.is_true("expandable_segments");
    if (const Value* threshold = fields.find("garbage_collection_threshold")) {
      if (threshold->kind == Kind::NUMBER)
        settings.garbage_collection_threshold = std::bit_cast<double>(threshold->bits);
    }
    if (const Value* divisions = fields.find("roundup_power2_divisions"); divisions && divisions->kind == Kind::DICT) {
      const std::vector<Value>& items = document_.items(*divisions);
      for (size_t i = 1; i < items.size(); i += 2) {
        if (items[i].kind == Kind::INTEGER && items[i].bits > 1) settings.rounds_sizes = true;
      }
    }
  }

  const Document& document_;
  Places places_;
  MemorySnapshot snapshot_;
  int64_t in_all_ = 0;
};

/// A file's bytes, of which the system keeps in memory only what is looked at.
class MappedFile {
 public:
  explicit MappedFile(const std::filesystem::path& file) : descriptor_(open(file.c_str(), O_RDONLY | O_CLOEXEC)) {
    if (descriptor_ < 0) throw FileError(file.string() + ": " + std::strerror(errno));
    struct stat status = {};
    if (fstat(descriptor_, &status) != 0 || !S_ISREG(status.st_mode)) {
      close(descriptor_);
      throw FileError(file.string() + ": is no file");
    }
    size_ = static_cast<size_t>(status.st_size);
    if (size_ > 0) data_ = mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, descriptor_, 0);
    if (data_ == MAP_FAILED) {
      close(descriptor_);
      throw FileError(file.string() + ": cannot be read");
    }
  }
  ~MappedFile() {
    if (size_ > 0) munmap(data_, size_);
    close(descriptor_);
  }
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  std::string_view bytes() const { return {static_cast<const char*>(data_), size_}; }

 private:
  int descriptor_;
  size_t size_ = 0;
  void* data_ = nullptr;
};

}  // namespace

MemorySnapshot snapshot_of(const Document& document) { return SnapshotReader(document).read(); }

MemorySnapshot parse_snapshot(std::string_view bytes) {
  const size_t first = bytes.find_first_not_of(" \t\r\n");
  const bool json = first != std::string_view::npos && bytes[first] == '{';
  return snapshot_of(json ? read_json(bytes) : read_pickle(bytes));
}

MemorySnapshot read_snapshot(const std::filesystem::path& file) {
  const MappedFile mapped(file);
  try {
    return parse_snapshot(mapped.bytes());
  } catch (const SnapshotError& error) {
    throw FileError(file.string() + ": " + error.what());
  }
}

}  // namespace tenfold
