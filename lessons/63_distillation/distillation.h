// installs as <tenfold/distillation.h>
#pragma once
// A small model, the student, learns from the answers of a larger one that is already trained, the teacher:
//
//   TeacherLogits cache({.samples = 60000, .classes = 10});  // once: each sample passes the teacher one time
//   for (const auto& [ids, inputs] : batches) cache.put(ids, teacher->forward(inputs));  // eval(), no_grad
//   cache.seal();
//   ...
//   auto loss = distillation_loss(student->forward(inputs), cache.rows(ids), labels, {.temperature = 4, .alpha = 0.9});
//
// Source: G. Hinton, O. Vinyals, J. Dean, Distilling the Knowledge in a Neural Network, 2015, arXiv:1503.02531.

#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace tenfold {

struct DistillationOptions {
  double temperature = 4;  ///< that both models' logits are divided by; 1 leaves them as they are
  double alpha = 0.9;      ///< weight of the teacher's answers, 0 to 1; the labels have the rest
};

/// Throws c10::ValueError unless the temperature is finite and above 0, and alpha within 0 and 1.
inline void check_distillation(const DistillationOptions& options) {
  TORCH_CHECK_VALUE(std::isfinite(options.temperature) && options.temperature > 0,
                    "distillation: the temperature must be above 0, got ", options.temperature);
  TORCH_CHECK_VALUE(options.alpha >= 0 && options.alpha <= 1, "distillation: alpha must be 0 to 1, got ",
                    options.alpha);
}

/// Logits of 16 bits as floats: probabilities of many classes and the logarithms of small ones need the digits.
inline torch::Tensor at_least_float(const torch::Tensor& logits) {
  return logits.scalar_type() == torch::kDouble ? logits : logits.to(torch::kFloat);
}

/// T^2 KL(p || q), the mean over the batch: p are the teacher's and q the student's probabilities at temperature T.
/// Both logits are (N, C), of any floating type; computed in 32 bits at least. Its gradient is T (q - p) / N: a softmax
/// at temperature T divides it by T, its argument by T once more, and T^2 takes both back, so that a change of T does
/// not change how much the labels count beside it. Throws c10::ValueError for other shapes, and for logits of the
/// teacher that need a gradient: their graph would be kept, and the teacher's gradients computed.
inline torch::Tensor soft_target_loss(const torch::Tensor& student, const torch::Tensor& teacher, double temperature) {
  check_distillation({.temperature = temperature});
  TORCH_CHECK_VALUE(student.dim() == 2 && student.sizes() == teacher.sizes() && student.size(0) > 0,
                    "distillation: logits must be (N, C) of both models, got ", student.sizes(), " of the student and ",
                    teacher.sizes(), " of the teacher; flatten sequences first");
  TORCH_CHECK_VALUE(!teacher.requires_grad(),
                    "distillation: the teacher's logits need a gradient; run the teacher under no_grad, or detach()");
  const torch::Tensor log_q = torch::log_softmax(at_least_float(student) / temperature, 1);
  const torch::Tensor log_p = torch::log_softmax(at_least_float(teacher) / temperature, 1);
  // A sum over the classes, which is what KL is, and a mean over the rows: PyTorch calls it "batchmean".
  const torch::Tensor sum =
      torch::kl_div(log_q, log_p.to(log_q.scalar_type()), at::Reduction::Sum, /*log_target=*/true);
  return sum * (temperature * temperature / static_cast<double>(student.size(0)));
}

/// alpha T^2 KL(teacher || student) + (1 - alpha) cross entropy. Logits (N, C), labels (N) of int64; a scalar. Throws
/// as soft_target_loss() does.
inline torch::Tensor distillation_loss(const torch::Tensor& student, const torch::Tensor& teacher,
                                       const torch::Tensor& labels, const DistillationOptions& options = {}) {
  check_distillation(options);
  torch::Tensor soft = soft_target_loss(student, teacher, options.temperature);
  if (options.alpha == 1) return soft;
  return options.alpha * soft + (1 - options.alpha) * torch::cross_entropy_loss(at_least_float(student), labels);
}

struct TeacherLogitsOptions {
  int64_t samples = 0, classes = 0;
  torch::ScalarType type = torch::kFloat;  ///< float16 takes half of the bytes, and rounds to 11 binary digits
  torch::Device device = torch::kCPU;
};

/// The teacher's logits of each sample, by the sample's number in the data set, whatever order the samples came in.
/// Right only where a sample is the same each time: random crops have a new answer in every epoch.
class TeacherLogits {
 public:
  /// Throws c10::ValueError for sizes below 1, and types that are no floating ones.
  explicit TeacherLogits(const TeacherLogitsOptions& options) {
    TORCH_CHECK_VALUE(options.samples > 0 && options.classes > 0, "TeacherLogits: needs samples and classes, got ",
                      options.samples, " and ", options.classes);
    TORCH_CHECK_VALUE(c10::isFloatingType(options.type), "TeacherLogits: ", options.type, " holds no logits");
    put_.resize(static_cast<size_t>(options.samples), false);
    logits_ = torch::full({options.samples, options.classes}, std::numeric_limits<double>::quiet_NaN(),
                          torch::dtype(options.type).device(options.device));
  }

  /// Keeps `logits` (N, C) as those of the samples `ids` (N), int64 on the CPU, or the device is waited for. Throws
  /// c10::ValueError for other shapes.
  void put(const torch::Tensor& ids, const torch::Tensor& logits) {
    const torch::NoGradGuard no_graph;
    TORCH_CHECK_VALUE(
        ids.dim() == 1 && logits.dim() == 2 && logits.size(0) == ids.size(0) && logits.size(1) == logits_.size(1),
        "TeacherLogits: expected a row of ", logits_.size(1), " logits for each of ", ids.sizes(), " samples, got ",
        logits.sizes());
    const torch::Tensor on_host = ids.to(torch::kCPU, torch::kLong).contiguous();
    for (int64_t i = 0; i < on_host.size(0); ++i) {
      const int64_t id = on_host.const_data_ptr<int64_t>()[i];
      TORCH_CHECK_VALUE(id >= 0 && id < logits_.size(0), "TeacherLogits: sample ", id, " of ", logits_.size(0));
      put_[static_cast<size_t>(id)] = true;
    }
    logits_.index_copy_(0, ids.to(logits_.device()), logits.detach().to(logits_.options()));
    sealed_ = false;
  }

  /// After the last put(): throws c10::ValueError, and names the first, where a sample has no logits.
  void seal() {
    const auto first = std::find(put_.begin(), put_.end(), false);
    TORCH_CHECK_VALUE(first == put_.end(), "TeacherLogits: ", std::count(first, put_.end(), false), " of ", put_.size(),
                      " samples have no logits, the first is number ", first - put_.begin());
    sealed_ = true;
  }

  /// Throws c10::ValueError, and names the first, where a sample's logits are not finite in the cache's type: those of
  /// a teacher that diverged, or beyond 65504 in float16. Waits for the device.
  void check_finite() const {
    const torch::Tensor wrong = logits_.isfinite().all(1).logical_not().nonzero();
    TORCH_CHECK_VALUE(wrong.size(0) == 0, "TeacherLogits: ", wrong.size(0), " of ", put_.size(),
                      " samples have logits that are not finite, the first is number ", wrong[0].item<int64_t>());
  }

  /// Of the samples `ids` (N): (N, C) of 32 bits at least, on the cache's device. Throws c10::Error before seal().
  torch::Tensor rows(const torch::Tensor& ids) const {
    TORCH_CHECK(sealed_, "TeacherLogits: rows() before seal()");
    return at_least_float(logits_.index_select(0, ids.to(logits_.device())));
  }

  /// How far the kept rows are from what the teacher answers for these samples now, in parts of the latter's norm. Rows
  /// in another order, a teacher in training mode or of other weights come to about 1; rounding to float16 to 1e-3.
  double deviation(const torch::Tensor& ids, const torch::Tensor& logits) const {
    const torch::Tensor now = at_least_float(logits.detach()).to(logits_.device());
    return ((rows(ids) - now).norm() / now.norm()).item<double>();
  }

  int64_t bytes() const { return static_cast<int64_t>(logits_.nbytes()); }  ///< samples x classes x bytes of a number

 private:
  torch::Tensor logits_;   // (samples, classes)
  std::vector<bool> put_;  // which rows somebody has put
  bool sealed_ = false;
};

}  // namespace tenfold
