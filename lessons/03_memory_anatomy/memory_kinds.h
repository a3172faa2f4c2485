// installs as <tenfold/memory_kinds.h>
#pragma once
// Which of a training step's bytes are parameters, gradients, optimizer state, activations, or only passing by.

#include <torch/torch.h>

#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

namespace tenfold {

/// What a block of memory is for. `inputs` came before the forward pass; `activations` were made by it and are there
/// when the backward pass begins; `temporary` is what one pass made and freed; `others` were there before and belong
/// to none of these, such as a data set.
enum class MemoryKind { parameters, optimizer_state, gradients, inputs, activations, temporary, others };
inline constexpr size_t kMemoryKinds = 7;
inline constexpr std::array<const char*, kMemoryKinds> kMemoryKindNames = {
    "parameters", "optimizer state", "gradients", "inputs", "activations", "temporary", "others"};

/// The passes of a training step. What is not said otherwise is input.
enum class Pass { input, forward, backward, update };

/// Bytes alive at one moment, by kind.
struct MemoryMoment {
  Pass pass = Pass::input;
  std::array<int64_t, kMemoryKinds> bytes = {};

  int64_t of(MemoryKind kind) const { return bytes[static_cast<size_t>(kind)]; }
  int64_t total() const {
    int64_t sum = 0;
    for (const int64_t part : bytes) sum += part;
    return sum;
  }
};

/// One step, an entry for each block that was allocated or freed.
struct MemoryOfStep {
  std::vector<MemoryMoment> moments;

  /// The moment with the most bytes; the first of them.
  const MemoryMoment& peak() const {
    return *std::max_element(moments.begin(), moments.end(),
                             [](const MemoryMoment& a, const MemoryMoment& b) { return a.total() < b.total(); });
  }
  const MemoryMoment& end() const { return moments.back(); }
};

/// Watches a device's allocator from its construction on, in this thread and in autograd's. Construct it before the
/// model: on a CPU LibTorch reports only that a block is freed which was allocated while somebody watched. Train one or
/// two steps, so that the optimizer has its state; then, for one step:
///
///   watch.begin_step(model->parameters());  // next comes the batch
///   optimizer.zero_grad();                  // behind begin_step(), which learns what the gradients are
///   watch.begin(Pass::forward);
///   Tensor loss = ...;
///   watch.begin(Pass::backward);            // forward and backward again for each micro-batch
///   loss.backward();
///   watch.begin(Pass::update);
///   optimizer.step();
///   MemoryOfStep step = watch.end_step();
///
/// Bytes are those that were asked for on a CPU; on CUDA those of the caching allocator's blocks: requests
/// are rounded up to 512, and a block of more than 1 MiB may be up to 1 MiB larger, as a smaller rest is not split off.
/// It costs a lock for each block: not for timed code. It must not overlap LibTorch's profiler on a
/// thread, which takes the same place: destroy it before the profiler is enabled, make one after it is disabled.
class MemoryKinds {
 public:
  explicit MemoryKinds(torch::Device device)
      : blocks_(std::make_shared<Blocks>(device)), watching_(c10::DebugInfoKind::PROFILER_STATE, blocks_) {}

  /// `parameters` as the optimizer has them; what is alive was there before the step.
  void begin_step(std::vector<torch::Tensor> parameters) {
    const std::scoped_lock lock(blocks_->mutex);
    blocks_->forget_the_dead();
    parameters_ = std::move(parameters);
    know_gradients();  // those of the step before; zero_grad() may free them
    blocks_->now = Pass::input;
  }

  void begin(Pass pass) {
    const std::scoped_lock lock(blocks_->mutex);
    blocks_->now = pass;
    if (pass != Pass::backward) return;
    for (const auto& [address, index] : blocks_->alive)
      blocks_->all[index].kept |= blocks_->all[index].born_in == Pass::forward;
  }

  MemoryOfStep end_step() {
    const std::scoped_lock lock(blocks_->mutex);
    know_gradients();
    for (const torch::Tensor& parameter : parameters_) know(parameter, MemoryKind::parameters);
    MemoryMoment moment;
    for (const Block& block : blocks_->all) {
      if (block.is_older) moment.bytes[static_cast<size_t>(kind_of(block))] += block.bytes;
    }
    MemoryOfStep step;
    step.moments = {moment};
    for (const Event& event : blocks_->events) {
      const Block& block = blocks_->all[event.block];
      moment.bytes[static_cast<size_t>(kind_of(block))] += event.is_freed ? -block.bytes : block.bytes;
      moment.pass = event.pass;
      step.moments.push_back(moment);
    }
    return step;
  }

 private:
  struct Block {
    int64_t bytes = 0;
    Pass born_in = Pass::input;
    bool is_older = false;  ///< than the step
    bool kept = false;      ///< by a forward pass for the backward pass after it
    bool is_freed = false;
    std::optional<MemoryKind> known = std::nullopt;  ///< from a tensor that it belongs to
  };
  struct Event {
    size_t block;
    bool is_freed;
    Pass pass;
  };

  /// What the allocator has reported.
  struct Blocks : c10::MemoryReportingInfoBase {
    explicit Blocks(torch::Device watched) : device(watched) {}

    bool memoryProfilingEnabled() const override { return true; }
    void reportMemoryUsage(void* address, int64_t bytes, size_t, size_t, c10::Device where) override {
      if (where.type() != device.type() || (device.has_index() && where.index() != device.index()) || bytes == 0)
        return;
      const std::scoped_lock lock(mutex);
      end(address);  // also when it is handed out again: a thread that nobody watches has freed it
      if (bytes > 0) {
        alive[address] = all.size();
        all.push_back({.bytes = bytes, .born_in = now});
        events.push_back({all.size() - 1, false, now});
      }
    }

    void end(const void* address) {
      const auto found = alive.find(address);
      if (found == alive.end()) return;
      all[found->second].is_freed = true;
      events.push_back({found->second, true, now});
      alive.erase(found);
    }

    void forget_the_dead() {
      std::vector<Block> still;
      for (auto& [address, index] : alive) {
        still.push_back(all[index]);
        still.back().is_older = true;
        index = still.size() - 1;
      }
      all = std::move(still);
      events.clear();
    }

    torch::Device device;
    std::mutex mutex;  // backward() of a CUDA model runs on a thread of autograd's
    std::vector<Block> all;
    std::map<const void*, size_t> alive;  ///< by address: index into `all`
    std::vector<Event> events;            ///< of the step
    Pass now = Pass::input;
  };

  void know(const torch::Tensor& tensor, MemoryKind kind) {
    if (!tensor.defined()) return;
    const auto found = blocks_->alive.find(tensor.storage().data());
    if (found != blocks_->alive.end()) blocks_->all[found->second].known = kind;
  }
  void know_gradients() {
    for (const torch::Tensor& parameter : parameters_) know(parameter.grad(), MemoryKind::gradients);
  }

  /// An optimizer makes its state in its own step, and it stays; a forward pass keeps activations for backward.
  static MemoryKind kind_of(const Block& block) {
    if (block.known) return *block.known;
    if (block.born_in == Pass::update && !block.is_freed) return MemoryKind::optimizer_state;
    if (block.is_older) return MemoryKind::others;
    if (block.born_in == Pass::input) return MemoryKind::inputs;
    return block.kept ? MemoryKind::activations : MemoryKind::temporary;
  }

  std::shared_ptr<Blocks> blocks_;
  c10::DebugInfoGuard watching_;
  std::vector<torch::Tensor> parameters_;
};

}  // namespace tenfold
