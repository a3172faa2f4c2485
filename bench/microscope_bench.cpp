// How fast the microscope is: counted accesses of single threads per second, on one core. "races" also checks
// happens-before.
#include <benchmark/benchmark.h>
#include "common/microscope/device.h"
#include "kernels/sgemm/sgemm.h"
#include "kernels/softmax/softmax.h"
#include "kernels/transpose/transpose.h"

#include <algorithm>

namespace {

using tenfold::simt::Device;
using Launch = void (*)(Device&);

template <int kRung>
void transpose(Device& device) {
  constexpr int64_t kSide = 512;
  const auto in = device.buffer<float>("in", kSide * kSide), out = device.buffer<float>("out", kSide * kSide);
  tenfold::kernels::transpose(&device, out.data(), in.data(), kSide, kSide, kRung);
}

template <int kRung>
void sgemm(Device& device) {
  constexpr int64_t kSide = 128;
  const auto a = device.buffer<float>("a", kSide * kSide), b = device.buffer<float>("b", kSide * kSide),
             c = device.buffer<float>("c", kSide * kSide);
  std::fill(a.begin(), a.end(), 1.0F);
  std::fill(b.begin(), b.end(), 1.0F);
  tenfold::kernels::sgemm(&device, c.data(), a.data(), b.data(), kSide, kSide, kSide, 1.0F, 0.0F, kRung);
}

template <int kRung>
void softmax(Device& device) {
  constexpr int64_t kRows = 64, kColumns = 1024;
  const auto in = device.buffer<float>("in", kRows * kColumns), out = device.buffer<float>("out", kRows * kColumns);
  std::fill(in.begin(), in.end(), 1.0F);
  tenfold::kernels::softmax(&device, out.data(), in.data(), kRows, kColumns, kRung);
}

void count(benchmark::State& state, Launch launch, bool races) {
  int64_t accesses = 0;
  double seconds = 0;
  for ([[maybe_unused]] auto step : state) {
    Device device({.races = races});
    launch(device);
    const auto report = device.report();
    accesses += report.lane_accesses;
    seconds += report.seconds;  // of the launches: buffers and the report are not the microscope's speed
    state.SetIterationTime(report.seconds);
  }
  state.counters["accesses/s"] = static_cast<double>(accesses) / seconds;
}

}  // namespace

int main(int argc, char** argv) {
  const struct {
    const char* name;
    Launch launch;
  } kernels[] = {{"transpose naive", transpose<0>},
                 {"transpose padded tile", transpose<3>},
                 {"sgemm naive", sgemm<0>},
                 {"sgemm 2-D registers", sgemm<4>},
                 {"softmax warp shuffles", softmax<1>}};
  for (const auto& kernel : kernels) {
    for (const bool races : {false, true}) {
      benchmark::RegisterBenchmark((std::string(kernel.name) + (races ? ", races" : "")).c_str(),
                                   [=](benchmark::State& state) { count(state, kernel.launch, races); })
          ->UseManualTime()
          ->Unit(benchmark::kMillisecond);
    }
  }
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
}
