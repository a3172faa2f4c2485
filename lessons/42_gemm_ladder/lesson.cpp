// Lesson 42 - The matrix product, rung by rung
//
// Question  What makes a matrix product fast: which bytes does each rung of a ladder of eight kernels no longer move?
// Expect    33 bytes of global memory per multiply-add become 1/16; then shared memory is the limit, until registers help.
// Not for   A product with one row (case "skinny"): every value of B is used once, and a tile has nothing to reuse.
// Run       ./tenfold run 42_gemm_ladder
// Read      kernels/sgemm holds the rungs; here they are counted, and timed beside torch::mm on a GPU.
#include <tenfold/clock.h>
#include <tenfold/kernel_trial.h>
#include <tenfold/lesson.h>
#include <tenfold/roofline.h>
#include <tenfold/sgemm.h>
#include <tenfold/statistics.h>

#include <cmath>

#ifdef TENFOLD_WITH_CUDA
#include <c10/cuda/CUDAStream.h>
#endif

namespace {
using tenfold::Step;
using tenfold::Trial;
using torch::Tensor;
namespace simt = tenfold::simt;

/// c = a b, for standard normal a and b, within what float32 loses. A sum of k products is about sqrt(k) large, and its k
/// roundings of 2^-24 walk to about k 2^-24; allowed is eight times that. TF32, which errs by sqrt(k) 2^-11, is outside, and NaN.
bool is_product(const Tensor& c, const Tensor& a, const Tensor& b) {
  const double bound = 8 * static_cast<double>(a.size(1) + 8) * 0x1p-24;
  const Tensor exact = torch::mm(a.to(torch::kDouble), b.to(torch::kDouble));
  return ((c.to(torch::kDouble) - exact).abs() <= bound).all().item<bool>();
}

/// A report's sums per multiply-add. One for each of a warp's 32 lanes is what an instruction can do.
void note_counts(const Trial& trial, const simt::Report& report, double multiply_adds) {
  double loaded = 0, moved = 0, requests = 0;
  for (const simt::Access& access : report.accesses) {
    moved += static_cast<double>(access.bytes_moved());
    requests += static_cast<double>(access.requests);
    if (access.kind == simt::Kind::load) loaded += static_cast<double>(access.bytes_moved());
  }
  trial.note("global bytes loaded per multiply-add", loaded / multiply_adds, "byte");
  trial.note("flop per byte moved", 2 * multiply_adds / moved, "flop/byte");
  trial.note("shared wavefronts per multiply-add of a warp", static_cast<double>(report.wavefronts()) / (multiply_adds / 32), "wavefronts");
  trial.note("loads and stores per multiply-add of a warp", requests / (multiply_adds / 32), "requests");
  trial.note("barriers per block", static_cast<double>(report.barriers) / static_cast<double>(report.blocks), "barriers");
  const simt::Roofline model = simt::roofline(simt::gpu_named("H100"), report, 2 * multiply_adds);
  for (const simt::RooflinePart& part : model.parts) trial.note("modelled on an H100, not measured: " + part.name, part.seconds, "s");
}

template <class Stream>
void launch(Stream stream, const Tensor& c, const Tensor& a, const Tensor& b, int rung) {
  tenfold::kernels::sgemm(stream, c.data_ptr<float>(), a.const_data_ptr<float>(), b.const_data_ptr<float>(), a.size(0), b.size(1),
                          a.size(1), /*alpha=*/1.0F, /*beta=*/0.0F, rung);
}

/// Runs the rung under the microscope, which counts the multiply-adds that are asked for and not those of empty lanes.
void count(const Trial& trial, int rung) {
  const int64_t m = trial.get("m", 128), n = trial.get("n", 128), k = trial.get("k", 128);
  const simt::Report report = tenfold::under_microscope([&](simt::Device& device) {
    const auto in_a = device.buffer<float>("a", m * k), in_b = device.buffer<float>("b", k * n), out = device.buffer<float>("c", m * n);
    const Tensor a = tenfold::as_tensor(in_a, {m, k}).normal_(), b = tenfold::as_tensor(in_b, {k, n}).normal_();
    const Tensor c = tenfold::as_tensor(out, {m, n});
    launch(&device, c, a, b, rung);
    return is_product(c, a, b);
  });
  note_counts(trial, report, static_cast<double>(m * n * k));
}

/// On a GPU: GFLOP/s, and torch::mm's time over the rung's, both in float32 without TF32, launched in turn.
void time_beside_mm(const Trial& trial, int rung) {
  const int64_t m = trial.get("timed m", 4096), n = trial.get("timed n", 4096), k = trial.get("timed k", 4096);
#ifdef TENFOLD_WITH_CUDA
  if (!trial.device.is_cuda()) return;
  at::globalContext().setAllowTF32CuBLAS(false);  // the harness puts it back
  const Tensor a = torch::randn({m, k}, trial.device), b = torch::randn({k, n}, trial.device);
  Tensor c = torch::full({m, n}, NAN, trial.device), from_mm = torch::empty({m, n}, trial.device);
  const auto launch_here = [&] { launch(c10::cuda::getCurrentCUDAStream().stream(), c, a, b, rung); };
  launch_here();
  torch::mm_out(from_mm, a, b);  // also creates the handle and the workspace
  TORCH_CHECK(is_product(c, a, b), "the kernel's product is wrong on this GPU");
  TORCH_CHECK(is_product(from_mm, a, b), "torch::mm's product is not float32's; is TF32 on?");
  std::vector<double> ours, theirs, ratios;
  for (int i = 0; i < 7; ++i) {
    ours.push_back(tenfold::time_block(trial.device, launch_here));
    theirs.push_back(tenfold::time_block(trial.device, [&] { torch::mm_out(from_mm, a, b); }));
    ratios.push_back(theirs.back() / ours.back());
  }
  const double flops = 2 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
  trial.note("measured", flops / tenfold::median(ours) / 1e9, "GFLOP/s");
  trial.note("measured, torch::mm without TF32", flops / tenfold::median(theirs) / 1e9, "GFLOP/s");
  trial.note("measured, of torch::mm's rate", tenfold::median(ratios), "x");
#endif
}

Step product(const Trial& trial, int rung) {
  count(trial, rung);
  time_beside_mm(trial, rung);
  return {};
}

Step naive(const Trial& trial) { return product(trial, 0); }
Step coalesced(const Trial& trial) { return product(trial, 1); }
Step shared_tile(const Trial& trial) { return product(trial, 2); }
Step registers_1d(const Trial& trial) { return product(trial, 3); }
Step registers_2d(const Trial& trial) { return product(trial, 4); }
Step vector_loads(const Trial& trial) { return product(trial, 5); }
Step double_buffer(const Trial& trial) { return product(trial, 6); }
Step warp_tile(const Trial& trial) { return product(trial, 7); }
}  // namespace

int main(int argc, char** argv) {
  return tenfold::run(
      argc, argv,
      {.title = "The matrix product, rung by rung",
       .question = "What makes a matrix product fast: which bytes does each rung of a ladder of eight kernels no longer move?",
       .workload = "foundation",
       .baseline = {"0 naive", naive},
       .techniques = {{"1 coalesced", coalesced},
                      {"2 shared tile", shared_tile},
                      {"3 1-D registers", registers_1d},
                      {"4 2-D registers", registers_2d},
                      {"5 vector loads", vector_loads},
                      {"6 double buffer", double_buffer},
                      {"7 warp tile", warp_tile}},
       .cases = {{"square", {}, {}},
                 {"skinny", {{"m", 1}, {"n", 256}, {"k", 256}, {"timed m", 1}, {"timed n", 8192}, {"timed k", 8192}}, {}}}});
}
