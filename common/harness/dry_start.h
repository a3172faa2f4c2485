#pragma once
// A lesson on a GPU that is not there: its program is started again, under the stand-ins of common/dry_gpu.

#include <string>

#include "common/base/launchers.h"
#include "common/harness/options.h"
#include "common/machine/machine.h"

namespace tenfold {

/// Where --device dry:CARD was given, replaces this process by one that runs on `gpus` of that card, on one for each of
/// the ranks, or on as many as TENFOLD_DRY_GPUS asks for, whichever is most; returns where it already does, or where no
/// dry GPU was asked for. Throws UsageError.
void start_on_dry_gpu(const Options& options, int gpus, int ranks, char** argv);

/// What a dry GPU cannot do is refused, or left out with a remark on standard error: no time is modelled where the CPU
/// computes. Throws UsageError.
void limit_to_dry_gpu(Options& options, const std::string& lesson, const Ranks& started);

/// Where nothing is computed: draws no weights of a megabyte and more on the host, which would be most of a lesson's
/// time and of its memory here, for numbers that nobody looks at. Every other draw is as ever.
void leave_weights_undrawn();

/// A machine of its own: its figures are this program's, whatever the host.
void name_dry_machine(Machine& machine);

}  // namespace tenfold
