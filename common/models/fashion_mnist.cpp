#include "common/models/fashion_mnist.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/record_function.h>

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>

#include "common/data/data_files.h"
#include "common/data/idx.h"
#include "common/models/host_batch.h"

namespace tenfold {
namespace {

/// An idx file's tensor over the unpacked file, which lives as long as the tensor.
torch::Tensor read_idx(const std::filesystem::path& path, const std::vector<int64_t>& sizes) {
  auto file = std::make_shared<std::string>(gunzip(read_data_file(path), path.string()));
  const IdxHeader header = parse_idx(*file, path.string());
  if (header.sizes != sizes)
    fail_data_file(
        path, "holds " + c10::str(at::IntArrayRef(header.sizes)) + ", expected " + c10::str(at::IntArrayRef(sizes)));
  return torch::from_blob(file->data() + header.data_offset, sizes, [file](void*) {}, torch::kUInt8);
}

ImageSet read_set(const std::filesystem::path& folder, const std::string& stem, int64_t count) {
  const torch::Tensor images = read_idx(folder / (stem + "-images-idx3-ubyte.gz"), {count, 28, 28});
  const std::filesystem::path labels_file = folder / (stem + "-labels-idx1-ubyte.gz");
  const torch::Tensor bytes = read_idx(labels_file, {count});
  auto labels = std::make_shared<std::vector<int64_t>>(bytes.data_ptr<uint8_t>(), bytes.data_ptr<uint8_t>() + count);
  if (std::ranges::any_of(*labels, [](int64_t label) { return label > 9; }))
    fail_data_file(labels_file, "holds a label above 9");
  return {images.unsqueeze(1), torch::from_blob(labels->data(), {count}, [labels](void*) {}, torch::kInt64)};
}

}  // namespace

ImageSet fashion_mnist(bool train) {
  // Unpacking takes a third of a second, and every variant of a lesson asks again.
  static std::mutex mutex;
  static std::map<std::filesystem::path, ImageSet> decoded;
  const std::filesystem::path folder = data_folder() / "fashion-mnist";
  const std::string stem = train ? "train" : "t10k";
  const std::lock_guard lock(mutex);
  const auto found = decoded.find(folder / stem);
  if (found != decoded.end()) return found->second;
  return decoded[folder / stem] = read_set(folder, stem, train ? 60000 : 10000);
}

torch::Tensor normalise_images(const torch::Tensor& images) {
  return images.to(torch::kFloat32).mul_(1 / (255 * kFashionMnistStd)).sub_(kFashionMnistMean / kFashionMnistStd);
}

double held_out_loss(const std::function<torch::Tensor(const torch::Tensor&)>& forward, torch::Device device) {
  constexpr int64_t kHeldOut = 500;
  const torch::NoGradGuard no_gradients;
  const ImageSet set = fashion_mnist(/*train=*/false);
  const torch::Tensor images = normalise_images(set.images.narrow(0, 0, kHeldOut)).to(device);
  const torch::Tensor labels = set.labels.narrow(0, 0, kHeldOut).to(device);
  return torch::cross_entropy_loss(forward(images), labels).item<double>();
}

int64_t fashion_batch_bytes(int64_t batch) { return batch * (28 * 28 * 4 + 8); }

int64_t fashion_batch_peak_bytes(int64_t batch) { return fashion_batch_bytes(batch) + batch * (28 * 28 + 8); }

FashionBatches::FashionBatches(const Trial& trial, int64_t batch)
    : device_(trial.device), batch_(batch), generator_(at::detail::createCPUGenerator(trial.seed)) {}

std::pair<torch::Tensor, torch::Tensor> FashionBatches::next() {
  RECORD_USER_SCOPE("data");
  const ImageSet set = fashion_mnist(/*train=*/true);  // decoded once per process
  const torch::Tensor picked = torch::randint(0, set.images.size(0), {batch_}, generator_, torch::kLong);
  // Bytes are copied to the device and become floats there: a quarter of the copy.
  return {normalise_images(rows_on(device_, set.images, picked)), rows_on(device_, set.labels, picked)};
}

}  // namespace tenfold
