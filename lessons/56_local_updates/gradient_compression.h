// installs as <tenfold/gradient_compression.h>
#pragma once
// Fewer bytes than the gradients have: of fewer bits, the largest values alone, or two thin matrices instead of a wide
// one. Each leaves the same mean on all ranks. What a rank could not send is not lost: error feedback adds it to the
// next gradient.

#include <torch/torch.h>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/record_function.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "flat_model.h"

namespace tenfold {

/// Replaces gradients (P) of 32 bits by their mean over the ranks, sent and summed in bf16: half the bytes.
inline void mean_in_bf16(const torch::Tensor& gradients, const c10::intrusive_ptr<c10d::ProcessGroup>& group) {
  const torch::NoGradGuard no_grad;
  const torch::Tensor rounded = gradients.to(torch::kBFloat16);
  mean_over_ranks(rounded, group);
  gradients.copy_(rounded);
}

struct TopKOptions {
  double share = 0.01;  ///< of the values that a rank sends
  bool error_feedback = true;
};

/// Sends the values that are largest in size, and where they stand. Ranks choose different places, so that nothing can
/// be summed on the way: each rank gets all ranks' messages, 8 N k bytes.
///
/// With momentum and a share near 1 % this is not enough: a value that waits is then applied without the momentum it
/// would have had. Deep Gradient Compression (Y. Lin et al., 2017, arXiv:1712.01887) keeps each rank's momentum, adds
/// it up instead of the gradient, clears both where they were sent, and lowers the share in the first epochs. That is
/// not done here. Source: A. F. Aji and K. Heafield, Sparse Communication for Distributed Gradient Descent, 2017
/// (arXiv:1704.05021).
class TopK {
 public:
  /// Throws std::invalid_argument (c10::ValueError) unless 0 < share <= 1.
  TopK(c10::intrusive_ptr<c10d::ProcessGroup> group, const TopKOptions& options)
      : group_(std::move(group)), options_(options) {
    TORCH_CHECK_VALUE(options.share > 0 && options.share <= 1, "top-k sends a share of more than 0 and at most 1, not ",
                      options.share);
  }

  /// How many of so many values a rank sends.
  static int64_t sent_values(int64_t values, double share) {
    return std::max<int64_t>(1, std::llround(share * static_cast<double>(values)));
  }

  /// Replaces gradients (P) of 32 bits by the mean over the ranks of what they sent.
  void mean(const torch::Tensor& gradients) {
    const torch::NoGradGuard no_grad;
    const int64_t values = gradients.numel(), sent = sent_values(values, options_.share);
    TORCH_CHECK_VALUE(gradients.scalar_type() == torch::kFloat && values <= INT32_MAX,
                      "top-k takes at most 2^31 - 1 gradients, of 32 bits");
    if (!kept_.defined()) kept_ = torch::zeros_like(gradients);
    kept_.add_(gradients);
    const torch::Tensor places = std::get<1>(kept_.abs().topk(sent, 0, /*largest=*/true, /*sorted=*/false));  // (k)
    const torch::Tensor message = torch::cat({kept_.index_select(0, places).view(torch::kInt), places.to(torch::kInt)});
    const torch::Tensor messages = all_messages(message);  // (N, 2, k): values' bits, then places
    if (options_.error_feedback) {
      kept_.index_fill_(0, places, 0);
    } else {
      kept_.zero_();
    }
    kept_.nan_to_num_(0, 0, 0);  // an update that overflowed is skipped; kept, its infinities would spoil all to come
    gradients.zero_();
    const int64_t ranks = messages.size(0);
    for (int64_t rank = 0; rank < ranks; ++rank) {  // in this order on every rank: the sums are the same bit for bit
      const torch::Tensor theirs = messages[rank][0].view(torch::kFloat);
      gradients.index_add_(0, messages[rank][1], theirs, 1.0 / static_cast<double>(ranks));
    }
  }

  /// What this rank has not sent yet, (P); undefined before the first call.
  const torch::Tensor& kept() const { return kept_; }

 private:
  torch::Tensor all_messages(torch::Tensor message) const {
    if (!group_) return message.view({1, 2, -1});
    RECORD_USER_SCOPE("communication");
    torch::Tensor all = torch::empty({group_->getSize() * message.numel()}, message.options());
    group_->_allgather_base(all, message)->wait();
    return all.view({group_->getSize(), 2, -1});
  }

  c10::intrusive_ptr<c10d::ProcessGroup> group_;
  TopKOptions options_;
  torch::Tensor kept_;
};

/// Makes the columns of matrices (k, n, r) orthogonal and of length 1, in place; a column that the ones before span
/// becomes zero. Gram-Schmidt, each column twice: once leaves too much in 32 bits. Some 12 operators a column for all k
/// matrices together; at::linalg_qr, which PyTorch's hook takes, needs fewer and makes such a column any direction.
inline void orthogonalise(const torch::Tensor& matrices) {
  constexpr double kNothing = 1e-6;  // of a column: rounding leaves 1e-7 of it, in a direction of its own
  const at::NoTF32Guard in_32_bits;  // which would leave 5e-4 of it
  const auto length_of = [](const torch::Tensor& column) { return column.norm(2, /*dim=*/1, /*keepdim=*/true); };
  for (int64_t i = 0; i < matrices.size(2); ++i) {
    const torch::Tensor column = matrices.narrow(2, i, 1), before = matrices.narrow(2, 0, i);
    const torch::Tensor length = length_of(column);  // (k, 1, 1)
    for (int pass = 0; pass < 2 && i > 0; ++pass) column.sub_(before.bmm(before.mT().bmm(column)));
    const torch::Tensor left = length_of(column);
    column.mul_((left > kNothing * length) / left.clamp_min(1e-30));
  }
}

struct PowerSgdOptions {
  int64_t rank = 4;  ///< columns of the two matrices that are sent instead of one
  bool error_feedback = true;
  /// The second matrix begins where the last update's ended, so that steps of the power iteration add up.
  bool warm_start = true;
  /// A matrix is compressed if it then has fewer bytes by more than this factor; 0: every matrix is.
  double least_saving = 1;
  uint64_t seed = 0;  ///< of the first second matrix: the same on all ranks
};

/// PowerSGD: a gradient (n, m) is sent as P (n, r) and Q (m, r), of which P Q^T is the nearest that one step of a power
/// iteration finds. Both are linear in the gradient, so that all-reduces can sum them; they are two, since Q needs P.
/// Vectors, and matrices that would save nothing, are sent as they are.
///
/// The first updates suffer most from inexact gradients: PyTorch's hook sends them whole for 1000 updates
/// (start_powerSGD_iter) and advises a tenth of the training, no less than the rate's warm-up. Here the caller does so,
/// by mean_over_ranks() instead of mean().
/// Source: T. Vogels, S. P. Karimireddy, M. Jaggi, PowerSGD, NeurIPS 2019 (arXiv:1905.13727).
class PowerSgd {
 public:
  /// Of the parameters of a flat model, in its order. Every rank must make it alike.
  PowerSgd(const std::vector<torch::Tensor>& parameters, c10::intrusive_ptr<c10d::ProcessGroup> group,
           const PowerSgdOptions& options)
      : group_(std::move(group)), options_(options), generator_(at::detail::createCPUGenerator(options.seed)) {
    TORCH_CHECK_VALUE(options.rank >= 1, "PowerSGD needs a rank of at least 1, not ", options.rank);
    const std::vector<int64_t> begins = flat_begins(parameters);
    std::unordered_set<const void*> seen;  // a tied parameter is one
    for (size_t i = 0; i < parameters.size(); ++i) {
      const torch::Tensor& parameter = parameters[i];
      if (!seen.insert(parameter.unsafeGetTensorImpl()).second) continue;
      const int64_t rank = rank_of(parameter.sizes(), options);
      if (rank > 0) {
        const int64_t rows = parameter.size(0), columns = parameter.numel() / rows;
        matrices_.push_back({begins[i], rows, columns, rank, kept_values_, 0, q_values_});
        kept_values_ += rows * columns;
        q_values_ += columns * rank;
      } else {
        whole_.push_back({begins[i], parameter.numel()});
      }
    }
    place_p();
    if (options.error_feedback) kept_ = torch::zeros({kept_values_}, parameters.at(0).options().requires_grad(false));
    q_ = torch::empty({q_values_}, parameters.at(0).options().requires_grad(false));
    draw_q();
    if (options.warm_start) first_q_ = q_.clone();
  }

  /// Columns that a parameter's gradient is sent with; 0: it is sent as it is.
  static int64_t rank_of(torch::IntArrayRef sizes, const PowerSgdOptions& options) {
    if (sizes.size() < 2) return 0;
    const int64_t rows = sizes[0], columns = c10::multiply_integers(sizes) / rows;
    const int64_t rank = std::min({options.rank, rows, columns});
    const auto sent = static_cast<double>((rows + columns) * rank);
    return sent * options.least_saving < static_cast<double>(rows * columns) ? rank : 0;
  }

  /// Replaces gradients (P) by what can be made of the ranks' P and Q: the same on all ranks.
  void mean(const torch::Tensor& gradients) {
    const torch::NoGradGuard no_grad;
    mean_of_whole(gradients);
    if (matrices_.empty()) return;
    if (options_.warm_start)
      revive_q();
    else
      draw_q();
    const torch::Tensor p = torch::empty({p_values_}, q_.options());
    for (const Matrix& matrix : matrices_) {
      if (options_.error_feedback) kept_of(matrix).add_(matrix.of(gradients));
      torch::Tensor product = matrix.p_of(p);
      torch::mm_out(product, to_send(matrix, gradients), matrix.q_of(q_));
    }
    mean_over_ranks(p, group_);
    for (const Alike& alike : alike_)
      orthogonalise(p.narrow(0, alike.p_begin, alike.count * alike.rows * alike.rank)
                        .view({alike.count, alike.rows, alike.rank}));
    for (const Matrix& matrix : matrices_) {
      torch::Tensor product = matrix.q_of(q_);
      torch::mm_out(product, to_send(matrix, gradients).t(), matrix.p_of(p));
    }
    mean_over_ranks(q_, group_);
    for (const Matrix& matrix : matrices_) {
      torch::Tensor product = matrix.of(gradients);
      torch::mm_out(product, matrix.p_of(p), matrix.q_of(q_).t());
      if (options_.error_feedback) kept_of(matrix).sub_(product);
    }
    // An update that overflowed is skipped; kept, its infinities would spoil all to come.
    if (kept_.defined()) kept_.nan_to_num_(0, 0, 0);
  }

  /// What the ranks have not sent yet of the compressed matrices, one after the other; undefined without feedback.
  const torch::Tensor& kept() const { return kept_; }

 private:
  struct Matrix {
    int64_t begin, rows, columns, rank;  // in the flat gradients
    int64_t kept_begin, p_begin, q_begin;

    torch::Tensor of(const torch::Tensor& flat) const { return view(flat, begin, rows, columns); }
    torch::Tensor p_of(const torch::Tensor& p) const { return view(p, p_begin, rows, rank); }
    torch::Tensor q_of(const torch::Tensor& q) const { return view(q, q_begin, columns, rank); }
    static torch::Tensor view(const torch::Tensor& flat, int64_t begin, int64_t rows, int64_t columns) {
      return flat.narrow(0, begin, rows * columns).view({rows, columns});
    }
  };
  struct Whole {
    int64_t begin, values;
  };
  struct Alike {  // matrices whose P have one shape and lie one after the other: one batch for orthogonalise()
    int64_t rows, rank, p_begin, count;
  };

  void place_p() {
    std::map<std::pair<int64_t, int64_t>, std::vector<Matrix*>> by_shape;
    for (Matrix& matrix : matrices_) by_shape[{matrix.rows, matrix.rank}].push_back(&matrix);
    for (const auto& [shape, matrices] : by_shape) {
      alike_.push_back({shape.first, shape.second, p_values_, static_cast<int64_t>(matrices.size())});
      for (Matrix* const matrix : matrices) {
        matrix->p_begin = p_values_;
        p_values_ += shape.first * shape.second;
      }
    }
  }

  void draw_q() { q_.copy_(torch::randn({q_values_}, generator_, torch::kFloat)); }
  /// A column is zero after a gradient of a lower rank, or of zeros, and not finite after one that overflowed, and
  /// would stay so: the next P would be the same there, and the next Q again. It begins anew where it first did, on all
  /// ranks alike, and the host waits for nothing.
  void revive_q() const {
    for (const Matrix& matrix : matrices_) {
      const torch::Tensor q = matrix.q_of(q_);
      const torch::Tensor is_dead =
          q.eq(0).all(0, /*keepdim=*/true).logical_or(q.isfinite().all(0, /*keepdim=*/true).logical_not());
      q.copy_(torch::where(is_dead, matrix.q_of(first_q_), q));
    }
  }
  torch::Tensor kept_of(const Matrix& matrix) const {
    return Matrix::view(kept_, matrix.kept_begin, matrix.rows, matrix.columns);
  }
  torch::Tensor to_send(const Matrix& matrix, const torch::Tensor& gradients) const {
    return options_.error_feedback ? kept_of(matrix) : matrix.of(gradients);
  }
  void mean_of_whole(const torch::Tensor& gradients) const {
    if (whole_.empty()) return;
    std::vector<torch::Tensor> parts;
    for (const Whole& part : whole_) parts.push_back(gradients.narrow(0, part.begin, part.values));
    const torch::Tensor message = torch::cat(parts);
    mean_over_ranks(message, group_);
    int64_t at = 0;
    for (const torch::Tensor& part : parts)
      part.copy_(message.narrow(0, std::exchange(at, at + part.numel()), part.numel()));
  }

  c10::intrusive_ptr<c10d::ProcessGroup> group_;
  PowerSgdOptions options_;
  at::Generator generator_;
  std::vector<Matrix> matrices_;
  std::vector<Whole> whole_;
  std::vector<Alike> alike_;
  int64_t kept_values_ = 0, p_values_ = 0, q_values_ = 0;
  torch::Tensor kept_, q_, first_q_;
};

}  // namespace tenfold
