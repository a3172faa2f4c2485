// installs as <tenfold/saved_tensor_hooks.h>
#pragma once
// What PyTorch calls torch.autograd.graph.saved_tensors_hooks, for LibTorch: what autograd keeps for backward() goes
// through functions of one's own.

#include <torch/torch.h>

#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/saved_variable_hooks.h>

#include <functional>
#include <memory>
#include <utility>

namespace tenfold {

/// Gives a saved tensor back when backward() asks for it: the same values, shape and strides. backward() may ask
/// several times if it keeps the graph. Called on autograd's thread.
using Unpack = std::function<torch::Tensor()>;

/// Called with each tensor that autograd saves, when the operator has been queued. What it returns must not hold the
/// tensor itself, whose history may lead back to it: hold detach(), or a copy.
using Pack = std::function<Unpack(const torch::Tensor&)>;

namespace saved_tensor_detail {

inline thread_local const Pack* pack = nullptr;

struct Hooks : torch::autograd::SavedVariableHooks {
  explicit Hooks(const Pack* with) : pack(with) {}
  void call_pack_hook(const at::Tensor& tensor) override { unpack = (*pack)(tensor); }
  at::Tensor call_unpack_hook() override { return unpack(); }
  const Pack* pack;  // only while a scope is open
  Unpack unpack;
};

/// Autograd asks its engine for hooks whenever it saves a tensor. LibTorch's own engine has none; Python's has those of
/// its context managers, and this one those of the innermost scope.
struct Engine : torch::autograd::Engine {
  ~Engine() override { stop(); }
  std::unique_ptr<torch::autograd::SavedVariableHooks> get_default_saved_variable_hooks() override {
    if (pack == nullptr) return nullptr;
    return std::make_unique<Hooks>(pack);
  }
  static torch::autograd::Engine& get() {
    static Engine engine;
    return engine;
  }
};

}  // namespace saved_tensor_detail

/// From here on autograd runs on an engine that knows SavedTensorHooks. The first scope calls it. A program that trains
/// before that calls it first, or it has two engines, each with threads and cuBLAS handles of its own. Not for code
/// that runs inside Python, which has such an engine.
inline void enable_saved_tensor_hooks() { torch::autograd::set_default_engine_stub(&saved_tensor_detail::Engine::get); }

/// While it lives, what autograd saves on this thread goes through `pack`. Nests: the innermost counts.
class SavedTensorHooks {
 public:
  explicit SavedTensorHooks(Pack pack)
      : pack_(std::move(pack)), outer_(std::exchange(saved_tensor_detail::pack, &pack_)) {
    enable_saved_tensor_hooks();
  }
  ~SavedTensorHooks() { saved_tensor_detail::pack = outer_; }
  SavedTensorHooks(const SavedTensorHooks&) = delete;
  SavedTensorHooks& operator=(const SavedTensorHooks&) = delete;

 private:
  Pack pack_;
  const Pack* outer_;
};

}  // namespace tenfold
