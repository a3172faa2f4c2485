#pragma once
// Cross-entropy: its rungs and shapes, what it needs, and its launch under the microscope.

#include <cuda_bf16.h>

#include "common/kernel_page/kernel_case.h"
#include "kernels/cross_entropy/cross_entropy.h"

namespace tenfold::kernels {

/// Its buffers, logits of type T.
template <class T>
struct CrossEntropyBuffers {
  simt::Stream device;
  int64_t rows, classes, count = rows * classes;
  simt::Buffer<T> logits = device->buffer<T>("logits", count);
  simt::Buffer<float> mean = device->buffer<float>("mean", 1), losses = device->buffer<float>("losses", rows);
  simt::Buffer<int64_t> counted = device->buffer<int64_t>("counted", 1),
                        targets = device->buffer<int64_t>("targets", rows);

  void launch(int rung) const {
    cross_entropy(device, logits.data(), mean.data(), losses.data(), counted.data(), targets.data(), rows, classes,
                  kIgnoreIndex, rung);
  }
};

inline std::vector<simt::Rung> cross_entropy_rungs() {
  return {{"two kernels",
           "Forward and backward apart, one thread per row: five reads of the logits, a sector for each lane."},
          {"one kernel", "A block does one row: loss and gradient from three reads and one write of neighbours."},
          {"online", "One pass finds the largest logit and the sum together: two reads."},
          {"vectorised", "A thread moves 16 bytes per access and rescales its sum once per packet."},
          {"row held", "The row stays in shared memory between the passes: memory is asked for it once."}};
}

inline simt::Pass cross_entropy_pass() {
  return {.name = "cross_entropy",
          .rungs = names_of(cross_entropy_rungs()),
          .shape = {{"rows", 8192}, {"classes", 50304}},
          .work =
              [](const simt::Shape& shape, int64_t value_bytes) {
                const int64_t rows = shape.at("rows"), count = rows * shape.at("classes");
                // Compare, subtract, exp, add; product, difference, product.
                return simt::Work{.flops = 7.0 * static_cast<double>(count),
                                  .least_bytes = 2 * count * value_bytes +
                                                 rows * static_cast<int64_t>(sizeof(int64_t) + sizeof(float))};
              },
          .launch =
              [](simt::Device& device, const simt::Shape& shape, int rung) {
                const int64_t rows = shape.at("rows"), classes = shape.at("classes");
                const CrossEntropyBuffers<__nv_bfloat16> buffers{&device, rows, classes};
                simt::fill_repeating({buffers.logits});
                simt::fill_far_apart(buffers.targets, classes);
                buffers.launch(rung);
              }};
}

inline simt::KernelCase cross_entropy_case() {
  return {
      .name = "cross_entropy",
      .title = "Cross-entropy of the rows of a float matrix, loss and gradient; the gradient takes the logits' place",
      .shape = {{"rows", 32}, {"classes", 2048}},
      .rungs = cross_entropy_rungs(),
      .passes = {cross_entropy_pass()}};
}

}  // namespace tenfold::kernels
