#pragma once
// What main() of a benchmark program over the suite's data does besides its benchmarks.

#include <benchmark/benchmark.h>
#include "common/base/streams.h"
#include "common/data/data_files.h"
#include "common/machine/fingerprint.h"
#include "common/machine/hardware.h"
#include "common/result/provenance.h"

#include <cstdio>
#include <exception>

namespace tenfold::bench {

/// Puts into the report where and with which code it was made.
inline void add_provenance() {
  const Provenance provenance = provenance_of("");
  const Machine machine = fingerprint();
  benchmark::AddCustomContext("machine", machine.id);
  benchmark::AddCustomContext("hardware", hardware_text(machine));
  benchmark::AddCustomContext("commit", provenance.commit);
  benchmark::AddCustomContext("dirty", provenance.dirty ? "yes" : "no");
}

/// Runs what `add` registers, with Google Benchmark's flags; what the benchmarks refer to has to live on after `add`.
/// Exit codes: 0; 2 bad usage or a failure; 77 data that are not fetched. Failures are one line on stderr, after the
/// program's name.
template <class Add>
int run_benchmarks(int argc, char** argv, const char* program, const Add& add) {
  open_standard_streams();
  try {
    benchmark::Initialize(&argc, argv);
    if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
    add();
    add_provenance();
    benchmark::RunSpecifiedBenchmarks();
    benchmark::Shutdown();
    return 0;
  } catch (const DataError& error) {
    std::fprintf(stderr, "%s: %s\n", program, error.what());
    return 77;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", program, error.what());
    return 2;
  }
}

}  // namespace tenfold::bench
