// A kernel that follows a pointer to where nothing is ends its launch with a fault that is named, and not the program.
#include <csignal>

#include "common/microscope/engine.h"

namespace tenfold::simt {
#ifdef __SANITIZE_ADDRESS__
CatchWildPointers::CatchWildPointers() = default;  // AddressSanitizer reports them itself
CatchWildPointers::~CatchWildPointers() = default;
#else
namespace {

struct sigaction before_segv, before_bus;

void on_signal(int number, siginfo_t* info, void* context) {
  if (!engine.active) {  // no kernel's doing
    std::signal(number, SIG_DFL);
    return;  // to the same access, which now ends the program
  }
  const auto pc = static_cast<uintptr_t>(static_cast<ucontext_t*>(context)->uc_mcontext.gregs[REG_RIP]);
  const auto address = reinterpret_cast<uintptr_t>(info->si_addr);
  note_fault(FaultKind::out_of_bounds, pc + 1,  // as if a call had returned to behind it
             "touches address " + hex(address, 16) + ", where there is no buffer");
  end_launch();
}

}  // namespace

CatchWildPointers::CatchWildPointers() {
  struct sigaction action{};
  action.sa_sigaction = on_signal;
  action.sa_flags = SA_SIGINFO | SA_NODEFER;  // the handler never returns: the next launch must be told as well
  sigaction(SIGSEGV, &action, &before_segv);
  sigaction(SIGBUS, &action, &before_bus);
}

CatchWildPointers::~CatchWildPointers() {
  sigaction(SIGSEGV, &before_segv, nullptr);
  sigaction(SIGBUS, &before_bus, nullptr);
}
#endif
}  // namespace tenfold::simt
