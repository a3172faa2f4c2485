#pragma once
// Puts another form of a linear layer into its place, and counts what that form keeps outside PyTorch's allocator.

#include <torch/torch.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <unordered_map>
#include <vector>

namespace tenfold::inline lesson_35 {

/// What computes a linear layer instead of its 32-bit weight.
struct LinearForm {
  std::function<torch::Tensor(const torch::Tensor& x)> forward;  ///< (..., in) -> (..., out)
  int64_t outside_bytes = 0;                                     ///< that it keeps where PyTorch does not count
};

using MakeForm = std::function<LinearForm(const torch::nn::LinearImpl& layer)>;
using Linears = std::vector<std::shared_ptr<torch::nn::LinearImpl>>;

/// Every linear layer of a model, the head too.
inline Linears linears_of(const torch::nn::Module& model) {
  Linears all;
  for (const auto& module : model.modules()) {
    if (auto linear = std::dynamic_pointer_cast<torch::nn::LinearImpl>(module)) all.push_back(std::move(linear));
  }
  return all;
}

class OtherLinears {
 public:
  /// The layer, by its form where it has another.
  torch::Tensor operator()(torch::nn::LinearImpl& layer, const torch::Tensor& x) const {
    const auto form = forms_.find(&layer);
    return form == forms_.end() ? layer.forward(x) : form->second.forward(x);
  }

  /// From now on the layers have the form that `make` gives. Their weights stay: release() drops them.
  void replace(const Linears& layers, const MakeForm& make) {
    const torch::NoGradGuard no_graph;
    for (const auto& layer : layers) {
      forms_[layer.get()] = make(*layer);
      outside_bytes_ += forms_[layer.get()].outside_bytes;
    }
  }

  /// The layers are what they were.
  void clear() {
    forms_.clear();
    outside_bytes_ = 0;
  }

  /// Drops the weights of layers that have another form.
  static void release(const Linears& layers) {
    for (const auto& layer : layers) layer->weight.set_data(torch::empty({0}, layer->weight.options()));
  }

  /// Allocates as many bytes as the forms keep outside, and never touches them: so that what PyTorch's allocator counts
  /// is no less than what the process has.
  void count_outside() {
    if (outside_bytes_ > 0) stand_in_ = torch::empty({outside_bytes_}, torch::kByte);
  }

  int64_t outside_bytes() const { return outside_bytes_; }

 private:
  std::unordered_map<const torch::nn::LinearImpl*, LinearForm> forms_;
  int64_t outside_bytes_ = 0;
  torch::Tensor stand_in_;
};

}  // namespace tenfold::inline lesson_35
