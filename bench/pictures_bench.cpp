// Pictures from PNG and JPEG files into RGB in memory, on one thread; the files' bytes are in memory already.
// Twin: peers/pictures.py (Pillow), same records, same pixels.
#include <benchmark/benchmark.h>
#include "common/base/sha256.h"
#include "common/data/openclipart.h"
#include "common/data/pictures.h"
#include "common/data/shard.h"

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "run_benchmarks.h"

namespace {

using Files = std::vector<std::span<const uint8_t>>;

/// The shards live as long as the program, and with them the bytes of every file.
struct Samples {
  tenfold::Shard pngs, jpegs;

  /// Every `stride`-th record; the twin takes the same ones.
  static Files every(const tenfold::Shard& shard, int64_t stride) {
    Files files;
    for (int64_t i = 0; i < shard.size(); i += stride) files.push_back(shard.record(i));
    return files;
  }
  Files png() const { return every(pngs, 16); }
  Files jpeg() const { return every(jpegs, 4); }
};

/// Packed when they are not there; DataError tells how to fetch the pictures.
Samples samples() {
  const tenfold::PackOptions png{tenfold::PictureForm::png, 0}, jpeg{tenfold::PictureForm::jpeg, 256};
  return {tenfold::Shard(tenfold::pack_openclipart(png).train), tenfold::Shard(tenfold::pack_openclipart(jpeg).train)};
}

/// The pixels of all pictures: what both twins must agree on before any time counts.
std::string answer(const Samples& samples) {
  std::string hashes;
  for (const Files& files : {samples.png(), samples.jpeg()}) {
    for (const auto& file : files) {
      const tenfold::Picture picture = tenfold::decode_picture(file, "a record");
      hashes += tenfold::sha256({reinterpret_cast<const char*>(picture.pixels.data()), picture.pixels.size()});
    }
  }
  return tenfold::sha256(hashes);
}

void decode(benchmark::State& state, const Files& files) {
  int64_t bytes = 0, pictures = 0;
  for (auto _ : state) {
    for (const auto& file : files) {
      const tenfold::Picture picture = tenfold::decode_picture(file, "a record");
      benchmark::DoNotOptimize(picture.pixels.data());
      bytes += static_cast<int64_t>(picture.pixels.size());
      ++pictures;
    }
  }
  state.SetBytesProcessed(bytes);  // of pixels, not of files
  state.SetItemsProcessed(pictures);
}

}  // namespace

int main(int argc, char** argv) {
  std::optional<Samples> all;
  return tenfold::bench::run_benchmarks(argc, argv, "pictures_bench", [&] {
    all.emplace(samples());
    benchmark::AddCustomContext("answer", answer(*all));
    benchmark::RegisterBenchmark("decode/png", decode, all->png())->Unit(benchmark::kMillisecond);
    benchmark::RegisterBenchmark("decode/jpeg256", decode, all->jpeg())->Unit(benchmark::kMillisecond);
  });
}
