#pragma once
// Counts of lesson 15: the rows and pairs that a step computes with, what follows from them, and padding over all speeches.

#include <vector>

#include <tenfold/counted.h>
#include <tenfold/lesson.h>
#include <tenfold/padding_plans.h>

namespace tenfold {

/// What a step computes with, of whatever layout.
struct StepWork {
  double rows = 0;           ///< of every linear layer, norm and loss
  double pairs = 0;          ///< of a query and a key, in one head of one layer
  double largest_piece = 0;  ///< rows of the largest micro-batch
  double pieces = 1;         ///< micro-batches
  double operators = 0;      ///< of forward, beyond the baseline's
  double kept_bytes = 0;     ///< kept for backward, beyond what belongs to rows
};

/// Pairs of a text. A causal mask needs half of them; but ATen's CPU kernel takes keys in tiles of 512, so it computes the other half
/// of a shorter text, too.
inline double pairs_of(double length) { return length * length; }

/// Work of a plan for these texts.
StepWork padded_work(const std::vector<TextIds>& texts, Plan plan, const PlanSettings& settings);

/// Work of packed texts; of a step like the baseline's, with attention_of_each, attention_padded, attention_masked or one kernel.
StepWork packed_work(const std::vector<TextIds>& texts);
StepWork work_of_each(const Counted& baseline);
StepWork work_of_padded_attention(const Counted& baseline);
StepWork work_of_one_mask(const Counted& baseline);
StepWork work_of_one_kernel(const Counted& baseline);

/// The texts and plan settings of a step of the baseline.
std::vector<TextIds> texts_of_step(const Counted& baseline);
PlanSettings plan_settings(const Counted& baseline);

/// What a step with that work should cost, if time and activations are in proportion to rows, and the time of attention to pairs.
Prediction predict_step(const Counted& baseline, const StepWork& work);

/// Case "all speeches": notes how much of a plan's rows and pairs is real when every speech comes once, in random batches.
Step note_all_speeches(const Trial& trial, Plan plan);

}  // namespace tenfold
