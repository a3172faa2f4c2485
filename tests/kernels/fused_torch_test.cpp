// The LibTorch bindings against ATen in float64: forward and gradients, on the CPU under the microscope and on CUDA
// when there is one.
#include <gtest/gtest.h>

#include "kernels/bias_gelu/bias_gelu_torch.h"
#include "kernels/cross_entropy/cross_entropy_torch.h"
#include "kernels/embedding/embedding_torch.h"
#include "kernels/layer_norm/layer_norm_torch.h"
#include "kernels/rms_norm/rms_norm_torch.h"
#include "kernels/rope/rope_torch.h"
#include "kernels/softmax/softmax_torch.h"

#include <functional>
#include <string>
#include <utility>
#include <vector>

#ifdef TENFOLD_WITH_CUDA
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#endif

#include "kernels/torch_binding.h"
#include "tests/support/places.h"
#include "tests/support/support.h"

namespace tenfold {
namespace {

using fused::Gelu;
using test::message_of;
using test::Place;
using test::places;
using torch::Tensor;
using Tensors = std::vector<Tensor>;

/// An operation of some tensors, ours or ATen's, with respect to all of which it is differentiable.
using Operation = std::function<Tensor(const Tensors&)>;
struct Pair {
  std::string name;
  std::vector<std::vector<int64_t>> shapes;  ///< of the tensors
  Operation ours, reference;
  bool float_result = false;  ///< whatever the tensors' type
};

/// The operations over rows, for an input of this shape.
std::vector<Pair> row_pairs(const std::vector<int64_t>& shape) {
  const std::vector<int64_t> vector{shape.back()};
  return {
      {"layer_norm",
       {shape, vector, vector},
       [](const Tensors& t) { return fused::layer_norm(t[0], t[1], t[2], 1e-5); },
       [](const Tensors& t) { return fused::reference::layer_norm(t[0], t[1], t[2], 1e-5); }},
      // With a smaller epsilon the gradient of a row of one small value is the difference of large ones.
      {"rms_norm",
       {shape, vector},
       [](const Tensors& t) { return fused::rms_norm(t[0], t[1], 0.1); },
       [](const Tensors& t) { return fused::reference::rms_norm(t[0], t[1], 0.1); }},
      {"bias_gelu exact",
       {shape, vector},
       [](const Tensors& t) { return fused::bias_gelu(t[0], t[1], Gelu::exact); },
       [](const Tensors& t) { return fused::reference::bias_gelu(t[0], t[1], Gelu::exact); }},
      {"bias_gelu tanh",
       {shape, vector},
       [](const Tensors& t) { return fused::bias_gelu(t[0], t[1], Gelu::tanh); },
       [](const Tensors& t) { return fused::reference::bias_gelu(t[0], t[1], Gelu::tanh); }},
      {"softmax",
       {shape},
       [](const Tensors& t) { return fused::softmax(t[0]); },
       [](const Tensors& t) { return fused::reference::softmax(t[0]); }},
  };
}

/// (..., T, H, head_dim), with tables that are longer than needed.
Pair rope_pair(const std::vector<int64_t>& shape) {
  const auto angles = fused::rope_angles(shape[shape.size() - 3] + 2, shape.back());
  return {"rope",
          {shape},
          [angles](const Tensors& t) {
            return fused::rope(t[0], {angles.cosines.to(t[0].device()), angles.sines.to(t[0].device())});
          },
          [angles](const Tensors& t) { return fused::reference::rope(t[0], angles); }};
}

/// `ids` (...) from a table (V, D), most of them several times.
Pair embedding_pair(int64_t vocabulary, int64_t width, const std::vector<int64_t>& ids_shape) {
  const Tensor ids = torch::randint(vocabulary, ids_shape, torch::kLong);
  return {"embedding",
          {{vocabulary, width}},
          [ids](const Tensors& t) { return fused::embedding(t[0], ids.to(t[0].device())); },
          [ids](const Tensors& t) { return fused::reference::embedding(t[0], ids); }};
}

/// Logits (..., C); every third target does not count.
Pair cross_entropy_pair(const std::vector<int64_t>& shape, bool in_place) {
  const std::vector<int64_t> rows(shape.begin(), shape.end() - 1);
  Tensor targets = torch::randint(shape.back(), rows, torch::kLong);
  if (targets.numel() > 1) targets.view(-1).slice(0, 1, targets.numel(), 3).fill_(kernels::kIgnoreIndex);
  const auto ours = in_place ? fused::cross_entropy_ : fused::cross_entropy;
  return {
      in_place ? "cross_entropy_" : "cross_entropy",
      {shape},
      // Not the leaf itself, whose place may not be taken.
      [targets, ours](const Tensors& t) { return ours(t[0] * 2, targets.to(t[0].device()), kernels::kIgnoreIndex); },
      [targets](const Tensors& t) { return fused::reference::cross_entropy(t[0] * 2, targets); },
      /*float_result=*/true};
}

std::vector<Pair> all_pairs() {
  std::vector<Pair> all;
  for (const std::vector<int64_t>& shape : std::vector<std::vector<int64_t>>{
           {1}, {1, 1}, {5, 123}, {2, 3, 64}, {3, 1000}, {7, 31}, {2, 2, 2, 40}, {1, 1025}}) {
    for (Pair& pair : row_pairs(shape)) all.push_back(std::move(pair));
    for (const bool in_place : {false, true}) all.push_back(cross_entropy_pair(shape, in_place));
  }
  for (const std::vector<int64_t>& shape :
       std::vector<std::vector<int64_t>>{{1, 1, 2}, {2, 5, 3, 64}, {7, 2, 6}, {2, 2, 3, 1, 24}}) {
    all.push_back(rope_pair(shape));
  }
  all.push_back(embedding_pair(1, 1, {1}));
  all.push_back(embedding_pair(5, 123, {2, 9}));
  all.push_back(embedding_pair(40, 64, {3, 2, 5}));
  return all;
}

/// Small ones, of each operation.
std::vector<Pair> small_pairs() {
  std::vector<Pair> all = row_pairs({3, 5});
  all.push_back(rope_pair({2, 2, 3, 4}));
  all.push_back(embedding_pair(3, 4, {2, 3}));
  for (const bool in_place : {false, true}) all.push_back(cross_entropy_pair({4, 5}, in_place));
  return all;
}

/// Random normal tensors in the place's type.
Tensors arguments(const Pair& pair, const Place& place) {
  Tensors all;
  for (const auto& shape : pair.shapes) all.push_back(torch::randn(shape).to(place.device, place.type));
  return all;
}

/// What a gradient of the result is multiplied with, random normal.
Tensor weights_for(const Pair& pair, const Tensors& given) {
  const torch::NoGradGuard no_grad;
  return torch::randn_like(pair.ours(given));
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
    for (const Pair& pair : all_pairs()) {
      const Tensors given = arguments(pair, place);
      const Tensor weights = weights_for(pair, given);
      Tensors wide;
      for (const Tensor& one : given) wide.push_back(one.cpu().to(torch::kDouble));
      const Tensors ours = results(pair.ours, given, weights),
                    expected = results(pair.reference, wide, weights.cpu().to(torch::kDouble));
      for (size_t i = 0; i < expected.size(); ++i) {
        const std::string what = pair.name + " " + c10::str(torch::IntArrayRef(pair.shapes[0])) + " " +
                                 c10::str(place.device) + " " + c10::toString(place.type) +
                                 (i == 0 ? ": result" : ": gradient " + std::to_string(i));
        ASSERT_EQ(ours[i].scalar_type(), i == 0 && pair.float_result ? torch::kFloat : place.type) << what;
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

// Independent of ATen's formulas for derivatives: those of ATen's forward in float64, by central differences.
TEST(FusedTorch, GradientsAreFiniteDifferences) {
  torch::manual_seed(44);
  for (const Place& place : places()) {
    if (place.type != torch::kFloat) continue;
    for (const Pair& pair : small_pairs()) {
      const Tensors given = arguments(pair, place);
      const Tensor weights = weights_for(pair, given);
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
    for (const Pair& pair : small_pairs()) {
      const Tensors straight = arguments(pair, place);
      Tensors given;
      for (const Tensor& one : straight) {
        given.push_back(torch::stack({one, one}, -1).select(-1, 0));
        ASSERT_FALSE(given.back().is_contiguous());
      }
      // A gradient that is expanded from one number is not contiguous either.
      const auto gradients = [&](const Tensors& from) {
        Tensors all;
        for (const Tensor& one : from) all.push_back(one.detach().requires_grad_());
        pair.ours(all).sum().backward();
        for (Tensor& one : all) one = one.grad();
        return all;
      };
      EXPECT_TRUE(torch::equal(pair.ours(given), pair.ours(straight))) << pair.name;
      const Tensors of_given = gradients(given), of_straight = gradients(straight);
      for (size_t i = 0; i < of_given.size(); ++i)
        EXPECT_TRUE(torch::equal(of_given[i], of_straight[i])) << pair.name << ", input " << i;
    }
  }
}

// A gradient that is the result itself, two parameters that overlap: what is only read may share memory.
TEST(FusedTorch, TensorsMayOverlapInMemory) {
  torch::manual_seed(50);
  for (const Place& place : places()) {
    for (const Pair& pair : small_pairs()) {
      const Tensors given = arguments(pair, place);
      const auto gradients = [&](bool apart) {
        Tensors inputs;
        for (const Tensor& one : given) inputs.push_back(one.clone().requires_grad_());
        const Tensor out = pair.ours(inputs);
        out.backward(apart ? out.detach().clone() : out.detach());
        for (Tensor& one : inputs) one = one.grad();
        return inputs;
      };
      const Tensors ours = gradients(false), expected = gradients(true);
      for (size_t i = 0; i < ours.size(); ++i)
        EXPECT_TRUE(torch::equal(ours[i], expected[i])) << pair.name << ", input " << i;
    }
    const Tensor all = torch::randn({40}).to(place.device, place.type), x = all.slice(0, 0, 30).view({3, 10});
    const auto vector = [&](int64_t begin) { return all.slice(0, begin, begin + 10); };
    // Parameters behind the input's end that only touch each other, and ones within it.
    for (const auto& [weight, bias] :
         {std::pair{vector(25), vector(30)}, {vector(5), vector(15)}, {vector(5), vector(30)}}) {
      EXPECT_TRUE(
          torch::equal(fused::layer_norm(x, weight, bias), fused::layer_norm(x.clone(), weight.clone(), bias.clone())));
    }
  }
}

TEST(FusedTorch, MemoryThatOverlapsIsOneRange) {
  const Tensor all = torch::zeros({40});
  auto* const begin = static_cast<std::byte*>(all.data_ptr());
  const auto part = [&](int64_t from, int64_t to) { return all.slice(0, from, to); };
  const Tensor halves = part(32, 40).view(torch::kHalf);
  const auto ranges = fused::ranges_of({{"last", halves},
                                        {"touches", part(30, 32)},
                                        {"whole", part(0, 20)},
                                        {"within", part(5, 10)},
                                        {"across", part(15, 30)},
                                        {"also last", part(32, 40)}});
  ASSERT_EQ(ranges.size(), 3U);
  EXPECT_EQ(ranges[0].name, "whole and within and across");
  EXPECT_EQ(ranges[0].begin, begin);
  EXPECT_EQ(ranges[0].end, begin + 30 * sizeof(float));
  EXPECT_EQ(ranges[1].name, "touches");
  EXPECT_EQ(ranges[1].begin, begin + 30 * sizeof(float));
  EXPECT_EQ(ranges[1].end, begin + 32 * sizeof(float));
  EXPECT_EQ(ranges[1].element_bytes, sizeof(float));
  EXPECT_EQ(ranges[2].end, begin + 40 * sizeof(float));
  EXPECT_EQ(ranges[2].element_bytes, 2U);
  EXPECT_EQ(fused::ranges_of({{"whole", all}, {"within", part(3, 5)}}).at(0).end, begin + 40 * sizeof(float));
}

TEST(FusedTorch, CrossEntropyInPlaceLeavesTheGradientInTheLogits) {
  torch::manual_seed(46);
  const Tensor x = torch::randn({6, 40}).requires_grad_(), targets = torch::randint(40, {6}, torch::kLong);
  const Tensor logits = x * 3;
  fused::cross_entropy_(logits, targets).backward();
  const Tensor expected = torch::autograd::grad({fused::reference::cross_entropy(x * 3, targets)}, {x})[0];
  EXPECT_LE((x.grad() - expected).abs().max().item<double>(), 1e-6);
  EXPECT_LE((logits.detach() * 3 - expected).abs().max().item<double>(), 1e-6) << "the gradient is not in the logits";
  // Of all that a backward() needs nothing may have been overwritten in silence.
  const Tensor y = x * 3, square = y.square().sum();
  const Tensor loss = fused::cross_entropy_(y, targets) + square;
  EXPECT_NE(message_of<c10::Error>([&] { loss.backward(); }).find("modified by an inplace operation"),
            std::string::npos);
  // The other one keeps them, and its gradient survives a second backward().
  const Tensor kept = (x * 3).detach(), before = kept.clone(), again = kept.clone().requires_grad_();
  fused::cross_entropy(kept, targets);
  EXPECT_TRUE(torch::equal(kept, before));
  const Tensor twice = fused::cross_entropy(again, targets);
  twice.backward({}, /*retain_graph=*/true);
  const Tensor once = again.grad().clone();
  twice.backward();
  EXPECT_TRUE(torch::equal(again.grad(), 2 * once));
}

// Of 256 rows a probability of 1e-4 has the gradient 4e-7, which half knows in steps of 6e-8; and a large loss scale is
// itself infinite in half.
TEST(FusedTorch, CrossEntropyOfHalvesKeepsSmallGradientsUnderALossScale) {
  const Tensor x = torch::randn({256, 264}) * 4, targets = torch::randint(264, {256}, torch::kLong);
  for (const double scale : {0x1p16, 0x1p25}) {
    const Tensor half = x.to(torch::kHalf).requires_grad_(), wide = half.detach().to(torch::kDouble).requires_grad_();
    (fused::cross_entropy(half, targets) * scale).backward();
    (fused::reference::cross_entropy(wide, targets) * scale).backward();
    const Tensor finite = wide.grad().abs() < 6e4, off = (half.grad().to(torch::kDouble) - wide.grad()).abs();
    EXPECT_GT(finite.sum().item<int64_t>(), 256 * 260);
    // Rounded twice; and what was stored in steps of 6e-8 is multiplied by scale / 256.
    const Tensor bound = wide.grad().abs() * 0x1p-9 + 0x1p-25 * scale / 256 + 0x1p-24;
    EXPECT_TRUE((off <= bound).logical_or(finite.logical_not()).all().item<bool>())
        << (off / bound).max().item<double>() << " times the bound, scale " << scale;
  }
}

TEST(FusedTorch, EmbeddingMarksIdsThatAreNone) {
  const Tensor weight = torch::randn({4, 3}).requires_grad_(), ids = torch::tensor({1, -1, 4, 1}, torch::kLong);
  const Tensor out = fused::embedding(weight, ids);
  EXPECT_TRUE(torch::equal(out.isnan().any(1), torch::tensor({false, true, true, false})));
  out.backward(torch::ones_like(out));
  EXPECT_TRUE(torch::equal(weight.grad(), torch::tensor({0.0F, 2.0F, 0.0F, 0.0F}).unsqueeze(1).expand({4, 3})));
}

TEST(FusedTorch, RopeAnglesAreThoseOfThePaper) {  // position p turns pair i by p / 10000^(2 i / head_dim)
  const auto angles = fused::rope_angles(3, 4);
  const Tensor expected = torch::tensor({0.0, 0.0, 1.0, 0.01, 2.0, 0.02}, torch::kDouble).view({3, 2});
  EXPECT_TRUE(torch::allclose(angles.cosines.to(torch::kDouble), expected.cos(), 0, 1e-7));
  EXPECT_TRUE(torch::allclose(angles.sines.to(torch::kDouble), expected.sin(), 0, 1e-7));
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
  EXPECT_TRUE(has(message_of<c10::Error>([&] { fused::softmax(torch::randn({0, 4})); }),
                  "must have a dimension and an element"));
  EXPECT_TRUE(has(message_of<c10::Error>([&] { fused::softmax(torch::tensor(1.0F)); }), "must have a dimension"));
  EXPECT_TRUE(has(message_of<c10::Error>([&] { fused::softmax(x.to(torch::kDouble)); }),
                  "takes float, half and bfloat16, not Double"));
  EXPECT_TRUE(has(message_of<c10::Error>([&] { fused::layer_norm(x, torch::ones({3}), w); }),
                  "weight must have shape (4); it has [3]"));
  EXPECT_TRUE(has(message_of<c10::Error>([&] { fused::layer_norm(x, w, Tensor()); }), "bias must have shape (4)"));
  EXPECT_TRUE(has(message_of<c10::Error>([&] { fused::bias_gelu(x, w.to(torch::kHalf), Gelu::tanh); }),
                  "bias is Half on cpu and the input Float"));
  EXPECT_TRUE(has(message_of<c10::Error>([&] { fused::rms_norm(x, torch::ones({3})); }),
                  "weight must have shape (4); it has [3]"));
  const Tensor heads = torch::randn({2, 3, 4}), ids = torch::zeros({2}, torch::kLong);
  const auto angles = fused::rope_angles(2, 4),
             halves = fused::RopeAngles{angles.cosines.to(torch::kHalf), angles.sines};
  EXPECT_TRUE(has(message_of<c10::Error>([&] { fused::rope(x, angles); }),
                  "must have shape (..., T, H, even head_dim); it has [2, 4]"));
  EXPECT_TRUE(has(message_of<c10::Error>([&] { fused::rope(torch::randn({2, 3, 3}), angles); }), "even head_dim"));
  EXPECT_TRUE(has(message_of<c10::Error>([&] { fused::rope(torch::randn({3, 1, 4}), angles); }),
                  "(3 or more, 2); they have [2, 2]"));
  EXPECT_TRUE(
      has(message_of<c10::Error>([&] { fused::rope(heads, halves); }), "cosines are Half on cpu; they must be Float"));
  EXPECT_TRUE(has(message_of<c10::Error>([&] { fused::rope(heads.to(torch::kDouble), angles); }), "not Double"));
  EXPECT_TRUE(has(message_of<c10::Error>([&] { fused::rope_angles(3, 5); }), "head_dim of 5"));
  EXPECT_TRUE(has(message_of<c10::Error>([&] { fused::embedding(heads, ids); }),
                  "weight must have shape (V, D); it has [2, 3, 4]"));
  EXPECT_TRUE(has(message_of<c10::Error>([&] { fused::embedding(x, ids.to(torch::kInt)); }),
                  "ids are Int on cpu; they must be Long"));
  EXPECT_TRUE(has(message_of<c10::Error>([&] { fused::embedding(x, ids.slice(0, 0, 0)); }), "there must be an id"));
  EXPECT_TRUE(has(message_of<c10::Error>([&] { fused::cross_entropy(x, ids.slice(0, 0, 1)); }), "[2]; they have [1]"));
  EXPECT_TRUE(has(message_of<c10::Error>([&] { fused::cross_entropy(x, ids.to(torch::kInt)); }),
                  "targets are Int on cpu; they must be Long"));
  EXPECT_TRUE(
      has(message_of<c10::Error>([&] { fused::cross_entropy_(torch::randn({4, 2}).t(), ids); }), "must be contiguous"));
  EXPECT_TRUE(has(message_of<c10::Error>([&] { fused::cross_entropy_(x.clone().requires_grad_(), ids); }), "a leaf"));
}

TEST(FusedTorch, SecondDerivativesAreRefused) {
  for (const Pair& pair : small_pairs()) {
    const Tensor first = torch::randn(pair.shapes[0]).requires_grad_();
    Tensors inputs{first};
    for (size_t i = 1; i < pair.shapes.size(); ++i) inputs.push_back(torch::randn(pair.shapes[i]));
    const Tensor sum = pair.ours(inputs).square().sum();
    const auto second_order = [&] {
      torch::autograd::grad({sum}, {first}, {}, /*retain_graph=*/true, /*create_graph=*/true);
    };
    EXPECT_NE(message_of<c10::Error>(second_order).find("create_graph"), std::string::npos) << pair.name;
  }
}

}  // namespace
}  // namespace tenfold
