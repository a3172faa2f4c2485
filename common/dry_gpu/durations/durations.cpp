// How long an operator keeps a dry GPU busy. Below autograd every operator of LibTorch comes by here; its kernels,
// which the stand-ins see by their names alone, together last what its tensors ask for (demand.h).
//
// Preloaded behind the stand-ins, where the card's time is modelled and nothing is computed.

#include <cstring>

#include "common/dry_gpu/below_autograd.h"
#include "common/dry_gpu/durations/demand.h"
#include "common/dry_gpu/state.h"
#include "common/dry_gpu/views.h"

namespace tenfold::dry {
namespace {

/// linear, matmul, layer_norm, ...: written in other operators, which autograd sees in its place. Where autograd is
/// excluded, in inference mode, it comes by whole.
bool is_written_in_others(const c10::OperatorHandle& op) {
  return c10::impl::tls_is_dispatch_key_excluded(c10::DispatchKey::AutogradFunctionality) &&
         op.hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd) &&
         !op.hasKernelForDispatchKey(c10::DispatchKey::CUDA);
}

/// Nothing is computed, and what a program reads back decides what it does next: a flag of GradScaler's whether a step
/// is skipped. A number that a kernel has left alone in its tensor reads 0, and not what lay there before.
void read_as_zero(const c10::IValue& value) {
  for (const at::Tensor& tensor : tensors_of(value)) {
    if (tensor.defined() && tensor.is_cuda() && tensor.has_storage() && tensor.numel() == 1)
      std::memset(tensor.data_ptr(), 0, tensor.element_size());
  }
}

}  // namespace

void fallback(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  const c10::FunctionSchema& schema = op.schema();
  const auto count = static_cast<std::ptrdiff_t>(schema.arguments().size());
  if (state().time == nullptr || std::none_of(stack->end() - count, stack->end(), on_card))
    return run_as_it_is(op, keys, stack);
  if (is_written_in_others(op)) return run_in_others(op, keys, stack);
  const Values arguments(stack->end() - count, stack->end());
  Pricing pricing;
  run_as_it_is(op, keys, stack);
  if (!pricing.launched()) return;
  const Values results(stack->end() - static_cast<std::ptrdiff_t>(schema.returns().size()), stack->end());
  for (size_t i = 0; i < arguments.size(); ++i) {
    const c10::AliasInfo* const alias = schema.arguments()[i].alias_info();
    if (alias != nullptr && alias->isWrite()) read_as_zero(arguments[i]);
  }
  for (const c10::IValue& result : results) read_as_zero(result);
  const Rates& rates = state().time->rates();
  pricing.settle(seconds_of(demands_of(schema, arguments, results), rates));
}

}  // namespace tenfold::dry
