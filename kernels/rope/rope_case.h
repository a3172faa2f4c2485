#pragma once
// RoPE: its rungs and shapes, what it needs, and its launch under the microscope.

#include <cuda_bf16.h>

#include "common/kernel_page/kernel_case.h"
#include "kernels/rope/rope.h"

namespace tenfold::kernels {

/// Its buffers, values of type T; tables in float.
template <class T>
struct RopeBuffers {
  simt::Stream device;
  int64_t tokens, heads, head_dim, positions, of_table = positions * head_dim / 2;
  simt::Buffer<T> values = device->buffer<T>("values", tokens * heads * head_dim);
  simt::Buffer<float> cosines = device->buffer<float>("cosines", of_table),
                      sines = device->buffer<float>("sines", of_table);

  void launch(int rung) const {
    rope(device, values.data(), cosines.data(), sines.data(), tokens, heads, head_dim, positions, Rotation::forward,
         rung);
  }
};

inline std::vector<simt::Rung> rope_rungs() {
  return {{"elements",
           "A thread per element reads its partner's value as well: all is read twice, with a barrier between."},
          {"pairs", "A thread has a pair to itself, for all heads: values are read once, and so are the tables."},
          {"vectorised", "A thread moves four neighbouring pairs, 16 bytes per access."}};
}

inline simt::Pass rope_pass() {
  return {.name = "rope",
          .rungs = names_of(rope_rungs()),
          .shape = {{"tokens", 32768}, {"heads", 16}, {"head_dim", 128}, {"positions", 4096}},
          .work =
              [](const simt::Shape& shape, int64_t value_bytes) {
                const int64_t values = shape.at("tokens") * shape.at("heads") * shape.at("head_dim");
                const int64_t tables = shape.at("positions") * shape.at("head_dim");
                // Two products and a sum.
                return simt::Work{
                    .flops = 3.0 * static_cast<double>(values),
                    .least_bytes = 2 * values * value_bytes + tables * static_cast<int64_t>(sizeof(float))};
              },
          .launch =
              [](simt::Device& device, const simt::Shape& shape, int rung) {
                const RopeBuffers<__nv_bfloat16> buffers{&device, shape.at("tokens"), shape.at("heads"),
                                                         shape.at("head_dim"), shape.at("positions")};
                simt::fill_repeating({buffers.values});
                simt::fill_repeating({buffers.cosines, buffers.sines});
                buffers.launch(rung);
              }};
}

inline simt::KernelCase rope_case() {
  return {.name = "rope",
          .title = "Rotary position embedding of a float tensor, in place",
          .shape = {{"tokens", 32}, {"heads", 8}, {"head_dim", 128}},
          .rungs = rope_rungs(),
          .passes = {rope_pass()}};
}

}  // namespace tenfold::kernels
