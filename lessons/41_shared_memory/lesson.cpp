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

namespace {
using tenfold::Step;
using tenfold::Trial;
using tenfold::kernels::ReductionWorkspace;
using torch::Tensor;
namespace simt = tenfold::simt;

/// Notes each line as in lesson 40, and three totals that can be compared between kernels. A warp has 32 lanes, so 32 elements are
/// what one request can serve.
void note_counts(const Trial& trial, const simt::Report& report, int64_t elements) {
  tenfold::note_accesses(trial, report);
  const double warps = static_cast<double>(elements) / 32;
  trial.note("all: sectors per 32 elements", static_cast<double>(report.sectors()) / warps, "sectors");
  trial.note("all: shared wavefronts per 32 elements", static_cast<double>(report.wavefronts()) / warps, "wavefronts");
  trial.note("all: block barriers per 1024 elements", static_cast<double>(report.barriers) / warps * 32, "barriers");
}

template <class Stream>
void launch_transpose(Stream stream, const Tensor& out, const Tensor& in, int rung) {
  tenfold::kernels::transpose(stream, out.data_ptr<float>(), in.const_data_ptr<float>(), in.size(0), in.size(1), rung);
}

Step transpose(const Trial& trial, int rung) {
  const int64_t rows = trial.get("rows", 256), columns = trial.get("columns", 256), side = trial.get("timed side", 8192);
  const simt::Report report = tenfold::under_microscope([&](simt::Device& device) {
    const auto from = device.buffer<float>("in", rows * columns), to = device.buffer<float>("out", rows * columns);
    const Tensor in = tenfold::as_tensor(from, {rows, columns}).normal_(), out = tenfold::as_tensor(to, {columns, rows});
    launch_transpose(&device, out, in, rung);
    return torch::equal(out, in.t());
  });
  note_counts(trial, report, rows * columns);
  if (!trial.device.is_cuda()) return {};
  const Tensor in = torch::randn({side, side}, trial.device), out = torch::empty_like(in);
  tenfold::note_time_on_gpu(
      trial, 8.0 * static_cast<double>(side * side), [&](auto stream) { launch_transpose(stream, out, in, rung); },
      [&] { return torch::equal(out, in.t()); });
  return {};
}

Step no_tile(const Trial& trial) { return transpose(trial, 1); }
Step square_tile(const Trial& trial) { return transpose(trial, 2); }
Step padded_tile(const Trial& trial) { return transpose(trial, 3); }
Step wide_tile(const Trial& trial) { return transpose(trial, 4); }

template <class Stream>
void launch_sum(Stream stream, const Tensor& out, const Tensor& in, ReductionWorkspace* workspace, int rung) {
  tenfold::kernels::reduce_sum(stream, out.data_ptr<float>(), in.const_data_ptr<float>(), in.numel(), workspace, rung);
}

/// Within six standard deviations of the rounding.
bool is_sum(const Tensor& out, const Tensor& in, int rung) {
  return std::abs(out.item<double>() - in.sum(torch::kDouble).item<double>()) <= 6 * tenfold::kernels::reduction_error(in.numel(), rung);
}

Step sum(const Trial& trial, int rung) {
  const int64_t few = trial.get("summed floats", 65536), many = trial.get("timed floats", int64_t{1} << 25);
  const simt::Report report = tenfold::under_microscope([&](simt::Device& device) {
    const auto from = device.buffer<float>("in", few), to = device.buffer<float>("out", 1);
    const auto workspace = device.buffer<ReductionWorkspace>("workspace", 1);
    const Tensor in = tenfold::as_tensor(from).normal_(), out = tenfold::as_tensor(to);
    workspace[0].blocks_done = 0;
    launch_sum(&device, out, in, workspace.data(), rung);
    return is_sum(out, in, rung);
  });
  note_counts(trial, report, few);
  if (!trial.device.is_cuda()) return {};
  const Tensor in = torch::randn({many}, trial.device), out = torch::empty({1}, trial.device);
  const Tensor bytes = torch::zeros({static_cast<int64_t>(sizeof(ReductionWorkspace))}, torch::dtype(torch::kByte).device(trial.device));
  auto* const workspace = reinterpret_cast<ReductionWorkspace*>(bytes.data_ptr<uint8_t>());
  tenfold::note_time_on_gpu(
      trial, 4.0 * static_cast<double>(many), [&](auto stream) { launch_sum(stream, out, in, workspace, rung); },
      [&] { return is_sum(out, in, rung); });
  return {};
}

Step atomics(const Trial& trial) { return sum(trial, 0); }
Step interleaved_tree(const Trial& trial) { return sum(trial, 1); }
Step sequential_tree(const Trial& trial) { return sum(trial, 2); }
Step add_while_loading(const Trial& trial) { return sum(trial, 3); }
Step shuffles(const Trial& trial) { return sum(trial, 4); }
Step last_block(const Trial& trial) { return sum(trial, 5); }

template <class Stream>
void launch_copy(Stream stream, const Tensor& out, const Tensor& in, int rung) {
  tenfold::kernels::tile_copy(stream, out.data_ptr<float>(), in.const_data_ptr<float>(), in.numel(), rung);
}

/// No thread needs what another has loaded: here a tile has nothing to give.
Step copy(const Trial& trial, int rung) {
  const int64_t few = trial.get("copied floats", 8192), many = trial.get("timed floats", int64_t{1} << 25);
  const simt::Report report = tenfold::under_microscope([&](simt::Device& device) {
    const auto from = device.buffer<float>("in", few), to = device.buffer<float>("out", few);
    const Tensor in = tenfold::as_tensor(from).normal_(), out = tenfold::as_tensor(to);
    launch_copy(&device, out, in, rung);
    return torch::equal(out, in);
  });
  note_counts(trial, report, few);
  if (!trial.device.is_cuda()) return {};
  const Tensor in = torch::randn({many}, trial.device), out = torch::empty_like(in);
  tenfold::note_time_on_gpu(
      trial, 8.0 * static_cast<double>(many), [&](auto stream) { launch_copy(stream, out, in, rung); },
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
