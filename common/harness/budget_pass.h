#pragma once
// Cases in which all variants have one byte budget instead of one batch.

#include "common/harness/part_run.h"

namespace tenfold {

/// For each variant the largest multiple of the case's own value of the budget's setting with which a step's peak stays
/// within the budget: predicted from the growth between two measured peaks, then confirmed by measuring it and the next
/// multiple. From then on the variant is built with that value, and its peak is that one's. A variant whose own value
/// exceeds the budget is out of memory. Agreement was checked at the case's own values; what was predicted for those
/// says nothing of others and is dropped.
void budget_pass(PartRun& run, const SameBudget& budget);

}  // namespace tenfold
