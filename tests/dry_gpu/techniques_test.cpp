// What headers of lessons do on CUDA that a CPU does not show: which kernel a part of attention or packed attention
// takes, which one ATen chooses, how often a background checkpoint waits, and on which stream gradients are
// accumulated. Started with the stand-ins and the arithmetic preloaded.

#include <ATen/cuda/CUDAContext.h>
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDAGuard.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <ATen/record_function.h>

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/measure/dry.h"
#include "lessons/15_variable_length/varlen_attention.h"
#include "lessons/53_zero/zero.h"
#include "lessons/57_faults/background_checkpoint.h"
#include "lessons/58_context_parallel/attention_block.h"
#include "tests/support/rank_threads.h"
#include "tests/support/support.h"

namespace tenfold {
namespace {

using torch::Tensor;

const torch::Device kCard(torch::kCUDA, 0);

/// Operators of a prefix that this thread has called.
thread_local std::set<std::string> called;
thread_local std::string watched;

std::set<std::string> operators_of(const std::string& prefix, const std::function<void()>& work) {
  called.clear();
  watched = "aten::" + prefix;
  const auto observer = at::addThreadLocalCallback(
      at::RecordFunctionCallback([](const at::RecordFunction& op) -> std::unique_ptr<at::ObserverContext> {
        const std::string name = op.name();
        if (name.starts_with(watched)) called.insert(name.substr(6));
        return nullptr;
      }).scopes({at::RecordScope::FUNCTION}));
  work();
  at::removeCallback(observer);
  return called;
}

std::set<std::string> attention_of(const std::function<void()>& work) {
  return operators_of("_scaled_dot_product", work);
}

struct Attended {
  Tensor out;
  QkvGradients of;
};

/// Queries of the second half of a sequence, whose keys come in two parts, as in a ring of two ranks: the first half is
/// seen whole, the second with a mask. Results in 32 bits on the CPU.
Attended in_two_parts(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& gradient) {
  const int64_t half = q.size(2);
  const auto part = [&](const Tensor& t, int64_t number) { return t.narrow(2, number * half, half); };
  auto [out, lse] = attention_block(q, part(k, 1), part(v, 1), /*causal=*/true);
  out = out.to(lse.scalar_type());
  const auto [other, other_lse] = attention_block(q, part(k, 0), part(v, 0), /*causal=*/false);
  RescaleParts::merge(out, lse, other, other_lse);
  out = out.to(q.scalar_type());
  const auto own = attention_block_backward(gradient, q, part(k, 1), part(v, 1), out, lse, /*causal=*/true);
  const auto first = attention_block_backward(gradient, q, part(k, 0), part(v, 0), out, lse, /*causal=*/false);
  const auto wide = [](const Tensor& t) { return t.to(torch::kFloat).cpu(); };
  return {wide(out),
          {wide(own.q) + wide(first.q), torch::cat({wide(first.k), wide(own.k)}, 2),
           torch::cat({wide(first.v), wide(own.v)}, 2)}};
}

TEST(AttentionBlock, TakesFlashAttentionIn16BitsWhereTheCardHasIt) {
  const bool has_flash = at::cuda::getCurrentDeviceProperties()->major >= 8;
  const auto random = [](int64_t tokens, uint64_t seed) { return test::random({2, 3, tokens, 16}, seed); };
  const Tensor q = random(32, 1), k = random(64, 2), v = random(64, 3), gradient = random(32, 4);
  const Attended expected = in_two_parts(q, k, v, gradient);
  taken_without_arithmetic();
  for (const auto type : {torch::kFloat, torch::kHalf, torch::kBFloat16}) {
    if (type == torch::kBFloat16 && !has_flash) continue;
    const auto on_card = [&](const Tensor& t) { return t.to(kCard, type); };
    Attended attended;
    const auto operators =
        attention_of([&] { attended = in_two_parts(on_card(q), on_card(k), on_card(v), on_card(gradient)); });
    const std::string kernel = type != torch::kFloat && has_flash ? "flash" : "efficient";
    EXPECT_THAT(operators, testing::ElementsAre("_scaled_dot_product_" + kernel + "_attention",
                                                "_scaled_dot_product_" + kernel + "_attention_backward"));
    // Of size 1, in 8 to 24 bits: a part that is lost, or weighted wrongly, moves them by some tenths.
    const double tolerance = type == torch::kFloat ? 1e-4 : 5e-2;
    const auto expect_close = [&](const Tensor& a, const Tensor& b) {
      EXPECT_LT((a - b).abs().max().item<double>(), tolerance) << type;
    };
    expect_close(attended.out, expected.out);
    expect_close(attended.of.q, expected.of.q);
    expect_close(attended.of.k, expected.of.k);
    expect_close(attended.of.v, expected.of.v);
  }
  EXPECT_THAT(taken_without_arithmetic(), testing::IsEmpty());
}

// FlashAttention takes few keys and values for many query heads as they are; the other kernel gets copies.
TEST(AttentionBlock, GroupedHeadsAreThoseOfRepeatedKeys) {
  const bool has_flash = at::cuda::getCurrentDeviceProperties()->major >= 8;
  const auto random = [](int64_t heads, int64_t tokens, uint64_t seed) {
    return test::random({2, heads, tokens, 16}, seed);
  };
  const Tensor q = random(6, 32, 1), k = random(2, 64, 2), v = random(2, 64, 3), gradient = random(6, 32, 4);
  const Attended expected = in_two_parts(q, expand_heads(k, 6), expand_heads(v, 6), gradient);
  const auto sum = [](const Tensor& all) { return all.unflatten(1, {2, 3}).sum(2); };
  for (const auto type : {torch::kFloat, torch::kHalf}) {
    const auto on_card = [&](const Tensor& t) { return t.to(kCard, type); };
    Attended attended;
    const auto operators =
        attention_of([&] { attended = in_two_parts(on_card(q), on_card(k), on_card(v), on_card(gradient)); });
    const std::string kernel = type != torch::kFloat && has_flash ? "flash" : "efficient";
    EXPECT_THAT(operators, testing::ElementsAre("_scaled_dot_product_" + kernel + "_attention",
                                                "_scaled_dot_product_" + kernel + "_attention_backward"));
    // Of some units, in 11 to 24 bits.
    const double tolerance = type == torch::kFloat ? 1e-4 : 5e-2;
    EXPECT_LT((attended.out - expected.out).abs().max().item<double>(), tolerance) << type;
    EXPECT_LT((attended.of.q - expected.of.q).abs().max().item<double>(), tolerance) << type;
    EXPECT_LT((attended.of.k - sum(expected.of.k)).abs().max().item<double>(), tolerance) << type;
    EXPECT_LT((attended.of.v - sum(expected.of.v)).abs().max().item<double>(), tolerance) << type;
  }
}

// A Function runs without gradients, and asks for a kernel that has a backward all the same.
TEST(AttentionBlock, LeavesFlashAttentionWhereItHasNoBackward) {
  const auto* const card = at::cuda::getCurrentDeviceProperties();
  const bool has_limit = (card->major == 8 && card->minor >= 6) || card->major == 12;
  const torch::NoGradGuard no_grad;
  for (const int64_t size : {192, 208, 256}) {
    const Tensor x = torch::zeros({1, 2, 32, size}, torch::TensorOptions(kCard).dtype(torch::kHalf));
    EXPECT_EQ(flash_takes(x, x, x, /*causal=*/true), card->major >= 8 && !(has_limit && size == 208)) << size;
  }
}

TEST(PackedAttention, TakesFlashAttentionIn16BitsWhereTheCardHasIt) {
  const bool has_flash = at::cuda::getCurrentDeviceProperties()->major >= 8;
  EXPECT_EQ(packs_bfloat16(kCard), has_flash);
  const Packing on_host = make_packing({5, 1, 12});
  Packing on_card = on_host;
  on_card.cu_seqlens = on_host.cu_seqlens.to(kCard);
  for (const auto& [type, width] : std::vector<std::pair<torch::ScalarType, int64_t>>{
           {torch::kFloat, 16}, {torch::kHalf, 16}, {torch::kBFloat16, 16}, {torch::kHalf, 208}, {torch::kHalf, 256}}) {
    if (type == torch::kBFloat16 && !has_flash) continue;
    const Tensor rows = test::random({18, 3, 2, width}, 1), weight = test::random({18, 2 * width}, 2);
    const Tensor expected = rows.to(type).to(torch::kFloat).clone().requires_grad_();
    const Tensor of_host = attention_of_each(expected, on_host);
    (of_host * weight).sum().backward();
    const Tensor qkv = rows.to(kCard, type).requires_grad_();
    Tensor out;
    taken_without_arithmetic();
    const bool flash = type != torch::kFloat && width != 208 && has_flash;
    const auto packed = [&] { out = attention_in_one_kernel(qkv, on_card); };
    EXPECT_EQ(operators_of("_flash_attention", packed).empty(), !flash) << type << ", heads of " << width;
    EXPECT_EQ(operators_of("_efficient_attention", packed).empty(), flash) << type << ", heads of " << width;
    (out.to(torch::kFloat) * weight.to(kCard)).sum().backward();
    // Of size 1, in 8 to 24 bits.
    const double tolerance = type == torch::kFloat ? 1e-4 : 5e-2;
    EXPECT_EQ(out.sizes(), of_host.sizes());
    EXPECT_LT((out.to(torch::kFloat).cpu() - of_host).abs().max().item<double>(), tolerance) << type;
    EXPECT_LT((qkv.grad().to(torch::kFloat).cpu() - expected.grad()).abs().max().item<double>(), tolerance) << type;
    EXPECT_THAT(taken_without_arithmetic(), testing::IsEmpty());
  }
}

// What lesson 46's page says of 2.11: grouped heads and bfloat16 have no kernel everywhere, and nobody is told.
TEST(WhichKernelSdpaTakes, IsMathForGroupedHeadsIn32BitsAndForBfloat16OnOldCards) {
  const bool has_flash = at::cuda::getCurrentDeviceProperties()->major >= 8;
  const bool had_cudnn = at::globalContext().userEnabledCuDNNSDP();
  at::globalContext().setSDPUseCuDNN(false);  // which an H100 takes first in 16 bits, grouped heads and masks included
  const auto choice = [](torch::ScalarType type, int64_t groups, bool with_mask) {
    const auto options = torch::TensorOptions(kCard).dtype(type);
    const Tensor q = torch::zeros({1, 8, 32, 64}, options), k = torch::zeros({1, groups, 32, 64}, options);
    const auto mask = with_mask ? std::optional(torch::zeros({32, 32}, options)) : std::nullopt;
    return static_cast<at::SDPBackend>(
        at::_fused_sdp_choice(q, k, k, mask, 0, /*is_causal=*/!with_mask, {}, groups != 8));
  };
  EXPECT_EQ(choice(torch::kFloat, 8, false), at::SDPBackend::efficient_attention);
  EXPECT_EQ(choice(torch::kFloat, 2, false), at::SDPBackend::math);
  EXPECT_EQ(choice(torch::kHalf, 2, false), has_flash ? at::SDPBackend::flash_attention : at::SDPBackend::math);
  EXPECT_EQ(choice(torch::kHalf, 8, true), at::SDPBackend::efficient_attention);
  EXPECT_EQ(choice(torch::kHalf, 2, true), at::SDPBackend::math);
  EXPECT_EQ(choice(torch::kBFloat16, 8, false) == at::SDPBackend::math, !packs_bfloat16(kCard));
  at::globalContext().setSDPUseCuDNN(had_cudnn);
}

TEST(BackgroundCheckpoints, WaitOnceForAllTensors) {
  const test::Scratch scratch;
  const CheckpointFolder folder(scratch.path());
  BackgroundCheckpoints background(folder);
  NamedTensors tensors;
  for (int i = 0; i < 50; ++i) tensors["tensor " + std::to_string(i)] = torch::full({1000}, i, kCard);
  background.save(1, tensors);  // makes the pinned copies
  background.finish();
  for (auto& [name, tensor] : tensors) tensor.add_(100);
  const int64_t before = dry_counts().waits;
  background.save(2, tensors);
  EXPECT_EQ(dry_counts().waits - before, 1);
  for (auto& [name, tensor] : tensors) tensor.zero_();  // too late for the file
  background.finish();
  const NamedTensors saved = folder.load(2);
  for (int i = 0; i < 50; ++i)
    EXPECT_TRUE(torch::equal(saved.at("tensor " + std::to_string(i)), torch::full({1000}, 100.0F + i))) << i;
}

/// Whether a step can be captured as a CUDA graph on another stream than the default one, after three that warm up; the
/// object that shards was made on that stream, or before it.
bool can_be_captured(bool made_on_its_stream) {
  const c10::cuda::CUDAStream stream = c10::cuda::getStreamFromPool(/*isHighPriority=*/false, kCard.index());
  torch::nn::Sequential net(torch::nn::Linear(64, 64));
  net->to(kCard);
  std::optional<ShardedDataParallel> sharded;
  const auto shard = [&] { sharded.emplace(*net, std::vector<ShardedDataParallel::UnitNames>{{"0"}}, nullptr); };
  if (!made_on_its_stream) shard();
  c10::cuda::getDefaultCUDAStream().synchronize();
  const c10::cuda::CUDAStreamGuard guard(stream);
  if (made_on_its_stream) shard();
  const Tensor x = torch::ones({8, 64}, kCard);
  const auto step = [&] {
    sharded->zero_grad();
    sharded->forward(0, x, [&](const Tensor& in) { return net->forward(in); }).sum().backward();
    sharded->finish();
  };
  for (int i = 0; i < 3; ++i) step();
  at::cuda::CUDAGraph graph;
  try {
    graph.capture_begin();
    step();
    graph.capture_end();
  } catch (const c10::Error& error) {
    return false;
  }
  return true;
}

// The node that accumulates a parameter's gradient remembers the stream that was current when it was made.
TEST(Zero, ItsStreamIsTheOneThatItIsMadeOn) {
  EXPECT_TRUE(can_be_captured(true));
  EXPECT_FALSE(can_be_captured(false));
}

}  // namespace
}  // namespace tenfold
