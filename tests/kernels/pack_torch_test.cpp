// The LibTorch binding of pack and unpack against ATen: values, gradients, misuse.
#include <gtest/gtest.h>

#include "kernels/pack/pack_torch.h"

#include <string>
#include <vector>

#include "tests/support/places.h"
#include "tests/support/support.h"

namespace tenfold {
namespace {

using test::devices;
using torch::Tensor;

struct Given {
  std::vector<int64_t> lengths;
  int64_t length;
  std::vector<int64_t> rest;  ///< sizes of a row
};

const std::vector<Given> kGiven = {{{1}, 1, {}}, {{3, 0, 5}, 5, {7}}, {{0, 2, 2, 0}, 2, {3, 8}}, {{4, 4}, 4, {64}}};

Tensor offsets_of(const std::vector<int64_t>& lengths, at::ScalarType type, torch::Device device) {
  std::vector<int64_t> begin{0};
  for (const int64_t length : lengths) begin.push_back(begin.back() + length);
  return torch::tensor(begin).to(device, type);
}

std::vector<int64_t> sizes_with(std::vector<int64_t> first, const std::vector<int64_t>& rest) {
  first.insert(first.end(), rest.begin(), rest.end());
  return first;
}

/// out = apply(in), and the gradient of sum(out * weights) with respect to `in`.
template <class Apply>
std::pair<Tensor, Tensor> run(const Tensor& values, const Apply& apply, const Tensor& weights) {
  const Tensor in = values.detach().clone().requires_grad_();
  const Tensor out = apply(in);
  (out * weights).sum().backward();
  return {out.detach(), in.grad()};
}

/// fn(device, type of values, type of offsets, case) for all of them.
template <class Function>
void for_all(const Function& fn) {
  torch::manual_seed(0);
  for (const auto& device : devices()) {
    for (const auto type : {torch::kFloat, torch::kHalf, torch::kBFloat16}) {
      for (const auto offset : {torch::kInt, torch::kLong}) {
        for (const Given& given : kGiven)
          fn(torch::dtype(type).device(device), offsets_of(given.lengths, offset, device), given);
      }
    }
  }
}

TEST(PackTorch, PacksAsATenDoesForwardAndBackward) {
  for_all([](const at::TensorOptions& options, const Tensor& cu_seqlens, const Given& given) {
    const int64_t total = cu_seqlens[-1].item<int64_t>(), batch = cu_seqlens.size(0) - 1;
    const Tensor padded = torch::randn(sizes_with({batch, given.length}, given.rest), options);
    const Tensor weights = torch::randn(sizes_with({total}, given.rest), options);
    const auto [ours, grad] = run(padded, [&](const Tensor& x) { return fused::pack(x, cu_seqlens, total); }, weights);
    const auto [theirs, their_grad] =
        run(padded, [&](const Tensor& x) { return fused::reference::pack(x, cu_seqlens, total); }, weights);
    EXPECT_TRUE(torch::equal(ours, theirs));
    EXPECT_TRUE(torch::equal(grad, their_grad));
  });
}

TEST(PackTorch, UnpacksAsATenDoesForwardAndBackward) {
  for_all([](const at::TensorOptions& options, const Tensor& cu_seqlens, const Given& given) {
    const int64_t total = cu_seqlens[-1].item<int64_t>(), batch = cu_seqlens.size(0) - 1;
    const Tensor packed = torch::randn(sizes_with({total}, given.rest), options);
    const Tensor weights = torch::randn(sizes_with({batch, given.length}, given.rest), options);
    const auto ours_of = [&](const Tensor& x) { return fused::unpack(x, cu_seqlens, given.length, -1.5); };
    const auto theirs_of = [&](const Tensor& x) { return fused::reference::unpack(x, cu_seqlens, given.length, -1.5); };
    const auto [ours, grad] = run(packed, ours_of, weights);
    const auto [theirs, their_grad] = run(packed, theirs_of, weights);
    EXPECT_TRUE(torch::equal(ours, theirs));
    EXPECT_TRUE(torch::equal(grad, their_grad));
  });
}

TEST(PackTorch, InputsThatAreNotContiguousAndGradientsThatAreExpanded) {
  const Tensor offsets = torch::tensor({0, 9, 2, 9, 2, 9, 5, 9}, torch::kInt).slice(0, 0, 8, 2);  // 0 2 2 5
  const Tensor padded = torch::randn({4, 3, 3}).permute({2, 1, 0}).requires_grad_();
  const Tensor packed = fused::pack(padded, offsets, 5);
  EXPECT_TRUE(torch::equal(packed, fused::reference::pack(padded, offsets.contiguous(), 5)));
  packed.sum().backward();
  EXPECT_EQ(padded.grad().sum().item<float>(), 5 * 4);
  const Tensor rows = torch::randn({4, 5}).t().requires_grad_(), back = fused::unpack(rows, offsets, 3);
  EXPECT_TRUE(torch::equal(back, fused::reference::unpack(rows, offsets.contiguous(), 3)));
  back.sum().backward();
  EXPECT_TRUE(torch::equal(rows.grad(), torch::ones({5, 4})));
}

TEST(PackTorch, NothingButEmptySequences) {
  const Tensor offsets = torch::zeros({3}, torch::kLong);
  const Tensor padded = torch::randn({2, 4, 3}).requires_grad_(), packed = fused::pack(padded, offsets, 0);
  EXPECT_EQ(packed.sizes(), (std::vector<int64_t>{0, 3}));
  packed.sum().backward();
  EXPECT_TRUE(torch::equal(padded.grad(), torch::zeros({2, 4, 3})));
  const Tensor rows = torch::randn({0, 3}).requires_grad_(), back = fused::unpack(rows, offsets, 4, 2);
  EXPECT_TRUE(torch::equal(back, torch::full({2, 4, 3}, 2.0)));
  back.sum().backward();
  EXPECT_EQ(rows.grad().sizes(), (std::vector<int64_t>{0, 3}));
}

TEST(PackTorch, MisuseIsNamed) {
  const auto message = [](auto call) { return test::message_of<c10::Error>(call); };
  const auto has = [](const std::string& text, const char* part) { return text.find(part) != std::string::npos; };
  const Tensor padded = torch::randn({2, 3, 4}), packed = torch::randn({5, 4}),
               offsets = torch::tensor({0, 2, 5}, torch::kInt);
  EXPECT_TRUE(has(message([&] { fused::pack(padded.to(torch::kDouble), offsets, 5); }),
                  "takes float, half and bfloat16, not Double"));
  EXPECT_TRUE(has(message([&] { fused::pack(padded, offsets.to(torch::kFloat), 5); }),
                  "cu_seqlens must be int32 or int64, not Float"));
  EXPECT_TRUE(
      has(message([&] { fused::pack(padded, torch::tensor({0, 5}, torch::kInt), 5); }), "(batch, length, ...)"));
  EXPECT_TRUE(has(message([&] { fused::pack(torch::randn({2}), offsets, 5); }), "(batch, length, ...)"));
  EXPECT_TRUE(has(message([&] { fused::pack(padded, offsets, -1); }), "a total of -1 rows"));
  EXPECT_TRUE(has(message([&] { fused::pack(torch::randn({2, 3, 0}), offsets, 5); }), "has no element"));
  EXPECT_TRUE(has(message([&] { fused::pack(padded, Tensor(), 5); }), "must be on the CPU or on CUDA"));
  EXPECT_TRUE(
      has(message([&] { fused::unpack(packed, offsets.unsqueeze(0), 3); }), "cu_seqlens must have shape (batch + 1)"));
  EXPECT_TRUE(has(message([&] { fused::unpack(packed, offsets, 0); }), "the length be at least 1"));
  EXPECT_TRUE(has(message([&] { fused::unpack(torch::randn({5, 0}), offsets, 3); }), "has no element"));
  const Tensor input = padded.clone().requires_grad_(), sum = fused::pack(input, offsets, 5).square().sum();
  const auto second_order = [&] {
    torch::autograd::grad({sum}, {input}, {}, /*retain_graph=*/true, /*create_graph=*/true);
  };
  EXPECT_TRUE(has(message(second_order), "create_graph"));
}

}  // namespace
}  // namespace tenfold
