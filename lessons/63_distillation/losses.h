#pragma once
// Losses that look like distillation and are not: what the traps of lesson 63 train with.

#include <torch/torch.h>

#include "distillation.h"
#include "settings.h"

namespace tenfold::inline lesson_63 {

/// Logits (N, C) of both, labels (N); a scalar.
using DistillationLoss = torch::Tensor (*)(const torch::Tensor& student, const torch::Tensor& teacher,
                                           const torch::Tensor& labels, const DistillationOptions& options);

/// The student's loss without a teacher.
inline torch::Tensor labels_only(const torch::Tensor& student, const torch::Tensor& /*teacher*/,
                                 const torch::Tensor& labels, const DistillationOptions& /*options*/) {
  return torch::cross_entropy_loss(student, labels);
}

/// KL at the temperature, as it comes: its gradient is T^2 times smaller than at temperature 1, and the labels win.
inline torch::Tensor without_t_squared(const torch::Tensor& student, const torch::Tensor& teacher,
                                       const torch::Tensor& labels, const DistillationOptions& options) {
  const double square = options.temperature * options.temperature;
  return options.alpha / square * soft_target_loss(student, teacher, options.temperature) +
         (1 - options.alpha) * torch::cross_entropy_loss(student, labels);
}

/// KLDivLoss as it is by default, "mean": divides by the classes as well as by the rows.
inline torch::Tensor mean_over_classes(const torch::Tensor& student, const torch::Tensor& teacher,
                                       const torch::Tensor& labels, const DistillationOptions& options) {
  const auto classes = static_cast<double>(student.size(1));
  return options.alpha / classes * soft_target_loss(student, teacher, options.temperature) +
         (1 - options.alpha) * torch::cross_entropy_loss(student, labels);
}

/// What article D prints: KLDivLoss by default, a temperature without its square, no labels.
inline torch::Tensor article_d_loss(const torch::Tensor& student, const torch::Tensor& teacher,
                                    const torch::Tensor& /*labels*/, const DistillationOptions& options) {
  return torch::kl_div(torch::log_softmax(student / options.temperature, 1),
                       torch::softmax(teacher / options.temperature, 1));
}

/// The right one, with T squared.
inline torch::Tensor distilled(const torch::Tensor& student, const torch::Tensor& teacher, const torch::Tensor& labels,
                               const DistillationOptions& options) {
  return distillation_loss(student, teacher, labels, options);
}

}  // namespace tenfold::inline lesson_63
