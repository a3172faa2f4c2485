// Lesson 24 - torch.compile and AOTInductor
// What does a compiler of kernels save in each step, and after how many steps is the compiling paid back?
// Read python.py first: the technique is a line of Python. Then compiled_package.h: how C++ runs what Python compiled.
// serve.py is the program that trains next to this one; surveys.h asks it what is compiled again, and what is not.
#include "common/harness/lesson.h"
#include "common/models/gpt.h"
#include "common/models/mlp.h"
#include "compiled_package.h"
#include "elementwise.h"
#include "prediction.h"
#include "served_gpt.h"
#include "surveys.h"

namespace {
using namespace tenfold;
using torch::Tensor;

/// The baseline: one operator of ATen after the other, from C++.
Step eager(const Trial& trial) {
  if (trial.get(kForwardOnly)) {
    return serve(trial, [](GptTraining& work) -> Forward {
      return [model = work.model](const Tensor& ids) mutable { return model(ids); };
    });
  }
  const auto work = std::make_shared<Work>(trial.workload.make(trial));
  return {.items = work->items, .parameters = work->parameters, .update = [work] {
            work->optimizer->zero_grad();
            Tensor loss = work->next_loss();
            loss.backward();
            work->optimizer->step();
            return loss;
          }};
}

/// The forward pass of the package: its code, with these weights or with those that it was made with.
Step packaged(const Trial& trial, bool share) {
  if (!trial.device.is_cpu()) trial.skip("the package is compiled for the CPU; a GPU's needs Triton and that GPU");
  const auto package = std::make_shared<CompiledPackage>(package_of(trial));
  return serve(trial, [package, share](GptTraining& work) -> Forward {
    if (share) package->share_weights(named_as_in_python(work.model->named_parameters()));
    return [package](const Tensor& ids) { return (*package)({ids}).at(0); };
  });
}

Step aot_inductor(const Trial& trial) { return packaged(trial, /*share=*/true); }

/// A trap: the package holds the weights of the day on which it was made, and the model has learned since.
Step old_weights(const Trial& trial) { return packaged(trial, /*share=*/false); }
}  // namespace

int main(int argc, char** argv) {
  using namespace tenfold::expect;
  return run(
      argc, argv,
      {.title = "torch.compile and AOTInductor",
       .question = "What does a compiler of kernels save in each step, and after how many steps is the compiling "
                   "paid back?",
       .workload = gpt_workload,
       .version = 2,
       .settings = {kForwardOnly},
       .baseline = {"eager", eager},
       .most_bytes = compile_most_bytes,
       .techniques = {{.name = "Python eager", .process = in_python()},
                      {.name = "torch.compile", .process = in_python()},
                      {"AOTInductor", aot_inductor},
                      {"old weights", old_weights}},
       .cases = {{"gpt", {}, {{"Python eager", {}}, {"torch.compile", {}}}},
                 {.name = "elementwise", .expected = {{"torch.compile", FASTER}}, .workload = elementwise_workload},
                 // Large products, which Inductor leaves to the library that had them before.
                 {.name = "products",
                  .settings = {mlp::kLayers(4), mlp::kWidth(1024, 4096, 4096), mlp::kBatch(128, 2048, 4096)},
                  .expected = {{"torch.compile", SAME_SPEED}},
                  .workload = mlp_workload},
                 {.name = "inference",
                  .settings = {kForwardOnly(true)},
                  .expected = {{"AOTInductor", FASTER}, {"old weights", TRAP}}}},
       .surveys = dynamo_surveys(),
       .headline = Headline{"elementwise", "torch.compile"},
       .agreement = Agreement::within(1e-4, "sums in another order, products and additions rounded once")});
}
