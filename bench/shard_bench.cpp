// The same PNG files from one mapped shard and as small files of their own, in a shuffled order, as a loader asks for
// them; all in the page cache, one thread. What a record costs before its first pixel is decoded: on a disk that is not
// cached, or over a network, small files lose far more. Twin: peers/shard.py.
#include <benchmark/benchmark.h>
#include "common/base/sha256.h"
#include "common/data/data_files.h"
#include "common/data/openclipart.h"
#include "common/data/shard.h"
#include "lessons/14_packed_files/record_files.h"

#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "run_benchmarks.h"

namespace {

using Bytes = std::span<const uint8_t>;

/// The records that are read, in this order; the twin reads the same ones. kStep is a prime: records far from each
/// other, none twice.
constexpr int64_t kRecords = 700, kStep = 7919;

struct Records {
  std::shared_ptr<const tenfold::Shard> shard;

  int64_t number(int64_t i) const { return i * kStep % shard->size(); }

  tenfold::ReadRecord from_shard() const {
    return [*this](int64_t i, std::vector<uint8_t>&) { return shard->record(number(i)); };
  }
  tenfold::ReadRecord from_files() const {
    std::vector<std::string> paths;
    for (int64_t i = 0; i < kRecords; ++i)
      paths.push_back((tenfold::data_folder() / "openclipart" / shard->name(number(i))).string());
    return tenfold::read_files(paths);
  }
};

std::string hash_of(const tenfold::ReadRecord& read) {
  std::string hashes;
  std::vector<uint8_t> buffer;
  for (int64_t i = 0; i < kRecords; ++i) {
    const Bytes record = read(i, buffer);
    hashes += tenfold::sha256({reinterpret_cast<const char*>(record.data()), record.size()});
  }
  return tenfold::sha256(hashes);
}

/// Both ways must give the same bytes, and the twin the same again.
std::string answer(const Records& records) {
  const std::string hash = hash_of(records.from_shard());
  if (hash != hash_of(records.from_files()))
    throw std::runtime_error("the shard does not hold the files; to fix: ./tenfold data pack");
  return hash;
}

/// One load of every cache line: a view alone would not bring the bytes in.
uint64_t touch(Bytes bytes) {
  uint64_t sum = 0;
  for (size_t i = 0; i < bytes.size(); i += 64) sum += bytes[i];
  return sum;
}

void read_all(benchmark::State& state, const tenfold::ReadRecord& read) {
  std::vector<uint8_t> buffer;
  int64_t bytes = 0;
  for (auto _ : state) {
    for (int64_t i = 0; i < kRecords; ++i) {
      const Bytes record = read(i, buffer);
      benchmark::DoNotOptimize(touch(record));
      bytes += static_cast<int64_t>(record.size());
    }
  }
  state.SetBytesProcessed(bytes);
  state.SetItemsProcessed(state.iterations() * kRecords);
}

}  // namespace

int main(int argc, char** argv) {
  return tenfold::bench::run_benchmarks(argc, argv, "shard_bench", [] {
    const tenfold::PackOptions png{tenfold::PictureForm::png, 0};
    const Records records{std::make_shared<tenfold::Shard>(tenfold::pack_openclipart(png).train)};
    benchmark::AddCustomContext("answer", answer(records));
    benchmark::RegisterBenchmark("read/shard", read_all, records.from_shard())->Unit(benchmark::kMillisecond);
    benchmark::RegisterBenchmark("read/files", read_all, records.from_files())->Unit(benchmark::kMillisecond);
  });
}
