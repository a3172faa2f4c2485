#pragma once
// Cross-entropy of rows of logits, loss and gradient together: the gradient takes the logits' place.

#include <cstdint>

namespace tenfold::kernels {

inline constexpr int kCrossEntropyRungs = 5;
/// Bytes of shared memory that a block of the last rung takes beside its row, at the most.
inline constexpr int64_t kCrossEntropyOwnShared = 256;
/// The target that says "this row does not count", as in PyTorch.
inline constexpr int64_t kIgnoreIndex = -100;

/// Cross-entropy of `logits` (rows, classes), row-major, against `targets` (rows):
///   losses (rows)   log(sum over c of exp(logits[r, c])) - logits[r, targets[r]]; 0 where the row does not count
///   counted (1)     how many rows count: those whose target is not `ignore_index`
///   mean (1)        the sum of the losses over `counted`; NaN when no row counts, as in PyTorch
///   logits          become gradient_scale times the gradient of `mean`: (softmax - 1 at the target) / counted; 0
///                   where a row does not count
/// T is float, __half or __nv_bfloat16; the arithmetic is float's, and each row's largest logit is subtracted first, so
/// that nothing overflows. A target that is neither `ignore_index` nor in [0, classes) makes its row's loss and
/// gradient and the mean NaN; nothing is read or written out of bounds. A row with a NaN, with +infinity or with
/// nothing but -infinity becomes NaN, as in PyTorch. Sums have a fixed order: equal inputs at equally aligned addresses
/// give equal bits. Rungs: 0 forward and backward apart, a thread per row; 1 in one kernel, a block per row; 2 online;
/// 3 with 16-byte accesses, whatever the number of classes; 4 with the row in shared memory between the passes, or as
/// much of it as there is room for; where that is less than half, as 3. `gradient_scale` is for half, whose least
/// value, 6e-8, is more than most of a mean's gradients: with a scale they are stored, and the caller takes it out
/// again in float. Nothing may overlap. Throws std::invalid_argument for a size below 1, more than 2^31 - 1 rows or an
/// unknown rung. Source: Hsu et al., "Liger Kernel: Efficient Triton Kernels for LLM Training", 2024
/// (arXiv:2410.10989), section 3.2, for the gradient in the logits' place; Milakov and Gimelshein, 2018
/// (arXiv:1805.02867) for the online sum.
template <class T, class Stream>
void cross_entropy(Stream stream, T* logits, float* mean, float* losses, int64_t* counted, const int64_t* targets,
                   int64_t rows, int64_t classes, int64_t ignore_index = kIgnoreIndex,
                   int rung = kCrossEntropyRungs - 1, float gradient_scale = 1);

}  // namespace tenfold::kernels
