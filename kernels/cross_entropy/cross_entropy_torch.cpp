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
double stored_scale(const Tensor& logits) {
  if (logits.scalar_type() != torch::kHalf) return 1;
  return static_cast<double>(std::bit_floor(static_cast<uint64_t>(std::min<int64_t>(rows_of(logits).rows, 32768))));
}

void check(const Tensor& logits, const Tensor& targets) {
  check_input(kName, logits);
  const auto sizes = logits.sym_sizes().slice(0, static_cast<size_t>(logits.dim() - 1));
  TORCH_CHECK(targets.defined() && targets.sym_sizes() == sizes, kName,
              ": the targets must have the logits' shape without their last dimension, ", sizes,
              targets.defined() ? "; they have " + c10::str(targets.sym_sizes()) : "");
  TORCH_CHECK(targets.scalar_type() == at::kLong && targets.device() == logits.device(), kName, ": the targets are ",
              targets.scalar_type(), " on ", targets.device(), "; they must be Long on ", logits.device());
}

/// The loss; `gradient` holds contiguous logits, and afterwards their gradient times stored_scale().
Tensor loss_of(const Tensor& gradient, const Tensor& targets, int64_t ignore_index) {
  const Tensor mean = torch::empty({}, gradient.options().dtype(torch::kFloat));
  if (gradient.is_meta()) return mean;
  const auto [rows, classes] = rows_of(gradient);
  const Tensor wanted = targets.contiguous(), losses = torch::empty({rows}, mean.options());
  const Tensor counted = torch::empty({}, wanted.options());
  const double scale = stored_scale(gradient);
  launch_where_they_are(
      {{"logits", gradient, 2}, {"targets", wanted}, {"mean", mean}, {"losses", losses}, {"counted", counted}},
      [&, rows = rows, classes = classes](auto stream, auto value) {
        using T = decltype(value);
        kernels::cross_entropy(stream, data_of<T>(gradient), data_of<float>(mean), data_of<float>(losses),
                               data_of<int64_t>(counted), data_of<int64_t>(wanted), rows, classes, ignore_index,
                               kernels::kCrossEntropyRungs - 1, static_cast<float>(scale));
      });
  return mean;
}

struct CrossEntropy : torch::autograd::Function<CrossEntropy> {
  static Tensor forward(AutogradContext* context, const Tensor& logits, const Tensor& targets, int64_t ignore_index,
                        bool in_place) {
    const Tensor gradient = in_place ? logits.detach() : logits.detach().clone(at::MemoryFormat::Contiguous);
    const Tensor mean = loss_of(gradient, targets, ignore_index);
    if (in_place) torch::autograd::impl::bump_version(logits);
    context->save_for_backward({gradient});
    return mean;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    check_first_order(kName);
    return {cross_entropy_backward(gradients[0], context->get_saved_variables()[0]), Tensor(), Tensor(), Tensor()};
  }
};

}  // namespace

std::tuple<Tensor, Tensor> cross_entropy_forward(const Tensor& logits, const Tensor& targets, int64_t ignore_index) {
  check(logits, targets);
  const Tensor gradient = logits.clone(at::MemoryFormat::Contiguous);
  const Tensor mean = loss_of(gradient, targets, ignore_index);
  return {mean, gradient};
}

Tensor cross_entropy_backward(const Tensor& gradient, const Tensor& of_logits) {
  check_input(kName, of_logits);
  check_sizes(kName, "the loss's gradient", gradient, {}, at::kFloat, of_logits);
  Tensor result = torch::empty_like(of_logits);
  if (of_logits.is_meta()) return result;
  // A tensor with a dimension, so that half is multiplied in float: a loss scale of 65,536 is infinity in half.
  const Tensor factor = (gradient / stored_scale(of_logits)).reshape({1});
  at::mul_out(result, of_logits, factor);
  return result;
}

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
