#pragma once
// A lesson on a GPU that is not there: its program is started again, under the stand-ins of common/dry_gpu.

#include <string>

#include "common/harness/options.h"
#include "common/machine/machine.h"

namespace tenfold {

/// Where --device dry:CARD was given, replaces this process by one that runs on `gpus` of that card, or on as many as
/// TENFOLD_DRY_GPUS asks for where that is more; returns where it already
/// does, or where no dry GPU was asked for. Throws UsageError.
void start_on_dry_gpu(const Options& options, int gpus, char** argv);

/// What a dry GPU cannot do is refused, or left out with a remark on standard error: it has no clock and one rank.
/// Throws UsageError.
void limit_to_dry_gpu(Options& options, const std::string& lesson, int ranks);

/// Where nothing is computed: draws no weights of a megabyte and more on the host, which would be most of a lesson's
/// time and of its memory here, for numbers that nobody looks at. Every other draw is as ever.
void leave_weights_undrawn();

/// A machine of its own: its figures are this program's, whatever the host.
void name_dry_machine(Machine& machine);

}  // namespace tenfold
