// installs as <tenfold/eval_mode.h>
#pragma once
// Evaluates a model in eval(), and gives every module the mode back that it had:
//
//   {
//     const torch::NoGradGuard no_graph;
//     const EvalMode eval(*model);
//     loss = validation_loss(model);
//   }  // a BatchNorm that was frozen by eval() stays frozen
//
// model.train() afterwards would put every module into training mode.

#include <torch/torch.h>

#include <memory>
#include <utility>
#include <vector>

namespace tenfold {

class EvalMode {
 public:
  explicit EvalMode(torch::nn::Module& model) {
    for (const std::shared_ptr<torch::nn::Module>& module : model.modules())
      modes_.emplace_back(module, module->is_training());
    model.eval();
  }
  /// train() works downwards, and modules() lists a module before those in it: each has its own mode at the end.
  ~EvalMode() {
    for (const auto& [module, training] : modes_) module->train(training);
  }
  EvalMode(const EvalMode&) = delete;
  EvalMode& operator=(const EvalMode&) = delete;

 private:
  std::vector<std::pair<std::shared_ptr<torch::nn::Module>, bool>> modes_;
};

}  // namespace tenfold
