// The whole way of a picture from its file to a batch: read, decode, cut at random, resize to 224 pixels, mirror,
// normalise, collate. png, jpeg256, raw256: the loader of lesson 10 over shards of one mapped file, for several numbers
// of workers. raw256 holds pixels, fitted into 256 x 256: nothing is left to decode. torch_data: the same work under
// LibTorch's own loader. augment: what comes after decoding, one picture at a time on one thread. Twin: peers/loader.py
// (PyTorch's DataLoader and Pillow).
#include <benchmark/benchmark.h>
#include <torch/torch.h>
#include "common/base/sha256.h"
#include "common/data/openclipart.h"
#include "common/data/pictures.h"
#include "common/data/shard.h"
#include "lessons/10_parallel_loading/image_samples.h"
#include "lessons/10_parallel_loading/loader.h"

#include <cstdio>
#include <filesystem>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "run_benchmarks.h"

namespace {
using tenfold::PictureForm;
using torch::Tensor;

constexpr int64_t kSide = 224, kBatch = 32;
constexpr int kPrefetch = 2;
constexpr int64_t kStep = 7919;  // a prime: records far from each other, none twice

/// The pictures of one epoch: `batches` full batches, records of a shard in an order that the twin has, too.
struct Pictures {
  std::shared_ptr<const tenfold::Shard> shard;
  int64_t batches = 0;

  int64_t size() const { return batches * kBatch; }
  int64_t record(int64_t i) const { return i * kStep % shard->size(); }
};

/// Packed when it is not there; DataError tells how to fetch the pictures.
Pictures pictures(const tenfold::PackOptions& form, int64_t batches) {
  return {std::make_shared<tenfold::Shard>(tenfold::pack_openclipart(form).train), batches};
}

tenfold::ImageOptions options(bool augment) { return {.side = kSide, .augment = augment}; }

/// All pictures have been asked for once when an iteration is over. What was made ahead does not count: the clock
/// starts, as it stops, when the loader's queue is empty and the next batch is waited for.
void report(benchmark::State& state, const Pictures& all, const std::function<void()>& next, int64_t ahead) {
  for (int64_t i = 0; i <= ahead; ++i) next();
  for (auto _ : state) {
    for (int64_t b = 0; b < all.batches; ++b) next();
  }
  state.SetItemsProcessed(state.iterations() * all.size());
}

// ---- the loader of lesson 10

tenfold::Dataset samples(const Pictures& all, bool augment) {
  tenfold::Dataset data = tenfold::image_samples(all.shard, options(augment));
  data.size = all.size();
  data.load = [all, load = data.load](int64_t i, tenfold::SampleRandom& random, const tenfold::Row& row) {
    load(all.record(i), random, row);
  };
  return data;
}

/// In the records' order, which is mixed already: then both sides load the same pictures in every epoch.
tenfold::LoaderOptions loader_options(int workers) {
  return {.batch = kBatch, .workers = workers, .prefetch = kPrefetch, .shuffle = false};
}

void load(benchmark::State& state, const Pictures& all, int workers) {
  tenfold::Loader loader(samples(all, /*augment=*/true), loader_options(workers));
  const auto next = [&] { benchmark::DoNotOptimize(loader.next_of_any_epoch().fields[0].data_ptr()); };
  report(state, all, next, kPrefetch);
}

// ---- the same under torch::data

/// Numbers go on from epoch to epoch, so that each has crops of its own.
struct Drawings : torch::data::datasets::Dataset<Drawings> {
  Drawings(Pictures of, bool augmented) : all(std::move(of)), augment(augmented) {}

  torch::data::Example<> get(size_t index) override {
    const auto number = static_cast<int64_t>(index), i = number % all.size();
    tenfold::SampleRandom random(0, number / all.size(), i);
    const std::vector<Tensor> fields = {torch::empty({1, 3, kSide, kSide}), torch::empty({1}, torch::kLong)};
    if (load == nullptr) load = tenfold::image_samples(all.shard, options(augment)).load;
    load(all.record(i), random, tenfold::Row(fields, 0));
    return {fields[0][0], fields[1][0]};
  }
  std::optional<size_t> size() const override { return static_cast<size_t>(all.size()); }

  Pictures all;
  bool augment;
  std::function<void(int64_t, tenfold::SampleRandom&, const tenfold::Row&)> load;
};

/// 0, 1, 2 and on without an end: torch::data empties its queue between epochs, which would count against it.
struct Onwards : torch::data::samplers::Sampler<> {
  void reset(std::optional<size_t> = std::nullopt) override { at = 0; }
  std::optional<std::vector<size_t>> next(size_t batch_size) override {
    std::vector<size_t> numbers(batch_size);
    for (size_t& number : numbers) number = at++;
    return numbers;
  }
  void save(torch::serialize::OutputArchive&) const override { throw std::logic_error("Onwards: nothing to save"); }
  void load(torch::serialize::InputArchive&) override { throw std::logic_error("Onwards: nothing to load"); }

  size_t at = 0;
};

auto torch_loader(const Pictures& all, int workers, bool augment) {
  return torch::data::make_data_loader(Drawings(all, augment).map(torch::data::transforms::Stack<>()), Onwards(),
                                       torch::data::DataLoaderOptions(kBatch).workers(static_cast<size_t>(workers)));
}

void load_torch(benchmark::State& state, const Pictures& all, int workers) {
  const auto loader = torch_loader(all, workers, /*augment=*/true);
  auto at = loader->begin();
  const auto next = [&] { benchmark::DoNotOptimize((++at)->data.data_ptr()); };
  report(state, all, next, int64_t{2} * workers);  // its default: two batches ahead for each worker
}

// ---- one stage

void augment(benchmark::State& state, const Pictures& all) {
  std::vector<tenfold::Picture> decoded;
  for (int64_t i = 0; i < kBatch; ++i) decoded.push_back(tenfold::decode_record(*all.shard, all.record(i)));
  Tensor out = torch::empty({3, kSide, kSide});
  const std::span<float> row(out.data_ptr<float>(), static_cast<size_t>(out.numel()));
  int64_t epoch = 0;
  for (auto _ : state) {
    for (int64_t i = 0; i < kBatch; ++i) {
      const tenfold::Picture& picture = decoded[static_cast<size_t>(i)];
      tenfold::SampleRandom random(0, epoch, i);
      tenfold::resize_normalised(picture, tenfold::random_crop({picture.height, picture.width}, random), kSide, {},
                                 row);
      benchmark::DoNotOptimize(row.data());
    }
    ++epoch;
  }
  state.SetItemsProcessed(state.iterations() * kBatch);
}

// ---- what both sides must agree on

/// What comes out without augmentation: the labels, in order, exactly; the pictures as means of their quarters, batch
/// by batch.
struct Answer {
  std::string labels, means;

  /// Throws std::runtime_error when torch::data does not load the same, bit for bit.
  void add(const Pictures& all) {
    tenfold::Loader loader(samples(all, /*augment=*/false), loader_options(2));
    const auto same = torch_loader(all, 0, /*augment=*/false);
    auto other = same->begin();
    while (const tenfold::Batch* batch = loader.next()) {
      const Tensor &images = batch->fields[0], &classes = batch->fields[1];
      if (!images.equal(other->data) || !classes.equal(other->target))
        throw std::runtime_error("torch::data loads other batches");
      ++other;
      for (int64_t i = 0; i < classes.size(0); ++i) labels += std::to_string(classes[i].item<int64_t>());
      const Tensor quarters = torch::adaptive_avg_pool2d(images, {2, 2}).mean(0).flatten();
      for (int64_t i = 0; i < quarters.numel(); ++i) means += std::to_string(quarters[i].item<double>()) + " ";
    }
  }
};

}  // namespace

int main(int argc, char** argv) {
  return tenfold::bench::run_benchmarks(argc, argv, "loader_bench", [] {
    at::set_num_threads(1);
    std::vector<std::pair<std::string, Pictures>> sets = {{"png", pictures({PictureForm::png, 0}, 4)},
                                                          {"jpeg256", pictures({PictureForm::jpeg, 256}, 10)}};
    Answer answer;
    for (const auto& [name, all] : sets) answer.add(all);
    benchmark::AddCustomContext(
        "answer", std::to_string(answer.labels.size()) + " pictures, labels " + tenfold::sha256(answer.labels));
    benchmark::AddCustomContext("answer_near", answer.means);
    // Half a gigabyte, so only where it was packed on purpose.
    const tenfold::PackOptions raw{PictureForm::raw, 256};
    if (std::filesystem::exists(tenfold::openclipart_shard(raw, /*train=*/true))) {
      sets.emplace_back("raw256", pictures(raw, 20));
    } else {
      std::fprintf(stderr, "loader_bench: without raw256; to make it: ./tenfold data pack --raw 256\n");
    }
    for (const auto& [name, all] : sets) {
      for (const int workers : {0, 1, 2, 4}) {
        const std::string row = name + "/workers:" + std::to_string(workers);
        benchmark::RegisterBenchmark(row.c_str(), load, all, workers)->UseRealTime()->Unit(benchmark::kMillisecond);
        if (name != "raw256")
          benchmark::RegisterBenchmark(("torch_data/" + row).c_str(), load_torch, all, workers)
              ->UseRealTime()
              ->Unit(benchmark::kMillisecond);
      }
      if (name != "raw256")
        benchmark::RegisterBenchmark(("augment/" + name).c_str(), augment, all)->Unit(benchmark::kMillisecond);
    }
  });
}
