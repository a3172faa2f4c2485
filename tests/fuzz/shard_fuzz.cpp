// Any bytes as a shard: a DataError of one line, or a shard whose records, names and labels all lie where they may.
#include <sys/mman.h>
#include <unistd.h>
#include "common/data/data_files.h"
#include "common/data/shard.h"

#include <string>
#include <vector>

#include "common/data/shard_format.h"
#include "fuzz.h"

namespace {

using tenfold::fuzz::Bytes;
using tenfold::fuzz::reads;
using tenfold::fuzz::require;

/// A file in memory that always holds the last bytes written; its path.
std::string file_with(Bytes bytes) {
  static const int file = memfd_create("shard", 0);
  require(file >= 0 && ftruncate(file, static_cast<off_t>(bytes.size())) == 0, "there is a file in memory");
  require(pwrite(file, bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()),
          "a file in memory can be written");
  return "/proc/self/fd/" + std::to_string(file);
}

/// Right sizes and checksum, so that the tables are reached.
std::vector<uint8_t> with_right_checksum(Bytes file) {
  using namespace tenfold;
  std::vector<uint8_t> out(file.begin(), file.end());
  store_little<uint64_t>(out.data() + kFileBytes, out.size());
  const auto index = load_little<uint64_t>(out.data() + kIndexOffset);
  const auto count = load_little<uint64_t>(out.data() + kRecordCount);
  if (index > out.size() || count > (out.size() - index) / kShardEntryBytes) return out;
  const uint64_t strings = index + count * kShardEntryBytes;
  store_little<uint64_t>(out.data() + kStringsOffset, strings);
  store_little<uint64_t>(out.data() + kStringsBytes, out.size() - strings);
  const Bytes all(out);
  store_little<uint64_t>(out.data() + kTablesChecksum,
                         checksum(all.subspan(index), checksum(all.first(kTablesChecksum))));
  return out;
}

void read_shard(Bytes bytes) {
  const std::string path = file_with(bytes);
  reads<tenfold::DataError>([&] {
    const tenfold::Shard shard(path);
    require(shard.file_bytes() == static_cast<int64_t>(bytes.size()), "a shard is as long as its file");
    const uint8_t* end = nullptr;
    uint64_t sum = 0;
    for (int64_t i = 0; i < shard.size(); ++i) {
      const Bytes record = shard.record(i);
      require(!record.empty() && reinterpret_cast<uintptr_t>(record.data()) % tenfold::kShardAlignment == 0,
              "records are aligned");
      require(end == nullptr || record.data() >= end, "records do not overlap");
      end = record.data() + record.size();
      sum += record.front() + record.back() + shard.name(i).size();
      require(shard.label(i) >= 0 && shard.label(i) < static_cast<int64_t>(shard.classes().size()),
              "a label is a class");
      require(shard.kind() == tenfold::RecordKind::encoded ||
                  static_cast<int64_t>(record.size()) == shard.height() * shard.width() * 3,
              "pixels have the size of all");
    }
    require(sum + 1 != 0, "every record was read");
    shard.verify();
  });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const Bytes file(data, size);
  read_shard(file);
  if (size >= tenfold::kShardHeaderBytes) read_shard(with_right_checksum(file));
  return 0;
}
