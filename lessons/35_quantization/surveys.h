#pragma once
// What lesson 35 counts without timing: the bytes of a model in a file and in memory, by two counts; what a sum of 16
// bits does to products of 8; and what PyTorch says to a tensor on a GPU.

#include <torch/torch.h>

#include <malloc.h>

#include <cstdint>
#include <string>
#include <vector>

#include "common/harness/lesson.h"
#include "common/measure/memory.h"
#include "forms.h"
#include "inference.h"

namespace tenfold::inline lesson_35 {

/// Bytes that malloc has handed out in this process, whoever asked; 0 where another allocator stands in its place.
inline int64_t malloc_bytes() {
  const struct mallinfo2 all = mallinfo2();
  return static_cast<int64_t>(all.uordblks + all.hblkhd);
}

/// Bytes of an archive of these tensors, as torch::save writes it.
inline int64_t file_bytes(const std::vector<torch::Tensor>& tensors) {
  torch::serialize::OutputArchive archive;
  for (size_t i = 0; i < tensors.size(); ++i) archive.write(std::to_string(i), tensors[i].detach(), /*is_buffer=*/true);
  int64_t bytes = 0;
  archive.save_to([&](const void*, size_t count) {
    bytes += static_cast<int64_t>(count);
    return count;
  });
  return bytes;
}

using MakeFormOf = MakeForm (*)(const Trial&);
using Quantize = EightBitRows (*)(const torch::Tensor&);

/// A line of a survey of sizes: a model whose linear layers have the form that `make_form` makes, null for as they are;
/// `quantize` gives what a file has of it.
inline Look size_look(const std::string& name, MakeFormOf make_form, Quantize quantize) {
  return {name, [=](const Trial& trial) {
            constexpr double kMiB = 1 << 20;
            const MakeForm make = make_form == nullptr ? nullptr : make_form(trial);
            // What a workload keeps for all is there from now on.
            if (trial.workload == gpt_workload) {
              shakespeare_tokens(gpt_options(trial).tokens, /*train=*/true);
            } else {
              fashion_mnist(/*train=*/true);
            }
            const CountCpuMemory counting;
            const int64_t before = live_bytes(trial.device), malloc_before = malloc_bytes();
            Model model = make_model(trial);
            std::vector<torch::Tensor> saved;
            for (const auto& layer : model.linears) {
              if (make == nullptr) break;
              const EightBitRows rows = quantize(layer->weight);
              saved.insert(saved.end(), {rows.codes, rows.scales});
            }
            if (make != nullptr) {
              model.forms->replace(model.linears, make);
              OtherLinears::release(model.linears);
            }
            for (const auto& parameter : model.parameters)
              if (parameter.value().numel() > 0) saved.push_back(parameter.value());
            if (trial.device.is_cpu()) trial.note("file", static_cast<double>(file_bytes(saved)) / kMiB, "MiB");
            saved.clear();
            trial.note("PyTorch counts", static_cast<double>(live_bytes(trial.device) - before) / kMiB, "MiB");
            const int64_t outside = model.forms->outside_bytes();
            trial.note("outside it, by formula", static_cast<double>(outside) / kMiB, "MiB");
            if (trial.device.is_cpu() && malloc_before > 0)
              trial.note("malloc counts", static_cast<double>(malloc_bytes() - malloc_before) / kMiB, "MiB");
          }};
}

/// Survey `name`: every form's size.
inline Survey size_survey(const std::string& name, std::vector<Assignment> settings, const Workload& workload) {
  return {
      .name = name,
      .looks = {size_look("fp32", nullptr, nullptr), size_look("dynamic int8", dynamic_int8, int8_rows),
                size_look("int8 weights", int8_weights, int8_rows), size_look("fp8 weights", fp8_weights, fp8_rows)},
      .settings = std::move(settings),
      .of_memory = true,
      .workload = workload};
}

/// How far a product of activations and weights that are all positive and large is off: what saturates the sums first.
/// In parts of its norm.
inline double saturation_error(bool reduce_range) {
  const torch::NoGradGuard no_graph;
  constexpr int64_t kRows = 16, kInputs = 256, kOutputs = 64;
  const torch::Tensor x = 1 - torch::rand({kRows, kInputs}) / 4, weight = 1 - torch::rand({kOutputs, kInputs}) / 4;
  const torch::Tensor exact = torch::nn::functional::linear(x, weight);
  const torch::Tensor found = dynamic_int8_product(x, pack_int8(int8_rows(weight), {}), reduce_range);
  return ((found - exact).norm() / exact.norm()).item<double>();
}

inline Look saturation_look(const std::string& name, bool reduce_range) {
  return {name, [reduce_range](const Trial& trial) {
            if (!has_int8_products()) trial.skip("needs FBGEMM: a CPU of x86 with AVX2");
            trial.note("error of the product", 100 * saturation_error(reduce_range), "%");
          }};
}

/// Article D's snippet where it says that it saves memory: a dynamically quantized layer and a batch on a GPU. Notes
/// how many of its calls ran.
inline Look as_printed_look() {
  return {"as printed", [](const Trial& trial) {
            if (trial.device.is_cpu()) trial.skip("needs a CUDA device: the claim is about its memory");
            if (!has_int8_products()) trial.skip("needs FBGEMM: a CPU of x86 with AVX2");
            const torch::NoGradGuard no_graph;
            const auto packed = pack_int8(int8_rows(torch::ones({8, 8})), {});
            double ran = 1;
            try {
              dynamic_int8_product(torch::ones({4, 8}, trial.device), packed);
            } catch (const c10::NotImplementedError&) {
              ran = 0;  // "Could not run 'quantized::linear_dynamic' with arguments from the 'CUDA' backend."
            }
            trial.note("ran", ran, "of 1 calls");
          }};
}

}  // namespace tenfold::inline lesson_35
