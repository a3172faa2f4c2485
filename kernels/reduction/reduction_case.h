#pragma once
// Sum: its rungs and shapes, what it needs, and its launch under the microscope.

#include "common/kernel_page/kernel_case.h"
#include "kernels/reduction/reduction.h"

namespace tenfold::kernels {

struct ReductionBuffers {
  simt::Stream device;
  int64_t count;
  simt::Buffer<float> in = device->buffer<float>("in", count), out = device->buffer<float>("out", 1);
  simt::Buffer<ReductionWorkspace> workspace = device->buffer<ReductionWorkspace>("workspace", 1);

  void launch(int rung) const {
    workspace[0].blocks_done = 0;
    reduce_sum(device, out.data(), in.data(), count, workspace.data(), rung);
  }
};

inline std::vector<simt::Rung> reduction_rungs() {
  return {
      {"atomic", "Every thread adds its element to the one result, and all of them queue for it."},
      {"interleaved",
       "A block adds up its elements as a tree in shared memory, with partners 1, 2, 4, ... places away."},
      {"sequential", "With partners 128, 64, 32, ... places away, whole warps drop out instead of lanes of all warps."},
      {"grid stride", "A thread adds up many elements as it loads them, before the tree begins."},
      {"shuffles", "The lanes of a warp exchange registers: almost no shared memory and one barrier."},
      {"last block",
       "16-byte loads, and the last block to end adds up all sums in a fixed order: one launch, the same bits."}};
}

inline simt::Pass reduction_pass() {
  return {.name = "reduction",
          .rungs = names_of(reduction_rungs()),
          .shape = {{"count", 1 << 28}},
          .type = simt::ValueType::float32,
          .work =
              [](const simt::Shape& shape, int64_t value_bytes) {
                const int64_t count = shape.at("count");
                return simt::Work{.flops = static_cast<double>(count - 1), .least_bytes = (count + 1) * value_bytes};
              },
          .launch =
              [](simt::Device& device, const simt::Shape& shape, int rung) {
                const ReductionBuffers buffers{&device, shape.at("count")};
                simt::fill_repeating({buffers.in});
                buffers.launch(rung);
              }};
}

inline simt::KernelCase reduction_case() {
  return {.name = "reduction",
          .title = "Sum of many floats",
          .shape = {{"n", 65536}},
          .rungs = reduction_rungs(),
          .passes = {reduction_pass()}};
}

}  // namespace tenfold::kernels
