#include "common/measure/kernel_time.h"

#include <algorithm>
#include <numeric>
#include <random>
#include <stdexcept>

#include "common/measure/clock.h"

#ifdef TENFOLD_WITH_CUDA
#include <ATen/cuda/CUDAContext.h>
#include <ATen/cuda/Sleep.h>
#endif

namespace tenfold {
namespace {

void check(const std::vector<Contender>& contenders) {
  for (const Contender& contender : contenders) {
    const std::string complaint = contender.complaint();
    if (!complaint.empty()) throw std::runtime_error(contender.name + ": " + complaint);
  }
}

}  // namespace

LaunchTimer::LaunchTimer(torch::Device device) : device_(device) {
  // 256 MiB are more than any L2. On a CPU only tests take times.
  const int64_t bytes = int64_t{1} << (device.is_cuda() ? 28 : 20);
  sweep_ = torch::ones({bytes / 4}, torch::dtype(torch::kFloat).device(device));
  sum_ = torch::empty({}, sweep_.options());
}

double LaunchTimer::cold(const std::function<void()>& launch) const {
  torch::Tensor sum = sum_;
  at::sum_out(sum, sweep_);  // read, not written: the launch would pay for storing changed lines
  keep_busy(1);
  return time_block(device_, launch);
}

double LaunchTimer::hot(const std::function<void()>& launch, int count) const {
  keep_busy(count);
  const double all = time_block(device_, [&] {
    for (int i = 0; i < count; ++i) launch();
  });
  return all / count;
}

void LaunchTimer::keep_busy([[maybe_unused]] int launches) const {
#ifdef TENFOLD_WITH_CUDA
  constexpr int64_t kClocks = 400'000, kEach = 200'000;  // 0.2 ms and 0.1 ms at 2 GHz
  if (device_.is_cuda()) at::cuda::sleep(kClocks + launches * kEach);
#endif
}

int64_t l2_bytes([[maybe_unused]] torch::Device device) {
#ifdef TENFOLD_WITH_CUDA
  if (device.is_cuda())
    return at::cuda::getDeviceProperties(device.has_index() ? device.index() : c10::DeviceIndex{0})->l2CacheSize;
#endif
  return 0;
}

std::vector<std::vector<double>> seconds_in_turn(torch::Device device, const std::vector<Contender>& contenders,
                                                 uint64_t seed, int samples) {
  check(contenders);
  std::vector<std::vector<double>> seconds(contenders.size());
  const LaunchTimer timer(device);
  std::vector<size_t> order(contenders.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::mt19937_64 random(seed);
  for (int sample = 0; sample < samples; ++sample) {
    std::shuffle(order.begin(), order.end(), random);
    for (const size_t i : order) seconds[i].push_back(timer.cold(contenders[i].launch));
  }
  check(contenders);
  return seconds;
}

}  // namespace tenfold
