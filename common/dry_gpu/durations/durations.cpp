// How long an operator keeps a dry GPU busy. Below autograd every operator of LibTorch comes by here; its kernels,
// which the stand-ins see by their names alone, together last what its tensors ask for (demand.h).
//
// Preloaded behind the stand-ins, where the card's time is modelled and nothing is computed.

#include "common/dry_gpu/below_autograd.h"
#include "common/dry_gpu/durations/demand.h"
#include "common/dry_gpu/state.h"
#include "common/dry_gpu/views.h"

namespace tenfold::dry {

void fallback(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  const c10::FunctionSchema& schema = op.schema();
  const auto count = static_cast<std::ptrdiff_t>(schema.arguments().size());
  if (state().time == nullptr || std::none_of(stack->end() - count, stack->end(), on_card))
    return run_as_it_is(op, keys, stack);
  const Values arguments(stack->end() - count, stack->end());
  Pricing pricing;
  run_as_it_is(op, keys, stack);
  if (!pricing.launched()) return;
  const Values results(stack->end() - static_cast<std::ptrdiff_t>(schema.returns().size()), stack->end());
  const Rates& rates = state().time->rates();
  pricing.settle(rates.gap + seconds_of(demand_of(schema, arguments, results), rates));
}

}  // namespace tenfold::dry
