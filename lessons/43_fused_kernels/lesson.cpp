// Lesson 43 - Fused kernels
//
// Question  How much of a training step is memory traffic of small operators that a fused kernel saves?
// Expect    LayerNorm and GELU written as formulas are slower and keep more memory; ATen's own kernels are fused already.
// Not for   Wide layers, whose matrix products take nearly all the time (case "wide"); operators that are fused already.
// Run       ./tenfold run 43_fused_kernels
// Read      gpt_operators.h: the formulas, the fused kernels, and where R2's block uses them; case "counted" counts bytes.
#include <tenfold/counted.h>
#include <tenfold/gpt_operators.h>
#include <tenfold/kernel_trial.h>
#include <tenfold/layer_norm.h>
#include <tenfold/lesson.h>
#include <tenfold/softmax.h>
#include <tenfold/softmax_torch.h>

namespace {
using tenfold::Counted;
using tenfold::GptOperators;
using tenfold::GptTraining;
using tenfold::Step;
using tenfold::Trial;
using torch::Tensor;
namespace kernels = tenfold::kernels;
namespace reference = tenfold::fused::reference;  // ATen's own operators

/// One training step of the GPT; how the loss of a batch is computed is all that differs between the variants.
Step train(const Trial& trial, const std::function<Tensor(tenfold::GptImpl&, const Tensor&, const Tensor&)>& loss_of) {
  auto work = std::make_shared<GptTraining>(trial);
  return {work->tokens_per_step(), work->parameters(), [work, loss_of] {
            auto [ids, targets] = work->next_batch();  // (B, T) each
            work->optimizer->zero_grad();
            Tensor loss = loss_of(*work->model, ids, targets);
            loss.backward();
            work->optimizer->step();
            return loss;
          }};
}

/// Case "counted": not trained but counted, on a matrix of this shape. Elsewhere there are no rows.
struct Matrix {
  explicit Matrix(const Trial& trial) : rows(trial.get("counted rows", 0)), columns(rows > 0 ? trial.get("counted columns", 512) : 0) {}
  int64_t rows, columns;
};

/// Notes what the operators behind a function of LibTorch move per element: the bytes of their inputs and outputs.
void note_operators(const Trial& trial, const std::string& name, const Matrix& matrix,
                    const std::function<Tensor(const Tensor& x, const Tensor& weight, const Tensor& bias)>& function) {
  const torch::NoGradGuard forward_only;
  const Counted counted = tenfold::count_step(torch::kCPU, [&] {
    const Tensor x = torch::randn({matrix.rows, matrix.columns}), weight = torch::randn({matrix.columns}), bias = torch::randn_like(weight);
    return Step{1, tenfold::Parameters(), [=] { return function(x, weight, bias); }};
  });
  trial.note(name, counted.whole.operator_bytes / static_cast<double>(matrix.rows * matrix.columns), "bytes/element");
}

void note_all_operators(const Trial& trial, const Matrix& matrix, const GptOperators& operators, Tensor (*softmax)(const Tensor&)) {
  note_operators(trial, "LayerNorm", matrix,
                 [&](auto& x, auto& weight, auto& bias) { return operators.layer_norm(x, weight, bias, 1e-5); });
  note_operators(trial, "bias + GELU", matrix, [&](auto& x, auto&, auto& bias) { return operators.bias_gelu(x, bias); });
  note_operators(trial, "softmax", matrix, [&](auto& x, auto&, auto&) { return softmax(x); });
}

Tensor softmax_by_formula(const Tensor& x) {
  const Tensor power = torch::exp(x - x.amax(-1, /*keepdim=*/true));
  return power / power.sum(-1, /*keepdim=*/true);
}

/// Notes what our kernels move per element: the sectors that their requests ask for, counted under the microscope.
void note_kernels(const Trial& trial, const Matrix& matrix) {
  const int64_t rows = matrix.rows, columns = matrix.columns, count = rows * columns;
  const Tensor x = torch::randn({rows, columns}), weight = torch::randn({columns}), bias = torch::randn({columns});
  const auto note =
      [&](const std::string& name, const Tensor& expected,
          const std::function<void(tenfold::simt::Device&, float* out, const float* in, const float* weight, const float* bias)>& launch) {
        const auto report = tenfold::under_microscope([&](tenfold::simt::Device& device) {
          const auto filled = [&](const char* buffer, const Tensor& values) {
            auto result = device.buffer<float>(buffer, values.numel());
            tenfold::as_tensor(result, values.sizes()).copy_(values);
            return result;
          };
          const auto in = filled("in", x), gain = filled("weight", weight), shift = filled("bias", bias);
          const auto out = device.buffer<float>("out", count);
          launch(device, out.data(), in.data(), gain.data(), shift.data());
          return torch::allclose(tenfold::as_tensor(out, {rows, columns}), expected, /*rtol=*/1e-4, /*atol=*/1e-5);
        });
        trial.note(name, 32.0 * static_cast<double>(report.sectors()) / static_cast<double>(count), "bytes/element");
      };
  for (int rung = 0; rung < kernels::kBiasGeluRungs; ++rung) {
    note("bias + GELU, rung " + std::to_string(rung), reference::bias_gelu(x, bias, kernels::Gelu::tanh),
         [&](auto& device, auto* out, auto* in, auto*, auto* shift) {
           kernels::bias_gelu(&device, out, in, shift, rows, columns, kernels::Gelu::tanh, rung);
         });
  }
  for (int rung = 0; rung < kernels::kLayerNormRungs; ++rung) {
    note("LayerNorm, rung " + std::to_string(rung), reference::layer_norm(x, weight, bias, 1e-5),
         [&](auto& device, auto* out, auto* in, auto* gain, auto* shift) {
           const auto mean = device.template buffer<float>("mean", rows), rstd = device.template buffer<float>("rstd", rows);
           kernels::layer_norm(&device, out, mean.data(), rstd.data(), in, gain, shift, rows, columns, 1e-5F, rung);
         });
  }
  for (int rung = 0; rung < kernels::kSoftmaxRungs; ++rung) {
    note("softmax, rung " + std::to_string(rung), reference::softmax(x),
         [&](auto& device, auto* out, auto* in, auto*, auto*) { kernels::softmax(&device, out, in, rows, columns, rung); });
  }
}

/// R2 as it is: ATen's LayerNorm and GELU are one kernel each, and the bias is added by the matrix product.
Step aten(const Trial& trial) {
  if (const Matrix matrix(trial); matrix.rows > 0) {
    note_all_operators(
        trial, matrix,
        {reference::layer_norm, [](const Tensor& x, const Tensor& bias) { return reference::bias_gelu(x, bias, kernels::Gelu::tanh); }},
        reference::softmax);
    return {};
  }
  return train(trial, [](tenfold::GptImpl& model, const Tensor& ids, const Tensor& targets) {
    Tensor h = model.embed(ids);
    for (auto& block : model.blocks) h = block->forward(h);
    return model.loss(h, targets);
  });
}

Step train_with(const Trial& trial, const GptOperators& operators) {
  return train(trial, [operators](tenfold::GptImpl& model, const Tensor& ids, const Tensor& targets) {
    return tenfold::loss_with(model, ids, targets, operators);
  });
}

/// What a model has that was written from its formulas: every operation goes through memory.
Step formulas(const Trial& trial) {
  if (const Matrix matrix(trial); matrix.rows > 0) {
    note_all_operators(trial, matrix, tenfold::kByFormula, softmax_by_formula);
    return {};
  }
  return train_with(trial, tenfold::kByFormula);
}

/// The kernels of kernels/layer_norm and kernels/bias_gelu.
Step fused(const Trial& trial) {
  if (const Matrix matrix(trial); matrix.rows > 0) {
    note_kernels(trial, matrix);
    return {};
  }
  if (!trial.device.is_cuda()) {
    trial.cannot("needs a CUDA device; on a CPU the same kernels run under the microscope: in the tests and in case counted");
  }
  return train_with(trial, tenfold::kFused);
}

/// What the formulas keep for backward() beyond what ATen's operators do: a LayerNorm one tensor more (centered and scaled
/// instead of x), a GELU three of four times the width (tanh, 1 + tanh, half the sum).
tenfold::Prediction keeps_more(const Counted& baseline) {
  const double tokens = baseline.setting("batch") * baseline.setting("length"), layers = baseline.setting("layers");
  const double more = 4 * tokens * baseline.setting("width") * (layers * (2 + 3 * 4) + 1);
  return {.peak_bytes = baseline.peak_bytes + static_cast<int64_t>(more)};
}

/// Both keep the input, and mean and deviation of each row.
tenfold::Prediction keeps_the_same(const Counted& baseline) { return {.peak_bytes = baseline.peak_bytes}; }
}  // namespace

int main(int argc, char** argv) {
  using namespace tenfold::expect;
  return tenfold::run(
      argc, argv,
      {.title = "Fused kernels",
       .question = "How much of a training step is memory traffic of small operators that a fused kernel saves?",
       .workload = "R2",
       .baseline = {"ATen's kernels", aten},
       .techniques = {{"formulas", formulas, keeps_more}, {"our kernels", fused, keeps_the_same}},
       .cases = {{"R2", {}, {{"formulas", {SLOWER, LARGER, VALID}}, {"our kernels", {SAME, SAME, VALID}}}},
                 {"wide",
                  {{"layers", 1}, {"width", 512}, {"heads", 8}, {"batch", 1}, {"length", 16}},
                  {{"formulas", {SAME, SAME, VALID}, tenfold::Expect{SLOWER, SAME, VALID}}, {"our kernels", {SAME, SAME, VALID}}}},
                 {"counted", {{"counted rows", 64}}, {{"formulas", {}}, {"our kernels", {}}}, "foundation"}},
       .agreement = tenfold::Agreement::within(1e-4, "the same sums in another order")});
}
