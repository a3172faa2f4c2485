// The same PNG files from one mapped shard and as small files of their own, in a shuffled order, as a loader asks for them;
// all in the page cache, one thread. What a record costs before its first pixel is decoded: on a disk that is not
// cached, or over a network, small files lose far more. Twin: peers/shard.py.
#include <benchmark/benchmark.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <tenfold/files.h>
#include <tenfold/openclipart.h>
#include <tenfold/sha256.h>
#include <tenfold/shard.h>
#include <unistd.h>

#include <cstdio>
#include <exception>
#include <functional>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

using Bytes = std::span<const uint8_t>;

constexpr int64_t kRecords = 700;
constexpr int64_t kStep = 7919;  // a prime: records far from each other, none twice

/// The i-th that is read; the twin reads the same ones.
int64_t record_number(const tenfold::Shard& shard, int64_t i) { return i * kStep % shard.size(); }

/// One load of every cache line: a view alone would not bring the bytes in.
uint64_t touch(Bytes bytes) {
  uint64_t sum = 0;
  for (size_t i = 0; i < bytes.size(); i += 64) sum += bytes[i];
  return sum;
}

/// The file's bytes in `buffer`, which is kept and grows.
Bytes read_file(const std::string& path, std::vector<uint8_t>& buffer) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  struct stat status{};
  if (file < 0 || fstat(file, &status) != 0) throw std::runtime_error(path + ": cannot be opened");
  const auto size = static_cast<size_t>(status.st_size);
  if (buffer.size() < size) buffer.resize(size);
  const ssize_t got = read(file, buffer.data(), size);
  close(file);
  if (got != status.st_size) throw std::runtime_error(path + ": cannot be read");
  return {buffer.data(), size};
}

std::vector<std::string> paths(const tenfold::Shard& shard) {
  std::vector<std::string> out;
  for (int64_t i = 0; i < kRecords; ++i)
    out.push_back((tenfold::data_folder() / "openclipart" / shard.name(record_number(shard, i))).string());
  return out;
}

/// Both ways must give the same bytes, and the twin the same again.
std::string answer(const tenfold::Shard& shard) {
  std::string records, files;
  std::vector<uint8_t> buffer;
  const auto hash = [](Bytes bytes) { return tenfold::sha256({reinterpret_cast<const char*>(bytes.data()), bytes.size()}); };
  const std::vector<std::string> all = paths(shard);
  for (int64_t i = 0; i < kRecords; ++i) {
    records += hash(shard.record(record_number(shard, i)));
    files += hash(read_file(all[static_cast<size_t>(i)], buffer));
  }
  if (records != files) throw std::runtime_error("the shard does not hold the files; to fix: ./tenfold data pack");
  return tenfold::sha256(records);
}

void from_shard(benchmark::State& state, const tenfold::Shard& shard) {
  int64_t bytes = 0;
  for (auto _ : state) {
    for (int64_t i = 0; i < kRecords; ++i) {
      const Bytes record = shard.record(record_number(shard, i));
      benchmark::DoNotOptimize(touch(record));
      bytes += static_cast<int64_t>(record.size());
    }
  }
  state.SetBytesProcessed(bytes);
  state.SetItemsProcessed(state.iterations() * kRecords);
}

void from_files(benchmark::State& state, const tenfold::Shard& shard) {
  const std::vector<std::string> all = paths(shard);
  std::vector<uint8_t> buffer;
  int64_t bytes = 0;
  for (auto _ : state) {
    for (const std::string& path : all) {
      const Bytes record = read_file(path, buffer);
      benchmark::DoNotOptimize(touch(record));
      bytes += static_cast<int64_t>(record.size());
    }
  }
  state.SetBytesProcessed(bytes);
  state.SetItemsProcessed(state.iterations() * kRecords);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    benchmark::Initialize(&argc, argv);
    if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
    const tenfold::Shard shard(tenfold::pack_openclipart({tenfold::PictureForm::png, 0}).train);
    benchmark::AddCustomContext("answer", answer(shard));
    benchmark::RegisterBenchmark("read/shard", from_shard, std::ref(shard))->Unit(benchmark::kMillisecond);
    benchmark::RegisterBenchmark("read/files", from_files, std::ref(shard))->Unit(benchmark::kMillisecond);
    benchmark::RunSpecifiedBenchmarks();
    benchmark::Shutdown();
  } catch (const tenfold::DataError& error) {
    std::fprintf(stderr, "shard_bench: %s\n", error.what());
    return 77;  // the pictures were not fetched
  } catch (const std::exception& error) {
    std::fprintf(stderr, "shard_bench: %s\n", error.what());
    return 2;
  }
}
