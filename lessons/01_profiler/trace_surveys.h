#pragma once
// What lesson 01 measures of profiles and reads from their traces.

#include <string>
#include <vector>

#include "common/harness/lesson.h"
#include "step_profiler.h"
#include "trace_reader.h"

namespace tenfold::inline lesson_01 {

inline constexpr ProfileOptions kAllOptions{.shapes = true, .memory = true, .stacks = true};

inline constexpr Setting<std::string> kKeep{"keep", "", "folder for the traces that the surveys read; empty: none"};

/// A row for each option: what recording one update adds to it, what stopping and saving takes for each, and the bytes.
std::vector<Look> price_of_options();
/// A row for each length of a profile: events and bytes.
std::vector<Look> growing_traces();
/// A row for each who may listen to a label.
std::vector<Look> price_of_labels();
/// A training whose step waits for its input, and one that does not: what the reader finds in their traces.
std::vector<Look> input_bound_steps();

/// The trace of a few updates of the MLP. With `rotated` each batch is augmented in the training loop, as a planted
/// step that waits for its input: its images are turned by random angles at four times their size.
std::vector<TraceEvent> trace_of_training(const Trial& trial, bool rotated, const std::string& path);

}  // namespace tenfold::inline lesson_01
