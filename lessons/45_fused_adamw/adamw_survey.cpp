#include "adamw_survey.h"

#include <span>
#include <string>

#include "adamw_steps.h"
#include "common/measure/counted.h"
#include "common/models/mlp.h"
#include "kernels/kernel_survey.h"

namespace tenfold::inline lesson_45 {
namespace {

using torch::Tensor;

/// The parameters of the MLP, with random gradients.
std::vector<Tensor> parameters_with_gradients(const Trial& trial) {
  const Mlp model(MlpOptions{.layers = trial.get(mlp::kLayers), .width = trial.get(mlp::kWidth)});
  std::vector<Tensor> all;
  for (const Tensor& parameter : model->parameters()) {
    all.push_back(parameter.detach());
    all.back().mutable_grad() = torch::randn_like(parameter);
  }
  return all;
}

double values_of(const std::vector<Tensor>& tensors) {
  int64_t values = 0;
  for (const Tensor& tensor : tensors) values += tensor.numel();
  return static_cast<double>(values);
}

/// Buffers of the microscope, alive as long as this is.
struct DeviceTensors {
  explicit DeviceTensors(simt::Device& to) : device(to) {}
  float* copied(const char* name, const Tensor& from) {
    buffers.push_back(device.buffer<float>(name, from.numel()));
    as_tensor(buffers.back(), from.sizes()).copy_(from);
    return buffers.back().data();
  }
  simt::Device& device;
  std::vector<simt::Buffer<float>> buffers;
};

}  // namespace

void note_operators(const Trial& trial, int writes, const MakeUpdate& make_update) {
  const std::vector<Tensor> parameters = parameters_with_gradients(trial);
  const Counted counted = count_step(torch::kCPU, [&] {
    return Step{1, Parameters(), [update = make_update(parameters)] {
                  update();
                  return torch::zeros({});
                }};
  });
  trial.note("calls", static_cast<double>(counted.whole.operators - 1), "operators");  // without the loss, one zero
  trial.note("moved", counted.whole.operator_bytes / values_of(parameters) + 4.0 * writes, "bytes/parameter");
}

void note_adamw_kernel(const Trial& trial, const kernels::AdamWSettings& settings) {
  for (int rung = 0; rung < kernels::kAdamWRungs; ++rung) {
    AdamWState expected(parameters_with_gradients(trial));
    const simt::Report report = under_microscope([&](simt::Device& device) {
      DeviceTensors tensors(device);
      std::vector<kernels::AdamWTensor> list;
      std::vector<Tensor> results;
      for (size_t i = 0; i < expected.parameters.size(); ++i) {
        const Tensor& parameter = expected.parameters[i];
        float* values = tensors.copied("parameter", parameter);
        results.push_back(as_tensor(tensors.buffers.back(), parameter.sizes()));
        float *average = tensors.copied("average", expected.averages[i]),
              *square_average = tensors.copied("square_average", expected.square_averages[i]);
        list.push_back(
            {values, average, square_average, tensors.copied("gradient", parameter.grad()), parameter.numel()});
      }
      kernels::adamw(&device, std::span<const kernels::AdamWTensor>(list), settings, 1, rung);
      fused_adamw(expected, settings);
      for (size_t i = 0; i < results.size(); ++i) {
        if (!torch::allclose(results[i], expected.parameters[i], /*rtol=*/1e-6, /*atol=*/1e-7)) return false;
      }
      return true;
    });
    const std::string name = ", rung " + std::to_string(rung);
    trial.note("calls" + name, static_cast<double>(report.launches), "launches");
    trial.note("moved" + name, 32.0 * static_cast<double>(report.sectors()) / values_of(expected.parameters),
               "bytes/parameter");
  }
}

}  // namespace tenfold::inline lesson_45
