#pragma once
// The variants of a set of results, one after the other, for what joins two sets.

#include <string>
#include <vector>

#include "common/result/result.h"

namespace tenfold {

/// A variant with its case and its result, which must outlive it.
struct ResultRow {
  const Result* result;
  const CaseResult* c;
  const VariantResult* variant;

  bool is_baseline() const { return variant == &c->variants.front(); }
  /// "30_gradient_accumulation, gpt, accumulate"
  std::string name() const;
};

std::vector<ResultRow> rows_of(const std::vector<Result>& results);

}  // namespace tenfold
