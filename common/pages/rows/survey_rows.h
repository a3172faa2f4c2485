#pragma once
// Rows of a survey: what each look has counted or timed; nothing is judged.

#include "common/pages/rows/rows.h"

namespace tenfold {

CaseRows survey_rows(const CaseResult& c);

}  // namespace tenfold
