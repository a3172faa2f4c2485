#pragma once
// The flags of `fit`, in rows as flags.h has those of lessons: the driver hands them on to the program that it starts.

#include <vector>

#include "common/base/flags.h"

namespace tenfold {

std::vector<Flag> fit_flags();

}  // namespace tenfold
