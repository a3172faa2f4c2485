// The page behind `./tenfold kernel cross_entropy`.
#include "common/kernel_page/kernel_page.h"
#include "cross_entropy_case.h"

#include <algorithm>
#include <random>

#include "cross_entropy_reference.h"

namespace {

tenfold::simt::PageRun run(tenfold::simt::Device& device, const tenfold::simt::Shape& shape, int rung) {
  using namespace tenfold::kernels;
  const int64_t rows = shape.at("rows"), classes = shape.at("classes");
  const CrossEntropyBuffers<float> buffers{&device, rows, classes};
  const auto& targets = buffers.targets;
  tenfold::simt::fill_normal(44, {buffers.logits});
  std::mt19937 bits(45);
  std::generate(targets.begin(), targets.end(),
                [&] { return static_cast<int64_t>(bits() % static_cast<uint64_t>(classes)); });
  const auto before = tenfold::simt::wide(buffers.logits);

  buffers.launch(rung);

  const auto expected =
      cross_entropy_reference(before, {targets.begin(), targets.end()}, rows, classes, kIgnoreIndex, kFloatRounding);
  return {
      .worst_error = std::max({worst_error(buffers.logits, expected.gradient),
                               worst_error(buffers.losses, expected.losses), worst_error(buffers.mean, expected.mean)}),
      .work = cross_entropy_pass().work(shape, sizeof(float))};
}

}  // namespace

int main(int argc, char** argv) { return tenfold::simt::show(argc, argv, tenfold::kernels::cross_entropy_case(), run); }
