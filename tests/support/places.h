#pragma once
// Where and in which types the tests of LibTorch's side run: on the CPU, and on CUDA when there is one.

#include <torch/torch.h>

#include <vector>

namespace tenfold::test {

inline std::vector<torch::Device> devices() {
  std::vector<torch::Device> all{torch::kCPU};
  if (torch::cuda::is_available()) all.emplace_back(torch::kCUDA);
  return all;
}

/// A device and a floating type; `unit` is the type's rounding.
struct Place {
  torch::Device device;
  at::ScalarType type;
  double unit;
};

inline std::vector<Place> places() {
  std::vector<Place> all;
  for (const auto& device : devices()) {
    all.push_back({device, torch::kFloat, 0x1p-24});
    all.push_back({device, torch::kHalf, 0x1p-11});
    all.push_back({device, torch::kBFloat16, 0x1p-8});
  }
  return all;
}

}  // namespace tenfold::test
