#pragma once
// Transpose: its rungs and shapes, what it needs, and its launch under the microscope.

#include "common/kernel_page/kernel_case.h"
#include "kernels/transpose/transpose.h"

namespace tenfold::kernels {

struct TransposeBuffers {
  simt::Stream device;
  int64_t rows, columns, count = rows * columns;
  simt::Buffer<float> in = device->buffer<float>("in", count), out = device->buffer<float>("out", count);

  void launch(int rung) const { transpose(device, out.data(), in.data(), rows, columns, rung); }
};

inline std::vector<simt::Rung> transpose_rungs() {
  return {{"naive read",
           "One thread moves one element, and the threads of a warp read neighbours: each store touches 32 rows."},
          {"naive write", "The threads of a warp write neighbours instead: now each load touches 32 rows."},
          {"tiled", "A tile in shared memory turns the order around, so that loads and stores both touch neighbours."},
          {"padded", "One float of padding per row puts the words of a tile's column into different banks."},
          {"vectorised",
           "A thread moves 16 bytes per access and four of them per side: fewer requests, more bytes in flight."}};
}

inline simt::Pass transpose_pass() {
  return {.name = "transpose",
          .rungs = names_of(transpose_rungs()),
          .shape = {{"rows", 8192}, {"columns", 8192}},
          .type = simt::ValueType::float32,
          .work =
              [](const simt::Shape& shape, int64_t value_bytes) {
                return simt::Work{.least_bytes = 2 * shape.at("rows") * shape.at("columns") * value_bytes};
              },
          .launch =
              [](simt::Device& device, const simt::Shape& shape, int rung) {
                const TransposeBuffers buffers{&device, shape.at("rows"), shape.at("columns")};
                simt::fill_repeating({buffers.in});
                buffers.launch(rung);
              }};
}

inline simt::KernelCase transpose_case() {
  return {.name = "transpose",
          .title = "Transpose of a float matrix",
          .shape = {{"rows", 256}, {"columns", 256}},
          .rungs = transpose_rungs(),
          .passes = {transpose_pass()}};
}

}  // namespace tenfold::kernels
