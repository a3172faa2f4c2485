#pragma once
// The techniques that lessons compare on one and the same GPT, side by side.

#include <string>
#include <vector>

#include "common/pages/book/page.h"
#include "common/result/result.h"

namespace tenfold {

/// The case "gpt" of the lessons that one machine ran, as far as it is one and the same. What most lessons' case states
/// of a setting, of the size, the threads and so on is what the GPT is; a lesson that states something else is
/// "changed". Of the others a baseline is the plain step when its peak is within 1 % of the median and its losses are
/// those of the run with the median peak; what is compared with another step stands apart.
///
/// A table of techniques against the plain step, by peak; one of those against another step, by lesson; how far the
/// plain step's own numbers lie apart from lesson to lesson; and the lessons that are changed, each with what it
/// changed.
std::string one_gpt_markdown(const std::vector<Result>& of_machine, const Page& page);

/// The part "one_gpt": `words` are "measured", every machine of results/, or a card that is not there, "H100". Behind a
/// card may stand "16_bits": every lesson's cases whose setting `precision` is bfloat16, each technique with the step
/// that it is compared with, what that step changes of the GPT, and its own row in the case that differs in the
/// precision alone; then which lessons have the GPT in 32 bits only. Throws std::invalid_argument, one line, for any
/// other words.
std::string one_gpt_part(const Page& page, const std::vector<std::string>& words);

}  // namespace tenfold
