#pragma once
// What lesson 12 trains: the convnet workload, with images enlarged before they are copied. The device takes thumbnails
// of them, so a batch can be heavy to copy and light to train on.

#include <torch/torch.h>

#include "common/models/convnet.h"
#include "common/models/fashion_mnist.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

namespace tenfold::inline lesson_12 {

inline constexpr Setting<int64_t> kEnlarge{"enlarge", 1,
                                           "times as wide and high as Fashion-MNIST's are the images that are copied"};

/// Batches that differ before the first comes again. A buffer that is read too early, or overwritten too soon, holds
/// the batch before or the one before that: with one or two batches in turn it would hold the right numbers all the
/// same, and the agreement check would see nothing. An odd number: each batch is copied to either buffer.
inline constexpr int64_t kDifferentBatches = 5;

/// How many images are enlarged: as many as 128 MiB hold, and as those batches need.
inline int64_t images_kept(int64_t enlarge, int64_t batch) {
  const int64_t bytes = int64_t{28 * 28} * enlarge * enlarge;
  return std::min<int64_t>(std::max((int64_t{128} << 20) / bytes, kDifferentBatches * batch), 60'000);
}

/// The training images in shuffled order, each pixel `enlarge` times as wide and high, `count` of them: images
/// (N, 1, S, S) uint8 and labels (N). For a GPU in page-locked memory, so that a batch can be sent from where it lies.
inline const std::vector<torch::Tensor>& shuffled_images(const Trial& trial, int64_t enlarge, int64_t count) {
  const std::string form = std::to_string(count) + " enlarged " + std::to_string(enlarge) + " times";
  return trial.shared<std::vector<torch::Tensor>>(form, [&] {
    const ImageSet set = fashion_mnist(/*train=*/true);
    const torch::Tensor order = torch::randperm(set.size()).slice(0, 0, count);
    const torch::Tensor images =
        set.images.index_select(0, order).repeat_interleave(enlarge, 2).repeat_interleave(enlarge, 3);
    std::vector<torch::Tensor> shuffled;
    for (const torch::Tensor& tensor : {images, set.labels.index_select(0, order)})
      shuffled.push_back(trial.device.is_cuda() ? tensor.pin_memory() : tensor);
    return shuffled;
  });
}

/// With enlarge=1 it is the convnet workload.
struct ThumbnailTraining {
  using Tensors = std::vector<torch::Tensor>;

  explicit ThumbnailTraining(const Trial& trial)
      : training_(convnet_options(trial), trial.device),
        batch_(trial.get(convnet::kBatch)),
        enlarge_(trial.get(kEnlarge)),
        device_(trial.device) {
    TORCH_CHECK_VALUE(enlarge_ >= 1 && enlarge_ <= 64, "enlarge=", enlarge_, " is outside 1 to 64");
    TORCH_CHECK_VALUE(kDifferentBatches * batch_ <= 60'000, "batch=", batch_, ": of 60000 images there are not ",
                      kDifferentBatches, " such batches, and fewer would hide a buffer that is read too early");
    images_ = shuffled_images(trial, enlarge_, images_kept(enlarge_, batch_));
  }

  int64_t batch_size() const { return batch_; }
  Parameters parameters() const { return training_.parameters(); }

  /// The next batch where it lies on the host: images (B, 1, S, S) uint8 and labels (B).
  Tensors next_on_host() {
    if (begin_ + batch_ > images_[0].size(0)) begin_ = 0;
    Tensors rows;
    for (const torch::Tensor& all : images_) rows.push_back(all.narrow(0, begin_, batch_));
    begin_ += batch_;
    return rows;
  }

  /// Zeroed room for one batch on the device.
  Tensors buffer() const {
    Tensors room;
    for (const torch::Tensor& all : images_) {
      auto shape = all.sizes().vec();
      shape[0] = batch_;
      room.push_back(torch::zeros(shape, torch::dtype(all.dtype()).device(device_)));
    }
    return room;
  }

  /// One update with a batch that is on the device; its loss.
  torch::Tensor update(const Tensors& batch) {
    const torch::Tensor thumbnails =
        batch[0].slice(2, 0, std::nullopt, enlarge_).slice(3, 0, std::nullopt, enlarge_);  // (B, 1, 28, 28)
    training_.optimizer->zero_grad();
    torch::Tensor loss = torch::cross_entropy_loss(training_.model(normalise_images(thumbnails)), batch[1]);
    loss.backward();
    training_.optimizer->step();
    return loss;
  }

 private:
  ConvNetTraining training_;
  int64_t batch_, enlarge_;
  torch::Device device_;
  Tensors images_;
  int64_t begin_ = 0;
};

}  // namespace tenfold::inline lesson_12
