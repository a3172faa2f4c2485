// installs as <tenfold/vocabulary_parallel.h>
#pragma once
// Embedding and cross-entropy with a vocabulary that is divided over the ranks. The logits are never gathered: of each
// token three numbers are reduced. Source: M. Shoeybi et al., Megatron-LM, 2019, section 3.

#include <torch/torch.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>

#include "sequence_parallel.h"
#include "tensor_parallel.h"

namespace tenfold {

/// A rank's classes. All ranks have rows for equally many, so the last ones may have rows that stand for no class.
struct VocabularyPart {
  int64_t begin = 0;    ///< this rank's first class
  int64_t rows = 0;     ///< of its weights
  int64_t classes = 0;  ///< of these rows those that stand for a class; the others are padding

  VocabularyPart(int64_t vocabulary, int rank, int ranks)
      : begin(rank * ((vocabulary + ranks - 1) / ranks)),
        rows((vocabulary + ranks - 1) / ranks),
        classes(std::clamp<int64_t>(vocabulary - begin, 0, rows)) {}
};

/// This rank's rows of a weight (vocabulary, D), and zeros for padding: (rows, D).
inline torch::Tensor vocabulary_rows(const torch::Tensor& whole, const VocabularyPart& part) {
  torch::Tensor own = torch::zeros({part.rows, whole.size(1)}, whole.options().requires_grad(false));
  if (part.classes > 0) own.narrow(0, 0, part.classes).copy_(whole.detach().narrow(0, part.begin, part.classes));
  return own;
}

namespace vocabulary_parallel {

/// Which ids are this rank's, and their rows; another's id gets row 0.
inline std::pair<torch::Tensor, torch::Tensor> rows_of(const torch::Tensor& ids, const VocabularyPart& part) {
  const torch::Tensor inside = ids.ge(part.begin).logical_and_(ids.lt(part.begin + part.classes));
  return {inside, (ids - part.begin).mul_(inside)};
}

struct CrossEntropy : torch::autograd::Function<CrossEntropy> {
  using Context = torch::autograd::AutogradContext;
  using Gradients = torch::autograd::variable_list;

  static torch::Tensor forward(Context* context, const torch::Tensor& logits, const torch::Tensor& targets,
                               const VocabularyPart& part, const TensorGroup& group) {
    const int64_t padding = part.rows - part.classes;
    // 1: the largest logit of a token, so that exp() does not overflow. Padding is no class.
    torch::Tensor largest = torch::full({logits.size(0)}, -std::numeric_limits<float>::infinity(), logits.options());
    if (part.classes > 0) largest = logits.narrow(1, 0, part.classes).amax(1);
    group.max(largest);
    // 2: the sum of all classes' exp().
    torch::Tensor probabilities = (logits - largest.unsqueeze(1)).exp_();
    if (padding > 0) probabilities.narrow(1, part.classes, padding).zero_();
    const torch::Tensor sum = group.sum(probabilities.sum(1));
    // 3: the target's logit, which one rank has.
    const auto [inside, row] = rows_of(targets, part);
    torch::Tensor of_target = logits.gather(1, row.unsqueeze(1)).squeeze(1).sub_(largest).mul_(inside);
    group.sum(of_target);

    probabilities.div_(sum.unsqueeze(1));
    context->save_for_backward({probabilities, inside, row});
    return (sum.log() - of_target).mean();
  }

  static Gradients backward(Context* context, Gradients gradients) {
    const auto saved = context->get_saved_variables();  // probabilities, inside, row
    const torch::Tensor each = gradients[0] / saved[0].size(0);
    torch::Tensor of_logits = saved[0] * each;
    of_logits.scatter_add_(1, saved[2].unsqueeze(1), (saved[1] * -each).unsqueeze(1));
    return {of_logits, {}, {}, {}};
  }
};

}  // namespace vocabulary_parallel

/// Embedding of `ids` (n) by rows of each rank, (rows, D): (n, D), or in sequence parallelism those of this rank's
/// tokens, (n / ranks, D).
inline torch::Tensor vocabulary_parallel_embedding(const torch::Tensor& ids, const torch::Tensor& own_rows,
                                                   const VocabularyPart& part, const TensorParallel& how) {
  const auto [inside, row] = vocabulary_parallel::rows_of(ids, part);
  const torch::Tensor partial = torch::embedding(own_rows, row).mul_(inside.unsqueeze(-1));
  return how.sequence ? reduce_scatter_tokens(partial, how.group) : sum_over_ranks(partial, how.group);
}

/// Mean cross-entropy of n tokens: `logits` (n, rows) in 32 bits are this rank's, `targets` (n) the same on all ranks,
/// and so is the result. Sends 3 n numbers.
inline torch::Tensor vocabulary_parallel_cross_entropy(const torch::Tensor& logits, const torch::Tensor& targets,
                                                       const VocabularyPart& part, const TensorGroup& group) {
  return vocabulary_parallel::CrossEntropy::apply(logits, targets, part, group);
}

}  // namespace tenfold
