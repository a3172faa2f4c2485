#pragma once
// The kept solution of exercise 63; CI proves that it passes.
#include <torch/torch.h>

#include <cstdint>

/// T^2 KL(p || q): a sum over the classes, a mean over the rows. Logits (N, C) of both; a scalar. p are the teacher's
/// probabilities at this temperature, q the student's.
inline torch::Tensor soft_target_loss(const torch::Tensor& student, const torch::Tensor& teacher, double temperature) {
  const torch::Tensor log_q = torch::log_softmax(student / temperature, 1);
  const torch::Tensor log_p = torch::log_softmax(teacher / temperature, 1);
  const torch::Tensor sum = torch::kl_div(log_q, log_p, at::Reduction::Sum, /*log_target=*/true);
  const double square = temperature * temperature;
  return sum * square / student.size(0);
}

/// The teacher's logits of each sample.
class KeptAnswers {
 public:
  KeptAnswers(int64_t samples, int64_t classes) : logits_(torch::zeros({samples, classes})) {}

  /// `logits` (N, C) are those of the samples `ids` (N). They come in any order.
  void keep(const torch::Tensor& ids, const torch::Tensor& logits) {
    const torch::Tensor values = logits.detach();
    logits_.index_copy_(0, ids, values);
  }

  /// Of the samples `ids` (N): (N, C), without a graph.
  torch::Tensor answers(const torch::Tensor& ids) const { return logits_.index_select(0, ids); }

 private:
  torch::Tensor logits_;  // (samples, classes)
};
