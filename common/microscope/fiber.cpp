#include "common/microscope/fiber.h"

#include <unistd.h>

#include "common/microscope/mapped_memory.h"

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/common_interface_defs.h>
#endif

namespace tenfold::simt {

namespace context = boost::context::detail;

Fiber::Fiber(void (*body)(Fiber*)) : body_(body) {
  const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  void* memory = map_pages(kStackBytes + page);
  mprotect(memory, page, PROT_NONE);  // a kernel that recurses without end stops here
  stack_ = reinterpret_cast<uintptr_t>(memory) + page;
  inside_ = context::make_fcontext(pointer_to(stack_ + kStackBytes), kStackBytes, enter);
}

Fiber::~Fiber() {
  const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  munmap(pointer_to(stack_ - page), kStackBytes + page);
}

void Fiber::resume() {
#ifdef __SANITIZE_ADDRESS__
  void* fake = nullptr;
  __sanitizer_start_switch_fiber(&fake, pointer_to(stack_), kStackBytes);
#endif
  inside_ = context::jump_fcontext(inside_, this).fctx;
#ifdef __SANITIZE_ADDRESS__
  __sanitizer_finish_switch_fiber(fake, nullptr, nullptr);
#endif
}

void Fiber::suspend() {
#ifdef __SANITIZE_ADDRESS__
  __sanitizer_start_switch_fiber(&fake_inside_, outer_stack_, outer_bytes_);
#endif
  outside_ = context::jump_fcontext(outside_, nullptr).fctx;
#ifdef __SANITIZE_ADDRESS__
  __sanitizer_finish_switch_fiber(fake_inside_, &outer_stack_, &outer_bytes_);
#endif
}

void Fiber::enter(context::transfer_t from) {
  Fiber* self = static_cast<Fiber*>(from.data);
  self->outside_ = from.fctx;
#ifdef __SANITIZE_ADDRESS__
  __sanitizer_finish_switch_fiber(nullptr, &self->outer_stack_, &self->outer_bytes_);
#endif
  self->body_(self);
}

}  // namespace tenfold::simt
