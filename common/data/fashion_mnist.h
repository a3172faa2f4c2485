#pragma once
// Fashion-MNIST: 60,000 + 10,000 gray pictures of clothes in ten classes.

#include <torch/torch.h>

namespace tenfold {

/// Pictures with their classes. Both tensors lie on the CPU, in memory shared by every ImageSet of this process: read
/// them, never write to them. They do not come from the tensor allocator, so a measured peak never holds the data set.
struct ImageSet {
  torch::Tensor images;  ///< (N, 1, 28, 28) uint8
  torch::Tensor labels;  ///< (N) int64, 0..9

  int64_t size() const { return images.size(0); }
};

/// The 60,000 pictures to train on (true), or the 10,000 to test on (false). Decoded once per process. Throws DataError
/// when a file is missing, altered, or not what its header says.
/// Source: H. Xiao, K. Rasul, R. Vollgraf, Fashion-MNIST: a Novel Image Dataset for Benchmarking Machine Learning
/// Algorithms, 2017, arXiv:1708.07747; the idx format: Y. LeCun, C. Cortes, C. Burges, The MNIST database.
ImageSet fashion_mnist(bool train);

/// Mean and standard deviation of the training pictures' pixels, on the scale 0..1.
inline constexpr double kFashionMnistMean = 0.2860;
inline constexpr double kFashionMnistStd = 0.3530;

/// uint8 pictures of any shape as float32 with mean 0 and standard deviation 1 over the training set; on their device.
torch::Tensor normalise_images(const torch::Tensor& images);

}  // namespace tenfold
