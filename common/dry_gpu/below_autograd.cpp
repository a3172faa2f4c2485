// Part of each library that has a fallback of its own.
#include "common/dry_gpu/below_autograd.h"

#include <dlfcn.h>
#include <pthread.h>
#include <torch/library.h>

#include <cerrno>
#include <new>

namespace tenfold::dry {
namespace {

TORCH_LIBRARY_IMPL(_, Fake, library) { library.fallback(torch::CppFunction::makeFromBoxedFunction<&fallback>()); }

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
