#pragma once
// What lesson 12 trains: R1, fed with pictures as large as one likes. The device takes thumbnails of them, so a batch can
// be heavy to send and light to train on.

#include <torch/torch.h>

#include <tenfold/fashion_mnist.h>
#include <tenfold/image_workloads.h>
#include <tenfold/lesson.h>

#include <cstdint>
#include <map>
#include <vector>

namespace tenfold {

/// The training pictures in shuffled order, each pixel `enlarge` times as wide and high, as many as 128 MiB hold: images
/// (N, 1, S, S) uint8 and labels (N). For a GPU in page-locked memory, so that a batch can be sent from where it lies.
/// Made once per process, like the data set itself.
inline std::vector<torch::Tensor> shuffled_pictures(torch::Device device, int64_t enlarge) {
  static std::map<std::pair<bool, int64_t>, std::vector<torch::Tensor>> made;
  std::vector<torch::Tensor>& pictures = made[{device.is_cuda(), enlarge}];
  if (pictures.empty()) {
    const ImageSet set = fashion_mnist(/*train=*/true);
    const int64_t bytes = set.images[0].numel() * enlarge * enlarge;
    const torch::Tensor order = torch::randperm(set.size()).slice(0, 0, (int64_t{128} << 20) / bytes);
    const torch::Tensor images = set.images.index_select(0, order).repeat_interleave(enlarge, 2).repeat_interleave(enlarge, 3);
    for (const torch::Tensor& tensor : {images, set.labels.index_select(0, order)}) {
      pictures.push_back(device.is_cuda() ? tensor.pin_memory() : tensor);
    }
  }
  return pictures;
}

/// Settings: those of R1, and enlarge. With enlarge=1 it is R1.
struct ThumbnailTraining {
  using Tensors = std::vector<torch::Tensor>;

  explicit ThumbnailTraining(const Trial& trial) : training_(trial), enlarge_(trial.get("enlarge", 1)), device_(trial.device) {
    TORCH_CHECK_VALUE(enlarge_ >= 1 && enlarge_ <= 64, "enlarge=", enlarge_, " is outside 1 to 64");
    pictures_ = shuffled_pictures(device_, enlarge_);
    TORCH_CHECK_VALUE(batch() <= pictures_[0].size(0), "batch=", batch(), " is more than the ", pictures_[0].size(0),
                      " pictures that fit into 128 MiB with enlarge=", enlarge_);
  }

  int64_t batch() const { return training_.batches.batch(); }
  Parameters parameters() const { return training_.parameters(); }

  /// The next batch where it lies on the host: images (B, 1, S, S) uint8 and labels (B).
  Tensors next_on_host() {
    if (begin_ + batch() > pictures_[0].size(0)) begin_ = 0;
    Tensors rows;
    for (const torch::Tensor& all : pictures_) rows.push_back(all.narrow(0, begin_, batch()));
    begin_ += batch();
    return rows;
  }

  /// Zeroed room for one batch on the device.
  Tensors buffer() const {
    Tensors room;
    for (const torch::Tensor& all : pictures_) {
      auto shape = all.sizes().vec();
      shape[0] = batch();
      room.push_back(torch::zeros(shape, torch::dtype(all.dtype()).device(device_)));
    }
    return room;
  }

  /// One update with a batch that is on the device; its loss.
  torch::Tensor update(const Tensors& here) {
    const torch::Tensor thumbnails = here[0].slice(2, 0, std::nullopt, enlarge_).slice(3, 0, std::nullopt, enlarge_);  // (B, 1, 28, 28)
    training_.optimizer->zero_grad();
    torch::Tensor loss = torch::cross_entropy_loss(training_.model(normalise_images(thumbnails)), here[1]);
    loss.backward();
    training_.optimizer->step();
    return loss;
  }

 private:
  ConvNetTraining training_;
  int64_t enlarge_;
  torch::Device device_;
  Tensors pictures_;
  int64_t begin_ = 0;
};

}  // namespace tenfold
