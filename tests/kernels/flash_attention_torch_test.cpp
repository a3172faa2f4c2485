// fused::flash_attention against ATen's scaled_dot_product_attention in float64: forward and gradients, on the CPU
// under the microscope and on CUDA when there is one.
#include <gtest/gtest.h>

#include "kernels/flash_attention/flash_attention_torch.h"

#include <array>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/places.h"
#include "tests/support/support.h"

namespace tenfold {
namespace {

using test::message_of;
using test::Place;
using test::places;
using torch::Tensor;
using Three = std::array<Tensor, 3>;

struct Shape {
  int64_t batch, heads, queries, keys, width;
  bool causal;
};
const std::vector<Shape> kShapes = {{1, 1, 1, 1, 32, true},     {2, 2, 5, 5, 32, true},  {1, 2, 65, 65, 64, true},
                                    {2, 1, 33, 70, 128, false}, {1, 1, 17, 4, 64, true}, {1, 3, 4, 17, 64, true}};

Three arguments(const Shape& s, const Place& place) {
  const auto values = [&](int64_t length) {
    return torch::randn({s.batch, s.heads, length, s.width}).to(place.device, place.type);
  };
  return {values(s.queries), values(s.keys), values(s.keys)};
}

/// The result and the three gradients of sum(result * weights).
template <class Attention>
std::vector<Tensor> results(const Attention& attention, const Three& given, const Tensor& weights, bool causal) {
  Three inputs;
  for (size_t i = 0; i < 3; ++i) inputs[i] = given[i].detach().clone().requires_grad_();
  const Tensor out = attention(inputs[0], inputs[1], inputs[2], causal);
  out.backward(weights);
  return {out.detach(), inputs[0].grad(), inputs[1].grad(), inputs[2].grad()};
}

TEST(FlashAttentionTorch, ForwardAndGradientsAreThoseOfAtenInFloat64) {
  torch::manual_seed(46);
  for (const Place& place : places()) {
    for (const Shape& shape : kShapes) {
      const Three given = arguments(shape, place);
      const Tensor weights = torch::randn_like(given[0]);
      Three wide;
      for (size_t i = 0; i < 3; ++i) wide[i] = given[i].cpu().to(torch::kDouble);
      const auto ours = results(fused::flash_attention, given, weights, shape.causal);
      const auto expected =
          results(fused::reference::flash_attention, wide, weights.cpu().to(torch::kDouble), shape.causal);
      for (size_t i = 0; i < expected.size(); ++i) {
        const std::string what =
            c10::str(given[0].sizes(), ", keys ", shape.keys, " ", place.device, " ", c10::toString(place.type)) +
            (i == 0 ? ": result" : ": gradient " + std::to_string(i));
        ASSERT_EQ(ours[i].scalar_type(), place.type) << what;
        ASSERT_EQ(ours[i].sizes(), expected[i].sizes()) << what;
        // Sums over keys and queries: their errors are small beside the largest entry, not beside each.
        const double largest = expected[i].abs().max().item<double>();
        const double worst = (ours[i].cpu().to(torch::kDouble) - expected[i]).abs().max().item<double>();
        EXPECT_LE(worst, 8 * place.unit * (largest + 1)) << what;
        EXPECT_TRUE(ours[i].isfinite().all().item<bool>()) << what;
      }
    }
  }
}

// As they come from a model: heads cut out of one product and transposed, and a gradient that is one number, expanded.
TEST(FlashAttentionTorch, InputsThatAreNotContiguousAreRead) {
  torch::manual_seed(47);
  for (const Place& place : places()) {
    const auto parts = torch::randn({2, 9, 3, 2, 32}).to(place.device, place.type).permute({2, 0, 3, 1, 4}).unbind(0);
    ASSERT_FALSE(parts[0].is_contiguous());
    const Three straight{parts[0].contiguous(), parts[1].contiguous(), parts[2].contiguous()};
    const auto gradients = [&](const Three& from) {
      Three inputs;
      for (size_t i = 0; i < 3; ++i) inputs[i] = from[i].detach().requires_grad_();
      fused::flash_attention(inputs[0], inputs[1], inputs[2], true).sum().backward();
      return Three{inputs[0].grad(), inputs[1].grad(), inputs[2].grad()};
    };
    EXPECT_TRUE(torch::equal(fused::flash_attention(parts[0], parts[1], parts[2], true),
                             fused::flash_attention(straight[0], straight[1], straight[2], true)));
    const Three ours = gradients({parts[0], parts[1], parts[2]}), expected = gradients(straight);
    for (size_t i = 0; i < 3; ++i) EXPECT_TRUE(torch::equal(ours[i], expected[i])) << i;
  }
}

// Self-attention of a tensor with itself, and a gradient that is the result: reading one tensor twice is no overlap.
TEST(FlashAttentionTorch, OneTensorMayBeAllThree) {
  torch::manual_seed(49);
  const Tensor x = torch::randn({1, 2, 7, 32}), wide = x.to(torch::kDouble);
  const Tensor ours = x.clone().requires_grad_(), expected = wide.clone().requires_grad_();
  const Tensor out = fused::flash_attention(ours, ours, ours, true);
  out.backward(out.detach());
  const Tensor reference = fused::reference::flash_attention(expected, expected, expected, true);
  reference.backward(reference.detach());
  EXPECT_TRUE(torch::allclose(ours.grad().to(torch::kDouble), expected.grad(), 1e-4, 1e-5));
}

// Independent of ATen's derivative: its forward in float64, by central differences.
TEST(FlashAttentionTorch, GradientsAreFiniteDifferences) {
  torch::manual_seed(48);
  for (const Place& place : places()) {
    if (place.type != torch::kFloat) continue;
    const Three given = arguments({1, 1, 3, 4, 32, false}, place);
    const Tensor weights = torch::randn_like(given[0]);
    const auto ours = results(fused::flash_attention, given, weights, false);
    Three wide;
    for (size_t i = 0; i < 3; ++i) wide[i] = given[i].cpu().to(torch::kDouble);
    const Tensor wide_weights = weights.cpu().to(torch::kDouble);
    for (size_t input = 0; input < 3; ++input) {
      for (int64_t i = 0; i < wide[input].numel(); i += 5) {
        const auto at = [&](double step) {
          Three moved = wide;
          moved[input] = wide[input].clone();
          moved[input].view(-1)[i] += step;
          return (fused::reference::flash_attention(moved[0], moved[1], moved[2], false) * wide_weights)
              .sum()
              .item<double>();
        };
        const double slope = (at(1e-5) - at(-1e-5)) / 2e-5;
        EXPECT_NEAR(ours[input + 1].reshape(-1)[i].item<double>(), slope, 2e-5 * (1 + std::abs(slope)))
            << "input " << input << ", entry " << i;
      }
    }
  }
}

TEST(FlashAttentionTorch, MisuseIsNamed) {
  const Tensor q = torch::randn({1, 2, 4, 32});
  const auto refusal = [](const Tensor& a, const Tensor& b, const Tensor& c) {
    return message_of<c10::Error>([&] { fused::flash_attention(a, b, c, false); });
  };
  const auto has = [](const std::string& message, const char* part) { return message.find(part) != std::string::npos; };
  EXPECT_TRUE(has(refusal(q[0], q[0], q[0]), "q must have shape (batch, heads, length, head_dim)"));
  EXPECT_TRUE(has(refusal(q, q, Tensor()), "v must have shape"));
  EXPECT_TRUE(has(refusal(q.to(torch::kDouble), q, q), "takes float, half and bfloat16, not Double"));
  EXPECT_TRUE(has(refusal(q, q.to(torch::kHalf), q), "k is Half on cpu and q Float on cpu"));
  EXPECT_TRUE(has(refusal(q, torch::randn({1, 1, 4, 32}), q), "only their lengths may differ"));
  EXPECT_TRUE(has(refusal(q, q, torch::randn({1, 2, 5, 32})), "k has length 4 and v 5"));
  const Tensor narrow = torch::randn({1, 1, 4, 16});
  EXPECT_TRUE(has(refusal(narrow, narrow, narrow), "head_dim is 16; it must be 32, 64 or 128"));
  const Tensor input = q.clone().requires_grad_(), sum = fused::flash_attention(input, q, q, true).square().sum();
  const auto second_order = [&] {
    torch::autograd::grad({sum}, {input}, {}, /*retain_graph=*/true, /*create_graph=*/true);
  };
  EXPECT_TRUE(has(message_of<c10::Error>(second_order), "create_graph"));
}

TEST(FlashAttentionTorch, WithoutGradModeNothingIsRecorded) {
  const torch::NoGradGuard no_grad;
  const Tensor q = torch::randn({1, 1, 3, 32}).requires_grad_();
  EXPECT_FALSE(fused::flash_attention(q, q, q, true).requires_grad());
}

}  // namespace
}  // namespace tenfold
