#pragma once
// Shapes as text: "rows=8192,columns=300".

#include "common/kernel_page/kernel_case.h"

#include <string>

namespace tenfold::simt {

std::string text_of(const Sizes& sizes);

/// `sizes` with what NAME=N,NAME=N of the text replaces. Throws std::invalid_argument with one line that begins with
/// `where`: for a name that is not in `sizes`, and for a value that is no whole number from `least`.
Shape parse_shape(const std::string& where, const std::string& text, const Sizes& sizes, int64_t least);

}  // namespace tenfold::simt
