#pragma once
// How often each line of a kernel runs, for the model of its time, which joins it with the machine code.

#include <string>
#include <vector>

#include "common/kernel_page/kernel_case.h"

namespace tenfold::simt {

/// What a launch counts, as JSON. `words` are PASS RUNG NAME=N,NAME=N [BLOCKS], as show() takes them. Throws
/// std::invalid_argument with one line on words that say nothing, and std::runtime_error where the kernel has a fault:
/// the counts end there.
std::string format_counts(const KernelCase& kernel, const std::vector<std::string>& words);

}  // namespace tenfold::simt
