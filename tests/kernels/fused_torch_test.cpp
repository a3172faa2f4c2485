// The LibTorch bindings against ATen in float64: forward and gradients, on the CPU under the microscope and on CUDA when
// there is one.
#include <gtest/gtest.h>

#include <tenfold/bias_gelu_torch.h>
#include <tenfold/layer_norm_torch.h>
#include <tenfold/softmax_torch.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#ifdef TENFOLD_WITH_CUDA
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#endif

#include "support.h"

namespace tenfold {
namespace {

using fused::Gelu;
using test::message_of;
using torch::Tensor;
using Tensors = std::vector<Tensor>;

/// An operation of some tensors, ours or ATen's.
using Operation = std::function<Tensor(const Tensors&)>;
struct Pair {
  std::string name;
  Operation ours, reference;
  int vectors;  ///< arguments of shape (columns) after the input
};

const std::vector<Pair> kPairs = {
    {"layer_norm", [](const Tensors& t) { return fused::layer_norm(t[0], t[1], t[2], 1e-5); },
     [](const Tensors& t) { return fused::reference::layer_norm(t[0], t[1], t[2], 1e-5); }, 2},
    {"bias_gelu exact", [](const Tensors& t) { return fused::bias_gelu(t[0], t[1], Gelu::exact); },
     [](const Tensors& t) { return fused::reference::bias_gelu(t[0], t[1], Gelu::exact); }, 1},
    {"bias_gelu tanh", [](const Tensors& t) { return fused::bias_gelu(t[0], t[1], Gelu::tanh); },
     [](const Tensors& t) { return fused::reference::bias_gelu(t[0], t[1], Gelu::tanh); }, 1},
    {"softmax", [](const Tensors& t) { return fused::softmax(t[0]); }, [](const Tensors& t) { return fused::reference::softmax(t[0]); }, 0},
};

const std::vector<std::vector<int64_t>> kShapes = {{1}, {1, 1}, {5, 123}, {2, 3, 64}, {3, 1000}, {7, 31}, {2, 2, 2, 40}, {1, 1025}};

/// Where and in which type the bindings are tested; `unit` is the type's rounding.
struct Place {
  torch::Device device;
  at::ScalarType type;
  double unit;
};

std::vector<Place> places() {
  std::vector<torch::Device> devices{torch::kCPU};
  if (torch::cuda::is_available()) devices.emplace_back(torch::kCUDA);
  std::vector<Place> all;
  for (const auto& device : devices) {
    all.push_back({device, torch::kFloat, 0x1p-24});
    all.push_back({device, torch::kHalf, 0x1p-11});
    all.push_back({device, torch::kBFloat16, 0x1p-8});
  }
  return all;
}

/// The input and its vectors: random normal in the place's type.
Tensors arguments(const Pair& pair, const std::vector<int64_t>& shape, const Place& place) {
  Tensors all{torch::randn(shape)};
  for (int i = 0; i < pair.vectors; ++i) all.push_back(torch::randn({shape.back()}));
  for (Tensor& one : all) one = one.to(place.device, place.type);
  return all;
}

/// The result, and the gradients of sum(result * weights).
Tensors results(const Operation& operation, const Tensors& given, const Tensor& weights) {
  Tensors inputs;
  for (const Tensor& one : given) inputs.push_back(one.detach().clone().requires_grad_());
  const Tensor out = operation(inputs);
  out.backward(weights);
  Tensors all{out.detach()};
  for (const Tensor& input : inputs) all.push_back(input.grad());
  return all;
}

TEST(FusedTorch, ForwardAndGradientsAreThoseOfAtenInFloat64) {
  torch::manual_seed(43);
  for (const Place& place : places()) {
    for (const Pair& pair : kPairs) {
      for (const auto& shape : kShapes) {
        const Tensors given = arguments(pair, shape, place);
        const Tensor weights = torch::randn(shape).to(place.device, place.type);
        Tensors wide;
        for (const Tensor& one : given) wide.push_back(one.cpu().to(torch::kDouble));
        const Tensors ours = results(pair.ours, given, weights), expected = results(pair.reference, wide, weights.cpu().to(torch::kDouble));
        for (size_t i = 0; i < expected.size(); ++i) {
          const std::string what = pair.name + " " + c10::str(torch::IntArrayRef(shape)) + " " + c10::str(place.device) + " " +
                                   c10::toString(place.type) + (i == 0 ? ": result" : ": gradient " + std::to_string(i));
          ASSERT_EQ(ours[i].scalar_type(), place.type) << what;
          ASSERT_EQ(ours[i].device().type(), place.device.type()) << what;
          ASSERT_EQ(ours[i].sizes(), expected[i].sizes()) << what;
          // A gradient is a sum over a row or a column: its error is small beside the largest entry, not beside each.
          const double largest = expected[i].abs().max().item<double>();
          const double worst = (ours[i].cpu().to(torch::kDouble) - expected[i]).abs().max().item<double>();
          EXPECT_LE(worst, 8 * place.unit * (largest + 1)) << what;
        }
      }
    }
  }
}

// Independent of ATen's formulas for derivatives: those of ATen's forward in float64, by central differences.
TEST(FusedTorch, GradientsAreFiniteDifferences) {
  torch::manual_seed(44);
  for (const Place& place : places()) {
    if (place.type != torch::kFloat) continue;
    for (const Pair& pair : kPairs) {
      const Tensors given = arguments(pair, {3, 5}, place);
      const Tensor weights = torch::randn({3, 5}).to(place.device);
      const Tensors ours = results(pair.ours, given, weights);
      Tensors wide;
      for (const Tensor& one : given) wide.push_back(one.cpu().to(torch::kDouble));
      const Tensor wide_weights = weights.cpu().to(torch::kDouble);
      for (size_t input = 0; input < wide.size(); ++input) {
        for (int64_t i = 0; i < wide[input].numel(); ++i) {
          const auto at = [&](double step) {
            Tensors moved = wide;
            moved[input] = wide[input].clone();
            moved[input].view(-1)[i] += step;
            return (pair.reference(moved) * wide_weights).sum().item<double>();
          };
          const double slope = (at(1e-5) - at(-1e-5)) / 2e-5;
          EXPECT_NEAR(ours[input + 1].reshape(-1)[i].item<double>(), slope, 2e-5 * (1 + std::abs(slope)))
              << pair.name << " on " << place.device << ", input " << input << ", entry " << i;
        }
      }
    }
  }
}

TEST(FusedTorch, InputsThatAreNotContiguousAreRead) {
  torch::manual_seed(45);
  for (const Place& place : places()) {
    for (const Pair& pair : kPairs) {
      Tensors given = arguments(pair, {6, 9}, place), straight = given;
      given[0] = torch::randn({9, 6}).to(place.device, place.type).t();
      straight[0] = given[0].contiguous();
      for (size_t i = 1; i < given.size(); ++i) {
        given[i] = torch::stack({given[i], given[i]}, 1).select(1, 0);
        ASSERT_FALSE(given[i].is_contiguous());
      }
      // A gradient that is expanded from one number is not contiguous either.
      const auto gradient = [&](const Tensors& from) {
        const Tensor input = from[0].detach().requires_grad_();
        Tensors all = from;
        all[0] = input;
        pair.ours(all).sum().backward();
        return input.grad();
      };
      EXPECT_TRUE(torch::equal(pair.ours(given), pair.ours(straight))) << pair.name;
      EXPECT_TRUE(torch::equal(gradient(given), gradient(straight))) << pair.name;
    }
  }
}

TEST(FusedTorch, WithoutGradModeNothingIsRecorded) {
  const torch::NoGradGuard no_grad;
  EXPECT_FALSE(fused::softmax(torch::randn({2, 3}).requires_grad_()).requires_grad());
}

TEST(FusedTorch, KernelsRunOnTheCurrentStream) {
  if (!torch::cuda::is_available()) GTEST_SKIP() << "no GPU";
#ifdef TENFOLD_WITH_CUDA
  // The input is written on a side stream behind much other work; a kernel on another stream would read it too early.
  const auto options = torch::dtype(torch::kFloat).device(torch::kCUDA);
  const Tensor big = torch::randn({4096, 4096}, options);
  const Tensor input = torch::zeros({64, 64}, options);
  torch::cuda::synchronize();
  const c10::cuda::CUDAStream side = c10::cuda::getStreamFromPool();
  Tensor out;
  {
    const c10::cuda::CUDAStreamGuard guard(side);
    Tensor product = big;
    for (int i = 0; i < 20; ++i) product = product.mm(big) * 1e-2;
    input.copy_(product.slice(0, 0, 64).slice(1, 0, 64) * 0 + 1).slice(1, 0, 1).add_(1);
    out = fused::softmax(input);
  }
  side.synchronize();
  EXPECT_TRUE(torch::allclose(out, at::softmax(input, -1)));
#endif
}

TEST(FusedTorch, MisuseIsNamed) {
  const Tensor x = torch::randn({2, 4}), w = torch::ones({4});
  const auto has = [](const std::string& message, const char* part) { return message.find(part) != std::string::npos; };
  EXPECT_TRUE(has(message_of<c10::Error>([&] { fused::softmax(torch::randn({0, 4})); }), "must have a dimension and an element"));
  EXPECT_TRUE(has(message_of<c10::Error>([&] { fused::softmax(torch::tensor(1.0F)); }), "must have a dimension"));
  EXPECT_TRUE(has(message_of<c10::Error>([&] { fused::softmax(x.to(torch::kDouble)); }), "takes float, half and bfloat16, not Double"));
  EXPECT_TRUE(has(message_of<c10::Error>([&] { fused::layer_norm(x, torch::ones({3}), w); }), "weight must have shape (4); it has [3]"));
  EXPECT_TRUE(has(message_of<c10::Error>([&] { fused::layer_norm(x, w, Tensor()); }), "bias must have shape (4)"));
  EXPECT_TRUE(
      has(message_of<c10::Error>([&] { fused::bias_gelu(x, w.to(torch::kHalf), Gelu::tanh); }), "bias is Half on cpu and the input Float"));
  const Tensor input = x.clone().requires_grad_(), sum = fused::softmax(input).square().sum();
  const auto second_order = [&] { torch::autograd::grad({sum}, {input}, {}, /*retain_graph=*/true, /*create_graph=*/true); };
  EXPECT_TRUE(has(message_of<c10::Error>(second_order), "create_graph"));
}

}  // namespace
}  // namespace tenfold
