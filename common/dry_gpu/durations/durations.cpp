// How long an operator keeps a dry GPU busy. Below autograd every operator of LibTorch comes by here; its kernels,
// which the stand-ins see by their names alone, together last what its tensors ask for (demand.h).
//
// Preloaded behind the stand-ins, where the card's time is modelled and nothing is computed.

#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/library.h>

#include "common/dry_gpu/arithmetic/views.h"
#include "common/dry_gpu/durations/demand.h"
#include "common/dry_gpu/state.h"

namespace tenfold::dry {
namespace {

using c10::DispatchKey;
using c10::DispatchKeySet;
using Values = std::vector<c10::IValue>;

const DispatchKeySet kHere(DispatchKey::Fake);
const DispatchKeySet kBelow(DispatchKeySet::FULL_AFTER, DispatchKey::Fake);

void fallback(const c10::OperatorHandle& op, DispatchKeySet keys, torch::jit::Stack* stack) {
  const c10::FunctionSchema& schema = op.schema();
  const auto count = static_cast<std::ptrdiff_t>(schema.arguments().size());
  const c10::impl::ExcludeDispatchKeyGuard not_here(kHere);
  if (state().time == nullptr || std::none_of(stack->end() - count, stack->end(), on_card)) {
    op.redispatchBoxed(keys & kBelow, stack);
    return;
  }
  const Values arguments(stack->end() - count, stack->end());
  Pricing pricing;
  op.redispatchBoxed(keys & kBelow, stack);
  if (!pricing.launched()) return;
  const Values results(stack->end() - static_cast<std::ptrdiff_t>(schema.returns().size()), stack->end());
  const Rates& rates = state().time->rates();
  pricing.settle(rates.gap + seconds_of(demand_of(schema, arguments, results), rates));
}

TORCH_LIBRARY_IMPL(_, Fake, library) { library.fallback(torch::CppFunction::makeFromBoxedFunction<&fallback>()); }

}  // namespace
}  // namespace tenfold::dry
