// installs as <tenfold/captured_step.h>
#pragma once
// A training step of a GPU as one launch: captured once as a CUDA graph, then replayed for each batch.
//
// A graph is the list of kernels that a capture saw, with their arguments: addresses, sizes, and the numbers that the
// host passed. A replay launches them again with the same arguments, and runs nothing of the host's code. So what
// changes from step to step must change in memory that stays where it is: the batch is copied into buffers before each
// replay, and parameters, optimizer state, gradients and the loss are written where the capture wrote them.
// Random numbers do change: the default generator's state is registered with each graph.
// Sources: PyTorch documentation 2.11, CUDA semantics, section "CUDA Graphs"; NVIDIA, CUDA C++ Programming Guide 13.0,
// section "CUDA Graphs".

#include <torch/torch.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#ifdef TENFOLD_WITH_CUDA
#include <ATen/cuda/CUDAEvent.h>
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include <map>
#include <mutex>
#endif

namespace tenfold {

/// Tensors of one device that keep their addresses from batch to batch.
class StaticInputs {
 public:
  explicit StaticInputs(torch::Device device) : device_(device) {}

  /// Copies a batch into the buffers, which the first batch makes on the device; returns the buffers. The copy is
  /// queued on the current stream. Give it the batch in pinned memory: a batch that is on the device already is copied
  /// twice. The copy waits for the replay before it, so it reads `batch` up to a step later: whoever writes to the same
  /// memory again waits for an event recorded after this call. Throws c10::ValueError for a batch of other shapes,
  /// types or length than the first: the sizes are in the graph.
  const std::vector<torch::Tensor>& fill(const std::vector<torch::Tensor>& batch) {
    if (buffers_.empty()) {
      for (const torch::Tensor& tensor : batch)
        buffers_.push_back(torch::empty_like(tensor, tensor.options().device(device_)));
    }
    TORCH_CHECK_VALUE(batch.size() == buffers_.size(), "StaticInputs: a batch of ", batch.size(),
                      " tensors, the first one had ", buffers_.size());
    const torch::NoGradGuard no_grad;
    for (size_t i = 0; i < batch.size(); ++i) {
      TORCH_CHECK_VALUE(batch[i].sizes() == buffers_[i].sizes() && batch[i].dtype() == buffers_[i].dtype(),
                        "StaticInputs: tensor ", i, " has shape ", batch[i].sizes(), " and type ", batch[i].dtype(),
                        ", in the first batch ", buffers_[i].sizes(), " and ", buffers_[i].dtype());
      buffers_[i].copy_(batch[i], /*non_blocking=*/true);
    }
    return buffers_;
  }
  /// The same for a batch whose memory is filled again, as a Loader's is (<tenfold/batch.h>): it is told of the copy.
  template <typename Reused>
    requires requires(const Reused& batch, torch::Device device) { batch.copied->record(device); }
  const std::vector<torch::Tensor>& fill(const Reused& batch) {
    fill(batch.fields);
    batch.copied->record(device_);
    return buffers_;
  }
  const std::vector<torch::Tensor>& tensors() const { return buffers_; }

 private:
  torch::Device device_;
  std::vector<torch::Tensor> buffers_;
};

#ifdef TENFOLD_WITH_CUDA
/// The stream that a device's captures are made on, one for all of them: cuBLAS keeps a workspace for each stream that
/// it has computed on, and the caching allocator's blocks belong to the stream that they were made for. What keeps
/// gradient nodes, as DistributedDataParallel does, is made under a CUDAStreamGuard of it: a node belongs to the stream
/// on which it was made, and a capture may not wait for another one.
inline c10::cuda::CUDAStream capture_stream(torch::Device device) {
  static std::mutex mutex;
  static std::map<c10::DeviceIndex, c10::cuda::CUDAStream> made;
  const c10::DeviceIndex index = device.has_index() ? device.index() : c10::cuda::current_device();
  const std::lock_guard lock(mutex);
  const auto found = made.find(index);
  if (found != made.end()) return found->second;
  return made.emplace(index, c10::cuda::getStreamFromPool(/*isHighPriority=*/false, index)).first->second;
}

namespace captured_step_detail {

/// What `second` does from now on waits for what `first` has been given.
inline void wait_for(const c10::cuda::CUDAStream& first, const c10::cuda::CUDAStream& second) {
  at::cuda::CUDAEvent given;
  given.record(first);
  given.block(second);
}

/// Ends a capture whose graph is not wanted.
inline void abandon(at::cuda::CUDAGraph& graph) {
  try {
    graph.capture_end();
  } catch (const c10::Error&) {  // says again that the capture is no longer valid
  }
}

inline std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

}  // namespace captured_step_detail
#endif

/// Names a pool of memory that graphs keep; 0, 0: a graph has one of its own.
using GraphPool = c10::MempoolId_t;

/// For graphs of which one runs at a time, such as one for each shape of the batch: what a graph needs only while it
/// runs lies where another's does. Capture the largest first, and the pool is as large as that one's. They must be
/// replayed on one stream. What is still held when the next one is captured, such as losses, is not overwritten.
inline GraphPool new_graph_pool() {
#ifdef TENFOLD_WITH_CUDA
  return at::cuda::graph_pool_handle();
#else
  return {};
#endif
}

/// Work of one device that becomes one launch. The first `warm_up` calls launch it operator by operator: that is where
/// libraries make their handles and workspaces and optimizers their state, which a capture must find. The next call
/// captures it, and from then on it is replayed. Each call does the work once, a capture alone does not. On a CPU,
/// which launches nothing, each call runs it.
class CapturedWork {
 public:
  /// What `work` reads and writes must live as long as this.
  CapturedWork(torch::Device device, std::function<void()> work, int warm_up = 1, GraphPool pool = {})
      : device_(device), work_(std::move(work)), warm_up_(warm_up), pool_(std::move(pool)) {
#ifndef TENFOLD_WITH_CUDA
    TORCH_CHECK(!device.is_cuda(), "CapturedWork: built without TENFOLD_WITH_CUDA, it can capture nothing");
#endif
  }
  CapturedWork(const CapturedWork&) = delete;
  CapturedWork& operator=(const CapturedWork&) = delete;

  /// Queued on the device's current stream. What the work throws ends the capture and is passed on; the next call tries
  /// again. Throws std::runtime_error when the work cannot be captured; LibTorch's generator and allocator are then
  /// still in the middle of the capture, and the process should end.
  void run() {
    if (!device_.is_cuda()) return work_();
#ifdef TENFOLD_WITH_CUDA
    const c10::cuda::CUDAGuard guard(device_);
    if (calls_++ < warm_up_) return on_capture_stream(work_);
    if (!graph_) capture();
    graph_->replay();
#endif
  }

  /// Whether it has become a graph.
  bool captured() const {
#ifdef TENFOLD_WITH_CUDA
    return graph_ != nullptr;
#else
    return false;
#endif
  }

 private:
#ifdef TENFOLD_WITH_CUDA
  /// A capture must be on a stream other than the default one, and so is the warm-up: autograd, cuBLAS and the
  /// allocator tell streams apart.
  void on_capture_stream(const std::function<void()>& work) const {
    using namespace captured_step_detail;
    const c10::cuda::CUDAStream current = c10::cuda::getCurrentCUDAStream(device_.index());
    const c10::cuda::CUDAStream side = capture_stream(device_);
    wait_for(current, side);
    {
      const c10::cuda::CUDAStreamGuard guard(side);
      work();
    }
    wait_for(side, current);
  }

  /// Other threads may meanwhile allocate and query events, as loaders and NCCL's watchdog do: in the default mode,
  /// which is global, any of them would end the capture.
  void capture() {
    c10::cuda::device_synchronize();
    c10::cuda::CUDACachingAllocator::emptyCache();  // what the warm-up freed: a graph has a pool apart
    auto graph = std::make_unique<at::cuda::CUDAGraph>();
    on_capture_stream([&] {
      graph->capture_begin(pool_, cudaStreamCaptureModeThreadLocal);
      try {
        work_();
      } catch (const c10::Error& error) {
        captured_step_detail::abandon(*graph);
        throw std::runtime_error(
            "this work cannot be captured: " + captured_step_detail::first_line(error.what_without_backtrace()) +
            "; nothing in a graph may read a value, or ask for a size that depends on values");
      } catch (...) {
        captured_step_detail::abandon(*graph);
        throw;
      }
      graph->capture_end();
    });
    graph_ = std::move(graph);
  }

  std::unique_ptr<at::cuda::CUDAGraph> graph_;
  int calls_ = 0;
#endif
  torch::Device device_;
  std::function<void()> work_;
  [[maybe_unused]] int warm_up_;
  [[maybe_unused]] GraphPool pool_;
};

/// A whole training step as one launch: forward, backward and update, on the batch's copy.
class CapturedStep {
 public:
  /// Trains on a batch and returns its loss. Gradients that are dropped at its beginning are made anew by the capture,
  /// in the graph's own memory, and each replay overwrites them.
  using Train = std::function<torch::Tensor(const std::vector<torch::Tensor>& batch)>;

  CapturedStep(torch::Device device, Train train, int warm_up = 1, const GraphPool& pool = {})
      : inputs_(device),
        train_(std::move(train)),
        work_(device, [this] { loss_ = train_(inputs_.tensors()).detach(); }, warm_up, pool) {}

  /// Trains on the next batch. The loss is the same tensor in each replay: clone it to keep it. The memory of `batch`
  /// is read until a step later, as StaticInputs::fill() says.
  const torch::Tensor& operator()(const std::vector<torch::Tensor>& batch) {
    inputs_.fill(batch);
    return run();
  }
  /// The same for a Loader's batch, which is told when its memory has been read.
  template <typename Reused>
    requires requires(const Reused& batch, torch::Device device) { batch.copied->record(device); }
  const torch::Tensor& operator()(const Reused& batch) {
    inputs_.fill(batch);
    return run();
  }

 private:
  const torch::Tensor& run() {
    work_.run();
    return loss_;
  }

  StaticInputs inputs_;
  torch::Tensor loss_;
  Train train_;
  CapturedWork work_;
};

}  // namespace tenfold
