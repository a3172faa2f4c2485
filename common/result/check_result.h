#pragma once
// What a result file must hold besides the right types: words of the schema, columns that go together.

#include <string>

#include "common/result/result.h"

namespace tenfold {

/// Throws FileError with one line that begins with `name` and says where: an unknown word, columns of unlike length, a
/// training without its curves.
void check_result(const Result& result, const std::string& name);

}  // namespace tenfold
