#pragma once
// Rows of a case that measures techniques against a baseline: speed, memory, agreement.

#include "common/pages/rows/rows.h"

namespace tenfold {

CaseRows comparison_rows(const CaseResult& c);

}  // namespace tenfold
