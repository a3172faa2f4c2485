// Sequences of different lengths, packed and unpacked: our rungs beside LibTorch's mask and index operators.
#include "ladder.h"

#include "kernels/pack/pack_case.h"
#include "kernels/pack/pack_torch.h"

namespace {
using namespace tenfold::bench;

constexpr int64_t kOffsetBytes = sizeof(int64_t);

/// A padded batch of sequences of random lengths, 0 and the longest among them.
struct Batch {
  Batch(const Place& place, torch::ScalarType type)
      : Batch(place, type, place.pick(kernels::pack_pass(), {{"batch", 3}, {"length", 7}, {"width", 24}})) {}

  int64_t batch, length, width, total = 0, value_bytes;
  Tensor padded, offsets, packed;

 private:
  Batch(const Place& place, torch::ScalarType type, const simt::Shape& shape)
      : batch(shape.at("batch")),
        length(shape.at("length")),
        width(shape.at("width")),
        value_bytes(static_cast<int64_t>(torch::elementSize(type))),
        padded(place.normal({batch, length, width}, type)) {
    Tensor lengths = torch::randint(length + 1, {batch}, padded.options().dtype(torch::kLong));
    lengths[0] = length;
    lengths[1] = 0;
    offsets = at::cat({torch::zeros({1}, lengths.options()), lengths.cumsum(0)});
    total = lengths.sum().item<int64_t>();
    packed = reference::pack(padded, offsets, total);
  }
};

Ladder pack(const Place& place, torch::ScalarType type) {
  const Batch given(place, type);
  const Tensor out = torch::empty_like(given.packed);
  Ladder ladder{.name = ladder_name("pack", type, given.padded.sizes()),
                .bytes = static_cast<double>(
                    kernels::pack_least_bytes(given.batch, given.total, given.width, given.value_bytes, kOffsetBytes)),
                .expected = {given.packed},
                .contestants = {{"index by mask", [=] {
                                   return std::vector{reference::pack(given.padded, given.offsets, given.total)};
                                 }}}};
  add_rungs(ladder, kernels::kPackRungs, [=](int rung) {
    launch_where_they_are(
        {{"packed", out}, {"padded", given.padded}, {"cu_seqlens", given.offsets}}, [&](auto stream, auto value) {
          using T = decltype(value);
          kernels::pack(stream, data_of<T>(out), data_of<T>(given.padded), data_of<int64_t>(given.offsets), given.batch,
                        given.length, given.width, given.total, rung);
        });
    return std::vector{out};
  });
  return ladder;
}

Ladder unpack(const Place& place, torch::ScalarType type) {
  const Batch given(place, type);
  const Tensor out = torch::empty_like(given.padded);
  const auto by_mask = [=] { return reference::unpack(given.packed, given.offsets, given.length); };
  Ladder ladder{.name = ladder_name("unpack", type, given.padded.sizes()),
                .bytes = static_cast<double>(kernels::unpack_least_bytes(given.batch, given.length, given.total,
                                                                         given.width, given.value_bytes, kOffsetBytes)),
                .expected = {by_mask()},
                .contestants = {{"zeros, put by mask", [=] { return std::vector{by_mask()}; }}}};
  add_rungs(ladder, kernels::kPackRungs, [=](int rung) {
    launch_where_they_are(
        {{"padded", out}, {"packed", given.packed}, {"cu_seqlens", given.offsets}}, [&](auto stream, auto value) {
          using T = decltype(value);
          kernels::unpack(stream, data_of<T>(out), data_of<T>(given.packed), data_of<int64_t>(given.offsets),
                          given.batch, given.length, given.width, given.total, /*padding=*/0.0F, rung);
        });
    return std::vector{out};
  });
  return ladder;
}
}  // namespace

int main(int argc, char** argv) {
  return run(argc, argv,
             {[](const Place& place) { return pack(place, torch::kFloat); },
              [](const Place& place) { return pack(place, torch::kBFloat16); },
              [](const Place& place) { return unpack(place, torch::kFloat); },
              [](const Place& place) { return unpack(place, torch::kBFloat16); }});
}
