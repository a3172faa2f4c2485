#include "attention_survey.h"

#include <cuda_bf16.h>

#include <algorithm>
#include <string>
#include <type_traits>

#include "common/measure/counted.h"
#include "kernels/flash_attention/flash_attention.h"
#include "kernels/kernel_survey.h"

namespace tenfold::inline lesson_46 {
namespace {

using torch::Tensor;

constexpr int64_t kWidth = 32;

/// Calls count(length) for each length that is counted.
template <class Count>
void for_each_length(const Trial& trial, const Count& count) {
  const int64_t longest = trial.get(kLongest);
  for (const int64_t length : {longest / 4, longest / 2, longest}) count(length);
}

/// "T =  64", so that notes sort by length.
std::string text_of(int64_t length) {
  const std::string digits = std::to_string(length);
  return "T = " + std::string(digits.size() < 3 ? 3 - digits.size() : 0, ' ') + digits;
}

double pairs(int64_t length) { return static_cast<double>(length * length); }

/// A buffer with these values, rounded to T.
template <class T>
simt::Buffer<T> filled(simt::Device& device, const char* name, const Tensor& values) {
  auto buffer = device.buffer<T>(name, values.numel());
  const auto* from = values.const_data_ptr<float>();
  std::transform(from, from + values.numel(), buffer.begin(), [](float value) { return static_cast<T>(value); });
  return buffer;
}

template <class T>
Tensor floats_of(const simt::Buffer<T>& buffer) {
  Tensor values = torch::empty({buffer.size()});
  std::transform(buffer.begin(), buffer.end(), values.mutable_data_ptr<float>(),
                 [](T value) { return static_cast<float>(value); });
  return values;
}

template <class T>
simt::Report count_rung(int64_t length, int rung) {
  torch::manual_seed(46);
  const Tensor q = torch::randn({1, 1, length, kWidth}), k = torch::randn_like(q), v = torch::randn_like(q);
  const Tensor expected = at::scaled_dot_product_attention(q, k, v).flatten();
  const double tolerance =
      std::is_same_v<T, float> ? 1e-5 : 0.02;  // two roundings to 8 bits, of weights and of values around 1
  return under_microscope([&](simt::Device& device) {
    const kernels::AttentionShape shape{.queries = length, .keys = length, .head_dim = kWidth};
    const auto in_q = filled<T>(device, "q", q), in_k = filled<T>(device, "k", k), in_v = filled<T>(device, "v", v);
    const auto out = device.buffer<T>("out", length * kWidth);
    const auto logsumexp = device.buffer<float>("logsumexp", length),
               scores = device.buffer<float>("scores", length * length);
    kernels::flash_attention(&device, out.data(), logsumexp.data(), scores.data(), in_q.data(), in_k.data(),
                             in_v.data(), shape, rung);
    return torch::allclose(floats_of(out), expected, tolerance, tolerance);
  });
}

}  // namespace

void note_attention_operators(const Trial& trial, Attention attention) {
  for_each_length(trial, [&](int64_t length) {
    const torch::NoGradGuard forward_only;
    const Counted counted = count_step(torch::kCPU, [&] {
      const Tensor q = torch::randn({1, 1, length, kWidth}), k = torch::randn_like(q), v = torch::randn_like(q);
      return Step{1, Parameters(), [=] { return attention(q, k, v); }};
    });
    trial.note("operators, " + text_of(length), counted.whole.operator_bytes / pairs(length), "bytes/pair");
  });
}

void note_attention_kernels(const Trial& trial) {
  for_each_length(trial, [&](int64_t length) {
    for (int rung = 0; rung < kernels::kFlashAttentionRungs<__nv_bfloat16>; ++rung) {
      const bool tensor_cores = rung >= kernels::kFlashAttentionRungs<float>;
      const simt::Report report =
          tensor_cores ? count_rung<__nv_bfloat16>(length, rung) : count_rung<float>(length, rung);
      const std::string name =
          "rung " + std::to_string(rung) + (tensor_cores ? " in bfloat16, " : ", ") + text_of(length);
      const auto dram = static_cast<double>(report.unique_bytes_read + report.unique_bytes_written);
      trial.note(name + ": requests", 32.0 * static_cast<double>(report.sectors()) / pairs(length), "bytes/pair");
      trial.note(name + ": DRAM at least", dram / pairs(length), "bytes/pair");
    }
  });
}

}  // namespace tenfold::inline lesson_46
