#pragma once
// The rows and pairs that a step computes with, padded or packed.

#include <algorithm>
#include <vector>

#include "padding_plans.h"

namespace tenfold::inline lesson_15 {

/// What a step computes with, of whatever layout.
struct StepWork {
  double rows = 0;            ///< of every linear layer, norm and loss
  double pairs = 0;           ///< of a query and a key, in one head of one layer
  double largest_piece = 0;   ///< rows of the largest micro-batch
  double pieces = 1;          ///< micro-batches
  double operators = 0;       ///< of forward, beyond the baseline's
  double kept_bytes = 0;      ///< kept for backward, beyond what belongs to rows
  double attention_rows = 0;  ///< of attention's results and their gradients, where one operator has all texts
  double workspace_rows = 0;  ///< of what CUDA's kernel for its backward pass sets aside
};

/// Pairs of a text. A causal mask needs half of them; but ATen's CPU kernel takes keys in tiles of 512, so it computes
/// the other half of a shorter text, too.
inline double pairs_of(double length) { return length * length; }

/// Work of a plan for these texts.
inline StepWork padded_work(const std::vector<TextIds>& texts, Plan plan, const PlanSettings& settings) {
  StepWork work{.pieces = 0};
  for (const MicroBatch& part : plan(texts, settings)) {
    const auto rows = static_cast<double>(part.rows());
    work.rows += rows;
    work.pairs += static_cast<double>(part.texts.size()) * pairs_of(static_cast<double>(part.length));
    work.largest_piece = std::max(work.largest_piece, rows);
    work.pieces += 1;
  }
  return work;
}

/// Work of packed texts whose attention has no padding.
inline StepWork packed_work(const std::vector<TextIds>& texts) {
  StepWork work;
  for (const TextIds text : texts) {
    const auto tokens = static_cast<double>(text.size() - 1);
    work.rows += tokens;
    work.pairs += pairs_of(tokens);
  }
  work.largest_piece = work.rows;
  return work;
}

}  // namespace tenfold::inline lesson_15
