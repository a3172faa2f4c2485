// installs as <tenfold/side_streams.h>
#pragma once
// Streams besides the caller's, for work that can run at the same time: CUDA streams, or threads without a GPU.
//
// Streams are ordered only by what you ask for. stream_waits() and caller_waits() are the two waits that a fork and
// its join need: an event is recorded on one stream, and the other waits for it. On a GPU neither holds up the host.
// A tensor may cross the join: until the next fork, which waits again, nothing takes its memory. One that is freed
// while another stream still reads it needs record_stream().

#include <torch/torch.h>

#include "lessons/11_pinned_loading/host_stream.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#ifdef TENFOLD_WITH_CUDA
#include <ATen/cuda/CUDAEvent.h>
#include <ATen/cuda/Sleep.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include <map>
#include <mutex>
#endif

namespace tenfold {

/// Streams 0 to count() - 1.
class SideStreams {
 public:
  virtual ~SideStreams() = default;
  virtual size_t count() const = 0;
  /// Queues work. What it refers to must live until the caller has waited for the stream. What it throws comes out here
  /// on a CUDA stream, and out of caller_waits() on a thread, which leaves out the work after it until then.
  virtual void run(size_t stream, const std::function<void()>& work) = 0;
  /// What is run on the stream from now on waits for what the caller has queued.
  virtual void stream_waits(size_t stream) = 0;
  /// What the caller queues from now on waits for what the stream has; on a thread it throws what the work there threw,
  /// once: like a CUDA stream, the thread then takes new work.
  virtual void caller_waits(size_t stream) = 0;
  /// Nothing that is run from now on begins before let_go(): makes a race end the same way every time.
  virtual void hold() = 0;
  virtual void let_go() = 0;
};

/// A thread each. The caller's stream is the calling thread, so to wait is to block it.
class SideThreads final : public SideStreams {
 public:
  explicit SideThreads(size_t count) : streams_(count) {
    for (size_t i = 0; i < count; ++i) {
      streams_[i].run([] { at::init_num_threads(); });  // as many intra-op threads as the caller has
      caller_waits(i);
    }
  }
  ~SideThreads() override { held_.reset(); }  // nobody is left to let go
  SideThreads(const SideThreads&) = delete;
  SideThreads& operator=(const SideThreads&) = delete;

  size_t count() const override { return streams_.size(); }
  void run(size_t stream, const std::function<void()>& work) override { streams_.at(stream).run(work); }
  void stream_waits(size_t) override {}  // what the calling thread has asked for is done
  void caller_waits(size_t stream) override {
    HostStream& queue = streams_.at(stream);
    try {
      queue.record().synchronize();
    } catch (...) {
      queue.clear_error();
      throw;
    }
  }
  void hold() override {
    held_.emplace();
    const std::shared_future<void> over = held_->get_future().share();
    for (HostStream& stream : streams_) stream.run([over] { over.wait(); });
  }
  void let_go() override { held_->set_value(); }

 private:
  std::optional<std::promise<void>> held_;
  std::deque<HostStream> streams_;  // the last member: ends first
};

#ifdef TENFOLD_WITH_CUDA
/// The process's own streams, the same for all who ask. cuBLAS keeps a workspace for each thread and stream that ever
/// computed a matmul, as long as the process lives: with other streams of LibTorch's pool for each object, all 32 of it
/// would have one in the end. Two objects with the same streams only wait for more than they must.
inline std::vector<c10::cuda::CUDAStream> streams_of_process(torch::Device device, size_t count, bool high_priority) {
  static std::mutex mutex;
  static std::map<std::pair<c10::DeviceIndex, bool>, std::vector<c10::cuda::CUDAStream>> made;
  const c10::DeviceIndex index = device.has_index() ? device.index() : c10::cuda::current_device();
  const std::lock_guard lock(mutex);
  auto& streams = made[{index, high_priority}];
  while (streams.size() < count) streams.push_back(c10::cuda::getStreamFromPool(high_priority, index));
  return {streams.begin(), streams.begin() + static_cast<std::ptrdiff_t>(count)};
}

class CudaSideStreams final : public SideStreams {
 public:
  CudaSideStreams(torch::Device device, size_t count, bool high_priority)
      : device_(device), streams_(streams_of_process(device, count, high_priority)) {}

  size_t count() const override { return streams_.size(); }
  void run(size_t stream, const std::function<void()>& work) override {
    const c10::cuda::CUDAStreamGuard guard(streams_.at(stream));
    work();
  }
  void stream_waits(size_t stream) override {
    at::cuda::CUDAEvent queued;
    queued.record(callers());
    queued.block(streams_.at(stream));
  }
  void caller_waits(size_t stream) override {
    at::cuda::CUDAEvent done;
    done.record(streams_.at(stream));
    done.block(callers());
  }
  /// A kernel that spins: on any GPU for milliseconds, longer than what the caller queues meanwhile.
  void hold() override {
    constexpr int64_t kCycles = 20'000'000;
    for (size_t i = 0; i < streams_.size(); ++i) run(i, [] { at::cuda::sleep(kCycles); });
  }
  void let_go() override {}

 private:
  c10::cuda::CUDAStream callers() const { return c10::cuda::getCurrentCUDAStream(device_.index()); }

  torch::Device device_;
  std::vector<c10::cuda::CUDAStream> streams_;
};
#endif

/// For work on `device`. Priorities are those of CUDA streams; threads have none.
inline std::unique_ptr<SideStreams> side_streams(torch::Device device, size_t count,
                                                 [[maybe_unused]] bool high_priority = false) {
#ifdef TENFOLD_WITH_CUDA
  if (device.is_cuda()) return std::make_unique<CudaSideStreams>(device, count, high_priority);
#endif
  TORCH_CHECK(device.is_cpu(), "side_streams: no streams for device ", device);
  return std::make_unique<SideThreads>(count);
}

/// Fork and join: work(0) to work(branches - 1), none of which needs another. They take turns on the caller's stream
/// and on the side streams. What the caller queues afterwards finds all of them done. All are begun whatever others
/// throw; then the error of the first branch that threw is thrown on, the others' are dropped, and the streams may be
/// used again.
inline void fork_join(SideStreams& sides, size_t branches, const std::function<void(size_t)>& work) {
  const size_t streams = sides.count() + 1;  // branch i runs on stream i % streams; 0 is the caller's
  std::vector<std::exception_ptr> failed(branches + 1);
  const auto attempt = [&failed](size_t branch, const auto& action) {
    try {
      action();
    } catch (...) {  // thrown on after the join: till then branches use the caller's variables
      if (!failed[branch]) failed[branch] = std::current_exception();
    }
  };
  for (size_t i = 1; i < branches; ++i) {
    if (i % streams == 0) continue;
    attempt(branches, [&] {
      sides.stream_waits(i % streams - 1);  // fork: until what the branches read is there
      sides.run(i % streams - 1, [&attempt, &work, i] { attempt(i, [&] { work(i); }); });
    });
  }
  for (size_t i = 0; i < branches; i += streams) attempt(i, [&] { work(i); });
  for (size_t side = 0; side + 1 < std::min(branches, streams); ++side)
    attempt(branches, [&] { sides.caller_waits(side); });
  for (const std::exception_ptr& error : failed) {
    if (error) std::rethrow_exception(error);
  }
}

}  // namespace tenfold
