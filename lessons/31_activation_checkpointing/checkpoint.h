// installs as <tenfold/checkpoint.h>
#pragma once
// Activation checkpointing: backward() recomputes a block's activations from its inputs instead of keeping them.

#include <torch/torch.h>

#include <ATen/record_function.h>
#include <c10/util/ScopeExit.h>
#include <torch/csrc/autograd/engine.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <ostream>
#include <type_traits>
#include <utility>
#include <vector>

#include "lessons/21_mixed_precision/autocast.h"

namespace tenfold {

struct CheckpointOptions {
  /// The recomputation draws the same random numbers as the first forward: needed by dropout. Costs one copy of the
  /// generator's state per call and device (5 KB on the CPU, 16 bytes on CUDA).
  bool keep_random_state = true;
};

namespace checkpoint_detail {

using torch::Tensor;
using torch::autograd::variable_list;

/// The CPU, and each other device among these once.
inline std::vector<torch::Device> with_cpu(const std::vector<torch::Device>& devices) {
  std::vector<torch::Device> all{at::kCPU};
  for (const torch::Device& device : devices) {
    if (std::find(all.begin(), all.end(), device) == all.end()) all.push_back(device);
  }
  return all;
}

/// State of the default generators of these devices.
struct RandomState {
  explicit RandomState(const std::vector<torch::Device>& devices) {
    for (const torch::Device& device : devices) states.emplace_back(device, read(device));
  }
  void restore() const {
    for (const auto& [device, state] : states) write(device, state);
  }

 private:
  static Tensor read(torch::Device from) {
    at::Generator generator = at::globalContext().defaultGenerator(from);
    const std::lock_guard<std::mutex> lock(generator.mutex());
    return generator.get_state();
  }
  static void write(torch::Device to, const Tensor& state) {
    at::Generator generator = at::globalContext().defaultGenerator(to);
    const std::lock_guard<std::mutex> lock(generator.mutex());
    generator.set_state(state);
  }

  std::vector<std::pair<torch::Device, Tensor>> states;
};

/// Puts the random state of its construction back, whatever happens in between.
struct RestoreRandomState {
  RandomState before;
  ~RestoreRandomState() { before.restore(); }
};

struct AutocastState {
  c10::DeviceType device;
  bool enabled = at::autocast::is_autocast_enabled(device);
  at::ScalarType dtype = at::autocast::get_autocast_dtype(device);
  bool cache = at::autocast::is_autocast_cache_enabled();
};

/// What must be the same in both runs of a block, for a gradient to belong to the output that it is given to.
struct OutputKind {
  explicit OutputKind(const Tensor& output) : defined(output.defined()) {
    if (!defined) return;
    if (!output.is_nested()) shape = output.sizes().vec();  // a nested tensor has no one shape
    type = output.scalar_type();
    device = output.device();
  }
  bool operator==(const OutputKind&) const = default;
  friend std::ostream& operator<<(std::ostream& out, const OutputKind& kind) {
    if (!kind.defined) return out << "undefined";
    return out << kind.type << " of shape " << at::IntArrayRef(kind.shape) << " on " << kind.device;
  }

  bool defined;
  std::vector<int64_t> shape;
  at::ScalarType type = at::kFloat;
  torch::Device device = at::kCPU;
};

/// How often each input was changed in place so far; 0 for those that do not count it.
inline std::vector<uint32_t> versions_of(const variable_list& inputs) {
  std::vector<uint32_t> versions;
  for (const Tensor& input : inputs)
    versions.push_back(input.defined() && !input.is_inference() ? input._version() : 0);
  return versions;
}

/// Throws c10::Error when a run of the block has changed an input: the other run would begin with other numbers.
inline void require_unchanged(const variable_list& inputs, const std::vector<uint32_t>& before) {
  const std::vector<uint32_t> after = versions_of(inputs);
  for (size_t i = 0; i < after.size(); ++i) {
    TORCH_CHECK(after[i] == before[i], "checkpoint: the block changes its input ", i,
                " in place, so backward() would run it on other numbers than forward; change a copy inside the block "
                "(clone()), or run the block without checkpoint");
  }
}

/// What backward() needs besides the inputs. Travels in the autograd node as an opaque value.
struct Block : torch::CustomClassHolder {
  std::function<variable_list(const variable_list&)> run;
  CheckpointOptions options;
  std::vector<torch::Device> devices;       // the CPU first, and those of the inputs
  std::optional<RandomState> random_state;  // before the first forward
  std::optional<AutocastState> autocast_cpu, autocast_device;
  std::vector<OutputKind> outputs;  // of the first forward
};

/// Runs the block again on detached inputs, in the surroundings of the first forward, this time recording a graph.
inline variable_list recompute(const Block& block, const variable_list& inputs) {
  RECORD_USER_SCOPE("recompute");
  std::optional<RestoreRandomState> afterwards;
  if (block.random_state) {
    afterwards.emplace(RandomState(block.devices));  // what runs after this block must not notice
    block.random_state->restore();
  }
  const auto& cpu = *block.autocast_cpu;
  const Autocast autocast_cpu(cpu.device, cpu.dtype, cpu.enabled, cpu.cache);
  std::optional<Autocast> autocast_device;
  if (const auto& state = block.autocast_device)
    autocast_device.emplace(state->device, state->dtype, state->enabled, state->cache);
  const torch::AutoGradMode record(true);
  const std::vector<uint32_t> before = versions_of(inputs);
  variable_list outputs = block.run(inputs);
  require_unchanged(inputs, before);
  TORCH_CHECK(outputs.size() == block.outputs.size(), "checkpoint: the block returned ", block.outputs.size(),
              " outputs in forward and ", outputs.size(),
              " when backward() ran it again; it must do the same both times");
  for (size_t i = 0; i < outputs.size(); ++i) {
    const OutputKind again(outputs[i]);
    TORCH_CHECK(again == block.outputs[i], "checkpoint: output ", i, " of the block was ", block.outputs[i],
                " in forward and ", again, " when backward() ran it again; it must do the same both times");
  }
  return outputs;
}

struct Recompute : torch::autograd::Function<Recompute> {
  /// The outputs that are defined: autograd takes no others.
  template <class... Tensors>
  static variable_list forward(torch::autograd::AutogradContext* context, const c10::intrusive_ptr<Block>& block,
                               const Tensors&... inputs) {
    const variable_list all{inputs...};
    std::vector<torch::Device> devices;
    for (const Tensor& input : all) {
      if (input.defined()) devices.push_back(input.device());
    }
    block->devices = with_cpu(devices);
    if (block->options.keep_random_state) block->random_state.emplace(block->devices);
    block->autocast_cpu = AutocastState{at::kCPU};
    if (block->devices.size() > 1) block->autocast_device = AutocastState{block->devices.back().type()};
    context->saved_data["block"] = c10::IValue::make_capsule(block);
    context->set_materialize_grads(false);
    context->save_for_backward(all);
    // A weight's 16-bit copy made here has no history. Left in autocast's cache, it would be taken again in a
    // backward() inside the same scope, and the weight would silently get no gradient.
    const bool cache = at::autocast::is_autocast_cache_enabled();
    at::autocast::set_autocast_cache_enabled(false);
    const auto put_back = c10::make_scope_exit([cache] { at::autocast::set_autocast_cache_enabled(cache); });
    const std::vector<uint32_t> before = versions_of(all);
    variable_list outputs = block->run(all);  // autograd has switched recording off: nothing inside is kept
    require_unchanged(all, before);
    for (const Tensor& output : outputs) block->outputs.emplace_back(output);
    std::erase_if(outputs, [](const Tensor& output) { return !output.defined(); });
    return outputs;
  }

  static variable_list backward(torch::autograd::AutogradContext* context, const variable_list& output_gradients) {
    TORCH_CHECK(torch::autograd::Engine::get_default_engine().is_checkpoint_valid(),
                "checkpoint: torch::autograd::grad() and backward() with `inputs` cannot reach the parameters of a "
                "recomputed block; call backward() without inputs and read .grad()");
    TORCH_CHECK(!at::GradMode::is_enabled(), "checkpoint: backward(create_graph = true) is not supported");
    const variable_list saved = context->get_saved_variables();  // throws when backward() has already freed them
    variable_list detached;
    for (const Tensor& input : saved) {
      detached.push_back(input.defined() ? input.detach().set_requires_grad(input.requires_grad()) : input);
    }
    const auto block = c10::static_intrusive_pointer_cast<Block>(context->saved_data["block"].toCapsule());
    variable_list outputs = recompute(*block, detached);
    std::erase_if(outputs, [](const Tensor& output) { return !output.defined(); });
    variable_list roots, gradients;
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (!outputs[i].requires_grad() || !output_gradients[i].defined()) continue;
      roots.push_back(outputs[i]);
      gradients.push_back(output_gradients[i]);
    }
    // Adds to the .grad() of the block's parameters, as backward() of a kept graph would have done at this point.
    if (!roots.empty()) torch::autograd::backward(roots, gradients);
    variable_list result{Tensor()};
    for (const Tensor& input : detached) result.push_back(input.defined() ? input.grad() : Tensor());
    return result;
  }
};

}  // namespace checkpoint_detail

/// checkpoint() with options.
template <class BlockT, class... Tensors>
auto checkpoint_with(const CheckpointOptions& options, BlockT block, const Tensors&... inputs) {
  using namespace checkpoint_detail;
  using Result = std::decay_t<decltype(block(inputs...))>;
  static_assert(std::is_same_v<Result, Tensor> || std::is_same_v<Result, variable_list>,
                "checkpoint: the block must return a Tensor or a std::vector<Tensor>");
  static_assert((std::is_same_v<Tensors, Tensor> && ...),
                "checkpoint: inputs are tensors; capture everything else in the block");
  if (!at::GradMode::is_enabled()) return block(inputs...);
  TORCH_CHECK_VALUE(
      ((inputs.defined() && inputs.requires_grad()) || ...),
      "checkpoint: no input requires a gradient, so backward() would not reach the block and its parameters would "
      "get none; call set_requires_grad(true) on an input, or run the block without checkpoint");
  auto state = c10::make_intrusive<Block>();
  state->options = options;
  state->run = [block](const variable_list& given) mutable -> variable_list {
    return [&]<size_t... kIndex>(std::index_sequence<kIndex...>) -> variable_list {
      if constexpr (std::is_same_v<Result, Tensor>) {
        return {block(given[kIndex]...)};
      } else {
        return block(given[kIndex]...);
      }
    }(std::index_sequence_for<Tensors...>{});
  };
  variable_list defined = Recompute::apply(state, inputs...), outputs;
  auto next = defined.begin();
  for (const OutputKind& kind : state->outputs) outputs.push_back(kind.defined ? *next++ : Tensor());
  if constexpr (std::is_same_v<Result, Tensor>) {
    return outputs[0];
  } else {
    return outputs;
  }
}

/// block(inputs...), keeping only the inputs: backward() runs the block a second time, in the random state of the CPU
/// and of the inputs' devices, in the autocast state and with the inputs of the first, and then through it. The block
/// is a module holder or any callable (it is copied, and must not depend on what changes in between) from tensors to a
/// Tensor or a std::vector<Tensor> of any shapes; inputs that are undefined or need no gradient are passed on, and so
/// are outputs that are undefined. Losses and gradients equal those of block(inputs...), bit for bit on the CPU. Calls
/// may be nested. Without grad mode it is block(inputs...). Throws c10::ValueError when no input requires a gradient
/// (PyTorch warns), and c10::Error when the block changes an input in place. backward() throws c10::Error when it is
/// given inputs or create_graph; when an input was changed in place since forward; when the block's second run has
/// another number of outputs, or one of another shape, type or device; and, like any backward(), the second time unless
/// the first retained the graph. A change that LibTorch does not count (through data() or a pointer), of an input or of
/// what the block refers to, is not seen. Source: Chen et al., Training Deep Nets with Sublinear Memory Cost, 2016;
/// PyTorch's torch.utils.checkpoint with use_reentrant=True works the same way.
template <class BlockT, class... Tensors>
auto checkpoint(BlockT block, const Tensors&... inputs) {
  return checkpoint_with(CheckpointOptions{}, std::move(block), inputs...);
}

}  // namespace tenfold
