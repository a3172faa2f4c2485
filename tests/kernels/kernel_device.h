#pragma once
// Where a kernel test runs. The same test source is built twice: on the microscope, for every machine, and, with
// TENFOLD_TEST_ON_GPU, for a GPU (CTest label `gpu`; skipped where there is none).  Where counts are asserted,
// TENFOLD_COUNTED is defined: on the microscope, but not in a build with sanitizers.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

#ifdef TENFOLD_TEST_ON_GPU
#include <cuda_runtime.h>
#else
#include "common/microscope/device.h"
#endif

namespace tenfold::test {

/// How many tiles of `size` cover `count`.
inline int64_t parts(int64_t count, int64_t size) { return (count + size - 1) / size; }

/// Standard normal values, the same everywhere for a seed (std::normal_distribution differs between libraries).
inline std::vector<float> normal_values(int64_t count, uint64_t seed) {
  std::mt19937_64 bits(seed);
  std::vector<float> values(static_cast<size_t>(count));
  for (size_t i = 0; i < values.size(); i += 2) {
    const double u = (static_cast<double>(bits() >> 11) + 0.5) * 0x1p-53,
                 v = static_cast<double>(bits() >> 11) * 0x1p-53;
    const double radius = std::sqrt(-2 * std::log(u)), angle = 6.283185307179586 * v;
    values[i] = static_cast<float>(radius * std::cos(angle));
    if (i + 1 < values.size()) values[i + 1] = static_cast<float>(radius * std::sin(angle));
  }
  return values;
}

#ifdef TENFOLD_TEST_ON_GPU

/// Values on the GPU.
template <class T>
class DeviceValues {
 public:
  explicit DeviceValues(int64_t count) : count_(count) { ok(cudaMalloc(&data_, bytes())); }
  ~DeviceValues() { cudaFree(data_); }
  DeviceValues(DeviceValues&& other) noexcept : data_(std::exchange(other.data_, nullptr)), count_(other.count_) {}
  DeviceValues& operator=(DeviceValues&&) = delete;
  T* data() const { return data_; }
  int64_t size() const { return count_; }
  size_t bytes() const { return static_cast<size_t>(count_) * sizeof(T); }
  std::vector<T> host() const {
    std::vector<T> values(static_cast<size_t>(count_));
    ok(cudaMemcpy(values.data(), data_, bytes(), cudaMemcpyDeviceToHost));
    return values;
  }
  /// One value in place, where the array is too large to go through the host.
  void put(int64_t i, T value) const { ok(cudaMemcpy(data_ + i, &value, sizeof(T), cudaMemcpyHostToDevice)); }
  T get(int64_t i) const {
    T value{};
    ok(cudaMemcpy(&value, data_ + i, sizeof(T), cudaMemcpyDeviceToHost));
    return value;
  }
  static void ok(cudaError_t error) { ASSERT_EQ(error, cudaSuccess) << cudaGetErrorString(error); }

 private:
  T* data_ = nullptr;
  int64_t count_;
};

class KernelTest : public testing::Test {
 protected:
  void SetUp() override {
    int devices = 0;
    const cudaError_t error = cudaGetDeviceCount(&devices);
    // Any other error is one that an earlier test has left behind, and no reason to skip.
    if (error == cudaErrorNoDevice || error == cudaErrorInsufficientDriver) GTEST_SKIP() << "no GPU";
    ASSERT_EQ(error, cudaSuccess) << cudaGetErrorString(error);
  }
  static cudaStream_t stream() { return nullptr; }
  template <class T>
  DeviceValues<T> poisoned(int64_t count, const std::string& = "out") {
    DeviceValues<T> values(count);
    DeviceValues<T>::ok(cudaMemset(values.data(), 0xff, values.bytes()));
    return values;
  }
  template <class T>
  DeviceValues<T> zeros(int64_t count) {
    DeviceValues<T> values(count);
    DeviceValues<T>::ok(cudaMemset(values.data(), 0, values.bytes()));
    return values;
  }
  /// For arrays of more than 2^31 elements: whether the GPU has that many bytes free, and as many for a test beside it.
  static bool has_bytes(int64_t bytes) {
    size_t free = 0, total = 0;
    return cudaMemGetInfo(&free, &total) == cudaSuccess && static_cast<int64_t>(free) > 2 * bytes;
  }
  template <class T>
  DeviceValues<T> copied(const std::vector<T>& from, const std::string& = "in") {
    DeviceValues<T> values(static_cast<int64_t>(from.size()));
    DeviceValues<T>::ok(cudaMemcpy(values.data(), from.data(), values.bytes(), cudaMemcpyHostToDevice));
    return values;
  }
  static void expect_clean() { DeviceValues<int>::ok(cudaDeviceSynchronize()); }
};

#else

/// Values in a buffer of the microscope's.
template <class T>
class DeviceValues {
 public:
  explicit DeviceValues(simt::Buffer<T> buffer) : buffer_(std::move(buffer)) {}
  T* data() const { return buffer_.data(); }
  int64_t size() const { return buffer_.size(); }
  std::vector<T> host() const { return {buffer_.begin(), buffer_.end()}; }

 private:
  simt::Buffer<T> buffer_;
};

class KernelTest : public testing::Test {
 protected:
  simt::Stream stream() { return &device_; }
  template <class T>
  DeviceValues<T> poisoned(int64_t count, const std::string& name = "out") {
    return DeviceValues<T>(device_.buffer<T>(name, count));
  }
  template <class T>
  DeviceValues<T> copied(const std::vector<T>& from, const std::string& name = "in") {
    auto buffer = device_.buffer<T>(name, static_cast<int64_t>(from.size()));
    std::copy(from.begin(), from.end(), buffer.begin());
    return DeviceValues<T>(std::move(buffer));
  }
  /// No race, nothing out of bounds, no barrier that only some threads reach.
  void expect_clean() { expect_clean(device_.report()); }
  static void expect_clean(const simt::Report& report) {
    for (const auto& race : report.races)
      ADD_FAILURE() << "race between " << simt::text_of(race.first) << " and " << simt::text_of(race.second);
    for (const auto& fault : report.faults) ADD_FAILURE() << simt::text_of(fault.where) << ": " << fault.text;
  }
  simt::Device device_;
};

#endif

#ifdef TENFOLD_COUNTED

/// All accesses of one kind in one space, added up, and of one buffer where it is named. Of `bytes` and `worst_ways`
/// the largest.
inline simt::Access total(const simt::Report& report, simt::Space space, simt::Kind kind,
                          const std::string& buffer = "") {
  simt::Access sum{.space = space, .kind = kind, .bytes = 0, .buffer = buffer};
  for (const simt::Access& access : report.accesses) {
    if (access.space != space || access.kind != kind || (!buffer.empty() && access.buffer != buffer)) continue;
    sum.bytes = std::max(sum.bytes, access.bytes);
    sum.requests += access.requests;
    sum.lanes += access.lanes;
    sum.sectors += access.sectors;
    sum.wavefronts += access.wavefronts;
    sum.ideal_wavefronts += access.ideal_wavefronts;
    sum.worst_ways = std::max(sum.worst_ways, access.worst_ways);
  }
  return sum;
}

/// The same where there must be one: a count of nothing proves nothing.
inline simt::Access sum(const simt::Report& report, simt::Space space, simt::Kind kind,
                        const std::string& buffer = "") {
  const simt::Access all = total(report, space, kind, buffer);
  EXPECT_GT(all.requests, 0) << name_of(space) << " " << name_of(kind) << " " << buffer;
  return all;
}

#endif

}  // namespace tenfold::test
