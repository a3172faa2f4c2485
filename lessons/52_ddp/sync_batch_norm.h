// installs as <tenfold/sync_batch_norm.h>
#pragma once
// Batch normalisation by the statistics of all ranks' samples. Plain BatchNorm takes those of its own rank: the model
// is then another one for each number of ranks, and a small batch on each of them has noisy statistics.

#include <torch/torch.h>

#include <ATen/OpMathType.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

namespace tenfold {

namespace sync_batch_norm {

/// All dimensions of (N, C, ...) but C.
inline std::vector<int64_t> all_but_channels(const torch::Tensor& x) {
  std::vector<int64_t> dimensions(static_cast<size_t>(x.dim() - 1));
  std::iota(dimensions.begin(), dimensions.end(), 1);
  dimensions[0] = 0;
  return dimensions;
}

/// (C) as it stands in (N, C, ...).
inline torch::Tensor along_channels(const torch::Tensor& values, int64_t dimensions) {
  std::vector<int64_t> shape(static_cast<size_t>(dimensions), 1);
  shape[1] = values.size(0);
  return values.view(shape);
}

/// 16-bit numbers in 32 bits, for sums of many.
inline torch::Tensor widened(const torch::Tensor& x) { return x.to(at::toOpMathType(x.scalar_type())); }

struct Statistics {
  torch::Tensor mean, variance;  ///< (C), variance over `count`, not count - 1
  torch::Tensor count;           ///< (1), of values in a channel, on all ranks
};

/// Each rank's count, mean and sum of squared distances from it are gathered and merged: sums of squares alone would
/// cancel. Source: T. Chan, G. Golub, R. LeVeque, Updating formulae and a pairwise algorithm for computing sample
/// variances, 1979. Ranks may have different numbers of samples, also none.
inline Statistics of_all_ranks(const torch::Tensor& x, c10d::ProcessGroup& group) {
  const std::vector<int64_t> dimensions = all_but_channels(x);
  const int64_t channels = x.size(1), ranks = group.getSize();
  const int64_t own_count = x.numel() / channels;
  const torch::Tensor values = widened(x);
  // Of no samples it is 0: NaN, times a count of 0, would be NaN on every rank.
  const torch::Tensor mean = values.sum(dimensions) / std::max<int64_t>(own_count, 1);
  const torch::Tensor squares = (values - along_channels(mean, x.dim())).square().sum(dimensions);
  const torch::Tensor count = torch::full({1}, static_cast<double>(own_count), mean.options());
  torch::Tensor own = torch::cat({count, mean, squares}).unsqueeze(0);  // (1, 1 + 2 C)
  torch::Tensor all = torch::empty({ranks, own.size(1)}, own.options());
  group._allgather_base(all, own)->wait();

  const torch::Tensor counts = all.narrow(1, 0, 1);  // (ranks, 1)
  const torch::Tensor means = all.narrow(1, 1, channels), of_squares = all.narrow(1, 1 + channels, channels);
  const torch::Tensor total = counts.sum(0);
  const torch::Tensor merged = (counts * means).sum(0) / total;
  const torch::Tensor variance = (of_squares + counts * (means - merged).square()).sum(0) / total;
  return {merged, variance, total};
}

/// (x - mean) / sqrt(variance + eps) with the mean and variance of all ranks. Its backward pass sums over the ranks
/// again, since every sample has a part in every rank's statistics. The result is widened; so is the gradient, which
/// autograd then casts to the type of `x`.
struct Normalise : torch::autograd::Function<Normalise> {
  static torch::Tensor forward(torch::autograd::AutogradContext* context, const torch::Tensor& x,
                               const torch::Tensor& mean, const torch::Tensor& inverse_deviation,
                               const torch::Tensor& count, const c10::intrusive_ptr<c10d::ProcessGroup>& group) {
    const torch::Tensor normal =
        (widened(x) - along_channels(mean, x.dim())) * along_channels(inverse_deviation, x.dim());
    context->save_for_backward({normal, inverse_deviation, count});
    context->saved_data["group"] = c10::IValue::make_capsule(group);
    return normal;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    // Autograd does not record collectives: second derivatives would be wrong without a word.
    TORCH_CHECK(!at::GradMode::is_enabled(), "SyncBatchNorm: backward(create_graph = true) is not supported");
    const auto saved = context->get_saved_variables();
    const torch::Tensor &normal = saved[0], &inverse_deviation = saved[1], &count = saved[2];
    const auto group = c10::static_intrusive_pointer_cast<c10d::ProcessGroup>(context->saved_data["group"].toCapsule());
    const torch::Tensor& gradient = gradients[0];
    const std::vector<int64_t> dimensions = all_but_channels(normal);
    std::vector<torch::Tensor> sums{torch::stack({gradient.sum(dimensions), (gradient * normal).sum(dimensions)})};
    group->allreduce(sums)->wait();  // (2, C)
    const torch::Tensor mean = sums[0][0] / count, along_normal = sums[0][1] / count;
    const int64_t dim = normal.dim();
    const torch::Tensor of_x = (gradient - along_channels(mean, dim) - normal * along_channels(along_normal, dim)) *
                               along_channels(inverse_deviation, dim);
    return {of_x, {}, {}, {}, {}};
  }
};

}  // namespace sync_batch_norm

/// torch::nn::BatchNorm over (N, C) or (N, C, ...) whose training statistics are those of all ranks' samples; ranks may
/// have different N, also 0. The result has the input's type, under autocast, too. Parameters and buffers are named and
/// shaped as BatchNorm's, so that a checkpoint of one is one of the other. In evaluation it is BatchNorm. Every rank
/// must call it, forward and backward, in the same order: it has one all-gather and one all-reduce. Its weight's and
/// bias's gradients are this rank's own, as any layer's: DistributedDataParallel averages them. Without a group it is
/// BatchNorm.
///
/// It is made of elementwise operators, to be read. PyTorch's own has fused CUDA kernels (at::batch_norm_stats and its
/// family): an update there passes over memory 8 times, here some 35 times, so that on a GPU PyTorch's is several times
/// faster. Of an input of 16 bits it keeps the 2 bytes a value for backward(), and this 4.
class SyncBatchNormImpl : public torch::nn::Module {
 public:
  SyncBatchNormImpl(int64_t features, c10::intrusive_ptr<c10d::ProcessGroup> group, double eps = 1e-5,
                    double momentum = 0.1)
      : group_(std::move(group)), eps_(eps), momentum_(momentum) {
    weight = register_parameter("weight", torch::ones({features}));
    bias = register_parameter("bias", torch::zeros({features}));
    running_mean = register_buffer("running_mean", torch::zeros({features}));
    running_var = register_buffer("running_var", torch::ones({features}));
    num_batches_tracked = register_buffer("num_batches_tracked", torch::zeros({}, torch::kLong));
  }

  /// Throws c10::ValueError for another number of channels; in training also for fewer than two values a channel, which
  /// have no variance. On several GPUs, as in PyTorch, it does not: the host would have to wait for the ranks' counts.
  /// The variance of one value is then 0.
  torch::Tensor forward(const torch::Tensor& x) {
    TORCH_CHECK_VALUE(x.dim() >= 2 && x.size(1) == weight.size(0), "expected (N, ", weight.size(0), ", ...), and got ",
                      x.sizes());
    const bool is_alone = !group_ || group_->getSize() == 1;
    if (is_training() && is_alone) require_variance(x.numel() / x.size(1));
    if (!is_training() || !group_) {
      if (is_training()) num_batches_tracked += 1;
      return torch::batch_norm(x, weight, bias, running_mean, running_var, is_training(), momentum_, eps_,
                               /*cudnn_enabled=*/true);
    }
    sync_batch_norm::Statistics all;
    {
      const torch::NoGradGuard no_grad;
      all = sync_batch_norm::of_all_ranks(x, *group_);
      if (all.count.is_cpu()) require_variance(static_cast<int64_t>(all.count.item<double>()));
      num_batches_tracked += 1;
      running_mean.lerp_(all.mean.to(running_mean.scalar_type()), momentum_);
      const torch::Tensor unbiased = all.variance * all.count / (all.count - 1).clamp_min(1);  // as BatchNorm's
      running_var.lerp_(unbiased.to(running_var.scalar_type()), momentum_);
    }
    const torch::Tensor normal =
        sync_batch_norm::Normalise::apply(x, all.mean, (all.variance + eps_).rsqrt(), all.count, group_);
    const torch::Tensor scaled = normal * sync_batch_norm::along_channels(weight, x.dim());
    return (scaled + sync_batch_norm::along_channels(bias, x.dim())).to(x.scalar_type());
  }

  torch::Tensor weight, bias, running_mean, running_var, num_batches_tracked;

 private:
  static void require_variance(int64_t values) {
    TORCH_CHECK_VALUE(values > 1, "SyncBatchNorm: training needs more than 1 value a channel, and there are ", values);
  }

  c10::intrusive_ptr<c10d::ProcessGroup> group_;
  double eps_, momentum_;
};
TORCH_MODULE(SyncBatchNorm);

}  // namespace tenfold
