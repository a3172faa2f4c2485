#include "cross_entropy_torch.h"

#include <algorithm>
#include <bit>

#include "kernels/torch_binding.h"

namespace tenfold::fused {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr const char* kName = "fused::cross_entropy";

/// What a gradient is multiplied by until backward() divides again: half cannot hold 1 / rows of most probabilities. A
/// power of two, which costs no digit; at most 32,768, so that a gradient of 1 in a single row that counts is finite.
double stored_scale(const Tensor& logits, int64_t rows) {
  if (logits.scalar_type() != torch::kHalf) return 1;
  return static_cast<double>(std::bit_floor(static_cast<uint64_t>(std::min<int64_t>(rows, 32768))));
}

struct CrossEntropy : torch::autograd::Function<CrossEntropy> {
  static Tensor forward(AutogradContext* context, const Tensor& logits, const Tensor& targets, int64_t ignore_index,
                        bool in_place) {
    const auto [rows, classes] = shape_of(kName, logits);
    const Tensor gradient = in_place ? logits.detach() : logits.detach().clone(at::MemoryFormat::Contiguous),
                 wanted = targets.contiguous();
    const Tensor mean = torch::empty({}, gradient.options().dtype(torch::kFloat)),
                 losses = torch::empty({rows}, mean.options());
    const Tensor counted = torch::empty({}, wanted.options());
    const double scale = stored_scale(gradient, rows);
    launch_where_they_are(
        {{"logits", gradient, 2}, {"targets", wanted}, {"mean", mean}, {"losses", losses}, {"counted", counted}},
        [&, rows = rows, classes = classes](auto stream, auto value) {
          using T = decltype(value);
          kernels::cross_entropy(stream, data_of<T>(gradient), data_of<float>(mean), data_of<float>(losses),
                                 data_of<int64_t>(counted), data_of<int64_t>(wanted), rows, classes, ignore_index,
                                 kernels::kCrossEntropyRungs - 1, static_cast<float>(scale));
        });
    if (in_place) torch::autograd::impl::bump_version(logits);
    context->save_for_backward({gradient});
    context->saved_data["scale"] = scale;
    return mean;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    check_first_order(kName);
    const Tensor gradient = context->get_saved_variables()[0];
    Tensor result = torch::empty_like(gradient);
    // A tensor with a dimension, so that half is multiplied in float: a loss scale of 65,536 is infinity in half.
    const Tensor factor = (gradients[0].to(torch::kFloat) / context->saved_data["scale"].toDouble()).reshape({1});
    at::mul_out(result, gradient, factor);
    return {result, Tensor(), Tensor(), Tensor()};
  }
};

void check(const Tensor& logits, const Tensor& targets) {
  shape_of(kName, logits);
  TORCH_CHECK(targets.defined() && targets.sizes() == logits.sizes().slice(0, static_cast<size_t>(logits.dim() - 1)),
              kName, ": the targets must have the logits' shape without their last dimension, ",
              logits.sizes().slice(0, static_cast<size_t>(logits.dim() - 1)),
              targets.defined() ? "; they have " + c10::str(targets.sizes()) : "");
  TORCH_CHECK(targets.scalar_type() == at::kLong && targets.device() == logits.device(), kName, ": the targets are ",
              targets.scalar_type(), " on ", targets.device(), "; they must be Long on ", logits.device());
}

}  // namespace

Tensor cross_entropy(const Tensor& logits, const Tensor& targets, int64_t ignore_index) {
  check(logits, targets);
  return CrossEntropy::apply(logits, targets, ignore_index, /*in_place=*/false);
}

Tensor cross_entropy_(const Tensor& logits, const Tensor& targets, int64_t ignore_index) {
  check(logits, targets);
  TORCH_CHECK(logits.is_contiguous(), kName, "_: the logits must be contiguous");
  TORCH_CHECK(!logits.is_leaf() || !logits.requires_grad(), kName,
              "_: the logits are a leaf that requires a gradient; it would be lost");
  return CrossEntropy::apply(logits, targets, ignore_index, /*in_place=*/true);
}

Tensor reference::cross_entropy(const Tensor& logits, const Tensor& targets, int64_t ignore_index) {
  return at::cross_entropy_loss(logits.reshape({-1, logits.size(-1)}), targets.reshape({-1}), /*weight=*/{},
                                at::Reduction::Mean, ignore_index);
}

}  // namespace tenfold::fused
