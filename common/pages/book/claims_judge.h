#pragma once
// What published results say of the claims of docs/claims.json.

#include <string>
#include <vector>

#include "common/pages/book/claims.h"

namespace tenfold {

/// not_decided: it was measured, and tells neither; not_measured: nothing that decides it has run.
enum class ClaimVerdict { holds, does_not_hold, depends, not_decided, not_measured };
std::string to_string(ClaimVerdict verdict);  ///< "does not hold", "not measured here"

/// Whether a GPU that is not there decides it, too: a claim about GPUs and of what LibTorch's own allocator and the
/// arithmetic show there, never of a speed.
bool is_counted(const Claim& claim);

/// What one machine's results say of a claim.
struct ClaimOutcome {
  std::string machine;
  ClaimVerdict verdict = ClaimVerdict::not_measured;
  std::string why;  ///< "gpt: 0.357x; model states: 1.07x"
};

/// `results` are of one machine, which the outcome does not name. Points of a sweep do not count. A speed that is
/// AMBIGUOUS or UNDECIDED decides nothing, nor does one whose interval has a bound inside it: not_decided.
ClaimOutcome judge_claim(const Claim& claim, const std::vector<Result>& results);

/// One outcome for each machine that ran the lesson, by its id; for a GPU that is not there where it has decided the
/// claim.
std::vector<ClaimOutcome> judge_on_each(const Claim& claim, const std::vector<Result>& published);

/// Over all machines: what they agree on; `depends` where one contradicts another.
ClaimVerdict overall(const std::vector<ClaimOutcome>& outcomes);

}  // namespace tenfold
