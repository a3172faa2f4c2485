// Part of each library that has a fallback of its own.
#include "common/dry_gpu/below_autograd.h"

#include <c10/core/impl/PyInterpreter.h>
#include <c10/core/impl/PyInterpreterHooks.h>
#include <dlfcn.h>
#include <pthread.h>
#include <torch/library.h>

#include <algorithm>
#include <cerrno>
#include <new>

#include "common/dry_gpu/views.h"

namespace tenfold::dry {
namespace {

/// Tensors of Python's that have no bytes, as those of FakeTensorMode: whoever made them computes with them.
bool has_no_bytes(const at::Tensor& tensor) {
  return tensor.defined() && tensor.key_set().has(c10::DispatchKey::Python) &&
         (!tensor.has_storage() ||
          tensor.storage().unsafeGetStorageImpl()->_mutable_data_ptr_no_checks().get() == nullptr);
}

/// What LibTorch excludes while a mode or a tensor of Python's handles an operator, except this fallback: all keys
/// above Python's (ATen/core/PythonFallbackKernel.cpp).
c10::DispatchKeySet excluded_in_python() {
  const c10::DispatchKeySet below(c10::DispatchKeySet::FULL_AFTER, c10::DispatchKey::Python);
  const c10::DispatchKeySet above = c10::DispatchKeySet(c10::DispatchKeySet::FULL) - below - c10::python_ks;
  return above.remove(c10::DispatchKey::Fake);
}

/// Its tensors' key was taken off: FakeTensorMode asks for their shapes, say.
bool is_without_bytes(const c10::OperatorHandle& op, const torch::jit::Stack& stack) {
  if (!c10::impl::tls_is_dispatch_key_excluded(c10::DispatchKey::Python)) return false;
  const auto arguments = static_cast<std::ptrdiff_t>(op.schema().arguments().size());
  return std::any_of(stack.end() - arguments, stack.end(),
                     [](const c10::IValue& value) { return std::ranges::any_of(tensors_of(value), has_no_bytes); });
}

/// Python's dispatch modes and tensors come first. Each operator that they ask for comes by here again, without their
/// key: so it is computed once, whatever they make of the first one, and they see nothing of what a fallback calls.
void below_python(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  if (!keys.has(c10::DispatchKey::Python))
    return is_without_bytes(op, *stack) ? run_in_others(op, keys, stack) : fallback(op, keys, stack);
  if (op.hasKernelForDispatchKey(c10::DispatchKey::Python)) return run_in_others(op, keys, stack);
  static const c10::DispatchKeySet excluded = excluded_in_python();
  const c10::impl::ExcludeDispatchKeyGuard guard(excluded);
  (*c10::impl::getGlobalPyInterpreter())->dispatch(op, stack);
}

TORCH_LIBRARY_IMPL(_, Fake, library) { library.fallback(torch::CppFunction::makeFromBoxedFunction<&below_python>()); }

void fall_back_in_this_thread() { c10::impl::tls_set_dispatch_key_included(c10::DispatchKey::Fake, true); }

struct Start {
  void* (*function)(void*);
  void* argument;
};

void* started(void* given) {
  const Start start = *static_cast<Start*>(given);
  delete static_cast<Start*>(given);
  fall_back_in_this_thread();
  return start.function(start.argument);
}

[[maybe_unused]] const bool kMainThread = (fall_back_in_this_thread(), true);

}  // namespace
}  // namespace tenfold::dry

// A thread that does not know of the key would go by, and nobody would notice.
extern "C" __attribute__((visibility("default"))) int pthread_create(pthread_t* thread,
                                                                     const pthread_attr_t* attributes,
                                                                     void* (*function)(void*), void* argument) {
  static const auto real = reinterpret_cast<decltype(&pthread_create)>(dlsym(RTLD_NEXT, "pthread_create"));
  auto* const start = new (std::nothrow) tenfold::dry::Start{function, argument};
  return start == nullptr ? EAGAIN : real(thread, attributes, tenfold::dry::started, start);
}
