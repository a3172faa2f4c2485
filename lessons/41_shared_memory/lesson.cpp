// Lesson 41 - Shared memory
//
// Question  What does a tile in shared memory buy, and what do its bank conflicts and barriers cost?
// Expect    A transpose moves 8 sectors per 32 floats instead of 36; a column of a square tile costs 32 passes, padded one.
// Not for   Values that only one thread needs and that are read in order anyway (the two copies).
// Run       ./tenfold run 41_shared_memory
// Read      kernels/transpose, kernels/reduction and kernels/tile_copy are the kernels; here they are counted, and timed on a GPU.
#include <tenfold/kernel_trial.h>
#include <tenfold/lesson.h>
#include <tenfold/reduction.h>
#include <tenfold/tile_copy.h>
#include <tenfold/transpose.h>

#include <cmath>
#include <utility>

namespace {
using tenfold::Step;
using tenfold::Trial;
using tenfold::kernels::ReductionWorkspace;
using torch::Tensor;

/// Counts a kernel that works on `elements` floats: each line as in lesson 40, and three totals that can be compared between
/// kernels. A warp has 32 lanes, so 32 elements are what one request can serve.
template <class Launch>
void count(const Trial& trial, int64_t elements, Launch launch) {
  const tenfold::simt::Report report = tenfold::note_under_microscope(trial, /*flops=*/0, launch);
  const double warps = static_cast<double>(elements) / 32;
  trial.note("all: sectors per 32 elements", static_cast<double>(report.sectors()) / warps, "sectors");
  trial.note("all: shared wavefronts per 32 elements", static_cast<double>(report.wavefronts()) / warps, "wavefronts");
  trial.note("all: block barriers per 1024 elements", static_cast<double>(report.barriers) / warps * 32, "barriers");
}

/// Notes the time on a GPU. The first launch's result is checked, and a wrong one throws before anything is noted; its time is
/// one of many, of which the median counts.
template <class Launch, class Right>
void time_checked(const Trial& trial, double bytes, Launch launch, Right right) {
  bool first = true;
  tenfold::note_time_on_gpu(trial, bytes, [&](auto stream) {
    launch(stream);
    if (std::exchange(first, false)) TORCH_CHECK(right(), "the kernel's result is wrong on this GPU");
  });
}

Step transpose(const Trial& trial, int rung) {
  const int64_t rows = trial.get("rows", 256), columns = trial.get("columns", 256), side = trial.get("timed side", 8192);
  count(trial, rows * columns, [&](tenfold::simt::Device& device) {
    const auto in = device.buffer<float>("in", rows * columns), out = device.buffer<float>("out", rows * columns);
    tenfold::kernels::transpose(&device, out.data(), in.data(), rows, columns, rung);
  });
  if (!trial.device.is_cuda()) return {};
  const Tensor in = torch::randn({side, side}, trial.device), out = torch::empty_like(in);
  time_checked(
      trial, 8.0 * static_cast<double>(side * side),
      [&](auto stream) { tenfold::kernels::transpose(stream, out.data_ptr<float>(), in.const_data_ptr<float>(), side, side, rung); },
      [&] { return torch::equal(out, in.t()); });
  return {};
}

Step no_tile(const Trial& trial) { return transpose(trial, 1); }
Step square_tile(const Trial& trial) { return transpose(trial, 2); }
Step padded_tile(const Trial& trial) { return transpose(trial, 3); }
Step wide_tile(const Trial& trial) { return transpose(trial, 4); }

Step sum(const Trial& trial, int rung) {
  const int64_t n = trial.get("summed floats", 65536), large = trial.get("timed floats", int64_t{1} << 25);
  count(trial, n, [&](tenfold::simt::Device& device) {
    const auto in = device.buffer<float>("in", n), out = device.buffer<float>("out", 1);
    const auto workspace = device.buffer<ReductionWorkspace>("workspace", 1);
    workspace[0].blocks_done = 0;
    tenfold::kernels::reduce_sum(&device, out.data(), in.data(), n, workspace.data(), rung);
  });
  if (!trial.device.is_cuda()) return {};
  const Tensor in = torch::randn({large}, trial.device), out = torch::empty({1}, trial.device);
  const Tensor workspace =
      torch::zeros({static_cast<int64_t>(sizeof(ReductionWorkspace))}, torch::dtype(torch::kByte).device(trial.device));
  auto* const space = reinterpret_cast<ReductionWorkspace*>(workspace.data_ptr<uint8_t>());
  const double bound = 6 * tenfold::kernels::reduction_error(large, rung);  // six standard deviations of the rounding
  time_checked(
      trial, 4.0 * static_cast<double>(large),
      [&](auto stream) { tenfold::kernels::reduce_sum(stream, out.data_ptr<float>(), in.const_data_ptr<float>(), large, space, rung); },
      [&] { return std::abs(out.item<double>() - in.sum(torch::kDouble).item<double>()) <= bound; });
  return {};
}

Step atomics(const Trial& trial) { return sum(trial, 0); }
Step interleaved_tree(const Trial& trial) { return sum(trial, 1); }
Step sequential_tree(const Trial& trial) { return sum(trial, 2); }
Step add_while_loading(const Trial& trial) { return sum(trial, 3); }
Step shuffles(const Trial& trial) { return sum(trial, 4); }
Step last_block(const Trial& trial) { return sum(trial, 5); }

/// No thread needs what another has loaded: here a tile has nothing to give.
Step copy(const Trial& trial, int rung) {
  const int64_t floats = trial.get("copied floats", 8192), large = trial.get("timed floats", int64_t{1} << 25);
  count(trial, floats, [&](tenfold::simt::Device& device) {
    const auto in = device.buffer<float>("in", floats), out = device.buffer<float>("out", floats);
    tenfold::kernels::tile_copy(&device, out.data(), in.data(), floats, rung);
  });
  if (!trial.device.is_cuda()) return {};
  const Tensor in = torch::randn({large}, trial.device), out = torch::empty_like(in);
  time_checked(
      trial, 8.0 * static_cast<double>(large),
      [&](auto stream) { tenfold::kernels::tile_copy(stream, out.data_ptr<float>(), in.const_data_ptr<float>(), large, rung); },
      [&] { return torch::equal(out, in); });
  return {};
}

Step straight_copy(const Trial& trial) { return copy(trial, 0); }
Step copy_through_tile(const Trial& trial) { return copy(trial, 1); }
}  // namespace

int main(int argc, char** argv) {
  return tenfold::run(argc, argv,
                      {.title = "Shared memory",
                       .question = "What does a tile in shared memory buy, and what do its bank conflicts and barriers cost?",
                       .workload = "foundation",
                       .baseline = {"transpose, no tile", no_tile},
                       .techniques = {{"transpose, square tile", square_tile},
                                      {"transpose, padded tile", padded_tile},
                                      {"transpose, padded, 16 bytes", wide_tile},
                                      {"sum, atomics", atomics},
                                      {"sum, interleaved tree", interleaved_tree},
                                      {"sum, sequential tree", sequential_tree},
                                      {"sum, add while loading", add_while_loading},
                                      {"sum, shuffles", shuffles},
                                      {"sum, last block", last_block},
                                      {"copy, straight", straight_copy},
                                      {"copy, through a tile", copy_through_tile}},
                       .cases = {{"counted", {}, {}}}});
}
