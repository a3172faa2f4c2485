// installs as <tenfold/optimizer_offload.h>
#pragma once
// The optimizer on the host: gradients go there during backward(), the host updates its own parameters with its own
// averages, and the new parameters come back.

#include <torch/torch.h>

#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

namespace tenfold {

/// Where gradients are while backward() runs.
struct GradientOffload {
  bool leave = false;  ///< the device's gradients are freed as soon as they have left
  size_t most = 12;    ///< of those at a time, before the compute waits for a copy
};

/// Copies: CopyStream or CopyThread of lesson 12's copy_streams.h, one for each direction. `update(i, parameter,
/// gradient)` is the optimizer of the host's parameter number i. One backward() for each update, on one compute stream.
template <class Copies>
class OptimizerOffload {
  using Tensor = torch::Tensor;
  using Event = typename Copies::Event;

 public:
  using Update = std::function<void(size_t i, Tensor& parameter, const Tensor& gradient)>;

  /// Takes the parameters' values. `comes_back[i]`: the new values are copied to the device; else whoever needs them
  /// there does it.
  OptimizerOffload(Copies& to_host, Copies& to_device, std::vector<Tensor> parameters, std::vector<bool> comes_back,
                   Update update, GradientOffload gradients = {})
      : to_host_(to_host),
        to_device_(to_device),
        parameters_(std::move(parameters)),
        comes_back_(std::move(comes_back)),
        update_(std::move(update)),
        gradients_(gradients),
        arrived_(parameters_.size()) {
    for (size_t i = 0; i < parameters_.size(); ++i) {
      const auto like = [&] {
        const bool pinned = parameters_[i].is_cuda();  // without a GPU there is nothing to pin for
        return torch::empty(parameters_[i].sizes(), torch::dtype(parameters_[i].dtype()).pinned_memory(pinned));
      };
      host_parameters_.push_back(like());
      host_parameters_.back().copy_(parameters_[i].detach());
      host_gradients_.push_back(like());
      torch::autograd::impl::set_post_acc_grad_hooks(parameters_[i], std::make_unique<Hook>(*this, i));
    }
  }
  ~OptimizerOffload() {
    for (const Tensor& parameter : parameters_) torch::autograd::impl::set_post_acc_grad_hooks(parameter, nullptr);
  }
  OptimizerOffload(const OptimizerOffload&) = delete;
  OptimizerOffload& operator=(const OptimizerOffload&) = delete;

  /// Behind backward(). The host waits for one gradient after the other and updates its parameter; what is queued
  /// afterwards on the compute stream finds the new values.
  void step() {
    const torch::NoGradGuard no_grad;
    Event uploaded;
    for (const size_t i : order_) {
      arrived_[i].synchronize();  // so backward() has read the parameter for the last time, too
      update_(i, host_parameters_[i], host_gradients_[i]);
      if (!comes_back_[i]) continue;
      to_device_.copy(parameters_[i].variable_data(), host_parameters_[i]);
      bytes_to_device_ += static_cast<int64_t>(host_parameters_[i].nbytes());
    }
    to_device_.mark_copies(uploaded);
    to_device_.compute_waits_for(uploaded);
    order_.clear();
    while (!leaving_.empty()) free_oldest();
  }

  const std::vector<Tensor>& host_parameters() const { return host_parameters_; }
  /// Of the last backward().
  const std::vector<Tensor>& host_gradients() const { return host_gradients_; }

  /// Over all updates so far.
  int64_t bytes_to_host() const { return bytes_to_host_; }
  int64_t bytes_to_device() const { return bytes_to_device_; }

 private:
  struct Hook : torch::autograd::PostAccumulateGradHook {
    Hook(OptimizerOffload& to, size_t number) : offload(to), i(number) {}
    void operator()(const Tensor& parameter) override { offload.send(i, parameter); }
    OptimizerOffload& offload;
    size_t i;
  };

  /// A gradient is there: its copy is queued. Called by backward().
  void send(size_t i, const Tensor& parameter) {
    Tensor& gradient = parameter.mutable_grad();
    Event computed;
    to_host_.mark_compute(computed);
    to_host_.copies_wait_for(computed);
    to_host_.copy(host_gradients_[i], gradient);
    to_host_.mark_copies(arrived_[i]);
    bytes_to_host_ += static_cast<int64_t>(gradient.nbytes());
    order_.push_back(i);
    if (!gradients_.leave) return;
    leaving_.emplace_back(i, std::move(gradient));
    gradient = Tensor();
    while (leaving_.size() > gradients_.most) free_oldest();
  }

  void free_oldest() {
    to_host_.compute_waits_for(arrived_[leaving_.front().first]);  // others may have the memory from here on
    leaving_.pop_front();
  }

  Copies &to_host_, &to_device_;
  std::vector<Tensor> parameters_;
  std::vector<bool> comes_back_;
  Update update_;
  GradientOffload gradients_;
  std::vector<Tensor> host_parameters_, host_gradients_;
  std::vector<Event> arrived_;
  std::vector<size_t> order_;  // in which gradients came
  std::deque<std::pair<size_t, Tensor>> leaving_;
  int64_t bytes_to_host_ = 0, bytes_to_device_ = 0;
};

}  // namespace tenfold
