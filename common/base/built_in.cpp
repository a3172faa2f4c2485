#include "common/base/built_in.h"

namespace tenfold {

const char* source_folder_of_build() { return TENFOLD_SOURCE_DIR; }
const char* folder_of_build() { return TENFOLD_BUILD_DIR; }

}  // namespace tenfold
