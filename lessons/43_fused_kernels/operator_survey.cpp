#include "operator_survey.h"

#include <functional>
#include <string>

#include "common/measure/counted.h"
#include "kernels/kernel_survey.h"
#include "kernels/layer_norm/layer_norm.h"
#include "kernels/softmax/softmax.h"
#include "kernels/softmax/softmax_torch.h"

namespace tenfold::inline lesson_43 {
namespace {

using torch::Tensor;
namespace reference = fused::reference;  // ATen's own operators

/// Notes of one function of a matrix (R, C), a weight (C) and a bias (C).
void note_function(const Trial& trial, const std::string& name,
                   const std::function<Tensor(const Tensor& x, const Tensor& weight, const Tensor& bias)>& function) {
  const torch::NoGradGuard forward_only;
  const int64_t rows = trial.get(kRows), columns = trial.get(kColumns);
  const Counted counted = count_step(torch::kCPU, [&] {
    const Tensor x = torch::randn({rows, columns});
    const Tensor weight = torch::randn({columns});
    const Tensor bias = torch::randn_like(weight);
    return Step{1, Parameters(), [=] { return function(x, weight, bias); }};
  });
  trial.note(name, counted.whole.operator_bytes / static_cast<double>(rows * columns), "bytes/element");
}

Tensor aten_bias_gelu(const Tensor& x, const Tensor& bias) {
  return reference::bias_gelu(x, bias, kernels::Gelu::tanh);
}

}  // namespace

Tensor eager_softmax(const Tensor& x) {
  const Tensor power = torch::exp(x - x.amax(-1, /*keepdim=*/true));
  return power / power.sum(-1, /*keepdim=*/true);
}

void note_operators(const Trial& trial, const GptOperators& operators, Tensor (*softmax)(const Tensor&)) {
  note_function(trial, "LayerNorm",
                [&](auto& x, auto& weight, auto& bias) { return operators.layer_norm(x, weight, bias, 1e-5); });
  note_function(trial, "bias + GELU", [&](auto& x, auto&, auto& bias) { return operators.bias_gelu(x, bias); });
  note_function(trial, "softmax", [&](auto& x, auto&, auto&) { return softmax(x); });
}

void note_aten_operators(const Trial& trial) {
  note_operators(trial, {reference::layer_norm, aten_bias_gelu}, reference::softmax);
}

void note_kernels(const Trial& trial) {
  const int64_t rows = trial.get(kRows), columns = trial.get(kColumns), count = rows * columns;
  const Tensor x = torch::randn({rows, columns}), weight = torch::randn({columns}), bias = torch::randn({columns});
  const auto note =
      [&](const std::string& name, const Tensor& expected,
          const std::function<void(simt::Device&, float* out, const float* in, const float* weight, const float* bias)>&
              launch) {
        const auto report = under_microscope([&](simt::Device& device) {
          const auto filled = [&](const char* buffer, const Tensor& values) {
            auto result = device.buffer<float>(buffer, values.numel());
            as_tensor(result, values.sizes()).copy_(values);
            return result;
          };
          const auto in = filled("in", x), gain = filled("weight", weight), shift = filled("bias", bias);
          const auto out = device.buffer<float>("out", count);
          launch(device, out.data(), in.data(), gain.data(), shift.data());
          return torch::allclose(as_tensor(out, {rows, columns}), expected, /*rtol=*/1e-4, /*atol=*/1e-5);
        });
        trial.note(name, 32.0 * static_cast<double>(report.sectors()) / static_cast<double>(count), "bytes/element");
      };
  for (int rung = 0; rung < kernels::kBiasGeluRungs; ++rung) {
    note("bias + GELU, rung " + std::to_string(rung), aten_bias_gelu(x, bias),
         [&](auto& device, auto* out, auto* in, auto*, auto* shift) {
           kernels::bias_gelu(&device, out, in, shift, rows, columns, kernels::Gelu::tanh, rung);
         });
  }
  for (int rung = 0; rung < kernels::kLayerNormRungs; ++rung) {
    note("LayerNorm, rung " + std::to_string(rung), reference::layer_norm(x, weight, bias, 1e-5),
         [&](auto& device, auto* out, auto* in, auto* gain, auto* shift) {
           const auto mean = device.template buffer<float>("mean", rows),
                      rstd = device.template buffer<float>("rstd", rows);
           kernels::layer_norm(&device, out, mean.data(), rstd.data(), in, gain, shift, rows, columns, 1e-5F, rung);
         });
  }
  for (int rung = 0; rung < kernels::kSoftmaxRungs; ++rung) {
    note("softmax, rung " + std::to_string(rung), reference::softmax(x),
         [&](auto& device, auto* out, auto* in, auto*, auto*) {
           kernels::softmax(&device, out, in, rows, columns, rung);
         });
  }
}

}  // namespace tenfold::inline lesson_43
