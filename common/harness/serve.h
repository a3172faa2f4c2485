#pragma once
// The other side of common/measure/other_process.h: this program as it runs one variant for the process that started
// it.

#include "common/harness/options.h"

namespace tenfold {

/// Answers messages until the socket closes; `options.serve` names the variant. Returns the exit code. Throws
/// UsageError when there is no socket, or no such variant.
int serve(const Lesson& lesson, const Options& options);

}  // namespace tenfold
