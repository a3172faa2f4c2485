#include "common/result/result_rows.h"

namespace tenfold {

std::string ResultRow::name() const { return result->lesson + ", " + c->name + ", " + variant->name; }

std::vector<ResultRow> rows_of(const std::vector<Result>& results) {
  std::vector<ResultRow> rows;
  for (const Result& result : results) {
    for (const CaseResult& c : result.cases) {
      for (const VariantResult& variant : c.variants) rows.push_back({&result, &c, &variant});
    }
  }
  return rows;
}

}  // namespace tenfold
