// The page behind `./tenfold kernel cross_entropy`.
#include "common/kernel_page/kernel_page.h"
#include "cross_entropy.h"

#include <algorithm>
#include <random>

#include "cross_entropy_reference.h"

namespace {

tenfold::simt::PageRun run(tenfold::simt::Device& device, const tenfold::simt::Shape& shape, int rung) {
  using namespace tenfold::kernels;
  const int64_t rows = shape.at("rows"), classes = shape.at("classes"), count = rows * classes;
  const auto logits = device.buffer<float>("logits", count), mean = device.buffer<float>("mean", 1);
  const auto losses = device.buffer<float>("losses", rows);
  const auto counted = device.buffer<int64_t>("counted", 1), targets = device.buffer<int64_t>("targets", rows);
  tenfold::simt::fill_normal(44, {logits});
  std::mt19937 bits(45);
  std::generate(targets.begin(), targets.end(),
                [&] { return static_cast<int64_t>(bits() % static_cast<uint64_t>(classes)); });
  const auto before = tenfold::simt::wide(logits);

  cross_entropy(&device, logits.data(), mean.data(), losses.data(), counted.data(), targets.data(), rows, classes,
                kIgnoreIndex, rung);

  const auto expected =
      cross_entropy_reference(before, {targets.begin(), targets.end()}, rows, classes, kIgnoreIndex, kFloatRounding);
  return {.worst_error = std::max({worst_error(logits, expected.gradient), worst_error(losses, expected.losses),
                                   worst_error(mean, expected.mean)}),
          .flops = 7.0 * static_cast<double>(count),  // compare, subtract, exp, add; product, difference, product
          .least_bytes = 2 * count * static_cast<int64_t>(sizeof(float)) +
                         rows * static_cast<int64_t>(sizeof(int64_t) + sizeof(float))};
}

}  // namespace

int main(int argc, char** argv) {
  const tenfold::simt::KernelPage page{
      .name = "cross_entropy",
      .title = "Cross-entropy of the rows of a float matrix, loss and gradient; the gradient takes the logits' place",
      .shape = {{"rows", 32}, {"classes", 2048}},
      .rungs = {{"two kernels",
                 "Forward and backward apart, one thread per row: five reads of the logits, a sector for each lane."},
                {"one kernel", "A block does one row: loss and gradient from three reads and one write of neighbours."},
                {"online", "One pass finds the largest logit and the sum together: two reads."},
                {"vectorised", "A thread moves 16 bytes per access and rescales its sum once per packet."},
                {"row held", "The row stays in shared memory between the passes: memory is asked for it once."}},
      .run = run};
  return tenfold::simt::show(argc, argv, page);
}
