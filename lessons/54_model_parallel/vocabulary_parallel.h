// installs as <tenfold/vocabulary_parallel.h>
#pragma once
// Embedding and cross-entropy with a vocabulary that is divided over the ranks. The logits are never gathered: of each
// token three numbers are reduced. Source: M. Shoeybi et al., Megatron-LM, 2019, section 3.

#include <torch/torch.h>

#include <ATen/OpMathType.h>

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
  int64_t of_all = 0;   ///< classes of all ranks

  VocabularyPart(int64_t vocabulary, int rank, int ranks)
      : begin(rank * ((vocabulary + ranks - 1) / ranks)),
        rows((vocabulary + ranks - 1) / ranks),
        classes(std::clamp<int64_t>(vocabulary - begin, 0, rows)),
        of_all(vocabulary) {}
};

/// A target that does not count, as PyTorch's ignore_index.
inline constexpr int64_t kIgnoredTarget = -100;

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

/// An id that is no class is on no rank, so that nobody would notice it. Throws c10::Error on a CPU; on CUDA the kernel
/// that finds one stops the device, as PyTorch's own do, and nobody waits for it here.
inline void require_classes(const torch::Tensor& is_class, const char* otherwise) {
  at::_assert_async(is_class.all(), otherwise);
}
inline torch::Tensor is_class(const torch::Tensor& ids, const VocabularyPart& part) {
  return ids.ge(0).logical_and_(ids.lt(part.of_all));
}

struct CrossEntropy : torch::autograd::Function<CrossEntropy> {
  using Context = torch::autograd::AutogradContext;
  using Gradients = torch::autograd::variable_list;

  static torch::Tensor forward(Context* context, const torch::Tensor& logits, const torch::Tensor& targets,
                               const VocabularyPart& part, const TensorGroup& group, int64_t ignored) {
    const torch::Tensor counted = targets.ne(ignored);
    require_classes(is_class(targets, part).logical_or_(targets.eq(ignored)),
                    "a target is neither a class nor the ignored one");
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
    auto [inside, row] = rows_of(targets, part);
    inside.logical_and_(counted);
    torch::Tensor of_target = logits.gather(1, row.unsqueeze(1)).squeeze(1).sub_(largest).mul_(inside);
    group.sum(of_target);

    probabilities.div_(sum.unsqueeze(1));
    const torch::Tensor count = counted.sum();
    context->save_for_backward({probabilities, inside, row, counted, count});
    return torch::where(counted, sum.log_().sub_(of_target), 0.0).sum() / count;
  }

  static Gradients backward(Context* context, Gradients gradients) {
    refuse_second_derivatives("vocabulary_parallel_cross_entropy");
    const auto saved = context->get_saved_variables();
    const torch::Tensor &probabilities = saved[0], &inside = saved[1], &row = saved[2];
    const torch::Tensor each = torch::where(saved[3], gradients[0] / saved[4], 0.0);  // (n), 0 for an ignored target
    torch::Tensor of_logits = probabilities * each.unsqueeze(1);
    of_logits.scatter_add_(1, row.unsqueeze(1), (inside * -each).unsqueeze(1));
    return {of_logits, {}, {}, {}, {}};
  }
};

}  // namespace vocabulary_parallel

/// Embedding of `ids` (n) by rows of each rank, (rows, D): (n, D), or in sequence parallelism those of this rank's
/// tokens, (n / ranks, D). Throws c10::Error for an id that is no class; on CUDA as require_classes() does.
inline torch::Tensor vocabulary_parallel_embedding(const torch::Tensor& ids, const torch::Tensor& own_rows,
                                                   const VocabularyPart& part, const TensorParallel& how) {
  vocabulary_parallel::require_classes(vocabulary_parallel::is_class(ids, part), "an id is no class");
  const auto [inside, row] = vocabulary_parallel::rows_of(ids, part);
  const torch::Tensor partial = torch::embedding(own_rows, row).mul_(inside.unsqueeze(-1));
  return how.sequence ? reduce_scatter_tokens(partial, how.group) : sum_over_ranks(partial, how.group);
}

/// Mean cross-entropy of the n tokens whose target is not `ignored`, NaN where none counts: `logits` (n, rows) are this
/// rank's, 16-bit ones are computed with in 32; `targets` (n) are the same on all ranks, and so is the result. Sends
/// 3 n numbers. Throws c10::Error for a target that is no class; on CUDA as require_classes() does.
inline torch::Tensor vocabulary_parallel_cross_entropy(const torch::Tensor& logits, const torch::Tensor& targets,
                                                       const VocabularyPart& part, const TensorGroup& group,
                                                       int64_t ignored = kIgnoredTarget) {
  return vocabulary_parallel::CrossEntropy::apply(logits.to(at::toOpMathType(logits.scalar_type())), targets, part,
                                                  group, ignored);
}

}  // namespace tenfold
