#include "common/result/dry_agreement.h"

#include <algorithm>
#include <cmath>

#include "common/result/judge.h"

namespace tenfold {
namespace {

void fail_as(VariantResult& variant, const VariantResult& checked, const std::string& order) {
  variant.status = checked.status;
  variant.failure = checked.failure;
  variant.reason = checked.reason + " (size cpu, streams " + order + ")";
  variant.peak_bytes.clear();
  variant.blocks.clear();
  variant.split.reset();
  variant.counted.clear();
  variant.predicted = {};
}

double deviation(const AgreementResult& agreement) { return agreement.worst.value_or(agreement.pass ? 0 : INFINITY); }

/// Sets the verdict's agreement, or replaces it by one that deviates more.
void take_agreement(CaseResult& joined, const Verdict& checked, const std::string& orders) {
  if (!checked.agreement) return;
  auto verdict = std::ranges::find(joined.verdicts, checked.technique, &Verdict::technique);
  if (verdict == joined.verdicts.end()) return;
  if (!verdict->agreement || deviation(*checked.agreement) > deviation(*verdict->agreement))
    verdict->agreement = checked.agreement;
  verdict->agreement->rule = checked.agreement->rule + "; computed by the CPU at size cpu, streams " + orders;
}

}  // namespace

Result with_agreement(Result memory, const Checked& checked) {
  std::string orders;
  for (const auto& [order, result] : checked) {
    orders += (orders.empty() ? "" : " and ") + order;
    for (CaseResult& c : memory.cases) {
      const auto same = std::ranges::find(result.cases, c.name, &CaseResult::name);
      if (c.kind != "comparison" || same == result.cases.end()) continue;
      for (VariantResult& variant : c.variants) {
        const VariantResult* const other = variant_of(*same, variant.name);
        if (other == nullptr || variant.status != "ok") continue;
        if (other->status == "invalid") fail_as(variant, *other, order);
        if (other->status == "skipped") variant.environment["agreement"] = "not checked: " + other->reason;
      }
      for (const Verdict& verdict : same->verdicts) take_agreement(c, verdict, orders);
    }
  }
  for (CaseResult& c : memory.cases) {
    if (c.kind == "comparison") judge(c, memory.machine.cores);
  }
  return memory;
}

}  // namespace tenfold
