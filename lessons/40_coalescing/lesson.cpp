// Lesson 40 - Coalescing
//
// Question  What does one load or store of a warp cost when its 32 lanes do not stand side by side?
// Expect    Side by side: 4 sectors of 32 bytes. Apart: up to 32, eight times the traffic for the same floats.
// Not for   Data that stays in a cache between the lanes' visits: DRAM then moves no more, and the loss is smaller.
// Run       ./tenfold run 40_coalescing
// Read      kernels/strided_copy and kernels/transpose are the kernels; here they are counted, and timed on a GPU.
#include <tenfold/kernel_trial.h>
#include <tenfold/lesson.h>
#include <tenfold/strided_copy.h>
#include <tenfold/transpose.h>

namespace {
using tenfold::Step;
using tenfold::Trial;
using torch::Tensor;

/// Copies `count` floats that lie `stride` apart.
template <class Stream>
void launch_copy(Stream stream, const Tensor& out, const Tensor& in, int64_t stride, int64_t offset) {
  tenfold::kernels::strided_copy(stream, out.data_ptr<float>(), in.const_data_ptr<float>(), out.numel(), stride, offset);
}

bool is_copy(const Tensor& out, const Tensor& in, int64_t stride, int64_t offset) {
  return torch::equal(out, in.slice(0, offset, offset + out.numel() * stride, stride));
}

/// Counted on every machine from the kernel itself; on a GPU also timed.
Step copy(const Trial& trial, int64_t stride, int64_t offset = 0) {
  const int64_t few = trial.get("counted floats", 8192), many = trial.get("timed floats", int64_t{1} << 25);  // 128 MiB: more than an L2
  tenfold::note_accesses(trial, tenfold::under_microscope([&](tenfold::simt::Device& device) {
                           const auto from = device.buffer<float>("in", offset + few * stride), to = device.buffer<float>("out", few);
                           const Tensor in = tenfold::as_tensor(from).normal_(), out = tenfold::as_tensor(to);
                           launch_copy(&device, out, in, stride, offset);
                           return is_copy(out, in, stride, offset);
                         }));
  if (!trial.device.is_cuda()) return {};
  const Tensor in = torch::randn({offset + many * stride}, trial.device), out = torch::empty({many}, trial.device);
  tenfold::note_time_on_gpu(
      trial, 8.0 * static_cast<double>(many), [&](auto stream) { launch_copy(stream, out, in, stride, offset); },
      [&] { return is_copy(out, in, stride, offset); });
  return {};
}

Step neighbours(const Trial& trial) { return copy(trial, 1); }
Step shifted_by_one(const Trial& trial) { return copy(trial, 1, 1); }
Step every_second(const Trial& trial) { return copy(trial, 2); }
Step every_eighth(const Trial& trial) { return copy(trial, 8); }
Step every_32nd(const Trial& trial) { return copy(trial, 32); }

template <class Stream>
void launch_transpose(Stream stream, const Tensor& out, const Tensor& in, int rung) {
  tenfold::kernels::transpose(stream, out.data_ptr<float>(), in.const_data_ptr<float>(), in.size(0), in.size(1), rung);
}

/// A transpose must walk one matrix by rows and the other by columns: here one side pays, whichever it is.
Step transpose(const Trial& trial, int rung) {
  const int64_t rows = trial.get("rows", 256), columns = trial.get("columns", 256), side = trial.get("timed side", 8192);
  tenfold::note_accesses(trial, tenfold::under_microscope([&](tenfold::simt::Device& device) {
                           const auto from = device.buffer<float>("in", rows * columns), to = device.buffer<float>("out", rows * columns);
                           const Tensor in = tenfold::as_tensor(from, {rows, columns}).normal_(),
                                        out = tenfold::as_tensor(to, {columns, rows});
                           launch_transpose(&device, out, in, rung);
                           return torch::equal(out, in.t());
                         }));
  if (!trial.device.is_cuda()) return {};
  const Tensor in = torch::randn({side, side}, trial.device), out = torch::empty_like(in);
  tenfold::note_time_on_gpu(
      trial, 8.0 * static_cast<double>(side * side), [&](auto stream) { launch_transpose(stream, out, in, rung); },
      [&] { return torch::equal(out, in.t()); });
  return {};
}

Step reads_side_by_side(const Trial& trial) { return transpose(trial, 0); }
Step writes_side_by_side(const Trial& trial) { return transpose(trial, 1); }
/// Through a tile in shared memory both sides are side by side. Lesson 41 is about that tile.
Step both_side_by_side(const Trial& trial) { return transpose(trial, 3); }
}  // namespace

int main(int argc, char** argv) {
  return tenfold::run(argc, argv,
                      {.title = "Coalescing",
                       .question = "What does one load or store of a warp cost when its 32 lanes do not stand side by side?",
                       .workload = "foundation",
                       .baseline = {"copy, neighbours", neighbours},
                       .techniques = {{"copy, shifted by one", shifted_by_one},
                                      {"copy, every 2nd", every_second},
                                      {"copy, every 8th", every_eighth},
                                      {"copy, every 32nd", every_32nd},
                                      {"transpose, reads side by side", reads_side_by_side},
                                      {"transpose, writes side by side", writes_side_by_side},
                                      {"transpose, both", both_side_by_side}},
                       .cases = {{"counted", {}, {}}}});
}
