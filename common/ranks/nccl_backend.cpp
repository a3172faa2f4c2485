// NCCL through c10d. Not yet run on a GPU.
#include "common/ranks/nccl_backend.h"

#include <cstdlib>
#include <stdexcept>

#if defined(TENFOLD_WITH_CUDA) && defined(TENFOLD_WITH_NCCL)
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>
#endif

namespace tenfold {

void add_nccl_backend(c10d::ProcessGroup& group, const c10::intrusive_ptr<c10d::Store>& store, int rank, int world_size,
                      std::chrono::milliseconds timeout) {
#if defined(TENFOLD_WITH_CUDA) && defined(TENFOLD_WITH_NCCL)
  // 2 is CleanUpOnly: a collective that fails or waits longer than the timeout is aborted, and the process lives on, so
  // that its next control number over Gloo finds out which rank is lost. By default NCCL's watchdog ends the process.
  setenv("TORCH_NCCL_ASYNC_ERROR_HANDLING", "2", /*overwrite=*/0);
  auto options = c10d::ProcessGroupNCCL::Options::create();
  options->timeout = timeout;
  group.setBackend(c10::DeviceType::CUDA, c10d::ProcessGroup::BackendType::NCCL,
                   c10::make_intrusive<c10d::ProcessGroupNCCL>(store, rank, world_size, options));
#else
  throw std::runtime_error("this build has no NCCL: its header was not found when the build was configured");
#endif
}

}  // namespace tenfold
