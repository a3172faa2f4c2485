#pragma once
// AdamW: its rungs and shapes, what it needs, and its launch under the microscope.

#include <numeric>
#include <span>

#include "common/kernel_page/kernel_case.h"
#include "kernels/adamw/adamw.h"

namespace tenfold::kernels {

/// The values of all tensors of a GPT, in its order: two embeddings, the blocks, the last norm.
struct GptSizes {
  int64_t layers = 12, width = 768, vocabulary = 50304, length = 1024;

  std::vector<int64_t> tensors() const {
    std::vector<int64_t> all = {vocabulary * width, length * width};
    for (int64_t layer = 0; layer < layers; ++layer) {
      // Weights and biases of a block's four products, and of its two norms.
      for (const int64_t size : {3 * width * width, 3 * width, width * width, width, 4 * width * width, 4 * width,
                                 4 * width * width, width, width, width, width, width})
        all.push_back(size);
    }
    all.insert(all.end(), {width, width});
    return all;
  }
  int64_t count() const {
    const std::vector<int64_t> all = tensors();
    return std::accumulate(all.begin(), all.end(), int64_t{0});
  }
};

/// `tensors` parameters of `values` values with their averages and gradients.
struct AdamWBuffers {
  using Tensors = std::vector<simt::Buffer<float>>;

  AdamWBuffers(simt::Device& device, int64_t tensors, int64_t values) : device_(&device) {
    for (int64_t i = 0; i < tensors; ++i) {
      parameters.push_back(device.buffer<float>("parameter", values));
      averages.push_back(device.buffer<float>("average", values));
      square_averages.push_back(device.buffer<float>("square_average", values));
      gradients.push_back(device.buffer<float>("gradient", values));
    }
  }
  void launch(const AdamWSettings& settings, int64_t step, int rung) const {
    std::vector<AdamWTensor> list;
    for (size_t i = 0; i < parameters.size(); ++i) {
      list.push_back({parameters[i].data(), averages[i].data(), square_averages[i].data(), gradients[i].data(),
                      parameters[i].size()});
    }
    adamw(device_, std::span<const AdamWTensor>(list), settings, step, rung);
  }

  Tensors parameters, averages, square_averages, gradients;

 private:
  simt::Stream device_;
};

inline std::vector<simt::Rung> adamw_rungs() {
  return {
      {"per tensor", "A launch for each tensor, however small."},
      {"one launch", "The list of tensors travels with the launch, and each block finds the chunk that is its own."},
      {"vectorised", "A thread moves 16 bytes per access where a tensor's addresses allow it."}};
}

/// Modelled as one tensor of as many values as all tensors of the GPT that is timed have.
inline simt::Pass adamw_pass() {
  return {.name = "adamw",
          .rungs = names_of(adamw_rungs()),
          .shape = {{"count", GptSizes{}.count()}},
          .type = simt::ValueType::float32,
          .work =
              [](const simt::Shape& shape, int64_t value_bytes) {
                const int64_t count = shape.at("count");
                // Averages 3 and 4; the change 6, among them a root and a division; subtract it. Four values are read
                // and three written.
                return simt::Work{.flops = 14.0 * static_cast<double>(count), .least_bytes = 7 * count * value_bytes};
              },
          .launch =
              [](simt::Device& device, const simt::Shape& shape, int rung) {
                const AdamWBuffers buffers(device, 1, shape.at("count"));
                simt::fill_repeating(
                    {buffers.parameters[0], buffers.averages[0], buffers.square_averages[0], buffers.gradients[0]});
                for (float& value : buffers.square_averages[0]) value *= value;
                buffers.launch({}, 1, rung);
              }};
}

inline simt::KernelCase adamw_case() {
  return {.name = "adamw",
          .title = "A step of AdamW for many float tensors",
          .shape = {{"tensors", 32}, {"values", 3000}},
          .rungs = adamw_rungs(),
          .passes = {adamw_pass()}};
}

}  // namespace tenfold::kernels
