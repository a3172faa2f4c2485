#pragma once
// Rows of a case that trains to an end: the quality, and the time to an equal one.

#include "common/pages/rows/rows.h"

namespace tenfold {

CaseRows training_rows(const CaseResult& c);

}  // namespace tenfold
