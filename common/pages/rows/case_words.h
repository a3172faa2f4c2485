#pragma once
// What a case ran, where, and what a variant of it came to, in words.

#include <string>
#include <vector>

#include "common/result/result.h"

namespace tenfold {

/// "batch=4, layers=2", without those that the case's name already tells, and without the one called `left_out`.
std::string settings_text(const CaseResult& c, const std::string& left_out = "");
/// How a case was measured: "cpu, float32, size cpu, 2 threads, 2 ranks over gloo, batch=4; quick, seed 1234, 96 rounds
/// in 6 builds by processor time".
std::string case_text(const CaseResult& c);
/// "96 rounds in 6 builds by processor time", "6 seeds by wall clock"; empty where nothing was timed.
std::string rounds_text(const CaseResult& c);
/// All items over all time, by the clock on the wall (on CUDA by the device's). 0 without rounds.
double items_per_second(const VariantResult& variant);
/// Peak bytes, "16.3 MiB", or "2.00 GiB reserved" where the case names the kind; "-" where memory was not measured.
std::string peak_text(const VariantResult& variant);
/// A speed was measured or modelled in it.
bool has_times(const Result& result);
/// A peak of the result leaves out what nobody knows: it is printed as "at least".
bool has_peak_at_least(const Result& result);
/// The step's seconds, and the share of each of its parts: "41.4 ms", "1.0 %", "-" for none.
std::vector<std::string> split_cells(const Split& split);
/// What stands above them: `of`, "step", and the parts' names.
std::vector<std::string> split_heading(const std::string& of);
bool is_on_gpu(const CaseResult& c);
/// "2 x NVIDIA H100 80GB HBM3" or the CPU with its cores.
std::string machine_text(const Machine& machine);

}  // namespace tenfold
