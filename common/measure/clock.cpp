#include "common/measure/clock.h"

#include <sys/resource.h>

#include <ctime>
#include <filesystem>
#include <iterator>

#include "common/measure/dry.h"

#ifdef TENFOLD_WITH_CUDA
#include <ATen/cuda/CUDAEvent.h>
#include <c10/cuda/CUDAStream.h>
#endif

namespace tenfold {
namespace {

double seconds_of(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

Times host_times(const std::function<void()>& work) {
  const Stopwatch watch;
  work();
  return watch.read();
}

}  // namespace

// The processor's clocks outside the wall's: what reading them costs is then not in the wall's time.
Stopwatch::Stopwatch()
    : waits_(waits_of_this_thread()),
      processor_(seconds_of(CLOCK_PROCESS_CPUTIME_ID)),
      thread_(seconds_of(CLOCK_THREAD_CPUTIME_ID)),
      wall_(std::chrono::steady_clock::now()),
      jumped_(dry_times().jumped) {}

Times Stopwatch::read() const {
  const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - wall_;
  const double thread = seconds_of(CLOCK_THREAD_CPUTIME_ID);
  return {.wall = passed.count() + dry_times().jumped - jumped_,
          .processor = seconds_of(CLOCK_PROCESS_CPUTIME_ID) - processor_,
          .thread = thread - thread_,
          .waits = waits_of_this_thread() - waits_};
}

Times take_times(torch::Device device, const std::function<void()>& work) {
#ifdef TENFOLD_WITH_CUDA
  if (device.is_cuda()) {
    at::cuda::CUDAEvent begin(cudaEventDefault), end(cudaEventDefault);
    const auto stream = c10::cuda::getCurrentCUDAStream(device.index());
    begin.record(stream);
    Times times = host_times([&] {
      work();
      end.record(stream);
      end.synchronize();
    });
    times.device = begin.elapsed_time(end) / 1e3;
    return times;
  }
#else
  (void)device;
#endif
  return host_times(work);
}

double time_block(torch::Device device, const std::function<void()>& work) {
  return take_times(device, work).seconds();
}

int threads_of_this_process() {
  const std::filesystem::directory_iterator tasks("/proc/self/task");
  return static_cast<int>(std::distance(begin(tasks), end(tasks)));
}

int64_t waits_of_this_thread() {
  rusage use{};
  getrusage(RUSAGE_THREAD, &use);
  return use.ru_nvcsw + use.ru_majflt;
}

}  // namespace tenfold
