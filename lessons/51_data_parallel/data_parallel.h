// installs as <tenfold/data_parallel.h>
#pragma once
// Data parallel training of one process on several devices, as torch.nn.DataParallel does it: in each step the batch is
// scattered, the parameters are copied to every device, the copies run on a thread each, their outputs are gathered on
// the first device, and backward() sums their gradients there. Model, gradients and optimizer state are those of the
// first device; the others have nothing between two steps. To be read, not for speed: a copy between two GPUs begins
// when both have done what was queued on their streams before it, and copies have no stream of their own here.
// Source: PyTorch, torch/nn/parallel/{data_parallel,replicate,parallel_apply,scatter_gather}.py.

#include <torch/torch.h>

#include <ATen/ThreadLocalState.h>
#include <ATen/record_function.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/csrc/autograd/functions/utils.h>

#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

namespace tenfold {

/// Bytes between the first device and all others. Threads of backward() add to it.
struct ReplicaTraffic {
  std::atomic<int64_t> parameters{0}, inputs{0}, output_gradients{0};  ///< out of the first; parameters and buffers
  std::atomic<int64_t> outputs{0}, gradients{0};                       ///< into the first

  int64_t out_of_first() const { return parameters + inputs + output_gradients; }
  int64_t into_first() const { return outputs + gradients; }
};

/// A copy in memory of its own, also where both devices are the same: Tensor::to() would return the tensor itself.
inline torch::Tensor copied_to(torch::Device device, const torch::Tensor& tensor, std::atomic<int64_t>& bytes) {
  const torch::NoGradGuard no_grad;
  bytes += static_cast<int64_t>(tensor.nbytes());
  return torch::empty(tensor.sizes(), tensor.options().device(device).requires_grad(false)).copy_(tensor);
}

/// The copies of a parameter in backward(): a copy's gradient goes to the first device, where autograd adds those of
/// all replicas.
class SumOnFirst : public torch::autograd::Node {
 public:
  SumOnFirst(const torch::Tensor& parameter, std::shared_ptr<ReplicaTraffic> traffic)
      : Node(torch::autograd::collect_next_edges(parameter)),
        first_(parameter.device()),
        traffic_(std::move(traffic)) {}

  torch::autograd::variable_list apply(torch::autograd::variable_list&& gradients) override {
    if (!gradients[0].defined()) return {torch::Tensor()};
    return {copied_to(first_, gradients[0], traffic_->gradients)};
  }

 private:
  torch::Device first_;
  std::shared_ptr<ReplicaTraffic> traffic_;
};

/// Gathered outputs in backward(): each replica's rows of their gradient go to its device.
class ScatterGradient : public torch::autograd::Node {
 public:
  ScatterGradient(const std::vector<torch::Tensor>& outputs, std::shared_ptr<ReplicaTraffic> traffic)
      : Node(torch::autograd::collect_next_edges(outputs)), traffic_(std::move(traffic)) {
    for (const torch::Tensor& output : outputs) parts_.push_back({output.size(0), output.device()});
  }

  torch::autograd::variable_list apply(torch::autograd::variable_list&& gradients) override {
    torch::autograd::variable_list of_outputs(parts_.size());
    if (!gradients[0].defined()) return of_outputs;
    int64_t at = 0;
    for (size_t i = 0; i < parts_.size(); ++i) {
      const auto [rows, device] = parts_[i];
      const torch::Tensor own = gradients[0].narrow(0, at, rows);
      of_outputs[i] = i == 0 ? own : copied_to(device, own, traffic_->output_gradients);
      at += rows;
    }
    return of_outputs;
  }

 private:
  std::vector<std::pair<int64_t, torch::Device>> parts_;
  std::shared_ptr<ReplicaTraffic> traffic_;
};

/// The mean over the batch, from each replica's mean over its rows: losses (N), `parts` what the replicas had of the
/// batch, with rows in dimension 0. Parts of a batch that N does not divide differ in size, and the mean of their means
/// is not the batch's.
inline torch::Tensor mean_over_rows(const torch::Tensor& losses, const std::vector<torch::Tensor>& parts) {
  double rows = 0;
  for (const torch::Tensor& part : parts) rows += static_cast<double>(part.size(0));
  torch::Tensor mean = torch::zeros({}, losses.options().requires_grad(false));
  for (size_t i = 0; i < parts.size(); ++i)
    mean = mean + losses[static_cast<int64_t>(i)] * (static_cast<double>(parts[i].size(0)) / rows);
  return mean;
}

/// One step:
///
///   const auto x = parallel.scatter(batch);            // device i: its rows
///   parallel.replicate();
///   const auto outputs = parallel.apply(x.size(), [&](Net& net, size_t i) { return net.forward(x[i]); });
///   torch::Tensor loss = criterion(parallel.gather(outputs), targets);  // on the first device
///   loss.backward();                                   // sums the gradients into the module's own
///   parallel.release();
///   optimizer.step();                                  // of the module's parameters
///
/// A device may be in the list more than once; copies are made all the same. Buffers that a replica changes are lost,
/// but for the first, which is the module itself: batch normalisation keeps the statistics of the first part alone.
///
/// Not to be copied for speed, DDP is faster: copy_() between two GPUs waits for the current streams of both, so that a
/// replica's gradients wait until the first device has computed its own backward pass. LibTorch's C++ does the same.
template <class Module>
class DataParallel {
 public:
  /// `make` returns a module with the same parameters and buffers; their values do not matter. Throws
  /// std::invalid_argument (c10::ValueError) unless the module's lie on the first device, and for another module.
  DataParallel(std::shared_ptr<Module> module, std::vector<torch::Device> devices,
               const std::function<std::shared_ptr<Module>()>& make)
      : module_(std::move(module)), devices_(std::move(devices)), states_(states_of(*module_)) {
    TORCH_CHECK_VALUE(!devices_.empty(), "DataParallel needs a device");
    for (const torch::Tensor& state : states_)
      TORCH_CHECK_VALUE(state.device() == devices_.front(), "a parameter or buffer is on ", state.device(),
                        "; all belong on the first device, ", devices_.front(), ": module->to(device) first");
    for (size_t i = 1; i < devices_.size(); ++i) {
      Replica replica{make(), {}};
      replica.states = states_of(*replica.module);
      TORCH_CHECK_VALUE(replica.states.size() == states_.size(), "a replica has ", replica.states.size(),
                        " parameters and buffers, the module ", states_.size());
      for (size_t k = 0; k < states_.size(); ++k) {
        TORCH_CHECK_VALUE(replica.states[k].sizes() == states_[k].sizes(), "a replica has a parameter or buffer of ",
                          replica.states[k].sizes(), " where the module has one of ", states_[k].sizes());
        replica.states[k].set_requires_grad(states_[k].requires_grad());
      }
      replicas_.push_back(std::move(replica));
    }
    release();
  }

  /// The batch's rows in as many parts as there are devices, or fewer if it has fewer rows. The first is a view.
  std::vector<torch::Tensor> scatter(const torch::Tensor& batch) const {
    RECORD_USER_SCOPE("communication");
    std::vector<torch::Tensor> parts = batch.chunk(static_cast<int64_t>(devices_.size()));
    for (size_t i = 1; i < parts.size(); ++i) parts[i] = copied_to(devices_[i], parts[i], traffic_->inputs);
    return parts;
  }

  /// Gives the replicas the module's parameters and buffers of now. Their gradients will go to the module's.
  void replicate() {
    RECORD_USER_SCOPE("communication");
    for (size_t i = 1; i < devices_.size(); ++i) {
      Replica& replica = replicas_[i - 1];
      replica.module->train(module_->is_training());
      for (size_t k = 0; k < states_.size(); ++k) {
        torch::Tensor& copy = replica.states[k];
        copy.set_data(copied_to(devices_[i], states_[k], traffic_->parameters));
        if (states_[k].requires_grad() && torch::GradMode::is_enabled())
          torch::autograd::set_history(copy, std::make_shared<SumOnFirst>(states_[k], traffic_));
      }
    }
  }

  /// Runs `function(replica, i)` for each of `count` replicas, on a thread each and on the stream that is the caller's
  /// current one of that device, where scatter() and replicate() have put their copies. Throws what the first that
  /// failed threw.
  template <class Function>
  std::vector<torch::Tensor> apply(size_t count, const Function& function) {
    TORCH_CHECK_VALUE(count <= devices_.size(), count, " parts for ", devices_.size(), " devices");
    std::vector<torch::Tensor> outputs(count);
    std::vector<std::exception_ptr> failures(count);
    std::vector<c10::Stream> streams;  // a thread has current streams of its own, which ThreadLocalState leaves out
    for (const torch::Device& device : devices_)
      streams.push_back(c10::impl::VirtualGuardImpl(device.type()).getStream(device));
    const auto run = [&](size_t i) {
      try {
        const c10::StreamGuard guard(streams[i]);  // and its device
        outputs[i] = function(i == 0 ? *module_ : *replicas_[i - 1].module, i);
      } catch (...) {
        failures[i] = std::current_exception();
      }
    };
    const at::ThreadLocalState state;  // whether gradients are wanted, autocast
    std::vector<std::thread> threads;
    for (size_t i = 1; i < count; ++i) {
      threads.emplace_back([&, i] {
        const at::ThreadLocalStateGuard guard(state);
        run(i);
      });
    }
    if (count > 0) run(0);
    for (std::thread& thread : threads) thread.join();
    for (const std::exception_ptr& failure : failures) {
      if (failure) std::rethrow_exception(failure);
    }
    return outputs;
  }

  /// All rows on the first device, in the batch's order.
  torch::Tensor gather(const std::vector<torch::Tensor>& outputs) const {
    RECORD_USER_SCOPE("communication");
    std::vector<int64_t> sizes = outputs.at(0).sizes().vec();
    sizes[0] = 0;
    bool differentiable = false;
    for (const torch::Tensor& output : outputs) {
      sizes[0] += output.size(0);
      differentiable = differentiable || output.requires_grad();
    }
    torch::Tensor gathered = torch::empty(sizes, outputs[0].options().device(devices_[0]).requires_grad(false));
    {
      const torch::NoGradGuard no_grad;
      int64_t at = 0;
      for (size_t i = 0; i < outputs.size(); ++i) {
        gathered.narrow(0, at, outputs[i].size(0)).copy_(outputs[i]);
        at += outputs[i].size(0);
        if (i > 0) traffic_->outputs += static_cast<int64_t>(outputs[i].nbytes());
      }
    }
    if (differentiable && torch::GradMode::is_enabled())
      torch::autograd::set_history(gathered, std::make_shared<ScatterGradient>(outputs, traffic_));
    return gathered;
  }

  /// Frees what replicate() has copied. Call it after backward(), which needs it.
  void release() {
    for (size_t i = 1; i < devices_.size(); ++i) {
      for (torch::Tensor& copy : replicas_[i - 1].states) {
        copy.set_data(torch::empty({0}, copy.options().device(devices_[i]).requires_grad(false)));
        if (copy.requires_grad()) torch::autograd::impl::set_gradient_edge(copy, {});
      }
    }
  }

  /// The module, then its replicas.
  Module& replica(size_t i) { return i == 0 ? *module_ : *replicas_.at(i - 1).module; }
  const ReplicaTraffic& traffic() const { return *traffic_; }

 private:
  struct Replica {
    std::shared_ptr<Module> module;
    std::vector<torch::Tensor> states;
  };

  static std::vector<torch::Tensor> states_of(const torch::nn::Module& module) {
    std::vector<torch::Tensor> states = module.parameters();
    for (const torch::Tensor& buffer : module.buffers()) {
      if (buffer.defined()) states.push_back(buffer);
    }
    return states;
  }

  std::shared_ptr<Module> module_;
  std::vector<torch::Device> devices_;
  std::vector<torch::Tensor> states_;
  std::vector<Replica> replicas_;
  std::shared_ptr<ReplicaTraffic> traffic_ = std::make_shared<ReplicaTraffic>();
};

}  // namespace tenfold
