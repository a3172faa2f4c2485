// Lesson 42 - GEMM ladder
// What makes a GEMM fast: which memory traffic does each of eight kernels remove?
// Read lessons 40 and 41 first, then kernels/sgemm, which holds the rungs.
#include <cmath>

#include "common/harness/lesson.h"
#include "kernels/kernel_survey.h"
#include "kernels/sgemm/sgemm_case.h"

namespace {
using tenfold::KernelMemory;
using tenfold::KernelRun;
using tenfold::Setting;
using tenfold::Trial;
using torch::Tensor;
namespace kernels = tenfold::kernels;
namespace simt = tenfold::simt;

constexpr Setting<int64_t> kM{"m", 128, "rows of A and C under the microscope"};
constexpr Setting<int64_t> kN{"n", 128, "columns of B and C under the microscope"};
constexpr Setting<int64_t> kK{"k", 128, "columns of A, rows of B under the microscope"};
constexpr Setting<int64_t> kTimedM{"timed_m", 4096, "rows of A and C on a GPU"};
constexpr Setting<int64_t> kTimedN{"timed_n", 4096, "columns of B and C on a GPU"};
constexpr Setting<int64_t> kTimedK{"timed_k", 4096, "columns of A, rows of B on a GPU"};

struct GemmSizes {
  int64_t m, n, k;
  double fmas() const { return static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k); }
};

/// c = a b, for standard normal a and b, within what float32 loses. A sum of k products is about sqrt(k) large, and its
/// k roundings of 2^-24 walk to about k 2^-24; allowed is eight times that. TF32, which errs by sqrt(k) 2^-11, is
/// outside, and NaN.
bool is_product(const Tensor& c, const Tensor& a, const Tensor& b) {
  const double bound = 8 * static_cast<double>(a.size(1) + 8) * 0x1p-24;
  const Tensor exact = torch::mm(a.to(torch::kDouble), b.to(torch::kDouble));
  return ((c.to(torch::kDouble) - exact).abs() <= bound).all().item<bool>();
}

/// A report's sums per FMA. One for each of a warp's 32 lanes is what an instruction can do.
void note_counts(const Trial& trial, const simt::Report& report, double fmas) {
  double loaded = 0, moved = 0, requests = 0;
  for (const simt::Access& access : report.accesses) {
    moved += static_cast<double>(access.bytes_moved());
    requests += static_cast<double>(access.requests);
    if (access.kind == simt::Kind::load) loaded += static_cast<double>(access.bytes_moved());
  }
  trial.note("global bytes loaded per FMA", loaded / fmas, "byte");
  trial.note("flop per byte moved", 2 * fmas / moved, "flop/byte");
  trial.note("shared wavefronts per FMA of a warp", static_cast<double>(report.wavefronts()) / (fmas / 32),
             "wavefronts");
  trial.note("loads and stores per FMA of a warp", requests / (fmas / 32), "requests");
  trial.note("barriers per block", static_cast<double>(report.barriers) / static_cast<double>(report.blocks),
             "barriers");
}

/// torch::mm in float32: with TF32 it would compute something else.
tenfold::Contender aten_mm(const Tensor& a, const Tensor& b) {
  Tensor c = torch::empty({a.size(0), b.size(1)}, a.options());
  const auto launch = [=]() mutable { torch::mm_out(c, a, b); };
  return {.name = "torch::mm without TF32", .launch = launch, .complaint = [=]() mutable -> std::string {
            c.fill_(NAN);
            torch::mm_out(c, a, b);
            return is_product(c, a, b) ? "" : "its product is not float32's; is TF32 on?";
          }};
}

KernelRun product(KernelMemory& memory, const GemmSizes& sizes, int rung) {
  const Tensor a = memory.normal("a", {sizes.m, sizes.k});
  const Tensor b = memory.normal("b", {sizes.k, sizes.n});
  const Tensor c = memory.result("c", {sizes.m, sizes.n});
  return {.launch =
              [=](auto stream) {
                kernels::sgemm(stream, c.data_ptr<float>(), a.const_data_ptr<float>(), b.const_data_ptr<float>(),
                               sizes.m, sizes.n, sizes.k, /*alpha=*/1.0F, /*beta=*/0.0F, rung);
              },
          .right = [=] { return is_product(c, a, b); },
          .flops = 2 * sizes.fmas(),
          .rivals = {aten_mm(a, b)}};
}

/// Counts the FMAs that are asked for, and not those of empty lanes. On a GPU it is timed, and so is
/// torch::mm.
auto gemm(int rung) {
  return [=](const Trial& trial) {
    const GemmSizes counted{trial.get(kM), trial.get(kN), trial.get(kK)};
    const GemmSizes timed{trial.get(kTimedM), trial.get(kTimedN), trial.get(kTimedK)};
    at::globalContext().setAllowTF32CuBLAS(false);  // the harness puts it back
    const auto run = [=](KernelMemory& memory, const GemmSizes& sizes) { return product(memory, sizes, rung); };
    note_counts(trial, count_and_time(trial, run, counted, timed), counted.fmas());
  };
}

std::vector<tenfold::Look> rungs() {
  std::vector<tenfold::Look> looks;
  for (const simt::Rung& rung : kernels::sgemm_rungs()) {
    const auto number = static_cast<int>(looks.size());
    looks.push_back({std::to_string(number) + " " + rung.name, gemm(number)});
  }
  return looks;
}
}  // namespace

int main(int argc, char** argv) {
  return tenfold::run(
      argc, argv,
      {.title = "GEMM ladder",
       .question = "What makes a GEMM fast: which memory traffic does each of eight kernels remove?",
       .version = 4,
       .settings = {kM, kN, kK, kTimedM, kTimedN, kTimedK},
       .surveys = {{"square", rungs()},
                   {"skinny", rungs(), {kM(1), kN(256), kK(256), kTimedM(1), kTimedN(8192), kTimedK(8192)}}}});
}
