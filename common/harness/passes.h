#pragma once
// The passes of a case, in this order: build, agreement, counting, memory, time, split. Agreement comes first: a
// variant that computes something else is never timed.

#include <map>
#include <string>

#include "common/harness/part_run.h"

namespace tenfold {

void build_pass(PartRun& run);
/// What a variant's row states of how its process computes on a CUDA device now; nothing on a CPU.
std::map<std::string, std::string> tf32_flags(torch::Device device);
void agreement_pass(PartRun& run);
/// Where a dry GPU computes: throws what names an operator without arithmetic since the last call, or DataRace for a
/// race since then. Whatever the numbers look like: they may be what was right before.
void require_sound_on_dry_gpu();
/// Instead of it where nothing is computed: a step of each variant, so that what libraries take once for all, which
/// agreement would have brought about, is in nobody's peak.
void priming_pass(PartRun& run);
void counting_pass(PartRun& run);
void memory_pass(PartRun& run);
/// Peak bytes of a candidate's step on this rank, by kind; it is built and warmed up for that. Sets its resting bytes
/// and its timeline.
std::map<std::string, int64_t> measured_peak(PartRun& run, Candidate& candidate);
/// Steps of each variant that the split pass warms up with, and looks at: fewer where a preset claims nothing.
struct SplitSteps {
  int warm_up = 2, seen = 5;
};
SplitSteps split_steps(const Preset& preset);
void split_pass(PartRun& run);

}  // namespace tenfold
