#pragma once
// What published results say of the claims of docs/claims.json.

#include <string>
#include <vector>

#include "common/pages/book/claims.h"

namespace tenfold {

enum class ClaimVerdict { holds, does_not_hold, depends, not_measured };
std::string to_string(ClaimVerdict verdict);  ///< "holds", "does not hold", "depends", "not measured here"

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
/// AMBIGUOUS or UNDECIDED decides nothing, nor does one whose interval has a bound inside it.
ClaimOutcome judge_claim(const Claim& claim, const std::vector<Result>& results);

/// One outcome for each machine that ran the lesson, by its id; for a GPU that is not there where it has decided the
/// claim.
std::vector<ClaimOutcome> judge_on_each(const Claim& claim, const std::vector<Result>& published);

/// Over all machines: what they agree on; `depends` where one contradicts another.
ClaimVerdict overall(const std::vector<ClaimOutcome>& outcomes);

}  // namespace tenfold
