#include <tenfold/fashion_mnist.h>
#include <tenfold/files.h>
#include <tenfold/idx.h>

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>

namespace tenfold {
namespace {

/// An idx file's tensor over the unpacked file, which lives as long as the tensor.
torch::Tensor read_idx(const std::filesystem::path& path, const std::vector<int64_t>& sizes) {
  auto file = std::make_shared<std::string>(gunzip(read_data_file(path), path.string()));
  const IdxHeader header = parse_idx(*file, path.string());
  if (header.sizes != sizes)
    fail_data_file(path, "holds " + c10::str(at::IntArrayRef(header.sizes)) + ", expected " + c10::str(at::IntArrayRef(sizes)));
  return torch::from_blob(file->data() + header.data_offset, sizes, [file](void*) {}, torch::kUInt8);
}

ImageSet read_set(const std::filesystem::path& folder, const std::string& stem, int64_t count) {
  const torch::Tensor images = read_idx(folder / (stem + "-images-idx3-ubyte.gz"), {count, 28, 28});
  const std::filesystem::path labels_file = folder / (stem + "-labels-idx1-ubyte.gz");
  const torch::Tensor bytes = read_idx(labels_file, {count});
  auto labels = std::make_shared<std::vector<int64_t>>(bytes.data_ptr<uint8_t>(), bytes.data_ptr<uint8_t>() + count);
  if (std::ranges::any_of(*labels, [](int64_t label) { return label > 9; })) fail_data_file(labels_file, "holds a label above 9");
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

}  // namespace tenfold
