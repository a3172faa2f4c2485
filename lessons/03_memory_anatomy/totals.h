#pragma once
// What the system says of the memory that tensors take: more than their bytes.

#include <unistd.h>

#include <fstream>

#include "common/harness/lesson.h"
#include "common/measure/memory.h"
#include "common/models/gpt.h"

namespace tenfold::inline lesson_03 {

/// Bytes of this process that lie in the machine's memory now (resident set), as `top` shows them.
inline int64_t resident_bytes() {
  int64_t all = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> all >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

/// Two steps of the GPT.
inline void train_a_little(const Trial& trial) {
  GptTraining work(trial);
  for (int step = 0; step < 2; ++step) {
    auto [ids, targets] = work.next_batch();
    work.optimizer->zero_grad();
    work.model->loss(work.model->hidden(ids), targets).backward();
    work.optimizer->step();
  }
}

/// The process: LibTorch, the data and what the allocator keeps are in its resident set, too.
inline void process_totals(const Trial& trial) {
  const int64_t before = resident_bytes();
  train_a_little(trial);
  trial.note("resident before", static_cast<double>(before), "bytes");
  trial.note("resident after two steps", static_cast<double>(resident_bytes()), "bytes");
  trial.note("formula's peak", static_cast<double>(step_peak_bytes(gpt_options(trial))), "bytes");
  trial.note("this machine", static_cast<double>(device_memory_bytes(torch::kCPU)), "bytes");
}

/// The device: what tensors asked for, what the caching allocator's blocks take (rounded up to 512 bytes, large ones by
/// up to 1 MiB), and what it has from the driver, which is what nvidia-smi sees besides the context.
inline void device_totals(const Trial& trial) {
  if (!trial.device.is_cuda()) trial.skip("needs a CUDA device: on a CPU nothing caches between LibTorch and malloc");
  reset_peak(trial.device);
  train_a_little(trial);
  for (const auto& [name, bytes] : peaks(trial.device)) trial.note(name, static_cast<double>(bytes), "bytes");
  trial.note("this device", static_cast<double>(device_memory_bytes(trial.device)), "bytes");
}

}  // namespace tenfold::inline lesson_03
