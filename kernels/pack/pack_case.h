#pragma once
// Packing: its rungs and shapes, what it needs, and its launch under the microscope.

#include <cuda_bf16.h>

#include "common/kernel_page/kernel_case.h"
#include "kernels/pack/pack.h"

namespace tenfold::kernels {

/// Buffers of pack() and unpack(), values of type T, `total` of the batch * length tokens without padding.
template <class T, class Offset>
struct PackBuffers {
  simt::Stream device;
  int64_t batch, length, width, total, of_packed = total * width;
  simt::Buffer<T> padded = device->buffer<T>("padded", batch * length * width),
                  packed = device->buffer<T>("packed", std::max<int64_t>(of_packed, 1));
  simt::Buffer<Offset> cu_seqlens = device->buffer<Offset>("cu_seqlens", batch + 1);

  void pack(int rung) const {
    kernels::pack(device, packed.data(), padded.data(), cu_seqlens.data(), batch, length, width, total, rung);
  }
};

/// Each sequence read and written, and the offsets.
inline int64_t pack_least_bytes(int64_t batch, int64_t total, int64_t width, int64_t value_bytes,
                                int64_t offset_bytes) {
  return 2 * total * width * value_bytes + (batch + 1) * offset_bytes;
}

/// Each sequence read, everything written with its padding, and the offsets.
inline int64_t unpack_least_bytes(int64_t batch, int64_t length, int64_t total, int64_t width, int64_t value_bytes,
                                  int64_t offset_bytes) {
  return (total + batch * length) * width * value_bytes + (batch + 1) * offset_bytes;
}

inline std::vector<simt::Rung> pack_rungs() {
  return {{"per element", "A thread moves one element, and searches for its sequence alone."},
          {"per row", "A block moves a row, and one of its threads searches."},
          {"vectorised", "16 bytes per access: the same sectors in a quarter of the requests."}};
}

/// Of sequences of half the length, so that packing leaves half of it away.
inline simt::Pass pack_pass() {
  return {.name = "pack",
          .rungs = names_of(pack_rungs()),
          .shape = {{"batch", 64}, {"length", 1024}, {"width", 1024}},
          .work =
              [](const simt::Shape& shape, int64_t value_bytes) {
                const int64_t batch = shape.at("batch"), total = batch * (shape.at("length") / 2);
                return simt::Work{.least_bytes =
                                      pack_least_bytes(batch, total, shape.at("width"), value_bytes, sizeof(int64_t))};
              },
          .launch =
              [](simt::Device& device, const simt::Shape& shape, int rung) {
                const int64_t batch = shape.at("batch"), length = shape.at("length");
                const PackBuffers<__nv_bfloat16, int64_t> buffers{&device, batch, length, shape.at("width"),
                                                                  batch * (length / 2)};
                simt::fill_repeating({buffers.padded});
                for (int64_t i = 0; i <= batch; ++i) buffers.cu_seqlens[i] = i * (length / 2);
                buffers.pack(rung);
              }};
}

inline simt::KernelCase pack_case() {
  return {.name = "pack",
          .title = "Sequences of different lengths: packed without padding, and unpacked",
          .shape = {{"batch", 8}, {"length", 32}, {"width", 128}},
          .rungs = pack_rungs(),
          .passes = {pack_pass()}};
}

}  // namespace tenfold::kernels
