// Any text as a result file: a FileError of one line, or a result that is written and read again without a change.
#include "common/base/files.h"
#include "common/result/compare_results.h"
#include "common/result/judge.h"
#include "common/result/result.h"

#include <algorithm>
#include <stdexcept>

#include "fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using tenfold::fuzz::require;
  const std::string text = tenfold::fuzz::text_of({data, size});
  tenfold::Result result;
  if (!tenfold::fuzz::reads<tenfold::FileError>([&] { result = tenfold::parse_result(text, "x"); })) return 0;
  const std::string once = tenfold::format_result(result);
  require(tenfold::format_result(tenfold::parse_result(once, "x")) == once, "a result that is read can be written");
  for (tenfold::CaseResult& one : result.cases) {
    // Blocks that cannot be compared (not as many in each variant, or one without time) are refused by name.
    if (tenfold::fuzz::reads<std::invalid_argument>([&] { tenfold::judge(one); }))
      require(one.verdicts.size() + 1 == std::max<size_t>(1, one.variants.size()), "each technique has a verdict");
    for (const tenfold::VariantResult& variant : one.variants)
      require(!tenfold::row_identity(result, one, variant.name).empty(), "a row has a name");
  }
  // Labels that were read are kept: rows are refused with a reason, or compared.
  tenfold::fuzz::reads<std::invalid_argument>([&] { tenfold::compare_results({result}, {result}); });
  return 0;
}
