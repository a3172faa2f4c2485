#include "common/pages/rows/survey_rows.h"

#include "common/pages/rows/row_parts.h"

namespace tenfold {

CaseRows survey_rows(const CaseResult& c) {
  CaseRows out{.c = &c, .judged = false, .headings = {{Column::rate, rate_heading(c)}, {Column::peak, "peak"}}};
  for (const VariantResult& variant : c.variants) {
    out.rows.push_back({.name = variant.name,
                        .variant = &variant,
                        .cells = {{Column::rate, rate_cell(variant)}, {Column::peak, peak_cell(variant)}},
                        .facts = facts_of(c, variant)});
  }
  return out;
}

}  // namespace tenfold
