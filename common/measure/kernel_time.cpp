#include "common/measure/kernel_time.h"

#include <algorithm>
#include <numeric>
#include <random>
#include <stdexcept>

#include "common/measure/clock.h"

namespace tenfold {
namespace {

void check(const std::vector<Contender>& contenders) {
  for (const Contender& contender : contenders) {
    const std::string complaint = contender.complaint();
    if (!complaint.empty()) throw std::runtime_error(contender.name + ": " + complaint);
  }
}

}  // namespace

LaunchTimer::LaunchTimer(torch::Device device, Caches caches) : device_(device), caches_(caches) {
  if (caches == Caches::hot) return;
  // 256 MiB are more than any L2. On a CPU only tests take times.
  const int64_t bytes = int64_t{1} << (device.is_cuda() ? 28 : 20);
  flush_ = torch::zeros({bytes / 4}, torch::dtype(torch::kFloat).device(device));
}

double LaunchTimer::seconds(const std::function<void()>& launch) const {
  if (caches_ == Caches::cold) {
    flush_.sum();  // read, not written: the launch would pay for writing changed lines back
    return time_block(device_, launch);
  }
  const double all = time_block(device_, [&] {
    for (int i = 0; i < kHotLaunches; ++i) launch();
  });
  return all / kHotLaunches;
}

std::vector<std::vector<double>> seconds_in_turn(torch::Device device, Caches caches,
                                                 const std::vector<Contender>& contenders, uint64_t seed, int samples) {
  check(contenders);
  std::vector<std::vector<double>> seconds(contenders.size());
  const LaunchTimer timer(device, caches);
  std::vector<size_t> order(contenders.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::mt19937_64 random(seed);
  for (int sample = 0; sample < samples; ++sample) {
    std::shuffle(order.begin(), order.end(), random);
    for (const size_t i : order) seconds[i].push_back(timer.seconds(contenders[i].launch));
  }
  check(contenders);
  return seconds;
}

}  // namespace tenfold
