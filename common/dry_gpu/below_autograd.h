#pragma once
// Below autograd every operator of LibTorch comes by a fallback of ours, in every thread of the program: what
// arithmetic/ and durations/ share. The dispatch key `Fake`, which sits just below autograd, is marked for removal in
// PyTorch; only this file and its source know it.

#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <vector>

namespace tenfold::dry {

using Values = std::vector<c10::IValue>;

/// What each library does with an operator that comes by, below Python's dispatch modes, too: it defines this function,
/// once.
void fallback(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack);

inline const c10::DispatchKeySet kFallsBack(c10::DispatchKey::Fake);

/// As LibTorch would have run it; what it calls itself comes by in its turn.
inline void run_in_others(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  op.redispatchBoxed(keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, c10::DispatchKey::Fake), stack);
}

/// The same; what it calls itself does not.
inline void run_as_it_is(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  const c10::impl::ExcludeDispatchKeyGuard not_again(kFallsBack);
  run_in_others(op, keys, stack);
}

}  // namespace tenfold::dry
